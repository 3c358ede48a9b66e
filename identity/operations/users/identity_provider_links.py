"""Links between accounts at identity providers and users: create, complete a pending one, read, remove.

An account is linked to one user of a tenant, and a user to at most as many accounts of a provider as the tenant allows.
Both are judged by unique indexes: of two that come at once one is turned away, and looks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from identity.call import Call, Document
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.users import identity_provider_links as rules
from identity.errors import AlreadyLinked, Conflict, Duplicate, FieldError, Invalid, NotFound
from identity.events.changes import Event
from identity.ids import TenantId, parse_id
from identity.operations.messaging import user_events, user_views
from identity.operations.objects import crud, user_lookup
from identity.services import Services
from identity.store.documents import Documents
from identity.store.mongo import Session

SCHEMA = "api/identity-provider-link.json"

_WRAPPER = "identityProviderLink"
_MEMBERS = ("data", "displayName", "identityProviderId", "identityProviderUserId", "token", "userId")


async def create(services: Services, call: Call, body: Document) -> Document:
    """Link a user to an account, or complete a pending link. Answers the link.

    Raises Invalid, and AlreadyLinked when the account is another user's. One that is the same user's stays, under the
    name and with the token given now.
    """
    request = services.schemas[SCHEMA].read(body)
    # The members once stood at the top level.
    wanted = {name: request[name] for name in _MEMBERS if name in request} | request.get(_WRAPPER, {})
    prefix = f"{_WRAPPER}." if _WRAPPER in request else ""
    if "pendingIdPLinkId" in request:
        return await _completed(services, call, request["pendingIdPLinkId"], wanted, prefix)
    user = await _user(services, call, wanted.get("userId"))
    tenant_id = call.tenant_id if user is None else user["tenantId"]
    provider = await _provider(services, tenant_id, wanted.get("identityProviderId"))
    found = {"identityProviderId": provider, "userId": user}
    crud.require_no_errors(_problems(wanted, found, prefix, ("identityProviderId", "identityProviderUserId", "userId")))
    assert provider is not None
    assert user is not None
    return await _link(services, call, provider, user, wanted)


async def retrieve(services: Services, call: Call, query: Mapping[str, str]) -> Document:
    """The link of an account, or the links of a user, all or those with one provider. Raises NotFound and Invalid."""
    provider_id, user_id = _id(query, "identityProviderId"), _id(query, "userId")
    account = query.get("identityProviderUserId")
    if account and provider_id is not None:
        tenant_id = await _tenant(services, call, user_id)
        link = await services.identity_provider_links.find_account(tenant_id, provider_id, account)
        if link is None or user_id not in {None, link["userId"]}:
            raise NotFound(log_detail="no such link")
        return {_WRAPPER: await to_response(services, link)}
    if account or user_id is None:
        name = "identityProviderId" if account else "userId"
        raise Invalid.field("missing", name, f"You must specify the [{name}] parameter.")
    user = await user_lookup.retrieve(services, call, user_id)
    found = await services.identity_provider_links.find_of_user(TenantId(user["tenantId"]), user_id, provider_id)
    return {f"{_WRAPPER}s": [await to_response(services, link) for link in found]}


async def delete(services: Services, call: Call, query: Mapping[str, str]) -> None:
    """Remove the link of an account to a user. Raises NotFound, and Invalid where one of the three ids is missing."""
    provider_id, user_id = _id(query, "identityProviderId"), _id(query, "userId")
    account = query.get("identityProviderUserId")
    given = {"identityProviderId": provider_id, "identityProviderUserId": account, "userId": user_id}
    absent = [name for name, value in given.items() if not value]
    crud.require_no_errors(
        [FieldError.of("missing", name, f"You must specify the [{name}] parameter.") for name in absent]
    )
    user = await user_lookup.retrieve(services, call, str(user_id))
    tenant_id = TenantId(user["tenantId"])

    async def write(session: Session | None) -> Document:
        removed = await services.identity_provider_links.remove(
            tenant_id, user["id"], str(provider_id), str(account), session
        )
        if removed is None:
            raise NotFound(log_detail="no such link")
        return removed

    def told(removed: Document) -> list[Event]:
        return [link_event("user.identity-provider.unlink", user, removed)]

    await services.bus.perform(call.within(tenant_id), write, announced=told)


async def retrieve_pending(services: Services, call: Call, pending_id: str, user_id: str | None) -> Document:
    """What a pending link would link, and with `user_id` whom to, and how many links they have. Raises NotFound."""
    found = await services.pending_links.find_across_tenants(pending_id)
    if found is None or call.tenant_id not in {None, found[0]}:
        raise NotFound(log_detail="no such pending link")
    tenant_id, pending = found
    provider = await _provider(services, tenant_id, pending["identityProviderId"])
    if provider is None:
        raise NotFound(log_detail="the provider of a pending link is gone")
    link: Document = {name: value for name, value in pending.items() if name != "token"}
    link |= {"identityProviderName": provider["name"], "identityProviderType": provider["type"]}
    settings = provider["tenantConfiguration"].get(tenant_id)
    if settings is not None:
        link["identityProviderTenantConfiguration"] = settings
    links: list[Document] = []
    if user_id is not None:
        user = await user_lookup.retrieve(services, call.within(tenant_id), user_id)
        links = await services.identity_provider_links.find_of_user(tenant_id, user_id, provider["id"])
        link["user"] = await user_views.answer(services, user)
    link["identityProviderLinks"] = [await to_response(services, each) for each in links]
    return {"linkCount": len(links), "pendingIdPLink": link}


async def get_free_slot(services: Services, tenant_id: TenantId, user_id: str, provider: Document) -> int:
    """The number of a user's next link with a provider. Raises Invalid where the tenant allows no further one."""
    links = await services.identity_provider_links.find_of_user(tenant_id, user_id, provider["id"])
    limit = provider_rules.link_limit(provider, tenant_id)
    if limit is not None and len(links) >= limit:
        message = f"A user may be linked to {limit} accounts of this identity provider at the most."
        raise Invalid.whole("[LinkCountExceeded]", message)
    return rules.first_free_slot(links)


def link_event(event_type: str, user: Document, link: Document) -> Event:
    """An event about a link."""
    return user_events.about(event_type, user, identityProviderLink=rules.without_secrets(link))


async def to_response(services: Services, link: Document) -> Document:
    """The link as the API shows it."""
    provider = await _providers(services).find_cached(None, link["identityProviderId"])
    answer: Document = services.schemas[SCHEMA].show({_WRAPPER: rules.for_api(link, provider)})[_WRAPPER]
    return answer


async def _completed(services: Services, call: Call, pending_id: str, wanted: Document, prefix: str) -> Document:
    """Link a user to the account of a pending link, whose id is consumed.

    Of several requests with one id, all but the first are refused as if the id did not exist, whoever they are for.
    """
    user = await _user(services, call, wanted.get("userId"))
    crud.require_no_errors(_problems(wanted, {"userId": user}, prefix, ("userId",)))
    assert user is not None
    tenant_id = TenantId(user["tenantId"])
    pending = await services.pending_links.find(tenant_id, pending_id)
    provider = None if pending is None else await _provider(services, tenant_id, pending["identityProviderId"])
    if pending is None or provider is None:
        raise _not_pending()
    # Checked before the id is consumed: a caller who is over the limit may remove a link and send it again.
    try:
        await get_free_slot(services, tenant_id, user["id"], provider)
        await _require_not_another_s(services, tenant_id, user, pending)
    except (AlreadyLinked, Invalid):
        # What stands in the way may be the link that another request just made of this id, which is then consumed:
        # the outcome of a lost race is the same as that of any later request.
        if await services.pending_links.find(tenant_id, pending_id) is None:
            raise _not_pending() from None
        raise
    pending = await services.pending_links.consume(tenant_id, pending_id)
    if pending is None:
        raise _not_pending()
    return await _link(services, call, provider, user, pending)


async def _require_not_another_s(services: Services, tenant_id: TenantId, user: Document, pending: Document) -> None:
    """Raise AlreadyLinked where the account is another user's."""
    provider_id, account = pending["identityProviderId"], pending["identityProviderUserId"]
    known = await services.identity_provider_links.find_account(tenant_id, provider_id, account)
    if known is not None and known["userId"] != user["id"]:
        raise AlreadyLinked(log_detail="the account is another user's")


async def _link(services: Services, call: Call, provider: Document, user: Document, wanted: Document) -> Document:
    tenant_id, account = TenantId(user["tenantId"]), wanted["identityProviderUserId"]
    given = {name: wanted.get(name) for name in ("data", "displayName", "token")}
    links = services.identity_provider_links

    async def attempt() -> Document:
        known = await links.find_account(tenant_id, provider["id"], account)
        if known is not None and known["userId"] != user["id"]:
            raise AlreadyLinked(log_detail="the account is another user's")
        if known is not None:
            if not await links.refresh(tenant_id, known, given["displayName"], given["token"]):
                raise Conflict
            said = {name: given[name] for name in ("displayName", "token") if given[name] is not None}
            return {**known, **said}
        link = rules.build_link(provider, account, tenant_id, user["id"], call.now, **given)
        link["private"] = {"slot": await get_free_slot(services, tenant_id, user["id"], provider)}

        async def write(session: Session | None) -> None:
            await links.insert(tenant_id, link, session)

        try:
            told = [link_event("user.identity-provider.link", user, link)]
            await services.bus.perform(call.within(tenant_id), write, announced=told)
        except Duplicate as duplicate:
            raise Conflict from duplicate
        return link

    return await crud.retry_on_conflict(attempt)


async def _user(services: Services, call: Call, user_id: str | None) -> Document | None:
    """The user to link, if there is one."""
    try:
        return None if user_id is None else await user_lookup.retrieve(services, call, user_id)
    except NotFound:
        return None


async def _provider(services: Services, tenant_id: str | None, provider_id: str | None) -> Document | None:
    """The provider, if the tenant may use it."""
    provider = None if provider_id is None else await _providers(services).find_cached(None, provider_id)
    if provider is None or (tenant_id is not None and not provider_rules.is_of(provider, tenant_id)):
        return None
    return provider


def _providers(services: Services) -> Documents:
    return services.documents["identity_providers"]


async def _tenant(services: Services, call: Call, user_id: str | None) -> TenantId:
    """The tenant of a link that is asked for: the call's, else that of the user who is named."""
    if call.tenant_id is None and user_id is not None:
        return await user_lookup.get_tenant_id(services, call, user_id)
    return crud.require_tenant(call)


def _problems(wanted: Document, found: Document, prefix: str, needed: Sequence[str]) -> list[FieldError]:
    """What is missing of the members needed, and what names nothing that exists: `found` is what was looked up."""
    errors = []
    for name in needed:
        path = f"{prefix}{name}"
        if name not in wanted:
            kind = "blank" if name == "identityProviderUserId" else "missing"
            errors.append(FieldError.of(kind, path, f"You must specify the [{path}] property."))
        elif found.get(name, name) is None:
            errors.append(FieldError.of("invalid", path, f"The [{path}] must name one that exists in the tenant."))
    return errors


def _id(query: Mapping[str, str], name: str) -> str | None:
    text = query.get(name)
    if not text:
        return None
    found = parse_id(text.strip())
    if found is None:
        raise Invalid.field("couldNotConvert", name, f"The [{name}] parameter must be a UUID.")
    return found


def _not_pending() -> Invalid:
    return Invalid.field("invalid", "pendingIdPLinkId", "The [pendingIdPLinkId] is unknown, used or expired.")
