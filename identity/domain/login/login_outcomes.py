"""What a login comes to: the outcomes as types, and the checks that follow right credentials, read in order.

Whether a user is locked, expired or unverified is told only to somebody who knows the password: everybody else gets
the one answer that an unknown user gives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from identity.call import Document
from identity.domain.passwords import password_policy
from identity.domain.two_factor import two_factor
from identity.domain.user_actions import action_logs
from identity.domain.users import users
from identity.instants import Instant, later

SESSION_RECORD_INTERVAL_SECONDS: Final = 60
"""How often at most the use of a session is written down: a browser may come back many times in a minute."""


@dataclasses.dataclass(frozen=True, slots=True)
class WrongCredentials:
    """No such user, or not the password; nobody learns which."""


@dataclasses.dataclass(frozen=True, slots=True)
class TooManyAttempts:
    """The account or the address failed too often lately; nothing was compared."""

    wait_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class AccountLocked:
    """Too many logins failed: whatever the password was, the account is locked, be it somebody's or nobody's.

    `actions` are as `action_logs.prevention` makes them.
    """

    actions: tuple[Document, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Deactivated:
    """The user was locked out by an administrator."""

    user: Document


@dataclasses.dataclass(frozen=True, slots=True)
class Expired:
    """The user's `expiry` has come."""

    user: Document


@dataclasses.dataclass(frozen=True, slots=True)
class ActionPrevents:
    """Actions on the user prevent the login; `actions` are as `action_logs.prevention` makes them."""

    user: Document
    actions: tuple[Document, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SecondFactorRequired:
    """A second factor is wanted: one of the user's methods, or first of all a method, of those in `configurable`.

    The other members are what the login knew when it was stopped, and what it goes on with: how the user authenticated,
    with which type of login id, why the password has to be changed, and what events tell of the login beside the usual.
    """

    user: Document
    configurable: tuple[str, ...] = ()
    authentication_type: str = "PASSWORD"
    identity_type: str | None = None
    is_federated: bool = False
    reason_to_change: str | None = None
    told: Document = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class PasswordChangeRequired:
    """The password has to be changed; `reason` is Administrative, Breached, Expired or Validation.

    `has_second_factor`: the user has used one, and needs none again to change it.
    """

    user: Document
    reason: str
    has_second_factor: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class EmailNotVerified:
    """The tenant lets in only users who verified their email."""

    user: Document


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationNotVerified:
    """The application lets in only users who verified their registration."""

    user: Document
    registration: Document


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedIn:
    """The login is complete; `registration` is None for a user without one for the application.

    `authentication_type` is how, where that was found out on the way; `threats` is what was suspicious about it.
    """

    user: Document
    registration: Document | None
    authentication_type: str | None = None
    threats: tuple[str, ...] = ()


Halt = (
    Deactivated
    | ActionPrevents
    | Expired
    | SecondFactorRequired
    | PasswordChangeRequired
    | EmailNotVerified
    | RegistrationNotVerified
)
LoginResult = WrongCredentials | TooManyAttempts | AccountLocked | Halt | LoggedIn


@dataclasses.dataclass(frozen=True, slots=True)
class Authenticated:
    """A user whose credentials are right, and what the checks look at; `password` is None where none was used.

    `is_federated`: an identity provider vouches for the user, whose password here is not asked for, nor its change.
    `has_second_factor`: one was shown, or need not be shown on this device. `reason_to_change` is why the password has
    to be changed, where that was found out when it was still known.
    """

    tenant: Document
    application: Document | None
    user: Document
    now: Instant
    password: str | None = dataclasses.field(default=None, repr=False)
    is_federated: bool = False
    has_second_factor: bool = False
    reason_to_change: str | None = None

    @property
    def registration(self) -> Document | None:
        """The user's registration for the application."""
        return None if self.application is None else users.find_registration(self.user, self.application["id"])


_BY_PASSWORD = frozenset({"PASSWORD", "REGISTRATION"})


def is_password_outdated(user: Document, authentication_type: str, since: int) -> bool:
    """Whether a login of then rests on a password that the user has given up meanwhile."""
    changed: int = user.get("passwordLastUpdateInstant", 0)
    return authentication_type in _BY_PASSWORD and changed > since


Barred = Deactivated | ActionPrevents | Expired
"""The halts of users who may not come in at all, whatever they do."""


def find_halt(login: Authenticated) -> Halt | None:
    """What still stands between right credentials and a login, or None."""
    return next((found for check in _CHECKS if (found := check(login)) is not None), None)


def _deactivated(login: Authenticated) -> Halt | None:
    return None if login.user["active"] else Deactivated(login.user)


def _prevented(login: Authenticated) -> Halt | None:
    application_id = None if login.application is None else login.application["id"]
    actions = action_logs.preventing(login.user, application_id, login.now)
    return ActionPrevents(login.user, actions) if actions else None


def _expired(login: Authenticated) -> Halt | None:
    expiry = login.user.get("expiry")
    return None if expiry is None or expiry > login.now else Expired(login.user)


def _second_factor(login: Authenticated) -> Halt | None:
    if login.has_second_factor or not two_factor.is_challenged(
        login.tenant, login.application, login.user, is_trusted=False
    ):
        return None
    has_methods = bool(login.user["twoFactor"]["methods"])
    return SecondFactorRequired(
        login.user,
        () if has_methods else two_factor.configurable_methods(login.tenant),
        is_federated=login.is_federated,
        reason_to_change=None if login.is_federated else _reason_to_change(login),
    )


def _password_change(login: Authenticated) -> Halt | None:
    reason = None if login.is_federated else _reason_to_change(login)
    return None if reason is None else PasswordChangeRequired(login.user, reason, login.has_second_factor)


def _reason_to_change(login: Authenticated) -> str | None:
    user, tenant = login.user, login.tenant
    if login.reason_to_change is not None:
        return login.reason_to_change
    if user["passwordChangeRequired"]:
        return str(user.get("passwordChangeReason", "Administrative"))
    if login.password is None:
        return None
    age, changed = tenant["maximumPasswordAge"], user.get("passwordLastUpdateInstant")
    if age["enabled"] and changed is not None and later(Instant(changed), seconds=age["days"] * 86_400) <= login.now:
        return "Expired"
    rules = tenant["passwordValidationRules"]
    if rules["validateOnLogin"] and password_policy.problems(
        login.password,
        rules,
        "password",
        scheme=tenant["passwordEncryptionConfiguration"]["encryptionScheme"],
        login_ids=users.login_ids(user).values(),
    ):
        return "Validation"
    return None


def _email(login: Authenticated) -> Halt | None:
    configuration = login.tenant["emailConfiguration"]
    is_gated = configuration["verifyEmail"] and configuration["unverified"]["behavior"] == "Gated"
    # Who has no address has nothing to verify, and could never get in.
    is_unverified = "email" in login.user and not login.user["verified"]
    return EmailNotVerified(login.user) if is_gated and is_unverified else None


def _registration(login: Authenticated) -> Halt | None:
    application, registration = login.application, login.registration
    if application is None or registration is None or registration["verified"]:
        return None
    is_gated = application["verifyRegistration"] and application["unverified"]["behavior"] == "Gated"
    return RegistrationNotVerified(login.user, registration) if is_gated else None


def find_verification_gate(login: Authenticated) -> Halt | None:
    """What of the user has to be verified first, or None."""
    return _email(login) or _registration(login)


def is_recently_recorded(user: Document, application_id: str | None, now: Instant) -> bool:
    """Whether the user and any registration have a login within the last `SESSION_RECORD_INTERVAL_SECONDS`."""
    registration = None if application_id is None else users.find_registration(user, application_id)
    noted: list[int] = [place.get("lastLoginInstant", 0) for place in (user, registration) if place is not None]
    return min(noted) > later(now, seconds=-SESSION_RECORD_INTERVAL_SECONDS)


_CHECKS: tuple[Callable[[Authenticated], Halt | None], ...] = (
    _deactivated,
    _prevented,
    _expired,
    _second_factor,
    _password_change,
    _email,
    _registration,
)
