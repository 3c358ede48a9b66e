"""Families of users: made by an owner, joined, left; and children who name a parent and wait for a family.

The API calls work whether or not the tenant's `familyConfiguration.enabled` is set, as published examples expect: that
switch decides whether children are recognized at self-service registration and by the age rules of pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.messaging.mail_messages import Address
from identity.domain.objects.resource_definition import Resource
from identity.domain.users import families as rules
from identity.errors import Duplicate, Invalid, NotFound
from identity.ids import TenantId, new_id
from identity.operations.messaging import mail, user_views
from identity.operations.objects import crud, user_lookup
from identity.services import Services

MEMBER: Final = "api/family-member.request.json"
REQUEST: Final = "api/family-request.request.json"
_MOST_CHILDREN = 100

RESOURCE = Resource(
    "family",
    "/api/user/family",
    MEMBER,
    "families",
    "families",
    "Family",
    verbs=frozenset(),
)


async def create(services: Services, call: Call, body: Document, family_id: str | None) -> Document:
    """A family of one, who owns it. Raises Invalid."""
    wanted = services.schemas[MEMBER].read(body)["familyMember"]
    tenant, user = await _people(services, call, wanted)
    tenant_id = TenantId(tenant["id"])
    owner = rules.member(wanted, None, call.now, is_owner=True)
    errors = rules.problems(tenant["familyConfiguration"], owner, user, call.now)
    if any(_owns(family, user["id"]) for family in await services.families.find_of_user(tenant_id, user["id"])):
        errors.append(rules.error("duplicate", "userId", "owns a family already"))
    crud.require_no_errors(errors)
    family = {
        "id": family_id or new_id(),
        "tenantId": tenant_id,
        "members": [owner],
        **crud.creation_instants(call.now),
    }
    try:
        await services.families.insert(tenant_id, family)
    except Duplicate as duplicate:
        message = f"A Family with id = [{family['id']}] already exists."
        raise Invalid.field("duplicate", "familyId", message) from duplicate
    await _claim(services, call, tenant, family, user)
    return _shown(family)


async def put_member(services: Services, call: Call, body: Document, family_id: str) -> Document:
    """Let a user in, or change what the user is in the family. Raises NotFound and Invalid."""
    wanted = services.schemas[MEMBER].read(body)["familyMember"]
    family = await _get(services, call, family_id)
    call = call.within(TenantId(family["tenantId"]))
    tenant, user = await _people(services, call, wanted)

    def joined(stored: Document) -> list[Document]:
        before = next((one for one in stored["members"] if one["userId"] == user["id"]), None)
        is_owner = bool(wanted.get("owner", before["owner"] if before else False))
        one = rules.member(wanted, before, call.now, is_owner=is_owner)
        crud.require_no_errors(rules.problems(tenant["familyConfiguration"], one, user, call.now))
        return rules.with_member(stored["members"], one)

    changed = await _change(services, call, family_id, joined)
    await _claim(services, call, tenant, changed, user)
    return _shown(changed)


async def remove_member(services: Services, call: Call, family_id: str, user_id: str) -> None:
    """Let a user out; a family without members is none. Raises NotFound."""
    family = await _get(services, call, family_id)

    def left(stored: Document) -> list[Document]:
        if all(one["userId"] != user_id for one in stored["members"]):
            raise NotFound(log_detail=f"{user_id} is not in family {family_id}")
        return rules.without_member(stored["members"], user_id)

    await _change(services, call.within(TenantId(family["tenantId"])), family_id, left)


async def retrieve(services: Services, call: Call, family_id: str) -> Document:
    """A family. Raises NotFound."""
    return _shown(await _get(services, call, family_id))


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """The families that a user belongs to. Raises NotFound for a user who does not exist."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    await services.users.get(tenant_id, user_id)
    return [_shown(family) for family in await services.families.find_of_user(tenant_id, user_id)]


async def retrieve_pending_children(services: Services, call: Call, parent_email: str) -> list[Document]:
    """The children who name this parent and are not in the parent's family yet. Raises Invalid."""
    found = await _children(services, crud.require_tenant(call), parent_email)
    return [await user_views.answer(services, user) for user in found]


async def send_family_request(services: Services, call: Call, body: Document) -> None:
    """Ask a parent by mail to let waiting children in, or to register first. Raises Invalid."""
    email = services.schemas[REQUEST].read(body)["parentEmail"]
    tenant_id = crud.require_tenant(call)
    tenant = await services.tenants.get(None, tenant_id)
    children = await _children(services, tenant_id, email)
    if not children:
        raise Invalid.field("invalid", "parentEmail", "No child names the [parentEmail].")
    if not await send_parent_mail(services, call, tenant, email, children):
        names = "[parentRegistrationEmailTemplateId] or [familyRequestEmailTemplateId]"
        raise Invalid.whole("[EmailTemplateNotConfigured]", f"The tenant's familyConfiguration has no {names}.")


async def send_parent_mail(
    services: Services, call: Call, tenant: Document, email: str, children: Sequence[Document]
) -> bool:
    """Ask a parent by mail to let children in, or to register first; False where the tenant has no template for it."""
    tenant_id = TenantId(tenant["id"])
    parent = await services.users.find_by_email(tenant_id, email)
    name = "parentRegistrationEmailTemplateId" if parent is None else "familyRequestEmailTemplateId"
    template_id = tenant["familyConfiguration"].get(name)
    if template_id is None:
        return False
    data = {"children": [await user_views.answer(services, child) for child in children], "parentEmail": email}
    await mail.send(services, call, tenant_id, template_id, parent or Address(email), data)
    return True


async def _change(
    services: Services, call: Call, family_id: str, members_of: Callable[[Document], list[Document]]
) -> Document:
    tenant_id = crud.require_tenant(call)

    async def attempt() -> Document:
        stored = await services.families.get(tenant_id, family_id)
        return await services.families.replace_members(tenant_id, stored, members_of(stored), call.now)

    return await crud.retry_on_conflict(attempt)


async def _claim(services: Services, call: Call, tenant: Document, family: Document, user: Document) -> None:
    """The parent whom a child names has the child in the family now: nobody needs to be asked any more."""
    tenant_id, email = TenantId(tenant["id"]), user.get("parentEmail")
    if email is None:
        return
    parent = await services.users.find_by_email(tenant_id, email)
    if parent is None or not _owns(family, parent["id"]):
        return
    await services.users.update(
        tenant_id, {"_id": user["id"], "parentEmail": email},
        {"$unset": {"parentEmail": ""}, "$inc": {"lastUpdateInstant": 1}},
    )  # fmt: skip
    template_id = tenant["familyConfiguration"].get("confirmChildEmailTemplateId")
    if template_id is not None:
        data = {"child": await user_views.answer(services, user), "parentEmail": email}
        await mail.send(services, call.within(tenant_id), tenant_id, template_id, parent, data)


async def _people(services: Services, call: Call, wanted: Document) -> tuple[Document, Document]:
    """The tenant and the user that a request names. Raises Invalid."""
    found = await services.users.find_cached_across_tenants(wanted["userId"])
    if found is None or call.tenant_id not in {None, found["tenantId"]}:
        raise Invalid([rules.error("invalid", "userId", "must name an existing user")])
    tenant_id = TenantId(found["tenantId"])
    return await services.tenants.get(None, tenant_id), await services.users.get(tenant_id, wanted["userId"])


async def _get(services: Services, call: Call, family_id: str) -> Document:
    tenant_id = await crud.get_tenant_id(services, call, RESOURCE, family_id)
    return await services.families.get(tenant_id, family_id)


async def _children(services: Services, tenant_id: TenantId, parent_email: str) -> list[Document]:
    return await services.users.find_children(tenant_id, parent_email.strip().lower(), _MOST_CHILDREN)


def _owns(family: Document, user_id: str) -> bool:
    return any(one["owner"] and one["userId"] == user_id for one in family["members"])


def _shown(family: Document) -> Document:
    return {name: family[name] for name in ("id", "insertInstant", "lastUpdateInstant", "members")}
