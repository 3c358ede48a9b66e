"""Password changes: forgotten, required and voluntary.

`start_reset` and `issue_required_change_id` issue change password ids; `get_valid_id` and `complete` redeem them, for
the API and the pages alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.two_factor import two_factor
from identity.domain.users import users as rules
from identity.errors import FieldError, Invalid, NotFound, Unavailable
from identity.events.changes import Event
from identity.ids import Secret, TenantId, UserId
from identity.operations.limits import failed_login_limits, message_limits
from identity.operations.login import failed_login_lockout, one_time_passwords, two_factor_challenges
from identity.operations.messaging import mail, user_events, user_notifications
from identity.operations.objects import crud
from identity.operations.passwords import change_password_ids, user_passwords
from identity.operations.passwords.change_password_ids import ChangePasswordDetails, ValidChangePasswordId
from identity.operations.sessions import session_termination, sso_sessions
from identity.operations.two_factor import two_factor_trust
from identity.operations.verification import email_verifications, verification_codes
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeTokenUse

PATH: Final = "password"
FORGOT_TEMPLATE: Final = "forgotPasswordEmailTemplateId"
SETUP_TEMPLATE: Final = "setPasswordEmailTemplateId"


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedTrust:
    """How a caller shows that a second factor was there: a trust token, with its challenge; or by having seen it."""

    token: str | None = dataclasses.field(default=None, repr=False)
    challenge: str | None = dataclasses.field(default=None, repr=False)
    is_given: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class PasswordChange:
    """A password that a user is to have, and what speaks for it.

    `uses` are used up in the write: of those who show them one gets through. `is_reset`: by a change password id.
    `is_forced`: the user had no choice, and it is never too early. `mailed_to`: the address that the id was mailed to,
    which counts while it is the user's, and is verified by that.
    """

    password: str = dataclasses.field(repr=False)
    uses: tuple[OneTimeTokenUse, ...] = ()
    is_reset: bool = False
    is_forced: bool = False
    mailed_to: str | None = None
    application: Document | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CompletedPasswordChange:
    """A change that was made; the one-time password logs the user in."""

    user: Document
    one_time_password: Secret
    state: Document | None


_NO_TRUST = PresentedTrust()


async def start_reset(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document | None = None,
    state: Document | None = None,
    *,
    send: bool = True,
    wanted: str | None = None,
) -> Secret:
    """Hand out an id for a user who forgot the password and, to `send`, mail it by the template there is.

    `wanted` is an id of the caller's choice. Raises Unavailable when the tenant allows no more for now, and Invalid.
    """
    await message_limits.count_message(services, tenant, "forgotPassword", user["id"])
    mailed_to = rules.email_address(user) if send else None
    about = ChangePasswordDetails(
        mailed_to=mailed_to, state=state, application_id=None if application is None else application["id"]
    )
    change_id = await change_password_ids.issue(services, tenant, user, about, wanted=wanted)
    call = call.within(TenantId(tenant["id"]))
    await services.bus.announce(call, [user_events.about("user.password.reset.start", user)])
    if send and await _send_mail(services, call, tenant, user, application, FORGOT_TEMPLATE, change_id, state):
        await services.bus.announce(call, [user_events.about("user.password.reset.send", user)])
    return change_id


async def send_setup_mail(
    services: Services, call: Call, tenant: Document, user: Document, application: Document | None = None
) -> None:
    """Mail a new user the id with which to set a first password."""
    about = ChangePasswordDetails(is_setup=True, mailed_to=rules.email_address(user))
    change_id = await change_password_ids.issue(services, tenant, user, about)
    await _send_mail(services, call, tenant, user, application, SETUP_TEMPLATE, change_id, None)


async def issue_required_change_id(
    services: Services,
    _call: Call,
    tenant: Document,
    user: Document,
    *,
    reason: str,
    state: Document | None = None,
    application: Document | None = None,
    is_trusted: bool = False,
) -> Secret:
    """Hand out an id to a user who knows the password, and has to change it before anything else.

    `reason` is Administrative, Breached, Expired or Validation. `is_trusted`: the second factor was there.
    """
    application_id = None if application is None else application["id"]
    about = ChangePasswordDetails(reason=reason, state=state, application_id=application_id, is_trusted=is_trusted)
    return await change_password_ids.issue(services, tenant, user, about)


async def request_reset(
    services: Services,
    call: Call,
    tenant: Document,
    login_id: str,
    types: Sequence[str] = rules.LOGIN_ID_TYPES,
    application: Document | None = None,
    state: Document | None = None,
) -> None:
    """Start a reset for an anonymous caller, without revealing whether the login id exists.

    The mail is rendered after the response is sent, so that response times reveal nothing either. Raises Unavailable
    when the IP address or the login id exceeds its limit, whether or not the login id exists.
    """
    tenant_id = TenantId(tenant["id"])
    await message_limits.count_message_from_address(services, call, tenant, "forgotPassword")
    await message_limits.count_message(services, tenant, "forgotPassword", rules.login_key(login_id))
    user = await services.users.find_by_login_id(tenant_id, login_id, types)
    if user is None or not user["active"] or rules.email_address(user) is None:
        return
    await services.background_work.begin(
        "forgot password", _start_reset_if_allowed(services, call, tenant, user, application, state)
    )


async def get_valid_id(services: Services, call: Call, change_id: str) -> ValidChangePasswordId:
    """What an id stands for, without using it; see `requires_trust_token` for what else it takes.

    One address may only try so many that are none: a tenant's ids may be short. Raises NotFound, and Unavailable.
    """
    limit = failed_login_limits.address_limits(call)
    counted_in = call.tenant_id or services.default_tenant_id
    wait_seconds = await services.rate_limits.consume(counted_in, limit)
    if wait_seconds is not None:
        raise failed_login_limits.too_many_attempts(wait_seconds)
    found = await change_password_ids.get_valid(services, call.tenant_id, change_id)
    await services.rate_limits.refund(counted_in, limit)
    return found


def requires_trust_token(tenant: Document, user: Document) -> bool:
    """Whether a user has a second factor without which nobody changes the password."""
    has_methods = bool(user["twoFactor"]["methods"])
    return has_methods and two_factor.is_challenged(tenant, None, user, is_trusted=False)


def trust_token_required() -> Invalid:
    """The error of a change that takes a trust token."""
    message = "The user has a second factor: a [trustToken] of a completed two-factor login is required."
    return Invalid.whole("[TrustTokenRequired]", message)


async def complete(
    services: Services,
    call: Call,
    change_id: str,
    password: str,
    *,
    current_password: str | None = None,
    trust: PresentedTrust = _NO_TRUST,
) -> CompletedPasswordChange:
    """Set the password of the user whom an id was made for; of many who show it one gets through.

    Raises NotFound for an id that does not count, Invalid for a password that breaks the rules, a trust token that is
    missing or wrong, and a wrong `current_password`; WebhookTransactionFailed, with the id still good.
    """
    found = await change_password_ids.get_valid(services, call.tenant_id, change_id)
    tenant, user, about = found.tenant, found.user, found.about
    tenant_id = TenantId(tenant["id"])
    if current_password is not None:
        await require_current_password(services, call, tenant, user, current_password)
    uses = await verify_trust(services, found, trust)
    application = await _find_application(services, tenant_id, about.application_id)
    change = PasswordChange(
        password,
        (services.one_time_tokens.use(tenant_id, change_password_ids.KIND, change_id), *uses),
        is_reset=True,
        is_forced=about.reason is not None or about.is_setup,
        mailed_to=about.mailed_to,
        application=application,
    )
    changed = await change_password(services, call, tenant, user["id"], change)
    had_factor = trust.is_given or bool(uses)
    trusted_at = (about.application_id or one_time_passwords.TENANT_ALONE) if about.is_trusted else None
    login = one_time_passwords.OneTimePasswordDetails(about.state, has_second_factor=had_factor, trusted_at=trusted_at)
    return CompletedPasswordChange(
        changed, await one_time_passwords.issue(services, tenant, changed, login), about.state
    )


async def verify_trust(
    services: Services, found: ValidChangePasswordId, trust: PresentedTrust
) -> tuple[OneTimeTokenUse, ...]:
    """What is used up where a user has a second factor. Raises Invalid without a trust token that is good."""
    if trust.is_given or found.about.is_trusted or not requires_trust_token(found.tenant, found.user):
        return ()
    if trust.token is None:
        raise trust_token_required()
    if not await two_factor_trust.is_valid_trust_token(services, found.user, trust.token, trust.challenge):
        raise Invalid.field("invalid", "trustToken", "The [trustToken] is not one of this user, or is over.")
    return (two_factor_trust.trust_token_use(services, found.user, trust.token),)


async def change_password(
    services: Services, call: Call, tenant: Document, user_id: str, change: PasswordChange
) -> Document:
    """Give a user a new password, whoever vouches for it; answers the user. Raises as `complete` does.

    What was handed out for a change before counts no more, sessions end, and refresh tokens where the tenant has it.
    """
    tenant_id = TenantId(tenant["id"])
    call = call.within(tenant_id)

    async def attempt() -> tuple[Document, bool]:
        stored = await services.users.get(tenant_id, user_id)
        _require_unchanged(stored, change)
        user = await _with_new_password(services, call, tenant, stored, change)
        verifies = _verifies_email(tenant, stored, change)
        if verifies:
            user = rules.with_verified_email(user, "Implicit", call.now)
        await _commit(services, call, tenant, stored, rules.with_derived_members(user), change, verifies=verifies)
        return user, verifies

    user, verifies = await crud.retry_on_conflict(attempt)
    await revoke_outstanding(services, user)
    if change.is_reset:
        await failed_login_lockout.cancel_lock_out(services, call, tenant, user)
    if verifies:
        await verification_codes.revoke(services, tenant_id, email_verifications.KIND, user_id)
    name: user_notifications.Template = "passwordUpdateEmailTemplateId"
    if change.is_reset and user_notifications.template_of(
        tenant, change.application, "passwordResetSuccessEmailTemplateId"
    ):
        name = "passwordResetSuccessEmailTemplateId"
    await user_notifications.tell(services, call, tenant, user, name, application=change.application)
    return user


async def _start_reset_if_allowed(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document | None,
    state: Document | None,
) -> None:
    """A user who gets no more mails for now gets none; nobody is there to be told."""
    with contextlib.suppress(Unavailable):
        await start_reset(services, call, tenant, user, application, state)


async def revoke_outstanding(services: Services, user: Document) -> None:
    """After a new password, however it came about: what was handed out for the one before is worth nothing now."""
    await change_password_ids.revoke_all(services, user)
    await one_time_passwords.revoke_all(services, user)
    await two_factor_challenges.revoke_challenges(services, user)


async def require_current_password(
    services: Services, call: Call, tenant: Document, user: Document, password: str
) -> None:
    """Raise Invalid for a wrong `currentPassword`, and Unavailable after too many: they count as failed logins do."""
    attempt = await failed_login_limits.count_attempt(services, call, tenant, user)
    if attempt.wait_seconds is not None:
        raise failed_login_limits.too_many_attempts(attempt.wait_seconds)
    if not await user_passwords.is_correct(services, tenant, user, password):
        raise wrong_current_password()
    await failed_login_limits.give_back(services, tenant, attempt)


def wrong_current_password() -> Invalid:
    """The error of a `currentPassword` that is not the user's."""
    return Invalid.field("invalid", "currentPassword", "The [currentPassword] is not the user's password.")


def _require_unchanged(stored: Document, change: PasswordChange) -> None:
    """Raise NotFound where the user was locked, or left the address of the id, since the id was looked at."""
    if change.is_reset and not stored["active"]:
        raise NotFound(log_detail="the user was deactivated meanwhile")
    if change.mailed_to not in {None, rules.email_address(stored)}:
        raise NotFound(log_detail="the user has another address meanwhile")


async def _with_new_password(
    services: Services, call: Call, tenant: Document, stored: Document, change: PasswordChange
) -> Document:
    """The user with the new password. Raises Invalid."""
    password = user_passwords.under_tenant_scheme(tenant, change.password)
    is_forced = change.is_forced or stored["passwordChangeRequired"]
    errors: list[FieldError] = user_passwords.policy_problems(tenant, stored, password, PATH)
    if not errors:
        errors = await user_passwords.change_problems(
            services, tenant, stored, password, call.now, PATH, is_forced=is_forced
        )
    crud.require_no_errors(errors)
    user = await user_passwords.with_password(services, tenant, stored, password, call.now)
    user = {name: value for name, value in user.items() if name != "passwordChangeReason"}
    moved = max(call.now, int(stored["lastUpdateInstant"]) + 1)
    return {**user, "passwordChangeRequired": False, "lastUpdateInstant": moved}


def _verifies_email(tenant: Document, stored: Document, change: PasswordChange) -> bool:
    is_allowed = tenant["emailConfiguration"]["implicitEmailVerificationAllowed"]
    is_proven = change.mailed_to is not None and change.mailed_to == stored.get("email")
    return bool(is_proven and is_allowed and not stored["verified"])


async def _commit(
    services: Services,
    call: Call,
    tenant: Document,
    stored: Document,
    user: Document,
    change: PasswordChange,
    *,
    verifies: bool,
) -> None:
    tenant_id = TenantId(tenant["id"])
    ends = tenant["jwtConfiguration"]["refreshTokenRevocationPolicy"]["onPasswordChanged"]
    sign_out = await session_termination.prepare(services, call, user) if ends else None
    offered = [*(sign_out.events if sign_out else ()), *(user_events.of_verified_email(user) if verifies else ())]

    async def write(session: Session | None) -> None:
        for use in change.uses:
            if not await use.consume():
                raise NotFound(log_detail="what allowed the change of password was used meanwhile")
        await change_password_ids.revoke_all(services, user)
        await services.users.replace(tenant_id, user, stored["lastUpdateInstant"], session)

    together = session_termination.together(services, call, sign_out, write)
    await services.bus.perform(call, together, offered, _password_events(user, change))
    await session_termination.finish(services, call, sign_out)
    await sso_sessions.end_all(services, call, tenant_id, UserId(user["id"]))


def _password_events(user: Document, change: PasswordChange) -> list[Event]:
    names = ["user.password.reset.success", "user.password.update"] if change.is_reset else ["user.password.update"]
    return [user_events.about(name, user) for name in names]


async def _send_mail(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document | None,
    name: str,
    change_id: str,
    state: Document | None,
) -> bool:
    """Mail an id; whether there was a template, and it could be rendered."""
    template_id = user_notifications.template_of(tenant, application, name)
    if template_id is None:
        return False
    data: Document = {"changePasswordId": change_id, "state": state or {}}
    tenant_id = TenantId(tenant["id"])
    return not await mail.send(services, call, tenant_id, template_id, user, data, application=application)


async def _find_application(services: Services, tenant_id: TenantId, application_id: str | None) -> Document | None:
    return None if application_id is None else await services.applications.find_cached(tenant_id, application_id)
