"""Logins through identity providers: resolve the asserted identity to a user, then commit the login.

The user of a linked account logs in. Without a link, the linking strategy of the provider decides. User, registration,
link and events are committed together: a veto by a webhook leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from functools import partial

from identity.call import Call, Document
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.login import login_outcomes
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers import reauthentication
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.reauthentication import Reauthentication
from identity.domain.users import identity_provider_links as link_rules
from identity.domain.users import registrations
from identity.domain.users import users as user_rules
from identity.errors import Conflict, Duplicate, Invalid, LoginPrevented, NotFound, ServiceError, Unauthorized
from identity.events.changes import Change, Event
from identity.ids import ApplicationId, UserId
from identity.instants import Instant
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.groups import administrators
from identity.operations.limits import failed_login_limits
from identity.operations.login import login_records, password_login, second_factor_decisions, threat_detection
from identity.operations.login.password_login import LoginDetails
from identity.operations.login.threat_detection import ThreatAssessment
from identity.operations.messaging import user_events
from identity.operations.objects import crud, features
from identity.operations.providers import (
    account_takeover_prevention,
    connection_tests,
    identification,
    user_resolution,
)
from identity.operations.providers.account_takeover_prevention import AccountClaim
from identity.operations.providers.login_trace import LoginTrace
from identity.operations.providers.user_resolution import ResolvedUser
from identity.operations.users import identity_provider_links, login_responses
from identity.operations.verification import registration_verifications
from identity.services import Services
from identity.store.mongo import Session, Write

SCHEMA = "api/identity-provider-login.request.json"


@dataclasses.dataclass(frozen=True, slots=True)
class PendingLink:
    """The identity is not linked yet: the user chooses an account, and `pending_id` completes the link."""

    pending_id: str = dataclasses.field(repr=False)


ProviderLoginResult = login_outcomes.LoggedIn | login_outcomes.Halt | PendingLink
"""The result of a login with an accepted identity."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderAuthentication:
    """The result of an authorization response.

    `auth_instant` is when the provider authenticated the user, if known. `provider_session` is what a logout at the
    provider needs, if a logout ends the session there.
    """

    result: ProviderLoginResult
    auth_instant: Instant | None
    provider_session: Document | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class _ProviderLogin:
    """One login: the provider, the client, the asserted identity, and the options of the request."""

    provider: Document
    client: Client
    identity: ExternalIdentity
    options: login_responses.LoginOptions
    no_link: bool
    trace: LoginTrace
    trust_id: str | None = dataclasses.field(default=None, repr=False)

    @property
    def authentication_type(self) -> str:
        """The `authenticationType` of events and tokens."""
        return provider_rules.AUTHENTICATION_TYPES[self.provider["type"]]

    @property
    def event_members(self) -> Document:
        """The additional members of the login events."""
        return {"identityProviderId": self.provider["id"], "identityProviderName": self.provider["name"]}


@dataclasses.dataclass(frozen=True, slots=True)
class _LoginChange:
    """The writes of a login: the user, the existing or new link, and what halts the login. A new link has a slot."""

    resolved: ResolvedUser
    link: Document
    halt: login_outcomes.Halt | None
    assessment: ThreatAssessment
    claim: AccountClaim | None = None

    @property
    def is_new_link(self) -> bool:
        """Whether the link is not stored yet."""
        return "slot" in self.link


async def log_in(
    services: Services, call: Call, body: Document, *, only: str | None = None, trust_id: str | None = None
) -> login_responses.LoginResponse:
    """Log in a user of a provider and return the Login API response; `only` restricts the type of the provider.

    With a connection test, only the account is identified. `trust_id` is the two-factor trust of the browser's cookie.

    Raises:
        Invalid: the request is invalid, or as LoginPrevented a lambda rejected the login.
        LambdaFailed: a lambda failed.
        Unauthorized: the response of the provider cannot be trusted.
        NotFound: no user is linked, and no link may be created.
        Unavailable: too many logins from the address failed.
    """
    request = services.schemas[SCHEMA].read(body)
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    if "connectionTestId" in request:
        return await connection_tests.log_in(services, call.within(client.tenant_id), client, request)
    provider = await _get_provider(services, client, request["identityProviderId"], only)
    call = login_responses.with_stated_ip_address(call.within(client.tenant_id), request)
    options, trace = login_responses.LoginOptions.from_request(request), LoginTrace()
    async with _failure_limit(services, call, provider, trace):
        identity = await identification.by_request(services, call, provider, client, request, trace)
        options = dataclasses.replace(options, auth_instant=_auth_instant(provider, identity))
        login = _ProviderLogin(provider, client, identity, options, request.get("noLink", False), trace, trust_id)
        result = await _reconcile(services, call, login)
        if isinstance(result, PendingLink):
            response = login_responses.LoginResponse(232, {"pendingIdPLinkId": result.pending_id})
        else:
            response = await login_responses.build_response(
                services, call, client, result, login.authentication_type, options
            )
    await trace.record(services, call, provider, f"status {response.status}")
    return response


async def authenticate(
    services: Services,
    call: Call,
    client: Client,
    provider: Document,
    response: Mapping[str, str],
    required: Reauthentication | None,
    *,
    trust_id: str | None = None,
) -> ProviderAuthentication:
    """Log in the user of an authorization response, which contains the `redirect_uri`. Raises as `log_in`.

    Raises Unauthorized if the authentication at the provider does not satisfy what is `required`. `trust_id` is the
    two-factor trust of the browser's cookie.
    """
    call, trace = call.within(client.tenant_id), LoginTrace()
    async with _failure_limit(services, call, provider, trace):
        identity = await identification.by_response(services, call, provider, client, response, trace)
        problem = None if required is None else required.problem(identity.auth_instant)
        if problem is not None:
            raise Unauthorized(log_detail=problem)
        options = login_responses.LoginOptions()
        login = _ProviderLogin(provider, client, identity, options, False, trace, trust_id)
        result = await _reconcile(services, call, login)
    await trace.record(services, call, provider, f"ended as {type(result).__name__}")
    session = {"applicationId": client.client_id, "idToken": identity.id_token, "providerId": provider["id"]}
    ends_session = bool(provider.get("logoutAtProvider"))
    return ProviderAuthentication(result, _auth_instant(provider, identity), session if ends_session else None)


def _auth_instant(provider: Document, identity: ExternalIdentity) -> Instant | None:
    """Return when the provider authenticated the user; None if that is unknown, or does not count."""
    return identity.auth_instant if reauthentication.forwards_prompt(provider) else None


async def start(services: Services, call: Call, body: Document) -> None:
    """Refuse to start a login, with the reason. Raises Invalid.

    The published API starts logins with SAMLv2, for which this service only stores providers; others have no start.
    """
    request = services.schemas["api/identity-provider-start.request.json"].read(body)
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    kind = (await _get_provider(services, client, request["identityProviderId"], None))["type"]
    if kind in provider_rules.AUTHENTICATION_TYPES:
        raise _invalid(f"Logins of type {kind} have no start. Complete them with POST /api/identity-provider/login.")
    raise identification.unsupported(kind)


async def _get_provider(services: Services, client: Client, provider_id: str, only: str | None) -> Document:
    """Return the provider if it is enabled for the client. Raises Invalid."""
    provider = await services.configuration.identity_providers.find_cached(None, provider_id)
    if provider is None or not provider_rules.is_enabled_for(provider, client.tenant_id, client.client_id):
        raise _invalid("The [identityProviderId] names none that is enabled for the application.")
    features.require_provider(services, provider)
    if only not in {None, provider["type"]}:
        raise _invalid(f"The identity provider is not of type {only}.")
    return provider


@contextlib.asynccontextmanager
async def _failure_limit(services: Services, call: Call, provider: Document, trace: LoginTrace) -> AsyncIterator[None]:
    """Count the login against the limit of its address, unless it succeeds. Raises Unavailable above the limit."""
    tenant_id = crud.require_tenant(call)
    limit = failed_login_limits.address_limits(call)
    await services.limits.rate_limits.count(tenant_id, limit, failed_login_limits.TOO_MANY)
    try:
        yield
    except ServiceError as error:
        await trace.record(
            services, call, provider, f"refused with {error.status}: {error.log_detail or error.message}"
        )
        if isinstance(error, LoginPrevented) or not isinstance(error, Invalid | Unauthorized):
            await services.limits.rate_limits.refund(tenant_id, limit)
        raise
    await services.limits.rate_limits.refund(tenant_id, limit)


async def _reconcile(services: Services, call: Call, login: _ProviderLogin) -> ProviderLoginResult:
    """Complete the login of an identity, with retries after concurrent changes."""
    change, user = await _attempt(services, call, login)
    if change is None:
        return await _store_pending_link(services, login)
    application = login.client.application
    result: ProviderLoginResult | None = change.halt
    if result is None:
        await threat_detection.notify_user(services, call, user, application, change.assessment)
        registration = user_rules.find_registration(user, application["id"])
        result = login_outcomes.LoggedIn(user, registration, threats=change.assessment.threats)
    result_name = type(result).__name__
    services.runtime.authentication_metrics.count_login(login.authentication_type, result_name)
    login.trace.add(f"user {change.resolved.user['id']}: {result_name}")
    return result


@crud.retry_on_conflict
async def _attempt(services: Services, call: Call, login: _ProviderLogin) -> tuple[_LoginChange | None, Document]:
    """Prepare and write the change of a login. Raises Conflict after a concurrent change."""
    change = await _prepare_change(services, call, login)
    if change is None or isinstance(change.halt, login_outcomes.Barred):
        return change, {}
    if change.halt is None:
        user, is_known = change.resolved.user, change.resolved.stored is not None
        await password_login.run_validation_lambda(
            services,
            call,
            user,
            login.client.application,
            login.authentication_type,
            is_known=is_known,
            provider=login.provider,
        )
    return change, await _write(services, call, login, change)


async def _prepare_change(services: Services, call: Call, login: _ProviderLogin) -> _LoginChange | None:
    """Return what the login writes; None if the user has to complete the link. Raises as `log_in`."""
    client, provider, identity = login.client, login.provider, login.identity
    link = await services.directory.identity_provider_links.find_account(
        client.tenant_id, provider["id"], identity.unique_id
    )
    user = None if link is None else await services.directory.users.find(client.tenant_id, link["userId"])
    is_new = is_claim = False
    if user is not None:
        await _require_may_assert(services, provider, user)
    else:
        if login.no_link or provider["linkingStrategy"] in {"Disabled", "Unsupported"}:
            raise NotFound(log_detail="no user is linked, and no link may be created")
        if provider["linkingStrategy"] == "CreatePendingLink":
            return None
        user, is_new = await user_resolution.find_or_build(services, call, client.tenant, provider, identity)
        if "email" in user and not provider_rules.manages(provider, user["email"]):
            raise Unauthorized(log_detail="the provider does not manage the domain of the user's email")
        await _require_may_assert(services, provider, user)
        is_claim = (
            not is_new and user_resolution.links_by_email(provider) and account_takeover_prevention.requires_claim(user)
        )
        if is_claim and account_takeover_prevention.is_ambiguous(user):
            return None
        link = await _new_link(services, call, login, UserId(user["id"]), stale=link)
    assert link is not None
    claim = await account_takeover_prevention.prepare(services, call, user) if is_claim else None
    stored, user = user, account_takeover_prevention.without_credentials(user, call) if is_claim else user
    resolved = ResolvedUser(user, None if is_new else stored, _new_registration(call, login, user))
    if not isinstance(_find_halt(login, _authenticated(call, login, user)), login_outcomes.Barred):
        resolved = await user_resolution.apply_claims(services, call, provider, client, resolved, identity, login.trace)
    authenticated = await second_factor_decisions.decide(
        services,
        call,
        _authenticated(call, login, resolved.user),
        login.trust_id,
        is_new_device=login.options.is_new_device,
    )
    details = LoginDetails(is_new_device=login.options.is_new_device, decision=authenticated.decision)
    assessment = await password_login.assess_threats(
        services, call, resolved.user, client.application, login.authentication_type, details
    )
    return _LoginChange(resolved, link, _find_halt(login, authenticated), assessment, claim)


async def _require_may_assert(services: Services, provider: Document, user: Document) -> None:
    """Raise Unauthorized for an administrator, unless the provider is enabled for the console.

    Whoever may configure another provider, its keys or its lambda could otherwise sign in as an administrator.
    """
    if provider_rules.find_enabled_settings(provider, ADMINISTRATOR_APPLICATION_ID) is not None:
        return
    if await administrators.is_administrator(services, user):
        raise Unauthorized(log_detail="the user is an administrator, and the provider is not enabled for the console")


async def _new_link(
    services: Services, call: Call, login: _ProviderLogin, user_id: UserId, *, stale: Document | None
) -> Document:
    """Build a link with a slot; a `stale` one, to a deleted user, is deleted first. Raises Invalid."""
    tenant_id, provider, identity = login.client.tenant_id, login.provider, login.identity
    if stale is not None:
        await services.directory.identity_provider_links.delete(tenant_id, stale["id"])
    members = {"displayName": identity.display_name, "token": identity.token}
    link = link_rules.build_link(provider, identity.unique_id, tenant_id, user_id, call.now, **members)
    return {**link, "slot": await identity_provider_links.get_free_slot(services, tenant_id, user_id, provider)}


def _new_registration(call: Call, login: _ProviderLogin, user: Document) -> Document | None:
    """Build the registration, if the provider creates them and the user has none."""
    application = login.client.application
    settings = provider_rules.find_enabled_settings(login.provider, application["id"])
    is_registered = user_rules.find_registration(user, application["id"]) is not None
    if is_registered or settings is None or not settings["createRegistration"]:
        return None
    members: Document = {"data": {}, "preferredLanguages": [], "roles": [], "usernameStatus": "ACTIVE"}
    is_verified = not application["verifyRegistration"]
    return registrations.build_registration(members, application, call.now, is_verified=is_verified)


def _authenticated(call: Call, login: _ProviderLogin, user: Document) -> login_outcomes.Authenticated:
    client = login.client
    return login_outcomes.Authenticated(client.tenant, client.application, user, call.now, is_federated=True)


def _find_halt(login: _ProviderLogin, authenticated: login_outcomes.Authenticated) -> login_outcomes.Halt | None:
    halt = login_outcomes.find_halt(authenticated)
    if not isinstance(halt, login_outcomes.SecondFactorRequired):
        return halt
    return dataclasses.replace(halt, authentication_type=login.authentication_type, event_members=login.event_members)


async def _write(services: Services, call: Call, login: _ProviderLogin, change: _LoginChange) -> Document:
    """Commit the change of a login, and return the stored user. Raises Conflict after a concurrent change."""
    users, tenant_id, application = services.directory.users, login.client.tenant_id, login.client.application
    stored = change.resolved.stored
    now = call.now if stored is None else max(call.now, stored["lastUpdateInstant"] + 1)
    user = user_rules.with_derived_members({**change.resolved.user, "lastUpdateInstant": now})
    link = {name: value for name, value in change.link.items() if name != "slot"}
    if change.is_new_link:
        link["private"] = {"slot": change.link["slot"]}
    result = user if change.halt is not None else password_login.with_login(user, application, call)
    is_registered = user_rules.find_registration(user, application["id"]) is not None
    was_registered = stored is not None and user_rules.find_registration(stored, application["id"]) is not None

    writes: list[Write] = [
        partial(users.insert, tenant_id, user)
        if stored is None
        else partial(users.replace, tenant_id, user, stored["lastUpdateInstant"]),
        partial(services.directory.identity_provider_links.insert, tenant_id, link)
        if change.is_new_link
        else partial(_refresh_link, services, call, login, link),
    ]
    if change.halt is None:
        registered_id = ApplicationId(application["id"]) if is_registered else None
        writes += [
            partial(
                users.record_login, tenant_id, UserId(user["id"]), registered_id, call.now, None,
                place=change.assessment.place,
            ),
            partial(login_records.add, services, call, result, application["id"], risk=change.assessment.risk),
        ]  # fmt: skip
    all_writes = account_takeover_prevention.writes(services, call, change.claim, writes)
    try:
        await services.bus.commit(call, Change(all_writes, *_events(login, change, user, result, link)))
    except Duplicate as duplicate:
        raise Conflict from duplicate
    await account_takeover_prevention.finish(services, call, change.claim)
    if is_registered and not was_registered:
        await registration_verifications.start_for_new(services, call.within(tenant_id), result, application)
    return result


async def _refresh_link(
    services: Services, call: Call, login: _ProviderLogin, link: Document, session: Session | None
) -> None:
    links, identity = services.directory.identity_provider_links, login.identity
    if not await links.refresh(login.client.tenant_id, link, identity.display_name, identity.token, call.now, session):
        raise Conflict


def _events(
    login: _ProviderLogin, change: _LoginChange, user: Document, logged_in: Document, link: Document
) -> tuple[list[Event], list[Event]]:
    """Return the events before and after the commit. Only a complete login has login events."""
    stored, registration = change.resolved.stored, change.resolved.registration
    if stored is None:
        before = [user_events.user_event("user.create", user)]
        after = [user_events.user_event("user.create.complete", user)]
    else:
        before = user_events.before_update(stored, user)
        after = user_events.after_update(stored, user, new_password=False)
    if change.claim is not None:
        before += change.claim.before_commit(user)
        after += change.claim.after_commit(user)
    if registration is not None:
        before.append(user_events.registration_event("user.registration.create", user, registration))
        after.append(user_events.registration_event("user.registration.create.complete", user, registration))
    if change.is_new_link:
        after.append(identity_provider_links.link_event("user.identity-provider.link", user, link))
    if change.halt is None:
        application, kind = login.client.application, login.authentication_type
        before += password_login.login_events(change.assessment, logged_in, application, kind, **login.event_members)
    elif isinstance(change.halt, login_outcomes.SecondFactorRequired) and change.assessment.is_suspicious:
        after.append(
            password_login.suspicious_event(
                change.assessment, user, login.client.application, login.authentication_type, **login.event_members
            )
        )
    return before, after


async def _store_pending_link(services: Services, login: _ProviderLogin) -> PendingLink:
    """Store the identity, for a user who then completes the link with its id."""
    link = login.identity.pending_link(login.provider["id"])
    ttl_seconds = Lifetimes.of(login.client.tenant).pending_link_seconds
    pending_id = await services.sessions.pending_links.issue(login.client.tenant_id, link, ttl_seconds)
    login.trace.add("a link is pending")
    return PendingLink(pending_id)


def _invalid(message: str) -> Invalid:
    return Invalid.field("invalid", "identityProviderId", message)
