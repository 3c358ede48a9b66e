"""The account pages: users see, change, download and delete their own account; only the session identifies the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from identity.call import Call, Document
from identity.domain.configuration import administrator_realm
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.passwords import password_hashing
from identity.domain.two_factor import two_factor
from identity.domain.users import self_registration
from identity.domain.users import users as user_rules
from identity.domain.users.self_registration import RegistrationField
from identity.errors import FieldError, Invalid, Unavailable, WrongCode
from identity.ids import TenantId, UserId
from identity.instants import later
from identity.operations.authorization import account_logins, authorization, current_logins
from identity.operations.clients.clients import Client
from identity.operations.groups import administrators
from identity.operations.limits import failed_login_limits
from identity.operations.login_transactions.authorization_steps import Browser, CurrentLogin
from identity.operations.objects import crud
from identity.operations.pages import page_messages
from identity.operations.password_changes import password_changes
from identity.operations.password_changes.password_changes import PasswordChange
from identity.operations.passwords import user_passwords
from identity.operations.sessions import sso_sessions
from identity.operations.two_factor import two_factor_methods
from identity.operations.two_factor.two_factor_codes import CodeAddress
from identity.operations.users import data_export, users
from identity.operations.verification import email_change_requests, email_changes, phone_changes
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services
from identity.store.rate_limits import Limit

RECENT_LOGIN_SECONDS: Final = 900
"""The maximum age of a login that changes the password, the address or the two-factor methods."""

Confirmation = Literal["currentPassword", "code"]
"""The field that confirms the change of a login identifier."""

CONFIRMATION: Final = "confirmation"
"""The field that confirms a deletion with the login id."""

_PASSWORD_FAILURES: Final = 10
_PASSWORD_SECONDS: Final = 900
_MERGE: Final = "application/merge-patch+json"
_EMAIL: Final = RegistrationField("email", is_required=True)
_DEFAULT_PROFILE: Final = (
    RegistrationField("firstName", is_required=False),
    RegistrationField("lastName", is_required=False),
    RegistrationField("preferredLanguages", is_required=False),
)
_LANGUAGES: Final = "preferredLanguages"
_HIDDEN_REASONS: Final = ("[duplicate]", "[inactive]", "[blocked]", "[notEmail]")
_EXPORTS: Final = 5
_EXPORT_SECONDS: Final = 3600


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """The signed-in user, as stored now."""

    client: Client
    user: Document
    current: CurrentLogin

    @property
    def user_id(self) -> UserId:
        """The id of the user, which comes from the session alone."""
        return UserId(self.user["id"])


async def find(services: Services, call: Call, client: Client, browser: Browser) -> Account | None:
    """Return the account of the signed-in user; None if a login is required, or an unmet requirement of one."""
    client_of_page = account_logins.with_second_factor_required(client)
    current = await current_logins.find_session(services, call, client_of_page, None, browser)
    if current is None or authorization.unmet_requirement(call, client_of_page, current) is not None:
        return None
    return Account(client, current.user, current)


async def belongs_to_console(services: Services, account: Account) -> bool:
    """Return whether this is an administrator on the page of another application than the console.

    The settings of that application and its tenant, such as mail templates, do not decide about administrators.
    """
    is_console = administrator_realm.is_application(account.client.application)
    return not is_console and await administrators.is_administrator(services, account.user)


async def find_application(services: Services, tenant: Document, sso_secret: str) -> str | None:
    """Return the id of the application whose login the account pages use if a request names none.

    It is an application of the browser's session, else the tenant's first one that requires no registration.
    """
    applications = await services.configuration.applications.list_cached(
        TenantId(tenant["id"]), "active applications", {"active": True}
    )
    session = await sso_sessions.find(services, tenant, sso_secret)
    joined = frozenset[str]() if session is None else session.client_ids
    ordered = sorted(applications, key=lambda application: _login_order(application, joined))
    return str(ordered[0]["id"]) if ordered else None


def _login_order(application: Document, joined: Collection[str]) -> tuple[bool, bool, bool, int]:
    is_console = application["id"] == ADMINISTRATOR_APPLICATION_ID
    requires_registration = bool(application["oauthConfiguration"].get("requireRegistration"))
    return application["id"] not in joined, is_console, requires_registration, application["insertInstant"]


def has_recent_login(call: Call, account: Account) -> bool:
    """Whether the user logged in recently enough for sensitive changes."""
    return later(account.current.session.auth_instant, seconds=RECENT_LOGIN_SECONDS) > call.now


def editable_fields(account: Account) -> tuple[RegistrationField, ...]:
    """Return the application's registration fields, else name and language.

    The email address is included only for users who can confirm its change.
    """
    has_email = bool(account.user.get("email")) and confirmation_of(account) is not None
    return (_EMAIL, *_profile_fields(account)) if has_email else _profile_fields(account)


def confirmation_of(account: Account) -> Confirmation | None:
    """Return what confirms the change of a login identifier: the password, else a two-factor code."""
    if password_hashing.stored_password(account.user) is not None:
        return "currentPassword"
    return "code" if account.user["twoFactor"]["methods"] else None


def field_values(account: Account) -> dict[str, str]:
    """Return the current values of the editable fields; of several languages the first."""
    found = {field.name: account.user.get(field.member) for field in editable_fields(account)}
    return {name: str(value[0] if isinstance(value, list) else value) for name, value in found.items() if value}


async def edit(services: Services, call: Call, account: Account, form: Mapping[str, str]) -> OpenVerification | None:
    """Apply a form's changes to the profile; returns the verification of a new email address, which stays pending.

    A new address requires the current password or a two-factor code. Raises Invalid, Unavailable when a rate limit is
    exceeded, and WebhookTransactionFailed.
    """
    fields = editable_fields(account)
    crud.require_no_errors(self_registration.problems(fields, form))
    inside, client = call.within(account.client.tenant_id), account.client
    email = form.get(_EMAIL.name, "") if _EMAIL in fields else ""
    is_new_email = bool(email) and email_change_requests.is_different(account.user, email)
    if is_new_email:
        await require_confirmation(services, inside, account, form)
        await email_change_requests.require_usable(services, inside, client.tenant, account.user, email)
    change = _profile_change(account, form)
    if not is_new_email or any(account.user.get(member) != value for member, value in change.items()):
        await users.patch(services, inside, _MERGE, {"user": change}, account.user_id)
    if not is_new_email:
        return None
    return await email_change_requests.request_change(services, inside, client, account.user, email)


def may_change_phone(account: Account) -> bool:
    """Whether the user can change the phone number: the tenant sends codes, and the user can confirm the change."""
    return phone_changes.is_offered(account.client.tenant) and confirmation_of(account) is not None


async def request_phone_change(services: Services, call: Call, account: Account, form: Mapping[str, str]) -> None:
    """Start the change of the phone number. It requires the current password or a two-factor code.

    Raises Invalid, and Unavailable when a limit of messages is exceeded.
    """
    tenant = account.client.tenant
    await require_confirmation(services, call, account, form)
    number = await phone_changes.require_usable(services, call, tenant, account.user, form.get(phone_changes.PATH, ""))
    await phone_changes.start(services, call, tenant, account.user, number)


async def send_confirmation(services: Services, call: Call, account: Account, method_id: str) -> None:
    """Send the code of a two-factor method that confirms a change. Raises Invalid and Unavailable."""
    client, method = account.client, two_factor.find_method(account.user, method_id)
    address = None if method is None else CodeAddress.of(method)
    await two_factor_methods.send_code(
        services, call.within(client.tenant_id), client.tenant, client.application, account.user, address, "confirm"
    )


async def pending_email(services: Services, account: Account) -> str:
    """Return the address that replaces the user's once it is verified; empty if there is none."""
    found = await email_changes.find_open(services, account.user)
    return "" if found is None else found[1]


async def change_password(services: Services, call: Call, account: Account, form: Mapping[str, str]) -> None:
    """Set a new password after verifying the current one; all sessions end, including this one.

    Raises Invalid with all errors of the form, and WebhookTransactionFailed.
    """
    tenant, password = account.client.tenant, form.get("password", "")
    errors = user_passwords.form_problems(tenant, account.user, password, form.get("passwordConfirm", ""))
    try:
        await require_password(services, call, account, form.get("currentPassword", ""))
    except Invalid as error:
        raise Invalid([*error.fields, *errors], error.general) from error
    crud.require_no_errors(errors)
    change = PasswordChange(password, application=account.client.application)
    await password_changes.change_password(services, call, tenant, account.user_id, change)


def without_email_reasons(errors: Sequence[FieldError]) -> list[FieldError]:
    """Replace the reasons why an email address cannot be used, since it may belong to another user."""
    return [
        FieldError.of("unusable", error.path, "This address cannot be used.")
        if error.path == _EMAIL.name and error.code.startswith(_HIDDEN_REASONS)
        else error
        for error in errors
    ]


async def require_confirmation(services: Services, call: Call, account: Account, form: Mapping[str, str]) -> None:
    """Require the current password, or a two-factor code of a user without a password. Raises Invalid."""
    name = confirmation_of(account)
    value = form.get(name, "").strip() if name == "code" else form.get("currentPassword", "")
    if not value:
        raise Invalid.field("blank", name or "currentPassword", "Confirm the change of your email address.")
    if name == "currentPassword":
        await require_password(services, call, account, value)
        return
    try:
        await two_factor_methods.confirm(services, call, account.user, value)
    except WrongCode as error:
        raise Invalid.field("invalid", "code", "The [code] is incorrect.") from error


async def require_password(services: Services, call: Call, account: Account, current: str) -> None:
    """Raise Invalid for an incorrect password, and when the limit of incorrect passwords is exceeded.

    Raises Unavailable, without counting the attempt, if no password can be verified now.
    """
    tenant, tenant_id = account.client.tenant, account.client.tenant_id
    limits = [
        Limit("account-password", account.user_id, _PASSWORD_FAILURES, _PASSWORD_SECONDS),
        *failed_login_limits.address_limits(call),
    ]
    if await services.limits.rate_limits.consume(tenant_id, limits) is not None:
        raise Invalid.whole(page_messages.TOO_MANY_ATTEMPTS, "Too many incorrect passwords.")
    try:
        is_correct = await user_passwords.is_correct(services, tenant, account.user, current)
    except Unavailable:
        await services.limits.rate_limits.refund(tenant_id, limits)
        raise
    if not is_correct:
        raise password_changes.wrong_current_password()
    await services.limits.rate_limits.refund(tenant_id, limits)


def _profile_fields(account: Account) -> tuple[RegistrationField, ...]:
    application = account.client.application
    if self_registration.is_basic(application):
        return self_registration.profile_fields(application)
    return _DEFAULT_PROFILE


def _profile_change(account: Account, form: Mapping[str, str]) -> Document:
    """Return the members of the user that a form changes immediately."""
    fields = _profile_fields(account)
    answers = self_registration.read_values(fields, form)
    change = {field.member: answers.get(field.member) for field in fields if field.name in form}
    if any(field.member == _LANGUAGES for field in fields):
        # Browsers send an empty list as an absent field.
        change[_LANGUAGES] = _languages(account, answers.get(_LANGUAGES, []))
    return change


def _languages(account: Account, chosen: list[str]) -> list[str]:
    """Return the languages after a change of the first; an unchanged form keeps the others."""
    before = account.user.get(_LANGUAGES, [])
    return before if chosen == before[:1] else chosen


async def export(services: Services, call: Call, account: Account) -> Document:
    """Return what is stored about the user. Raises Unavailable after several exports within an hour."""
    limit = Limit("data-export", account.user_id, _EXPORTS, _EXPORT_SECONDS)
    await services.limits.rate_limits.count(account.client.tenant_id, [limit], "Your data was exported several times.")
    return await data_export.export_own(services, call, account.user)


def may_delete(account: Account) -> bool:
    """Whether the tenant lets users delete their accounts."""
    # Tenants that were stored by earlier versions do not have the member.
    policy = account.client.tenant["userDeletePolicy"].get("selfService", {})
    return bool(policy.get("enabled", False))


def confirmation_field(account: Account) -> str:
    """Return the field that confirms a deletion: the current password, or the login id of a user without one."""
    has_password = password_hashing.stored_password(account.user) is not None
    return "currentPassword" if has_password else CONFIRMATION


async def delete(services: Services, call: Call, account: Account, form: Document) -> None:
    """Delete the account. Raises Invalid for an incorrect confirmation, and WebhookTransactionFailed."""
    name = confirmation_field(account)
    if name == "currentPassword":
        await require_password(services, call, account, form.get(name, ""))
    elif user_rules.login_key(form.get(name, "")) != user_rules.login_key(user_rules.primary_login_id(account.user)):
        raise Invalid.field("invalid", name, "Type your email address or username to confirm the deletion.")
    await users.delete(services, call.within(account.client.tenant_id), account.user_id)
