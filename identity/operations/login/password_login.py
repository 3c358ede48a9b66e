"""Logging a user in with a password: who it is, whether they may try, what they still have to do, what is told.

Failures are limited by `login_limits`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.lambdas import lambdas as lambda_rules
from identity.domain.login import login_outcomes as steps
from identity.domain.login.login_outcomes import Authenticated, LoggedIn, LoginResult, TooManyAttempts, WrongCredentials
from identity.domain.users import users as rules
from identity.errors import LoginPrevented, Unavailable, WebhookTransactionFailed
from identity.events.changes import Event
from identity.ids import ApplicationId, TenantId, UserId
from identity.operations.lambdas import login_validation_lambdas
from identity.operations.limits import failed_login_limits
from identity.operations.login import failed_login_lockout, login_breach_detection, login_records, threat_detection
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.login.threat_detection import ThreatAssessment
from identity.operations.messaging import user_events
from identity.operations.objects import crud
from identity.operations.passwords import user_passwords
from identity.operations.two_factor import two_factor_policy
from identity.services import Services
from identity.store.mongo import Session


@dataclasses.dataclass(frozen=True, slots=True)
class Credentials:
    """What somebody shows; `types` are the types of login id that are tried, `trust_id` tells of a trusted device.

    `may_be_token`: in place of the password the application's authentication token is taken, too.
    """

    login_id: str
    password: str = dataclasses.field(repr=False)
    types: Sequence[str] = rules.LOGIN_ID_TYPES
    trust_id: str | None = dataclasses.field(default=None, repr=False)
    may_be_token: bool = False


async def authenticate(
    services: Services,
    call: Call,
    credentials: Credentials,
    application: Document | None,
    *,
    authentication_type: str = "PASSWORD",
    is_new_device: bool = False,
) -> LoginResult:
    """Log in a user of the call's tenant with a password, for an application or for none.

    An unknown user costs and answers what a wrong password does. `is_new_device`: the caller has not seen the user's
    device before, and webhooks are told. Raises WebhookTransactionFailed when a webhook vetoes
    the login, LoginPrevented when the tenant's lambda does, Unavailable when too many passwords wait to be compared.
    """
    tenant_id = crud.require_tenant(call)
    tenant = await services.tenants.get_cached(None, tenant_id)
    user = await services.users.find_by_login_id(tenant_id, credentials.login_id, credentials.types)
    counted = await failed_login_limits.count_attempt(services, call, tenant, user, credentials.login_id)
    if counted.wait_seconds is not None:
        return TooManyAttempts(counted.wait_seconds)
    is_token = _is_authentication_token(credentials, user, application)
    if is_token:
        authentication_type = "APPLICATION_TOKEN"
    attempt = await failed_login_lockout.count_attempt(services, call, tenant, user, credentials.login_id)
    try:
        is_correct = is_token or await user_passwords.is_correct(services, tenant, user, credentials.password)
    except Unavailable:
        # Nothing was compared: who tries again while the service is busy must not lock the account that way.
        await failed_login_limits.give_back(services, tenant, counted)
        await failed_login_lockout.refund_attempt(services, attempt)
        raise
    if attempt is not None and attempt.is_locked:
        # Whatever the password was: whoever is told right from wrong goes on guessing.
        return await failed_login_lockout.extend_lock_out(services, call.within(tenant_id), attempt)
    if not is_correct or user is None:
        # When the answer is out: for a user who does not exist there is nothing to tell, and no time may tell that.
        telling = _announce_failure(services, call, user, application, authentication_type, {"code": "credentials"})
        await services.background_work.begin("failed login", telling)
        await failed_login_lockout.record_failure(services, call.within(tenant_id), attempt)
        return WrongCredentials()
    await failed_login_lockout.clear_failures(services, attempt)
    await failed_login_limits.give_back(services, tenant, counted)
    kind = rules.may_log_in_as(user, credentials.login_id, credentials.types)
    password = None if is_token else credentials.password
    proven = Authenticated(tenant, application, user, call.now, password)
    proven, side_effects = await _check_breach(services, call, proven)
    proven = await two_factor_policy.apply_device_trust(services, call, proven, credentials.trust_id)
    return await continue_login(
        services,
        call,
        proven,
        authentication_type,
        identity_type=kind,
        is_new_device=is_new_device,
        side_effects=side_effects,
    )


async def _check_breach(
    services: Services, call: Call, proven: Authenticated
) -> tuple[Authenticated, LoginSideEffects | None]:
    """The login with its user as marked by what is found of the password, and what comes true with it."""
    if not proven.user["active"] or proven.password is None:
        return proven, None
    finding = await login_breach_detection.check_login(services, call, proven.tenant, proven.user, proven.password)
    if finding is None:
        return proven, None
    return dataclasses.replace(proven, user=finding.user), finding.side_effects


async def continue_login(
    services: Services,
    call: Call,
    proven: Authenticated,
    authentication_type: str,
    *,
    identity_type: str | None = None,
    is_new_device: bool = False,
    side_effects: LoginSideEffects | None = None,
) -> LoginResult:
    """What follows right credentials, whatever they were: what is still to be done, or the completed login.

    `along` comes true in both cases. Raises as `complete_login` does.
    """
    halt = steps.find_halt(proven)
    if isinstance(halt, steps.SecondFactorRequired):
        halt = dataclasses.replace(halt, authentication_type=authentication_type, identity_type=identity_type)
    result: LoginResult
    if halt is None:
        result = await complete_login(
            services,
            call,
            proven.user,
            proven.application,
            authentication_type,
            identity_type=identity_type,
            is_new_device=is_new_device,
            side_effects=side_effects,
        )
    else:
        result = halt
        await _commit_side_effects(services, call.within(TenantId(proven.tenant["id"])), side_effects)
    if proven.password is not None and (halt is None or isinstance(halt, steps.SecondFactorRequired)):
        # When the second factor comes, the password is not known any more. A busy service does it at another login.
        with contextlib.suppress(Unavailable):
            await user_passwords.rehash(services, proven.tenant, proven.user, proven.password)
    return result


async def _commit_side_effects(services: Services, call: Call, side_effects: LoginSideEffects | None) -> None:
    """Let come true what goes along with a login that something is missing to."""
    if side_effects is not None:
        await services.bus.perform(call, side_effects.write, side_effects.around([]), side_effects.announced)
        await side_effects.committed()


async def complete_login(
    services: Services,
    call: Call,
    user: Document,
    application: Document | None,
    authentication_type: str,
    *,
    identity_type: str | None = None,
    is_new_device: bool = False,
    side_effects: LoginSideEffects | None = None,
) -> LoggedIn:
    """Finish a login to which nothing is missing: note it and tell of it.

    Raises LoginPrevented when the tenant's lambda refuses it, LambdaFailed, and WebhookTransactionFailed. A PING is no
    login that a lambda would be asked about.
    """
    tenant_id, user_id = TenantId(user["tenantId"]), UserId(user["id"])
    application_id = None if application is None else application["id"]
    if authentication_type != "PING":
        await run_validation_lambda(services, call.within(tenant_id), user, application, authentication_type)
    user = with_login(user, application, call)
    registration = None if application is None else rules.find_registration(user, application["id"])
    registered_id = None if registration is None else ApplicationId(registration["applicationId"])
    judgement = assess_threats(services, call, user, authentication_type, is_new_device=is_new_device)
    extra = {} if side_effects is None else side_effects.told
    events = login_events(judgement, user, application, authentication_type, **extra)

    async def write(session: Session | None) -> None:
        if side_effects is not None:
            await side_effects.write(session)
        await services.users.record_login(
            tenant_id, user_id, registered_id, call.now, identity_type, session, place=judgement.place
        )
        await login_records.add(services, call, user, application_id, session, identity_type=identity_type)

    offered, announced = (events, ()) if side_effects is None else (side_effects.around(events), side_effects.announced)
    await services.bus.perform(call.within(tenant_id), write, offered, announced)
    if side_effects is not None:
        await side_effects.committed()
    await threat_detection.notify_user(services, call, user, application, judgement)
    return LoggedIn(user, registration, authentication_type, judgement.threats)


def _is_authentication_token(credentials: Credentials, user: Document | None, application: Document | None) -> bool:
    """Whether what stands in place of the password is the token that the user has for the application."""
    if not credentials.may_be_token or user is None or application is None:
        return False
    return rules.is_authentication_token(user, application, credentials.password)


async def resume_session(services: Services, call: Call, user: Document, application: Document) -> LoggedIn:
    """Note the use of a session, and write its record, once a minute at the most; webhooks are told of every one.

    Raises WebhookTransactionFailed.
    """
    if not steps.is_recently_recorded(user, application["id"], call.now):
        return await complete_login(services, call, user, application, "PING")
    user = with_login(user, application, call)
    event = login_event("user.login.success", user, application, "PING")
    await services.bus.request_approval(call.within(TenantId(user["tenantId"])), [event])
    return LoggedIn(user, rules.find_registration(user, application["id"]))


def assess_threats(
    services: Services, call: Call, user: Document, authentication_type: str, *, is_new_device: bool
) -> ThreatAssessment:
    """What is to be told of a login beside that it happened. A PING is none: nobody authenticated."""
    if authentication_type == "PING":
        return ThreatAssessment(is_new_device, (), None)
    return threat_detection.assess(services, call, user, is_new_device=is_new_device)


def login_events(
    judgement: ThreatAssessment, user: Document, application: Document | None, authentication_type: str, **extra: object
) -> list[Event]:
    """The events about a login that is complete, in their order."""
    return [
        login_event(name, user, application, authentication_type, **extra, **judgement.members(name))
        for name in judgement.event_types
    ]


def login_event(
    event_type: str, user: Document, application: Document | None, authentication_type: str, **extra: object
) -> Event:
    """An event about a login that is complete; the application is named where the user is registered for it."""
    registration = None if application is None else rules.find_registration(user, application["id"])
    return user_events.about(
        event_type,
        user,
        applicationId=None if registration is None else registration["applicationId"],
        authenticationType=authentication_type,
        connectorId=user["connectorId"],
        **extra,
    )


async def run_validation_lambda(
    services: Services,
    call: Call,
    user: Document,
    application: Document | None,
    authentication_type: str,
    *,
    is_known: bool = True,
) -> None:
    """Ask the tenant's lambda. Raises LoginPrevented, of which webhooks hear if the user exists, and LambdaFailed."""
    tenant_id = TenantId(user["tenantId"])
    tenant = await services.tenants.get_cached(None, tenant_id)
    try:
        await login_validation_lambdas.require_login(services, call, tenant, user, application, authentication_type)
    except LoginPrevented as error:
        result = lambda_rules.shown_errors(error.fields, error.general)
        reason: Document = {"code": "lambdaValidation", "lambdaId": error.lambda_id, "lambdaResult": result}
        known = user if is_known else None
        await _announce_failure(services, call, known, application, authentication_type, reason)
        raise


async def _announce_failure(
    services: Services,
    call: Call,
    user: Document | None,
    application: Document | None,
    authentication_type: str,
    reason: Document,
) -> None:
    """Tell of a failed login of an existing user. There is nothing to veto: the login stays failed."""
    if user is None:
        return
    registration = None if application is None else rules.find_registration(user, application["id"])
    event = user_events.about(
        "user.login.failed",
        user,
        applicationId=None if registration is None else registration["applicationId"],
        authenticationType=authentication_type,
        reason=reason,
    )
    try:
        await services.bus.request_approval(call.within(TenantId(user["tenantId"])), [event])
    except WebhookTransactionFailed:
        return


def with_login(user: Document, application: Document | None, call: Call) -> Document:
    """The user as the login leaves it."""
    registrations = [
        {**entry, "lastLoginInstant": call.now}
        if application is not None and entry["applicationId"] == application["id"]
        else entry
        for entry in user["registrations"]
    ]
    return {**user, "lastLoginInstant": call.now, "registrations": registrations}
