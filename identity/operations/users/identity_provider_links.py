"""Links between accounts at identity providers and users: create, complete a pending link, retrieve, delete.

An account is linked to at most one user of a tenant, and a user to as many accounts of a provider as the tenant allows.
Unique indexes enforce both; of two concurrent requests one fails and is retried.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from identity import permissions
from identity.call import ApiKeyCaller, Call, Document
from identity.domain.objects.secret_masking import MASK
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.users import identity_provider_links as link_rules
from identity.errors import AlreadyLinked, Conflict, Duplicate, FieldError, Invalid, NotFound
from identity.events.changes import Change, Event
from identity.ids import TenantId
from identity.operations.groups import administrators
from identity.operations.messaging import user_events, user_views
from identity.operations.objects import crud, user_lookup
from identity.services import Services
from identity.store.documents import Documents
from identity.store.mongo import Session

SCHEMA = "api/identity-provider-link.json"

_ENDPOINT = "/api/identity-provider/link"
_WRAPPER = "identityProviderLink"
_MEMBERS = ("data", "displayName", "identityProviderId", "identityProviderUserId", "token", "userId")


async def create(services: Services, call: Call, body: Document) -> Document:
    """Link a user to an account, or complete a pending link; return the link.

    A link that the user already has is updated with the given name and token. Raises Invalid, and AlreadyLinked when
    the account is linked to another user.
    """
    request = services.schemas[SCHEMA].read(body)
    # Earlier versions of the API have the members at the top level.
    requested = {name: request[name] for name in _MEMBERS if name in request} | request.get(_WRAPPER, {})
    prefix = f"{_WRAPPER}." if _WRAPPER in request else ""
    if "pendingIdPLinkId" in request:
        return await _complete_pending(services, call, request["pendingIdPLinkId"], requested, prefix)
    user = await _find_user(services, call, requested.get("userId"))
    tenant_id = call.tenant_id if user is None else user["tenantId"]
    provider = await _find_provider(services, tenant_id, requested.get("identityProviderId"))
    found = {"identityProviderId": provider, "userId": user}
    crud.require_no_errors(
        _problems(requested, found, prefix, ("identityProviderId", "identityProviderUserId", "userId"))
    )
    assert provider is not None
    assert user is not None
    await administrators.require_authority(services, call, user)
    return await _link(services, call, provider, user, requested)


async def retrieve(
    services: Services, call: Call, *, provider_id: str | None, account: str | None, user_id: str | None
) -> Document:
    """Return the link of an account, or the links of a user, optionally with one provider.

    Raises NotFound and Invalid.
    """
    if account and provider_id is not None:
        tenant_id = await _tenant_of_link(services, call, user_id)
        link = await services.directory.identity_provider_links.find_account(tenant_id, provider_id, account)
        if link is None or user_id not in {None, link["userId"]}:
            raise NotFound(log_detail="no such link")
        return {_WRAPPER: await to_response(services, call, link)}
    if account or user_id is None:
        name = "identityProviderId" if account else "userId"
        raise Invalid.field("missing", name, f"You must specify the [{name}] parameter.")
    user = await user_lookup.retrieve(services, call, user_id)
    found = await services.directory.identity_provider_links.find_of_user(
        TenantId(user["tenantId"]), user_id, provider_id
    )
    return {f"{_WRAPPER}s": [await to_response(services, call, link) for link in found]}


async def delete(
    services: Services, call: Call, *, provider_id: str | None, account: str | None, user_id: str | None
) -> Document:
    """Delete the link of an account to a user, and return it.

    Raises NotFound, and Invalid when one of the three ids is missing.
    """
    given = {"identityProviderId": provider_id, "identityProviderUserId": account, "userId": user_id}
    absent = [name for name, value in given.items() if not value]
    crud.require_no_errors(
        [FieldError.of("missing", name, f"You must specify the [{name}] parameter.") for name in absent]
    )
    user = await user_lookup.retrieve(services, call, str(user_id))
    await administrators.require_authority(services, call, user)
    tenant_id = TenantId(user["tenantId"])

    change = Change(
        writes=[functools.partial(_remove, services, tenant_id, user["id"], str(provider_id), str(account))],
        after_commit=functools.partial(_unlink_events, user),
    )
    (link,) = await services.bus.commit(call.within(tenant_id), change)
    return dict(link)


async def retrieve_pending(services: Services, call: Call, pending_id: str, user_id: str | None) -> Document:
    """Return what a pending link would link; with `user_id`, also the user and its number of links. Raises NotFound."""
    found = await services.sessions.pending_links.find_across_tenants(pending_id)
    if found is None or call.tenant_id not in {None, found[0]}:
        raise NotFound(log_detail="no such pending link")
    tenant_id, pending = found
    provider = await _find_provider(services, tenant_id, pending["identityProviderId"])
    if provider is None:
        raise NotFound(log_detail="the provider of a pending link was deleted")
    link: Document = {name: value for name, value in pending.items() if name != "token"}
    link |= {"identityProviderName": provider["name"], "identityProviderType": provider["type"]}
    settings = provider["tenantConfiguration"].get(tenant_id)
    if settings is not None:
        link["identityProviderTenantConfiguration"] = settings
    links: list[Document] = []
    if user_id is not None:
        user = await user_lookup.retrieve(services, call.within(tenant_id), user_id)
        links = await services.directory.identity_provider_links.find_of_user(tenant_id, user_id, provider["id"])
        link["user"] = await user_views.to_response(services, user)
    link["identityProviderLinks"] = [await to_response(services, call, each) for each in links]
    return {"linkCount": len(links), "pendingIdPLink": link}


async def get_free_slot(services: Services, tenant_id: TenantId, user_id: str, provider: Document) -> int:
    """Return the slot of a user's next link with a provider. Raises Invalid when the limit of links is reached."""
    links = await services.directory.identity_provider_links.find_of_user(tenant_id, user_id, provider["id"])
    limit = provider_rules.link_limit(provider, tenant_id)
    if limit is not None and len(links) >= limit:
        message = f"A user may be linked to {limit} accounts of this identity provider at most."
        raise Invalid.whole("[LinkCountExceeded]", message)
    return link_rules.first_free_slot(links)


def link_event(event_type: str, user: Document, link: Document) -> Event:
    """Return an event about a link."""
    return user_events.user_event(event_type, user, identityProviderLink=link_rules.without_secrets(link))


async def to_response(services: Services, call: Call, link: Document) -> Document:
    """Return the link in API form; the token of the provider is masked for API keys that may only read."""
    provider = await _providers(services).find_cached(None, link["identityProviderId"])
    answer: Document = services.schemas[SCHEMA].show({_WRAPPER: link_rules.for_api(link, provider)})[_WRAPPER]
    if "token" in answer and isinstance(call.caller, ApiKeyCaller):
        granted = call.caller.api_key["permissions"]["endpoints"]
        answer["token"] = answer["token"] if permissions.may_change(granted, _ENDPOINT) else MASK
    return answer


async def _complete_pending(
    services: Services, call: Call, pending_id: str, requested: Document, prefix: str
) -> Document:
    """Link a user to the account of a pending link and consume its id.

    Of several requests with one id all but the first are rejected as if the id did not exist, for any user.
    """
    user = await _find_user(services, call, requested.get("userId"))
    crud.require_no_errors(_problems(requested, {"userId": user}, prefix, ("userId",)))
    assert user is not None
    tenant_id = TenantId(user["tenantId"])
    pending = await services.sessions.pending_links.find(tenant_id, pending_id)
    provider = None if pending is None else await _find_provider(services, tenant_id, pending["identityProviderId"])
    if pending is None or provider is None:
        raise _not_pending()
    links = services.directory.identity_provider_links
    # Checked before the id is consumed: a caller over the limit may delete a link and use the id again.
    try:
        await get_free_slot(services, tenant_id, user["id"], provider)
        _require_own(
            await links.find_account(tenant_id, pending["identityProviderId"], pending["identityProviderUserId"]), user
        )
    except (AlreadyLinked, Invalid):
        # The obstacle may be the link that a concurrent request made with this id, which is then consumed: that
        # request must have the same outcome as any later one.
        if await services.sessions.pending_links.find(tenant_id, pending_id) is None:
            raise _not_pending() from None
        raise
    pending = await services.sessions.pending_links.consume(tenant_id, pending_id)
    if pending is None:
        raise _not_pending()
    return await _link(services, call, provider, user, pending)


def _require_own(link: Document | None, user: Document) -> None:
    """Raise AlreadyLinked when the account is linked to another user."""
    if link is not None and link["userId"] != user["id"]:
        raise AlreadyLinked(log_detail="the account is linked to another user")


@crud.retry_on_conflict
async def _link(services: Services, call: Call, provider: Document, user: Document, requested: Document) -> Document:
    """Insert a link, or update the user's existing one. Raises Conflict."""
    tenant_id, account = TenantId(user["tenantId"]), requested["identityProviderUserId"]
    members = {name: requested.get(name) for name in ("data", "displayName", "token")}
    links = services.directory.identity_provider_links
    known = await links.find_account(tenant_id, provider["id"], account)
    _require_own(known, user)
    if known is not None:
        if not await links.refresh(tenant_id, known, members["displayName"], members["token"]):
            raise Conflict
        return known | {name: members[name] for name in ("displayName", "token") if members[name] is not None}
    link = link_rules.build_link(provider, account, tenant_id, user["id"], call.now, **members)
    link["private"] = {"slot": await get_free_slot(services, tenant_id, user["id"], provider)}
    change = Change(
        writes=[functools.partial(links.insert, tenant_id, link)],
        after_commit=[link_event("user.identity-provider.link", user, link)],
    )
    try:
        await services.bus.commit(call.within(tenant_id), change)
    except Duplicate as duplicate:
        raise Conflict from duplicate
    return link


async def _remove(
    services: Services, tenant_id: TenantId, user_id: str, provider_id: str, account: str, session: Session | None
) -> Document:
    removed = await services.directory.identity_provider_links.remove(tenant_id, user_id, provider_id, account, session)
    if removed is None:
        raise NotFound(log_detail="no such link")
    return removed


def _unlink_events(user: Document, removed: Sequence[Document]) -> list[Event]:
    return [link_event("user.identity-provider.unlink", user, link) for link in removed]


async def _find_user(services: Services, call: Call, user_id: str | None) -> Document | None:
    """Return the user to link, if it exists."""
    try:
        return None if user_id is None else await user_lookup.retrieve(services, call, user_id)
    except NotFound:
        return None


async def _find_provider(services: Services, tenant_id: str | None, provider_id: str | None) -> Document | None:
    """Return the provider if the tenant may use it."""
    provider = None if provider_id is None else await _providers(services).find_cached(None, provider_id)
    if provider is None or (tenant_id is not None and not provider_rules.is_available_to(provider, tenant_id)):
        return None
    return provider


def _providers(services: Services) -> Documents:
    return services.configuration.identity_providers


async def _tenant_of_link(services: Services, call: Call, user_id: str | None) -> TenantId:
    """Return the tenant of a requested link: the call's, else that of the named user."""
    if call.tenant_id is None and user_id is not None:
        return await user_lookup.get_tenant_id(services, call, user_id)
    return crud.require_tenant(call)


def _problems(requested: Document, found: Document, prefix: str, required: Sequence[str]) -> list[FieldError]:
    """Return errors for required members that are missing or whose object, looked up in `found`, does not exist."""
    errors = []
    for name in required:
        path = f"{prefix}{name}"
        if name not in requested:
            kind = "blank" if name == "identityProviderUserId" else "missing"
            errors.append(FieldError.missing(path, kind))
        elif found.get(name, name) is None:
            errors.append(FieldError.invalid(path, "must name one that exists in the tenant"))
    return errors


def _not_pending() -> Invalid:
    return Invalid.field("invalid", "pendingIdPLinkId", "The [pendingIdPLinkId] is unknown, used or expired.")
