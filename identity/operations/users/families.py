"""Families of users: create, add and remove members, and ask parents to add their children.

The API works whether or not the tenant's `familyConfiguration.enabled` is set, as in published examples: that setting
decides whether self-service registration and the age rules of pages recognize children.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.messaging.mail_messages import Address
from identity.domain.objects.resource_definition import Resource
from identity.domain.users import families as family_rules
from identity.errors import Duplicate, Invalid, NotFound
from identity.ids import TenantId, new_id
from identity.operations.messaging import mail, user_views
from identity.operations.objects import crud, user_lookup
from identity.services import Services

MEMBER: Final = "api/family-member.request.json"
REQUEST: Final = "api/family-request.request.json"
_MAXIMUM_CHILDREN = 100

RESOURCE = Resource(
    "family",
    path="/api/user/family",
    schema=MEMBER,
    collection="families",
    plural="families",
    verbs=frozenset(),
)


async def create(services: Services, call: Call, body: Document, family_id: str | None = None) -> Document:
    """Create a family with its owner as the only member. Raises Invalid."""
    requested = services.schemas[MEMBER].read(body)["familyMember"]
    tenant, user = await _get_tenant_and_user(services, call, requested)
    tenant_id = TenantId(tenant["id"])
    owner = family_rules.build_member(requested, None, call.now, is_owner=True)
    errors = family_rules.problems(tenant["familyConfiguration"], owner, user, call.now)
    if any(
        _owns(family, user["id"]) for family in await services.directory.families.find_of_user(tenant_id, user["id"])
    ):
        errors.append(family_rules.error("duplicate", "userId", "owns a family already"))
    crud.require_no_errors(errors)
    own = {"id": family_id or new_id(), "tenantId": tenant_id}
    family = {**own, "members": [owner], **crud.creation_instants(call.now)}
    try:
        await services.directory.families.insert(tenant_id, family)
    except Duplicate as duplicate:
        message = f"A Family with id = [{family['id']}] already exists."
        raise Invalid.field("duplicate", "familyId", message) from duplicate
    await _confirm_child(services, call, tenant, family, user)
    return _to_response(family)


async def put_member(services: Services, call: Call, body: Document, family_id: str) -> Document:
    """Add a user to a family, or change the member. Raises NotFound and Invalid."""
    requested = services.schemas[MEMBER].read(body)["familyMember"]
    family = await _get(services, call, family_id)
    call = call.within(TenantId(family["tenantId"]))
    tenant, user = await _get_tenant_and_user(services, call, requested)
    changed = await _put_member(services, call, tenant, family_id, user, requested)
    await _confirm_child(services, call, tenant, changed, user)
    return _to_response(changed)


@crud.retry_on_conflict
async def remove_member(services: Services, call: Call, family_id: str, user_id: str) -> None:
    """Remove a user from a family; a family without members is deleted. Raises NotFound."""
    stored = await _get(services, call, family_id)
    if all(one["userId"] != user_id for one in stored["members"]):
        raise NotFound(log_detail=f"{user_id} is not in family {family_id}")
    members = family_rules.without_member(stored["members"], user_id)
    await services.directory.families.replace_members(TenantId(stored["tenantId"]), stored, members, call.now)


async def retrieve(services: Services, call: Call, family_id: str) -> Document:
    """Return a family. Raises NotFound."""
    return _to_response(await _get(services, call, family_id))


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """Return the families that a user belongs to. Raises NotFound for a missing user."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    await services.directory.users.get(tenant_id, user_id)
    return [_to_response(family) for family in await services.directory.families.find_of_user(tenant_id, user_id)]


async def retrieve_pending_children(services: Services, call: Call, parent_email: str) -> list[Document]:
    """Return the children who name this parent and are not yet in the parent's family. Raises Invalid."""
    found = await _find_children(services, crud.require_tenant(call), parent_email)
    return [await user_views.to_response(services, user) for user in found]


async def send_family_request(services: Services, call: Call, body: Document) -> None:
    """Mail a parent a request to add waiting children, or to register first. Raises Invalid."""
    email = services.schemas[REQUEST].read(body)["parentEmail"]
    tenant_id = crud.require_tenant(call)
    tenant = await services.configuration.tenants.get(None, tenant_id)
    children = await _find_children(services, tenant_id, email)
    if not children:
        raise Invalid.field("invalid", "parentEmail", "No child names the [parentEmail].")
    if not await send_parent_mail(services, call, tenant, email, children):
        names = "[parentRegistrationEmailTemplateId] or [familyRequestEmailTemplateId]"
        raise Invalid.whole("[EmailTemplateNotConfigured]", f"The tenant's familyConfiguration has no {names}.")


async def send_parent_mail(
    services: Services, call: Call, tenant: Document, email: str, children: Sequence[Document]
) -> bool:
    """Mail a parent a request to add children, or to register first; return False without a template."""
    tenant_id = TenantId(tenant["id"])
    parent = await services.directory.users.find_by_email(tenant_id, email)
    name = "parentRegistrationEmailTemplateId" if parent is None else "familyRequestEmailTemplateId"
    template_id = tenant["familyConfiguration"].get(name)
    if template_id is None:
        return False
    data = {"children": [await user_views.to_response(services, child) for child in children], "parentEmail": email}
    await mail.send(services, call, tenant_id, template_id, parent or Address(email), data)
    return True


@crud.retry_on_conflict
async def _put_member(
    services: Services, call: Call, tenant: Document, family_id: str, user: Document, requested: Document
) -> Document:
    tenant_id = crud.require_tenant(call)
    stored = await services.directory.families.get(tenant_id, family_id)
    before = next((one for one in stored["members"] if one["userId"] == user["id"]), None)
    is_owner = bool(requested.get("owner", before["owner"] if before else False))
    member = family_rules.build_member(requested, before, call.now, is_owner=is_owner)
    crud.require_no_errors(family_rules.problems(tenant["familyConfiguration"], member, user, call.now))
    members = family_rules.with_member(stored["members"], member)
    return await services.directory.families.replace_members(tenant_id, stored, members, call.now)


async def _confirm_child(services: Services, call: Call, tenant: Document, family: Document, user: Document) -> None:
    """End the pending request of a child in its parent's family, and confirm it to the parent by mail."""
    tenant_id, email = TenantId(tenant["id"]), user.get("parentEmail")
    if email is None:
        return
    parent = await services.directory.users.find_by_email(tenant_id, email)
    if parent is None or not _owns(family, parent["id"]):
        return
    change = {"$unset": {"parentEmail": ""}, "$inc": {"lastUpdateInstant": 1}}
    await services.directory.users.update(tenant_id, {"_id": user["id"], "parentEmail": email}, change)
    template_id = tenant["familyConfiguration"].get("confirmChildEmailTemplateId")
    if template_id is not None:
        data = {"child": await user_views.to_response(services, user), "parentEmail": email}
        await mail.send(services, call.within(tenant_id), tenant_id, template_id, parent, data)


async def _get_tenant_and_user(services: Services, call: Call, requested: Document) -> tuple[Document, Document]:
    """Return the tenant and the user that a request names. Raises Invalid."""
    found = await services.directory.users.find_cached_across_tenants(requested["userId"])
    if found is None or call.tenant_id not in {None, found["tenantId"]}:
        raise Invalid([family_rules.error("invalid", "userId", "must name an existing user")])
    tenant_id = TenantId(found["tenantId"])
    return await services.configuration.tenants.get(None, tenant_id), await services.directory.users.get(
        tenant_id, requested["userId"]
    )


async def _get(services: Services, call: Call, family_id: str) -> Document:
    tenant_id = await crud.get_tenant_id(services, call, RESOURCE, family_id)
    return await services.directory.families.get(tenant_id, family_id)


async def _find_children(services: Services, tenant_id: TenantId, parent_email: str) -> list[Document]:
    return await services.directory.users.find_children(tenant_id, parent_email.strip().lower(), _MAXIMUM_CHILDREN)


def _owns(family: Document, user_id: str) -> bool:
    return any(one["owner"] and one["userId"] == user_id for one in family["members"])


def _to_response(family: Document) -> Document:
    return {name: family[name] for name in ("id", "insertInstant", "lastUpdateInstant", "members")}
