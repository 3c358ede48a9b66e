"""What users see and change of their own accounts. Whose account it is the browser's session says, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from identity.call import Call, Document
from identity.domain.passwords import password_hashing
from identity.domain.two_factor import two_factor
from identity.domain.users import self_registration as rules
from identity.domain.users.self_registration import RegistrationField
from identity.errors import FieldError, Invalid, WrongCode
from identity.ids import UserId
from identity.instants import later
from identity.operations.authorization import account_logins, authorization, current_logins
from identity.operations.clients.clients import Client
from identity.operations.limits import failed_login_limits
from identity.operations.login_transactions.authorization_steps import Browser, CurrentLogin
from identity.operations.objects import crud
from identity.operations.password_changes import password_changes
from identity.operations.password_changes.password_changes import PasswordChange
from identity.operations.passwords import user_passwords
from identity.operations.two_factor import two_factor_methods
from identity.operations.two_factor.two_factor_codes import CodeAddress
from identity.operations.users import users
from identity.operations.verification import email_change_requests, email_changes
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services
from identity.store.rate_limits import Limit

FRESH_SECONDS: Final = 900
"""How long ago a user may have logged in for what decides about the account: password, address, second factors."""

Confirmation = Literal["currentPassword", "code"]
"""The field that confirms the change of a login identifier."""

_PASSWORD_FAILURES: Final = 10
_PASSWORD_SECONDS: Final = 900
_MERGE: Final = "application/merge-patch+json"
_EMAIL: Final = RegistrationField("email", is_required=True)
_PLAIN: Final = (
    RegistrationField("firstName", is_required=False),
    RegistrationField("lastName", is_required=False),
    RegistrationField("preferredLanguages", is_required=False),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """A user who is logged in here, as stored now."""

    client: Client
    user: Document
    current: CurrentLogin

    @property
    def user_id(self) -> UserId:
        """The id of the user, which comes from the session alone."""
        return UserId(self.user["id"])


async def find(services: Services, call: Call, client: Client, browser: Browser) -> Account | None:
    """The account of whoever is logged in in this browser, unless something stands in the way: the login says what."""
    strict = account_logins.with_second_factor_required(client)
    current = await current_logins.find_session(services, call, strict, None, browser)
    if current is None or authorization.unmet_requirement(call, strict, current) is not None:
        return None
    return Account(client, current.user, current)


def is_fresh(call: Call, account: Account) -> bool:
    """Whether the user logged in a short time ago."""
    return later(account.current.session.auth_instant, seconds=FRESH_SECONDS) > call.now


def questions(account: Account) -> tuple[RegistrationField, ...]:
    """The fields that a user may change: the application's registration fields, else name and language.

    The email address is included only for users who can confirm its change.
    """
    has_email = bool(account.user.get("email")) and confirmation_of(account) is not None
    return (_EMAIL, *_profile(account)) if has_email else _profile(account)


def confirmation_of(account: Account) -> Confirmation | None:
    """What confirms the change of a login identifier: the password, else a second factor; None without either."""
    if password_hashing.stored_password(account.user) is not None:
        return "currentPassword"
    return "code" if account.user["twoFactor"]["methods"] else None


def values(account: Account) -> dict[str, str]:
    """What the fields hold now: of several languages the first one."""
    found = {question.name: account.user.get(question.member) for question in questions(account)}
    return {name: str(value[0] if isinstance(value, list) else value) for name, value in found.items() if value}


async def edit(services: Services, call: Call, account: Account, form: Mapping[str, str]) -> OpenVerification | None:
    """Apply a form's changes to the profile; answers the verification of a new email address, which stays pending.

    A new address requires the current password or a second factor. Raises Invalid for what is missing or wrong,
    Unavailable after too many messages, and WebhookTransactionFailed.
    """
    asked = questions(account)
    crud.require_no_errors(rules.problems(asked, form))
    inside, client = call.within(account.client.tenant_id), account.client
    email = form.get(_EMAIL.name, "") if _EMAIL in asked else ""
    is_new_email = bool(email) and email_change_requests.is_different(account.user, email)
    if is_new_email:
        await _confirm(services, inside, account, form)
        await email_change_requests.require_usable(services, inside, client.tenant, account.user, email)
    change = _profile_change(account, form)
    if not is_new_email or any(account.user.get(member) != value for member, value in change.items()):
        await users.patch(services, inside, _MERGE, {"user": change}, account.user_id)
    if not is_new_email:
        return None
    return await email_change_requests.request_change(services, inside, client, account.user, email)


async def send_confirmation(services: Services, call: Call, account: Account, method_id: str) -> None:
    """Send the code of a second factor that confirms a change. Raises Invalid and Unavailable."""
    client, method = account.client, two_factor.find_method(account.user, method_id)
    address = None if method is None else CodeAddress.of(method)
    await two_factor_methods.send_code(
        services, call.within(client.tenant_id), client.tenant, client.application, account.user, address, "confirm"
    )


async def pending_email(services: Services, account: Account) -> str:
    """The address that replaces the user's once it is verified, or nothing."""
    found = await email_changes.find_open(services, account.user)
    return "" if found is None else found[1]


async def change_password(services: Services, call: Call, account: Account, current: str, password: str) -> None:
    """Set a new password for whoever knows the present one.

    Raises Invalid for a wrong one, or a new one that breaks the rules, and WebhookTransactionFailed. Every session
    ends, this one too.
    """
    tenant = account.client.tenant
    await _require_password(services, call, account, current)
    change = PasswordChange(password, application=account.client.application)
    await password_changes.change_password(services, call, tenant, account.user_id, change)


async def _confirm(services: Services, call: Call, account: Account, form: Mapping[str, str]) -> None:
    """Require the current password, or a code of a second factor of a user without one. Raises Invalid."""
    name = confirmation_of(account)
    given = form.get(name, "").strip() if name == "code" else form.get("currentPassword", "")
    if not given:
        raise Invalid.field("blank", name or "currentPassword", "Confirm the change of your email address.")
    if name == "currentPassword":
        await _require_password(services, call, account, given)
        return
    try:
        await two_factor_methods.confirm(services, call, account.user, given)
    except WrongCode as error:
        raise Invalid.field("invalid", "code", "The [code] is incorrect.") from error


async def _require_password(services: Services, call: Call, account: Account, current: str) -> None:
    """Raise Invalid for a wrong password, and after too many of them."""
    tenant, tenant_id = account.client.tenant, account.client.tenant_id
    limits = [
        Limit("account-password", account.user_id, _PASSWORD_FAILURES, _PASSWORD_SECONDS),
        *failed_login_limits.address_limits(call),
    ]
    if await services.rate_limits.consume(tenant_id, limits) is not None:
        raise Invalid.whole("[RateLimitedException]", "Too many wrong passwords.")
    if not await user_passwords.is_correct(services, tenant, account.user, current):
        raise password_changes.wrong_current_password()
    await services.rate_limits.refund(tenant_id, limits)


def _profile(account: Account) -> tuple[RegistrationField, ...]:
    application = account.client.application
    return rules.profile_fields(application) if rules.is_enabled(application) else _PLAIN


def _profile_change(account: Account, form: Mapping[str, str]) -> Document:
    """The members of the user that a form changes at once."""
    asked = _profile(account)
    answers = rules.read_values(asked, form)
    change = {question.member: answers.get(question.member) for question in asked if question.name in form}
    if any(question.member == "preferredLanguages" for question in asked):
        # An empty list is sent as an absent field.
        change["preferredLanguages"] = _languages(account, answers.get("preferredLanguages", []))
    return change


def _languages(account: Account, chosen: list[str]) -> list[str]:
    """The languages after a form that shows but the first one: who leaves it as it is keeps the others."""
    before = account.user.get("preferredLanguages", [])
    return before if chosen == before[:1] else chosen


def told(errors: Sequence[FieldError]) -> list[FieldError]:
    """The errors as a page tells them: why an address cannot be used is not told, since somebody else may have it."""
    return [
        FieldError.of("unusable", error.path, "This address cannot be used.")
        if error.path == _EMAIL.name and error.code.startswith(("[duplicate]", "[inactive]", "[blocked]", "[notEmail]"))
        else error
        for error in errors
    ]
