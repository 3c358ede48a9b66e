"""Logins through identity providers: resolve the asserted identity to a user, then commit the login.

An account that is linked is its user's. One that is not is treated as the provider's linking strategy has it. User,
registration and link are written together, and the events around them are those of one change: a webhook that vetoes
any of them leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.providers import identity_providers as rules
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.users import identity_provider_links as link_rules
from identity.domain.users import registrations
from identity.domain.users import users as user_rules
from identity.errors import (
    Conflict,
    Duplicate,
    Invalid,
    LoginPrevented,
    NotFound,
    ServiceError,
    Unauthorized,
)
from identity.events.changes import Change, Event, Write
from identity.ids import ApplicationId, UserId
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.limits import failed_login_limits
from identity.operations.login import login_records, password_login, threat_detection
from identity.operations.login.threat_detection import ThreatAssessment
from identity.operations.messaging import user_events
from identity.operations.objects import crud, features
from identity.operations.providers import account_takeover_prevention, external_jwt, openid_connect, user_resolution
from identity.operations.providers.account_takeover_prevention import AccountClaim
from identity.operations.providers.login_trace import LoginTrace
from identity.operations.providers.user_resolution import ResolvedUser
from identity.operations.two_factor import two_factor_trust
from identity.operations.users import identity_provider_links, login_responses
from identity.operations.verification import registration_verifications
from identity.services import Services
from identity.store.mongo import Session

T = TypeVar("T")

SCHEMA = "api/identity-provider-login.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class PendingLink:
    """The identity is not linked yet: the user chooses an account, and `pending_id` completes the link."""

    pending_id: str = dataclasses.field(repr=False)


ProviderLoginResult = login_outcomes.LoggedIn | login_outcomes.Halt | PendingLink
"""What comes of a login that the provider said yes to."""


@dataclasses.dataclass(frozen=True, slots=True)
class _ProviderLogin:
    """One login: through which provider, to which client, who it is, and what the request wishes."""

    provider: Document
    client: Client
    identity: ExternalIdentity
    wishes: login_responses.LoginOptions
    no_link: bool
    trace: LoginTrace
    trust_id: str | None = dataclasses.field(default=None, repr=False)

    @property
    def authentication_type(self) -> str:
        """As events and tokens have it."""
        return rules.AUTHENTICATION_TYPES[self.provider["type"]]


@dataclasses.dataclass(frozen=True, slots=True)
class _LoginChange:
    """What a login writes: the person, the link as it was found or is to be made, and what is in the way.

    `judgement` has further members of its events.
    """

    person: ResolvedUser
    link: Document
    is_new_link: bool
    halt: login_outcomes.Halt | None
    judgement: ThreatAssessment
    claim: AccountClaim | None = None


async def log_in(
    services: Services, call: Call, body: Document, *, only: str | None = None, trust_id: str | None = None
) -> login_responses.LoginResponse:
    """The Login API response for a user of a provider; `only` is the one type that is let in here.

    `trust_id` is what the browser's cookie has of trust.

    Raises Invalid, as LoginPrevented where a lambda refuses the login; LambdaFailed; Unauthorized where what the
    provider says cannot be trusted; NotFound where no user is linked and none may be; Unavailable after too many
    failures from one address.
    """
    request = services.schemas[SCHEMA].read(body)
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    provider = await _provider(services, client, request["identityProviderId"], only)
    call = login_responses.with_stated_ip_address(call.within(client.tenant_id), request)
    wishes, trace = login_responses.LoginOptions.from_request(request), LoginTrace()

    async def attempt() -> login_responses.LoginResponse:
        identity = await _identified(services, call, provider, client, request, trace)
        asked = _ProviderLogin(provider, client, identity, wishes, request.get("noLink", False), trace, trust_id)
        result = await _reconciled(services, call, asked)
        if isinstance(result, PendingLink):
            return login_responses.LoginResponse(232, {"pendingIdPLinkId": result.pending_id})
        return await login_responses.build_response(services, call, client, result, asked.authentication_type, wishes)

    answer = await _limited(services, call, provider, trace, attempt)
    await trace.record(services, call, provider, f"answered with {answer.status}")
    return answer


async def authenticate(
    services: Services,
    call: Call,
    client: Client,
    provider: Document,
    answer: Mapping[str, str],
    *,
    trust_id: str | None = None,
) -> ProviderLoginResult:
    """Who comes back to our pages from an OpenID Connect provider with its answer, and what is in their way.

    `trust_id` is what the browser's cookie has of trust.

    Raises as `log_in` does.
    """
    call, trace = call.within(client.tenant_id), LoginTrace()

    async def attempt() -> ProviderLoginResult:
        identity = await openid_connect.identify(services, call, provider, client.client_id, answer, trace)
        asked = _ProviderLogin(provider, client, identity, login_responses.LoginOptions(), False, trace, trust_id)
        return await _reconciled(services, call, asked)

    result = await _limited(services, call, provider, trace, attempt)
    await trace.record(services, call, provider, f"ended as {type(result).__name__}")
    return result


async def start(services: Services, call: Call, body: Document) -> None:
    """Refuse with the reason. Raises Invalid.

    The published API starts logins of HYPR and SAMLv2, which this service stores and does not log in through; the
    other types have no start.
    """
    request = services.schemas["api/identity-provider-start.request.json"].read(body)
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    kind = (await _provider(services, client, request["identityProviderId"], None))["type"]
    if kind in rules.AUTHENTICATION_TYPES:
        reason = f"Logins of type {kind} have no start. Complete them with POST /api/identity-provider/login."
    else:
        reason = f"Users cannot log in through identity providers of type {kind} here."
    raise _invalid("identityProviderId", reason)


async def _provider(services: Services, client: Client, provider_id: str, only: str | None) -> Document:
    """The provider, if it is there for the client's users. Raises Invalid."""
    provider = await services.configuration.identity_providers.find_cached(None, provider_id)
    if (
        provider is None
        or not rules.is_available_to(provider, client.tenant_id)
        or rules.find_enabled_settings(provider, client.client_id) is None
    ):
        raise _invalid("identityProviderId", "The [identityProviderId] names none that is enabled for the application.")
    features.require_provider(services, provider)
    if only not in {None, provider["type"]}:
        raise _invalid("identityProviderId", f"The identity provider is not of type {only}.")
    return provider


async def _identified(
    services: Services, call: Call, provider: Document, client: Client, request: Document, trace: LoginTrace
) -> ExternalIdentity:
    data = request["data"]
    if provider["type"] == rules.OPENID_CONNECT:
        return await openid_connect.identify(services, call, provider, client.client_id, data, trace)
    if provider["type"] == rules.EXTERNAL_JWT:
        token = request.get("encodedJWT") or data.get("token")
        return await external_jwt.identify(services, call, provider, token, trace)
    raise _invalid(
        "identityProviderId", f"Users cannot log in through identity providers of type {provider['type']} here."
    )


async def _limited(
    services: Services, call: Call, provider: Document, trace: LoginTrace, attempt: Callable[[], Awaitable[T]]
) -> T:
    """Try to log in, unless too many from this address failed lately. Raises Unavailable, and whatever the try does."""
    tenant_id = crud.require_tenant(call)
    limit = failed_login_limits.address_limits(call)
    await services.limits.rate_limits.count(tenant_id, limit, failed_login_limits.TOO_MANY)
    try:
        result = await attempt()
    except ServiceError as error:
        reason = f"refused with {error.status}: {error.log_detail or error.message}"
        await trace.record(services, call, provider, reason)
        if isinstance(error, LoginPrevented) or not isinstance(error, Invalid | Unauthorized):
            await services.limits.rate_limits.refund(tenant_id, limit)
        raise
    await services.limits.rate_limits.refund(tenant_id, limit)
    return result


async def _reconciled(services: Services, call: Call, attempt: _ProviderLogin) -> ProviderLoginResult:
    """What comes of a login whose identity is known. It is retried after a concurrent change."""
    outcome: list[_LoginChange | None] = []

    async def once() -> Document:
        change = await _change(services, call, attempt)
        outcome.append(change)
        if change is None or isinstance(change.halt, login_outcomes.Barred):
            return {}
        if change.halt is None:
            await _require_valid(services, call, attempt, change.person)
        return await _write(services, call, attempt, change)

    user = await crud.retry_on_conflict(once)
    change = outcome[-1]
    if change is None:
        return await _pending(services, attempt)
    result = change.halt or _logged_in(user, attempt.client, change.judgement)
    if change.halt is None:
        await threat_detection.notify_user(services, call, user, attempt.client.application, change.judgement)
    attempt.trace.add(f"user {change.person.user['id']}: {type(result).__name__}")
    return result


async def _change(services: Services, call: Call, attempt: _ProviderLogin) -> _LoginChange | None:
    """What the login is about to write; None where a link has to be completed by the user. Raises as `log_in` does."""
    client, provider, identity = attempt.client, attempt.provider, attempt.identity
    link = await services.directory.identity_provider_links.find_account(
        client.tenant_id, provider["id"], identity.unique_id
    )
    user = None if link is None else await services.directory.users.find(client.tenant_id, link["userId"])
    is_new = is_claim = False
    if user is None:
        if attempt.no_link or provider["linkingStrategy"] in {"Disabled", "Unsupported"}:
            raise NotFound(log_detail="nobody is linked, and no link is to be made")
        if provider["linkingStrategy"] == "CreatePendingLink":
            return None
        user, is_new = await user_resolution.find_or_build(services, call, client.tenant, provider, identity)
        is_claim = (
            not is_new and user_resolution.links_by_email(provider) and account_takeover_prevention.requires_claim(user)
        )
        if is_claim and account_takeover_prevention.is_ambiguous(user):
            return None
        link = await _new_link(services, call, attempt, UserId(user["id"]), stale=link)
    assert link is not None
    claim = await account_takeover_prevention.prepare(services, call, user) if is_claim else None
    stored, user = user, account_takeover_prevention.without_credentials(user, call) if is_claim else user
    person = ResolvedUser(user, None if is_new else stored, _new_registration(call, attempt, user))
    early = await _halt(services, call, attempt, user)
    if not isinstance(early, login_outcomes.Barred):
        person = await user_resolution.apply_claims(
            services, call, provider, client.application, person, identity, attempt.trace
        )
    judgement = threat_detection.assess(services, call, person.user, is_new_device=attempt.wishes.is_new_device)
    halt = await _halt(services, call, attempt, person.user)
    return _LoginChange(person, link, "slot" in link, halt, judgement, claim)


async def _new_link(
    services: Services, call: Call, attempt: _ProviderLogin, user_id: UserId, *, stale: Document | None
) -> Document:
    """The link to make; `stale` is one to a user who is gone, which makes room first. Raises Invalid."""
    tenant_id, provider, identity = attempt.client.tenant_id, attempt.provider, attempt.identity
    if stale is not None:
        await services.directory.identity_provider_links.delete(tenant_id, stale["id"])
    link = link_rules.build_link(
        provider,
        identity.unique_id,
        tenant_id,
        user_id,
        call.now,
        displayName=identity.display_name,
        token=identity.token,
    )
    return {**link, "slot": await identity_provider_links.get_free_slot(services, tenant_id, user_id, provider)}


def _new_registration(call: Call, attempt: _ProviderLogin, user: Document) -> Document | None:
    """The registration to make, where the provider makes any and the user has none."""
    application = attempt.client.application
    settings = rules.find_enabled_settings(attempt.provider, application["id"])
    is_registered = user_rules.find_registration(user, application["id"]) is not None
    if is_registered or settings is None or not settings["createRegistration"]:
        return None
    wanted: Document = {"data": {}, "preferredLanguages": [], "roles": [], "usernameStatus": "ACTIVE"}
    return registrations.build_registration(
        wanted, application, call.now, is_verified=not application["verifyRegistration"]
    )


async def _halt(services: Services, call: Call, attempt: _ProviderLogin, user: Document) -> login_outcomes.Halt | None:
    client = attempt.client
    proven = login_outcomes.Authenticated(client.tenant, client.application, user, call.now, is_federated=True)
    halt = login_outcomes.find_halt(await two_factor_trust.apply_device_trust(services, call, proven, attempt.trust_id))
    if not isinstance(halt, login_outcomes.SecondFactorRequired):
        return halt
    return dataclasses.replace(
        halt, authentication_type=attempt.authentication_type, event_members=_told(attempt.provider)
    )


async def _require_valid(services: Services, call: Call, attempt: _ProviderLogin, person: ResolvedUser) -> None:
    """Ask the tenant's lambda, before anything of the login is written. Raises LoginPrevented and LambdaFailed."""
    await password_login.run_validation_lambda(
        services,
        call,
        person.user,
        attempt.client.application,
        attempt.authentication_type,
        is_known=person.stored is not None,
    )


async def _write(services: Services, call: Call, attempt: _ProviderLogin, change: _LoginChange) -> Document:
    """Write what the login changes, and answer the user as it is then. Raises Conflict when others were faster."""
    users, tenant_id, application = services.directory.users, attempt.client.tenant_id, attempt.client.application
    stored = change.person.stored
    moved = call.now if stored is None else max(call.now, stored["lastUpdateInstant"] + 1)
    user = user_rules.with_derived_members({**change.person.user, "lastUpdateInstant": moved})
    link = {name: value for name, value in change.link.items() if name != "slot"}
    if change.is_new_link:
        link["private"] = {"slot": change.link["slot"]}
    finished = user if change.halt is not None else password_login.with_login(user, application, call)
    registered = user_rules.find_registration(user, application["id"])

    writes: list[Write[Any]] = [
        partial(users.insert, tenant_id, user)
        if stored is None
        else partial(users.replace, tenant_id, user, stored["lastUpdateInstant"]),
        partial(services.directory.identity_provider_links.insert, tenant_id, link)
        if change.is_new_link
        else partial(_refresh_link, services, call, attempt, link),
    ]
    if change.halt is None:
        registered_id = None if registered is None else ApplicationId(application["id"])
        writes += [
            partial(
                users.record_login, tenant_id, UserId(user["id"]), registered_id, call.now, None,
                place=change.judgement.place,
            ),
            partial(login_records.add, services, call, finished, application["id"]),
        ]  # fmt: skip
    whole = account_takeover_prevention.writes(services, call, change.claim, writes)
    try:
        await services.bus.commit(call, Change(whole, *_events(attempt, change, user, finished, link)))
    except Duplicate as duplicate:
        raise Conflict from duplicate
    await account_takeover_prevention.finish(services, call, change.claim)
    if registered is not None and (stored is None or user_rules.find_registration(stored, application["id"]) is None):
        await registration_verifications.start_for_new(services, call.within(tenant_id), finished, application)
    return finished


async def _refresh_link(
    services: Services, call: Call, attempt: _ProviderLogin, link: Document, session: Session | None
) -> None:
    links, identity = services.directory.identity_provider_links, attempt.identity
    if not await links.refresh(
        attempt.client.tenant_id, link, identity.display_name, identity.token, call.now, session
    ):
        raise Conflict


def _events(
    attempt: _ProviderLogin, change: _LoginChange, user: Document, finished: Document, link: Document
) -> tuple[list[Event], list[Event]]:
    """The events before and after the commit. A login has events only when it is complete."""
    stored, registration = change.person.stored, change.person.registration
    if stored is None:
        offered, announced = (
            [user_events.user_event("user.create", user)],
            [user_events.user_event("user.create.complete", user)],
        )
    else:
        offered = user_events.before_update(stored, user)
        announced = user_events.after_update(stored, user, new_password=False)
    if change.claim is not None:
        offered += change.claim.before_commit(user)
        announced += change.claim.after_commit(user)
    if registration is not None:
        offered.append(user_events.registration_event("user.registration.create", user, registration))
        announced.append(user_events.registration_event("user.registration.create.complete", user, registration))
    if change.is_new_link:
        announced.append(identity_provider_links.link_event("user.identity-provider.link", user, link))
    if change.halt is None:
        offered += _login_events(attempt, finished, change.judgement)
    return offered, announced


def _login_events(attempt: _ProviderLogin, user: Document, judgement: ThreatAssessment) -> list[Event]:
    told = _told(attempt.provider)
    return password_login.login_events(judgement, user, attempt.client.application, attempt.authentication_type, **told)


def _told(provider: Document) -> Document:
    """The members that events of a login through a provider have in addition."""
    return {"identityProviderId": provider["id"], "identityProviderName": provider["name"]}


async def _pending(services: Services, attempt: _ProviderLogin) -> PendingLink:
    """The user has to say who they are, and completes the link with an id."""
    identity, tenant = attempt.identity, attempt.client.tenant
    link = {
        "displayName": identity.display_name,
        "email": identity.email,
        "identityProviderId": attempt.provider["id"],
        "identityProviderUserId": identity.unique_id,
        "token": identity.token,
        "username": identity.username,
    }
    ttl_seconds = tenant["externalIdentifierConfiguration"]["pendingAccountLinkTimeToLiveInSeconds"]
    known = {name: value for name, value in link.items() if value is not None}
    pending_id = await services.sessions.pending_links.issue(attempt.client.tenant_id, known, ttl_seconds)
    attempt.trace.add("a link is pending")
    return PendingLink(pending_id)


def _logged_in(user: Document, client: Client, judgement: ThreatAssessment) -> login_outcomes.LoggedIn:
    registration = user_rules.find_registration(user, client.application["id"])
    return login_outcomes.LoggedIn(user, registration, threats=judgement.threats)


def _invalid(path: str, message: str) -> Invalid:
    return Invalid.field("invalid", path, message)
