"""Password changes: forgotten, required and voluntary.

`start_reset` and `issue_required_change_id` issue change password ids; `get_valid_id` and `complete` redeem them, for
the API and the pages alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import urllib.parse
from collections.abc import Sequence
from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.clients.oauth_settings import client_id_of
from identity.domain.configuration import administrator_realm as realm_rules
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.login.login_outcomes import PasswordChangeRequired
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.objects.owner_settings import EmailVerification, RevocationPolicy
from identity.domain.users import users as user_rules
from identity.errors import FieldError, Invalid, NotFound, Unavailable
from identity.events.changes import Change, Event
from identity.ids import Secret, TenantId, UserId
from identity.operations.groups import administrator_realm
from identity.operations.limits import failed_login_limits, message_limits
from identity.operations.login import (
    failed_login_lockout,
    one_time_passwords,
    second_factor_decisions,
    two_factor_challenges,
)
from identity.operations.messaging import mail, user_events, user_notifications
from identity.operations.objects import application_lookup, crud, event_logs, user_lookup
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
_LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
NO_BASE_URL: Final = (
    "A mail was not sent: its link needs the address of the service. Set server.base_url or"
    " the baseURL of the tenant, or name a template."
)
SETUP_TEMPLATE: Final = "setPasswordEmailTemplateId"


@dataclasses.dataclass(frozen=True, slots=True)
class PresentedTrust:
    """Evidence of a completed second factor: a trust token with its challenge, or `is_verified` by the caller."""

    token: str | None = dataclasses.field(default=None, repr=False)
    challenge: str | None = dataclasses.field(default=None, repr=False)
    is_verified: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class PasswordChange:
    """A new password, with what authorizes the change.

    `uses` are consumed in the write; of concurrent changes with the same use one succeeds. `is_reset`: a change
    password id authorizes it. `is_forced`: the change was required, so that the minimum password age does not apply.
    `mailed_to`: the address to which the id was mailed; it has to be the user's, and the change verifies it.
    """

    password: str = dataclasses.field(repr=False)
    uses: tuple[OneTimeTokenUse, ...] = ()
    is_reset: bool = False
    is_forced: bool = False
    mailed_to: str | None = None
    application: Document | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CompletedPasswordChange:
    """A completed change; the user can log in with the one-time password."""

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
    requested_id: str | None = None,
) -> Secret:
    """Issue an id for a user who forgot the password and, with `send`, mail it if there is a template.

    `requested_id` is chosen by the caller. The mail to an administrator leads to a page of the console, without the
    `state` of the request. Raises Invalid if the id is in use, and Unavailable when the tenant's limit is exceeded.
    """
    tenant = await administrator_realm.of_user(services, tenant, user)
    if send and realm_rules.is_realm(tenant):
        application = await application_lookup.find(services, TenantId(tenant["id"]), ADMINISTRATOR_APPLICATION_ID)
        state = None
    await message_limits.count_message(services, tenant, "forgotPassword", user["id"])
    mailed_to = user_rules.email_address(user) if send else None
    details = ChangePasswordDetails(
        mailed_to=mailed_to, state=state, application_id=None if application is None else application["id"]
    )
    change_id = await change_password_ids.issue(services, tenant, user, details, requested_id=requested_id)
    call = call.within(TenantId(tenant["id"]))
    await services.bus.announce(call, [user_events.user_event("user.password.reset.start", user)])
    if send and await _send_mail(services, call, tenant, user, application, FORGOT_TEMPLATE, change_id, state):
        await services.bus.announce(call, [user_events.user_event("user.password.reset.send", user)])
    return change_id


async def send_setup_mail(
    services: Services, call: Call, tenant: Document, user: Document, application: Document | None = None
) -> None:
    """Mail a new user the id with which to set a first password."""
    tenant = await administrator_realm.of_user(services, tenant, user)
    details = ChangePasswordDetails(is_setup=True, mailed_to=user_rules.email_address(user))
    change_id = await change_password_ids.issue(services, tenant, user, details)
    await _send_mail(services, call, tenant, user, application, SETUP_TEMPLATE, change_id, None)


async def issue_required_change_id(
    services: Services,
    tenant: Document,
    requirement: PasswordChangeRequired,
    application: Document | None,
    state: Document | None = None,
) -> Secret:
    """Issue an id to a user who logged in and has to change the password."""
    details = ChangePasswordDetails(
        reason=requirement.reason,
        state=state,
        application_id=None if application is None else application["id"],
        is_trusted=requirement.has_second_factor,
    )
    return await change_password_ids.issue(services, tenant, requirement.user, details)


async def request_reset(
    services: Services,
    call: Call,
    tenant: Document,
    login_id: str,
    types: Sequence[str] | None = None,
    application: Document | None = None,
    state: Document | None = None,
) -> None:
    """Start a reset for an anonymous caller, without revealing whether the login id exists.

    Without `types` the login id was typed by a user, see `user_lookup.find_typed`.
    The mail is rendered after the response is sent, so that response times reveal nothing either. Raises Unavailable
    when the IP address or the login id exceeds its limit, whether or not the login id exists.
    """
    await message_limits.count_message_from_address(services, call, tenant, "forgotPassword")
    await message_limits.count_message(services, tenant, "forgotPassword", user_rules.limit_key(login_id))
    if types is None:
        user = await user_lookup.find_typed(services, tenant, login_id)
    else:
        user = await services.directory.users.find_by_login_id(TenantId(tenant["id"]), login_id, types)
    if user is None or not user["active"] or user_rules.email_address(user) is None:
        return
    await services.runtime.background_work.begin(
        "forgot password", _start_reset_if_allowed(services, call, tenant, user, application, state)
    )


async def get_valid_id(services: Services, call: Call, change_id: str) -> ValidChangePasswordId:
    """Return a valid id without consuming it; see `requires_trust_token` for what else the change requires.

    The number of invalid ids per IP address is limited, since a tenant can configure short ids. Raises NotFound and
    Unavailable.
    """
    async with failed_login_limits.address_attempt(services, call):
        return await change_password_ids.get_valid(services, call.tenant_id, change_id)


async def requires_trust_token(services: Services, call: Call, tenant: Document, user: Document) -> bool:
    """Return whether a password change requires a second factor: that of every user who has one, unless exempted.

    A user without a second factor, of whom a lambda requires one, has none to complete.
    """
    if not user["twoFactor"]["methods"]:
        return False
    action = second_factor_decisions.CREDENTIAL_CHANGE
    return await second_factor_decisions.is_required_for_action(services, call, tenant, None, user, action)


def trust_token_required() -> Invalid:
    """Return the error of a change without the required trust token."""
    message = (
        "The user has two-factor authentication enabled. A [trustToken] of a completed two-factor login is required."
    )
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
    """Set the password of the user of an id; of concurrent callers with the same id one succeeds.

    Raises:
        NotFound: the id is not valid.
        Invalid: the password violates a rule, the trust token is missing or invalid, or `current_password` is
            incorrect.
        WebhookTransactionFailed: a webhook vetoed the change; the id remains valid.
    """
    found = await change_password_ids.get_valid(services, call.tenant_id, change_id)
    tenant, user, details = found.tenant, found.user, found.details
    tenant_id = TenantId(tenant["id"])
    if current_password is not None:
        await require_current_password(services, call, tenant, user, current_password)
    uses = await verify_trust(services, call, found, trust)
    application = await application_lookup.find(services, tenant_id, details.application_id)
    change = PasswordChange(
        password,
        (services.tokens.one_time_tokens.use(tenant_id, change_password_ids.KIND, change_id), *uses),
        is_reset=True,
        is_forced=details.reason is not None or details.is_setup,
        mailed_to=details.mailed_to,
        application=application,
    )
    changed = await change_password(services, call, tenant, user["id"], change)
    had_factor = trust.is_verified or bool(uses)
    trusted_at = (details.application_id or one_time_passwords.TENANT_ALONE) if details.is_trusted else None
    login = one_time_passwords.OneTimePasswordDetails(
        details.state, has_second_factor=had_factor, trusted_at=trusted_at
    )
    return CompletedPasswordChange(
        changed, await one_time_passwords.issue(services, tenant, changed, login), details.state
    )


async def verify_trust(
    services: Services, call: Call, found: ValidChangePasswordId, trust: PresentedTrust
) -> tuple[OneTimeTokenUse, ...]:
    """Return the single use of the trust token, if the change requires one. Raises Invalid without a valid one."""
    if trust.is_verified or found.details.is_trusted:
        return ()
    if not await requires_trust_token(services, call, found.tenant, found.user):
        return ()
    if trust.token is None:
        raise trust_token_required()
    if not await two_factor_trust.is_valid_trust_token(services, found.user, trust.token, trust.challenge):
        raise Invalid.field("invalid", "trustToken", "The [trustToken] has expired or belongs to another user.")
    return (two_factor_trust.trust_token_use(services, found.user, trust.token),)


async def change_password(
    services: Services, call: Call, tenant: Document, user_id: str, change: PasswordChange
) -> Document:
    """Set a user's password and return the user. Raises as `complete` does.

    Outstanding ids, one-time passwords and challenges become invalid. SSO sessions end, and refresh tokens are revoked
    if the tenant configures it.
    """
    tenant_id = TenantId(tenant["id"])
    call = call.within(tenant_id)
    user, verifies = await _attempt_change(services, call, tenant, user_id, change)
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
    await user_notifications.notify(services, call, tenant, user, name, application=change.application)
    return user


@crud.retry_on_conflict
async def _attempt_change(
    services: Services, call: Call, tenant: Document, user_id: str, change: PasswordChange
) -> tuple[Document, bool]:
    """Set the password once; return the user, and whether the change verified the email address. Raises Conflict."""
    stored = await services.directory.users.get(TenantId(tenant["id"]), user_id)
    _require_unchanged(stored, change)
    user = await _with_new_password(services, call, tenant, stored, change)
    verifies = _verifies_email(tenant, stored, change)
    if verifies:
        user = user_rules.with_verified_email(user, "Implicit", call.now)
    await _commit(services, call, tenant, stored, user_rules.with_derived_members(user), change, verifies=verifies)
    return user, verifies


async def _start_reset_if_allowed(
    services: Services,
    call: Call,
    tenant: Document,
    user: Document,
    application: Document | None,
    state: Document | None,
) -> None:
    """Start a reset, unless the user's limit of messages is exceeded, which the anonymous caller does not learn."""
    with contextlib.suppress(Unavailable):
        await start_reset(services, call, tenant, user, application, state)


async def revoke_outstanding(services: Services, user: Document) -> None:
    """After any change of the password: revoke change password ids, one-time passwords and two-factor challenges."""
    await change_password_ids.revoke_all(services, user)
    await one_time_passwords.revoke_all(services, user)
    await two_factor_challenges.revoke_challenges(services, user)


async def require_current_password(
    services: Services, call: Call, tenant: Document, user: Document, password: str
) -> None:
    """Raise Invalid for an incorrect `currentPassword`, which counts as a failed login.

    Raises Unavailable after too many, and, without counting the attempt, if no password can be verified now.
    """
    attempt = await failed_login_limits.count_attempt(services, call, tenant, user)
    if attempt.wait_seconds is not None:
        raise failed_login_limits.too_many_attempts(attempt.wait_seconds)
    try:
        is_correct = await user_passwords.is_correct(services, tenant, user, password)
    except Unavailable:
        await failed_login_limits.refund_attempt(services, tenant, attempt)
        raise
    if not is_correct:
        raise wrong_current_password()
    await failed_login_limits.refund_attempt(services, tenant, attempt)


def wrong_current_password() -> Invalid:
    """Return the error of an incorrect `currentPassword`."""
    return Invalid.field("invalid", "currentPassword", "The [currentPassword] is not the user's password.")


def _require_unchanged(stored: Document, change: PasswordChange) -> None:
    """Raise NotFound if the user was deactivated, or changed the address that the id was mailed to, in the meantime."""
    if change.is_reset and not stored["active"]:
        raise NotFound(log_detail="the user was deactivated meanwhile")
    if change.mailed_to not in {None, user_rules.email_address(stored)}:
        raise NotFound(log_detail="the user has another address meanwhile")


async def _with_new_password(
    services: Services, call: Call, tenant: Document, stored: Document, change: PasswordChange
) -> Document:
    """Return the next version of the user, with the new password. Raises Invalid."""
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
    version = max(call.now, int(stored["lastUpdateInstant"]) + 1)
    return {**user, "passwordChangeRequired": False, "lastUpdateInstant": version}


def _verifies_email(tenant: Document, stored: Document, change: PasswordChange) -> bool:
    is_allowed = EmailVerification.of(tenant).implicit_email_verification_allowed
    is_own_address = change.mailed_to is not None and change.mailed_to == stored.get("email")
    return is_own_address and is_allowed and not stored["verified"]


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
    revokes = RevocationPolicy.of(tenant).on_password_changed
    termination = await session_termination.prepare(services, call, user) if revokes else None
    await services.bus.commit(
        call,
        Change(
            writes=[
                functools.partial(_write, services, call, stored, user, change),
                *session_termination.writes(services, call, termination),
            ],
            before_commit=[
                *(termination.events if termination else ()),
                *(user_events.email_verified(user) if verifies else ()),
            ],
            after_commit=_password_events(user, change),
        ),
    )
    await session_termination.finish(services, call, termination)
    await sso_sessions.end_all(services, call, TenantId(tenant["id"]), UserId(user["id"]))


async def _write(
    services: Services, call: Call, stored: Document, user: Document, change: PasswordChange, session: Session | None
) -> None:
    """Write a new password; one that the user did not choose while logged in ends the trust in devices."""
    for use in change.uses:
        if not await use.consume():
            raise NotFound(log_detail="the token that authorizes the password change was used meanwhile")
    await change_password_ids.revoke_all(services, user)
    if isinstance(call.caller, ApiKeyCaller) or change.mailed_to is not None:
        await two_factor_trust.revoke_all(services, user, session)
    await services.directory.users.replace(TenantId(user["tenantId"]), user, stored["lastUpdateInstant"], session)


def _password_events(user: Document, change: PasswordChange) -> list[Event]:
    names = ["user.password.reset.success", "user.password.update"] if change.is_reset else ["user.password.update"]
    return [user_events.user_event(name, user) for name in names]


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
    """Mail an id; False without a template, or if it could not be rendered."""
    template_id = user_notifications.template_of(tenant, application, name)
    if template_id is None:
        if realm_rules.is_realm(tenant):
            await event_logs.record(services, call, "Error", administrator_realm.NO_MAIL_SERVER)
        return False
    data: Document = {"changePasswordId": change_id, "state": state or {}}
    if isinstance(template_id, BuiltinMail):
        base_url = trusted_base_url(services, call, tenant)
        if base_url is None:
            await event_logs.record(services, call.within(TenantId(tenant["id"])), "Error", NO_BASE_URL)
            return False
        data["link"] = f"{base_url}{_change_path(tenant, application, change_id, state or {})}"
    tenant_id = TenantId(tenant["id"])
    return not await mail.send(services, call, tenant_id, template_id, user, data, application=application)


def trusted_base_url(services: Services, call: Call, tenant: Document) -> str | None:
    """Return the URL of the service for links of mails; None if only the Host header of a request has it.

    Anyone can request a mail to a user, and would choose where its link leads.
    """
    configured: str | None = services.config.server.base_url or tenant.get("baseURL")
    if configured is not None:
        return configured.rstrip("/")
    host = urllib.parse.urlsplit(call.origin.base_url).hostname
    return call.origin.base_url if host in _LOOPBACK_HOSTS else None


def _change_path(tenant: Document, application: Document | None, change_id: str, state: Document) -> str:
    """Return the path of the page that changes the password; `state` is the login that continues afterwards."""
    query = {name: value for name, value in state.items() if isinstance(value, str)} | {"tenantId": tenant["id"]}
    query |= {} if application is None else {"client_id": client_id_of(application)}
    return f"/password/change/{change_id}?{urllib.parse.urlencode(query)}"
