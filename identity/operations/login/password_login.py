"""Password logins: verify the password, run the checks that follow it, record the login and emit its events.

Failures are limited by `failed_login_limits` and lock the account through `failed_login_lockout`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Sequence
from typing import Final, TypeVar

from identity import request_facts
from identity.call import Call, Document
from identity.domain.configuration import administrator_realm as realm_rules
from identity.domain.lambdas import lambdas as lambda_rules
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import (
    Authenticated,
    LoggedIn,
    LoginResult,
    SecondFactorDecision,
    SecondFactorRequired,
    TooManyAttempts,
    WrongCredentials,
)
from identity.domain.users import users as user_rules
from identity.errors import LoginPrevented, Unavailable, WebhookTransactionFailed
from identity.events.changes import Change, Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.connectors import connector_logins, connector_reconciliation
from identity.operations.connectors.connector_logins import (
    AcceptedByConnector,
    AcceptedHere,
    Refused,
    Unverified,
    Verification,
)
from identity.operations.connectors.connector_requests import ConnectorError, LoginRequest
from identity.operations.groups import administrator_realm
from identity.operations.lambdas import login_validation_lambdas
from identity.operations.limits import failed_login_limits
from identity.operations.limits.failed_login_limits import CountedAttempt
from identity.operations.login import (
    failed_login_lockout,
    login_breach_detection,
    login_failures,
    login_records,
    login_risk,
    second_factor_decisions,
    threat_detection,
)
from identity.operations.login.failed_login_lockout import LockOutAttempt
from identity.operations.login.login_side_effects import NO_SIDE_EFFECTS, LoginSideEffects
from identity.operations.login.threat_detection import ThreatAssessment
from identity.operations.messaging import user_events
from identity.operations.objects import crud, user_lookup
from identity.operations.passwords import user_passwords
from identity.services import Services
from identity.store.mongo import Session

R = TypeVar("R", bound=LoginResult)


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """A login id and password, as submitted; `types` are the login id types to match, `trust_id` the device trust.

    Without `types` the login id was typed by a user, see `user_lookup.find_typed`.

    `may_be_token`: the password may also be the user's authentication token for the application.
    """

    login_id: str
    password: str = dataclasses.field(repr=False)
    types: Sequence[str] | None = None
    trust_id: str | None = dataclasses.field(default=None, repr=False)
    may_be_token: bool = False

    def type_of(self, user: Document) -> str | None:
        """Return the type of the user's login id."""
        return user_rules.may_log_in_as(user, self.login_id, self.types or user_rules.TYPED_LOGIN_ID_TYPES)


async def authenticate(
    services: Services,
    call: Call,
    credentials: Credentials,
    application: Document | None,
    *,
    authentication_type: str = "PASSWORD",
    is_new_device: bool = False,
) -> LoginResult:
    """Log in a user of the call's tenant with a password, to an application or to the tenant alone.

    An unknown user takes the same time and gets the same result as a wrong password. `is_new_device` is what an API
    caller reports about the device.

    Raises:
        WebhookTransactionFailed: a transactional webhook vetoed the login.
        LoginPrevented: the tenant's login validation lambda rejected the login.
        Unavailable: too many passwords are queued for verification.
    """
    tenant_id = crud.require_tenant(call)
    tenant = await services.configuration.tenants.get_cached(None, tenant_id)
    user = await _find_user(services, tenant, credentials)
    tenant = await administrator_realm.of_login(services, tenant, user, application)
    limited = await failed_login_limits.count_attempt(services, call, tenant, user, credentials.login_id)
    if user is not None:
        request_facts.note_user(user["id"])
    if limited.wait_seconds is not None:
        return _counted(services, authentication_type, TooManyAttempts(limited.wait_seconds))
    if is_token := _is_authentication_token(credentials, user, application):
        authentication_type = "APPLICATION_TOKEN"
    lockout = await failed_login_lockout.count_attempt(services, call, tenant, user, credentials.login_id)
    attempt = _Attempt(tenant, application, user, credentials, limited, lockout, is_new_device)
    verification = AcceptedHere() if is_token else await _verify(services, call, attempt)
    if lockout is not None and lockout.is_locked:
        # Checked after the comparison and whatever its result: a locked account must not confirm a guess.
        locked = await failed_login_lockout.extend_lock_out(services, call.within(tenant_id), lockout)
        return _counted(services, authentication_type, locked)
    if isinstance(verification, AcceptedByConnector):
        authentication_type = verification.authentication_type
        user = await _reconcile(services, call, tenant, verification, credentials)
        verification = Unverified() if user is None else verification
    if isinstance(verification, Unverified):
        await _refund(services, attempt)
        return _counted(services, authentication_type, WrongCredentials())
    if isinstance(verification, Refused) or user is None:
        return await _fail(services, call, attempt, authentication_type)
    # The password rules of this service do not apply to passwords that a connector stores.
    is_federated = isinstance(verification, AcceptedByConnector) and not verification.migrates
    password = None if is_token or is_federated else credentials.password
    authenticated = Authenticated(tenant, application, user, call.now, password, is_federated)
    return await _succeed(services, call, attempt, authenticated, authentication_type)


async def _find_user(services: Services, tenant: Document, credentials: Credentials) -> Document | None:
    if credentials.types is None:
        return await user_lookup.find_typed(services, tenant, credentials.login_id)
    tenant_id = TenantId(tenant["id"])
    return await services.directory.users.find_by_login_id(tenant_id, credentials.login_id, credentials.types)


@dataclasses.dataclass(frozen=True, slots=True)
class LoginDetails:
    """Details of a login that is complete: the login id type used, and whether an API caller reports a new device.

    `decision` is that about the second factor, if the risk or a lambda took part in it.
    """

    identity_type: str | None = None
    is_new_device: bool = False
    decision: SecondFactorDecision | None = None


NO_DETAILS: Final = LoginDetails()


@dataclasses.dataclass(frozen=True, slots=True)
class _Attempt:
    """A counted login attempt; `user` is the stored user with the login id, if any."""

    tenant: Document
    application: Document | None
    user: Document | None
    credentials: Credentials
    limited: CountedAttempt
    lockout: LockOutAttempt | None
    is_new_device: bool


async def _verify(services: Services, call: Call, attempt: _Attempt) -> Verification:
    """Verify the password. Raises Unavailable, without counting the attempt: a retry must not lock the account."""
    credentials, lockout = attempt.credentials, attempt.lockout
    application_id = None if attempt.application is None else attempt.application["id"]
    login = LoginRequest(credentials.login_id, credentials.password, application_id, attempt.is_new_device)
    is_locked = lockout is not None and lockout.is_locked
    try:
        return await connector_logins.verify(services, call, attempt.tenant, attempt.user, login, is_locked=is_locked)
    except Unavailable:
        await _refund(services, attempt)
        raise


async def _fail(services: Services, call: Call, attempt: _Attempt, authentication_type: str) -> LoginResult:
    """Record a wrong password or an unknown user."""
    # In the background: only existing users have an event, and the response time must not reveal that.
    reason: Document = {"code": "credentials"}
    event = announce_failure(services, call, attempt.user, attempt.application, authentication_type, reason)
    await services.runtime.background_work.begin("failed login", event)
    tenant_id = TenantId(attempt.tenant["id"])
    await failed_login_lockout.record_failure(services, call.within(tenant_id), attempt.lockout)
    return _counted(services, authentication_type, WrongCredentials())


async def _succeed(
    services: Services, call: Call, attempt: _Attempt, authenticated: Authenticated, authentication_type: str
) -> LoginResult:
    """Continue with the right password: check it for breaches, and decide about the second factor."""
    credentials = attempt.credentials
    await failed_login_lockout.clear_failures(services, attempt.lockout)
    await failed_login_limits.refund_attempt(services, attempt.tenant, attempt.limited)
    authenticated, side_effects = await _check_breach(services, call, authenticated)
    authenticated = await second_factor_decisions.decide(
        services, call, authenticated, credentials.trust_id, is_new_device=attempt.is_new_device
    )
    return await continue_login(
        services,
        call,
        authenticated,
        authentication_type,
        identity_type=credentials.type_of(authenticated.user),
        is_new_device=attempt.is_new_device,
        side_effects=side_effects,
    )


async def _refund(services: Services, attempt: _Attempt) -> None:
    """Take back an attempt in which no password was verified."""
    await failed_login_limits.refund_attempt(services, attempt.tenant, attempt.limited)
    await failed_login_lockout.refund_attempt(services, attempt.lockout)


async def _reconcile(
    services: Services, call: Call, tenant: Document, accepted: AcceptedByConnector, credentials: Credentials
) -> Document | None:
    """Store the user of a connector; None, after logging, if the user cannot be stored."""
    try:
        return await connector_reconciliation.reconcile(services, call, tenant, accepted, credentials.password)
    except ConnectorError as error:
        await connector_logins.log_failure(services, call, tenant, accepted.connector, str(error))
        return None


async def _check_breach(
    services: Services, call: Call, authenticated: Authenticated
) -> tuple[Authenticated, LoginSideEffects]:
    """Check the password against breach data; return the login with the updated user and the resulting side effects."""
    if not authenticated.user["active"] or authenticated.password is None:
        return authenticated, NO_SIDE_EFFECTS
    check = await login_breach_detection.check_login(
        services, call, authenticated.tenant, authenticated.user, authenticated.password
    )
    if check is None:
        return authenticated, NO_SIDE_EFFECTS
    return dataclasses.replace(authenticated, user=check.user), check.side_effects


async def continue_login(
    services: Services,
    call: Call,
    authenticated: Authenticated,
    authentication_type: str,
    *,
    identity_type: str | None = None,
    is_new_device: bool = False,
    side_effects: LoginSideEffects = NO_SIDE_EFFECTS,
) -> LoginResult:
    """Continue after the credentials were verified, of whatever kind: complete the login, or return what halts it.

    `side_effects` are committed in both cases. Raises as `complete_login` does.
    """
    request_facts.note_user(authenticated.user["id"])
    halt = login_outcomes.find_halt(authenticated)
    if isinstance(halt, SecondFactorRequired):
        halt = dataclasses.replace(halt, authentication_type=authentication_type, identity_type=identity_type)
    result: LoginResult
    if halt is None:
        result = await complete_login(
            services,
            call,
            authenticated.user,
            authenticated.application,
            authentication_type,
            LoginDetails(identity_type, is_new_device, authenticated.decision),
            side_effects=side_effects,
        )
    else:
        result = _counted(services, authentication_type, halt)
        after_commit = [*side_effects.after_commit]
        if isinstance(halt, SecondFactorRequired) and authenticated.decision and authenticated.decision.is_suspicious:
            # Announced now, because whoever cannot complete the challenge never completes the login.
            details = LoginDetails(identity_type, is_new_device, authenticated.decision)
            assessment = await assess_threats(
                services, call, authenticated.user, authenticated.application, authentication_type, details
            )
            after_commit.append(
                suspicious_event(assessment, authenticated.user, authenticated.application, authentication_type)
            )
        change = Change([side_effects.write], side_effects.before_commit(), after_commit)
        await services.bus.commit(call.within(TenantId(authenticated.tenant["id"])), change)
        await side_effects.run_on_commit()
    if authenticated.password is not None and (halt is None or isinstance(halt, SecondFactorRequired)):
        # The password is not available after the second factor. A busy service rehashes at a later login.
        with contextlib.suppress(Unavailable):
            await user_passwords.rehash(services, authenticated.tenant, authenticated.user, authenticated.password)
    return result


async def complete_login(
    services: Services,
    call: Call,
    user: Document,
    application: Document | None,
    authentication_type: str,
    details: LoginDetails = NO_DETAILS,
    *,
    side_effects: LoginSideEffects = NO_SIDE_EFFECTS,
) -> LoggedIn:
    """Complete a login that passed all checks: record it and emit its events.

    A PING uses an existing session, and runs no login validation lambda.

    Raises:
        LoginPrevented, LambdaFailed: the tenant's login validation lambda rejected the login, or failed.
        WebhookTransactionFailed: a transactional webhook vetoed the login.
    """
    inside = call.within(TenantId(user["tenantId"]))
    request_facts.note_user(user["id"])
    if authentication_type != "PING":
        await run_validation_lambda(services, inside, user, application, authentication_type)
    assessment = await assess_threats(services, call, user, application, authentication_type, details)
    user = with_login(user, application, call)
    events = login_events(assessment, user, application, authentication_type, **side_effects.event_members)
    write = functools.partial(
        _write_login, services, call, user, application, details.identity_type, assessment, side_effects
    )
    await services.bus.commit(inside, Change([write], side_effects.before_commit(events), side_effects.after_commit))
    await side_effects.run_on_commit()
    await threat_detection.notify_user(services, call, user, application, assessment)
    registration = _find_registration(user, application)
    return _counted(
        services, authentication_type, LoggedIn(user, registration, authentication_type, assessment.threats)
    )


def _counted(services: Services, authentication_type: str, result: R) -> R:
    """Count a result in the metrics, and return it."""
    services.runtime.authentication_metrics.count_login(authentication_type, type(result).__name__)
    return result


async def _write_login(
    services: Services,
    call: Call,
    user: Document,
    application: Document | None,
    identity_type: str | None,
    assessment: ThreatAssessment,
    side_effects: LoginSideEffects,
    session: Session | None,
) -> None:
    # One write rather than three: without events to store, a login needs no transaction, and a flush of the journal
    # serves both of its own.
    await side_effects.write(session)
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    registration = _find_registration(user, application)
    registered_id = None if registration is None else ApplicationId(registration["applicationId"])
    application_id = None if application is None else application["id"]
    update = functools.partial(
        services.directory.users.record_login,
        tenant_id, user_id, registered_id, call.now, identity_type, session, place=assessment.place,
    )  # fmt: skip
    add_record = functools.partial(
        login_records.add, services, call, user, application_id, session,
        identity_type=identity_type, risk=assessment.risk,
    )  # fmt: skip
    if session is None:
        await asyncio.gather(update(), add_record())
    else:
        await update()
        await add_record()


def _is_authentication_token(credentials: Credentials, user: Document | None, application: Document | None) -> bool:
    """Whether the password is the user's authentication token for the application."""
    if not credentials.may_be_token or user is None or application is None:
        return False
    return user_rules.is_authentication_token(user, application, credentials.password)


async def resume_session(services: Services, call: Call, user: Document, application: Document) -> LoggedIn:
    """Emit the login event for the use of a session, and record the use at most once a minute.

    Raises WebhookTransactionFailed.
    """
    if not login_outcomes.is_recently_recorded(user, application["id"], call.now):
        return await complete_login(services, call, user, application, "PING")
    user = with_login(user, application, call)
    event = login_event("user.login.success", user, application, "PING")
    await services.bus.request_approval(call.within(TenantId(user["tenantId"])), [event])
    return LoggedIn(user, _find_registration(user, application))


async def assess_threats(
    services: Services,
    call: Call,
    user: Document,
    application: Document | None,
    authentication_type: str,
    details: LoginDetails,
) -> ThreatAssessment:
    """Assess a login. A PING is not assessed: no authentication took place.

    The risk is assessed here where no decision about a second factor needed it before.
    """
    if authentication_type == "PING":
        return ThreatAssessment(details.is_new_device, (), None)
    assessment = threat_detection.assess(services, call, user, is_new_device=details.is_new_device)
    tenant = await services.configuration.tenants.get_cached(None, TenantId(user["tenantId"]))
    tenant = administrator_realm.of_application(services, tenant, application)
    decision = details.decision
    risk = None if decision is None else decision.risk
    if risk is None and login_risk.is_assessed(tenant, application):
        risk = await login_risk.assess(
            services, call, tenant, user, is_new_device=details.is_new_device, is_trusted=False
        )
    threats = risk.threats if risk is not None and login_risk.is_enabled(tenant) else assessment.threats
    is_suspicious = decision is not None and decision.is_suspicious
    return dataclasses.replace(assessment, threats=threats, risk=risk, is_suspicious=is_suspicious)


def suspicious_event(
    assessment: ThreatAssessment,
    user: Document,
    application: Document | None,
    authentication_type: str,
    **members: object,
) -> Event:
    """Return the event of a login that a lambda finds suspicious and that a second factor has yet to complete."""
    name = "user.login.suspicious"
    return login_event(name, user, application, authentication_type, **members, **assessment.event_members(name))


def login_events(
    assessment: ThreatAssessment,
    user: Document,
    application: Document | None,
    authentication_type: str,
    **members: object,
) -> list[Event]:
    """Return the events of a completed login in their order, the success event last."""
    return [
        login_event(name, user, application, authentication_type, **members, **assessment.event_members(name))
        for name in assessment.event_types
    ]


def login_event(
    event_type: str, user: Document, application: Document | None, authentication_type: str, **members: object
) -> Event:
    """Return an event of a completed login; it names the application if the user is registered for it."""
    registration = _find_registration(user, application)
    return user_events.user_event(
        event_type,
        user,
        applicationId=None if registration is None else registration["applicationId"],
        authenticationType=authentication_type,
        connectorId=user["connectorId"],
        **members,
    )


async def run_validation_lambda(
    services: Services,
    call: Call,
    user: Document,
    application: Document | None,
    authentication_type: str,
    *,
    is_known: bool = True,
    provider: Document | None = None,
) -> None:
    """Run the tenant's login validation lambda. `is_known`: the user exists, so that a rejection emits an event.

    `provider` is the identity provider of the login. Logins to the console run none. Raises LoginPrevented where the
    lambda rejects the login, and LambdaFailed.
    """
    if realm_rules.is_application(application):
        return
    tenant_id = TenantId(user["tenantId"])
    tenant = await services.configuration.tenants.get_cached(None, tenant_id)
    try:
        await login_validation_lambdas.require_login(
            services, call, tenant, user, application, authentication_type, provider
        )
    except LoginPrevented as error:
        services.runtime.authentication_metrics.count_login(authentication_type, type(error).__name__)
        result = lambda_rules.errors_response(error.fields, error.general)
        reason: Document = {"code": "lambdaValidation", "lambdaId": error.lambda_id, "lambdaResult": result}
        known = user if is_known else None
        await announce_failure(services, call, known, application, authentication_type, reason)
        raise


async def announce_failure(
    services: Services,
    call: Call,
    user: Document | None,
    application: Document | None,
    authentication_type: str,
    reason: Document,
) -> None:
    """Record the failure of an existing user and emit `user.login.failed`. A veto changes nothing."""
    if user is None:
        return
    application_id = None if application is None else application["id"]
    await login_failures.record(services, call, user, application_id, authentication_type, reason["code"])
    registration = _find_registration(user, application)
    event = user_events.user_event(
        "user.login.failed",
        user,
        applicationId=None if registration is None else registration["applicationId"],
        authenticationType=authentication_type,
        reason=reason,
    )
    with contextlib.suppress(WebhookTransactionFailed):
        await services.bus.request_approval(call.within(TenantId(user["tenantId"])), [event])


def with_login(user: Document, application: Document | None, call: Call) -> Document:
    """Return the user with the instant of this login, also on the registration for the application."""
    registrations = [
        {**entry, "lastLoginInstant": call.now}
        if application is not None and entry["applicationId"] == application["id"]
        else entry
        for entry in user["registrations"]
    ]
    return {**user, "lastLoginInstant": call.now, "registrations": registrations}


def _find_registration(user: Document, application: Document | None) -> Document | None:
    return None if application is None else user_rules.find_registration(user, application["id"])
