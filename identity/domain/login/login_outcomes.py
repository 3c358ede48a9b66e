"""The outcomes of a login as types, and the checks that follow verified credentials, in their order.

Only callers with correct credentials receive the reason why a login is halted. Everyone else receives the result that
an unknown user gives.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document
from identity.domain.login.client_risk import ClientRisk
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.passwords import password_policy
from identity.domain.passwords.password_policy import PasswordRules
from identity.domain.two_factor import two_factor
from identity.domain.user_actions import action_logs
from identity.domain.users import users
from identity.instants import Instant, later

SESSION_RECORD_INTERVAL_SECONDS: Final = 60
"""The minimum interval between two records of the use of a session."""


@dataclasses.dataclass(frozen=True, slots=True)
class WrongCredentials:
    """The user does not exist or the password is incorrect; the caller cannot distinguish the two."""


@dataclasses.dataclass(frozen=True, slots=True)
class TooManyAttempts:
    """The account or the address exceeded its limit of failures; nothing was compared."""

    wait_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class AccountLocked:
    """The account is locked after too many failures, whether the password was correct and whether the account exists.

    `actions` are as `action_logs.prevention` makes them.
    """

    actions: tuple[Document, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Deactivated:
    """An administrator deactivated the user."""

    user: Document


@dataclasses.dataclass(frozen=True, slots=True)
class Expired:
    """The user's `expiry` has passed."""

    user: Document


@dataclasses.dataclass(frozen=True, slots=True)
class ActionPrevents:
    """User actions prevent the login; `actions` are as `action_logs.prevention` makes them."""

    user: Document
    actions: tuple[Document, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SecondFactorRequired:
    """The login requires a two-factor code, or that the user adds one of the `configurable` methods first.

    The other members are the state with which the login continues: how the user authenticated, the login id type, why
    the password has to be changed, and `event_members`, to be added to the login events. `risk` is the risk, if it was
    assessed.
    """

    user: Document
    configurable: tuple[str, ...] = ()
    authentication_type: str = "PASSWORD"
    identity_type: str | None = None
    is_federated: bool = False
    reason_to_change: str | None = None
    event_members: Document = dataclasses.field(default_factory=dict)
    risk: ClientRisk | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SecondFactorDecision:
    """Whether a login requires a second factor, decided by the risk or by a lambda.

    `is_suspicious`: the lambda demands the event `user.login.suspicious`. `risk` is None where it was not assessed.
    """

    is_required: bool
    is_suspicious: bool = False
    risk: ClientRisk | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PasswordChangeRequired:
    """The user has to change the password; `reason` is Administrative, Breached, Expired or Validation.

    `has_second_factor`: the user completed a second factor, and needs none again to change the password.
    """

    user: Document
    reason: str
    has_second_factor: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class EmailNotVerified:
    """The tenant requires a verified email address."""

    user: Document


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationNotVerified:
    """The application requires a verified registration."""

    user: Document
    registration: Document


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedIn:
    """The login is complete; `registration` is None for a user who is not registered for the application.

    `authentication_type` is set where the login determined it; `threats` are the detected threats.
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
    """A user with verified credentials, and the input of the checks; `password` is None where none was used.

    `is_federated`: an identity provider authenticated the user, so that no password policy applies.
    `has_second_factor`: a second factor was completed, or the device is trusted. `reason_to_change`: why the password
    has to be changed, if that was determined while the password was known. `decision` is None where the login policy
    alone decides about a second factor.
    """

    tenant: Document
    application: Document | None
    user: Document
    now: Instant
    password: str | None = dataclasses.field(default=None, repr=False)
    is_federated: bool = False
    has_second_factor: bool = False
    reason_to_change: str | None = None
    decision: SecondFactorDecision | None = None

    @property
    def registration(self) -> Document | None:
        """The user's registration for the application."""
        return None if self.application is None else users.find_registration(self.user, self.application["id"])


_BY_PASSWORD = frozenset({"PASSWORD", "REGISTRATION"})


def is_password_outdated(user: Document, authentication_type: str, since: int) -> bool:
    """Whether a password login at `since` precedes a later change of the password."""
    changed: int = user.get("passwordLastUpdateInstant", 0)
    return authentication_type in _BY_PASSWORD and changed > since


Barred = Deactivated | ActionPrevents | Expired
"""The halts of users who may not log in at all, whatever they do."""


def find_halt(login: Authenticated) -> Halt | None:
    """Return what halts a login with verified credentials, or None."""
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
    if login.has_second_factor or not _requires_second_factor(login):
        return None
    decision = login.decision
    has_methods = bool(login.user["twoFactor"]["methods"])
    return SecondFactorRequired(
        login.user,
        () if has_methods else two_factor.configurable_methods(login.tenant),
        is_federated=login.is_federated,
        reason_to_change=None if login.is_federated else _reason_to_change(login),
        risk=None if decision is None else decision.risk,
    )


def _requires_second_factor(login: Authenticated) -> bool:
    if login.decision is not None:
        return login.decision.is_required
    is_undecided = two_factor.has_requirement_lambda(login.tenant, login.application)
    return (is_undecided and bool(login.user["twoFactor"]["methods"])) or two_factor.is_challenged(
        login.tenant, login.application, login.user, is_trusted=False
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
    if tenant["passwordValidationRules"]["validateOnLogin"] and password_policy.problems(
        login.password,
        PasswordRules.of(tenant),
        "password",
        scheme=tenant["passwordEncryptionConfiguration"]["encryptionScheme"],
        login_ids=users.login_ids(user).values(),
    ):
        return "Validation"
    return None


def _email(login: Authenticated) -> Halt | None:
    # A user without an address has nothing to verify, and could never log in.
    is_unverified = "email" in login.user and not login.user["verified"]
    return EmailNotVerified(login.user) if is_unverified and EmailVerification.of(login.tenant).is_gated else None


def _registration(login: Authenticated) -> Halt | None:
    application, registration = login.application, login.registration
    if application is None or registration is None or registration["verified"]:
        return None
    is_gated = application["verifyRegistration"] and application["unverified"]["behavior"] == "Gated"
    return RegistrationNotVerified(login.user, registration) if is_gated else None


def find_verification_gate(login: Authenticated) -> Halt | None:
    """Return the verification that the tenant or application requires first, or None."""
    return _email(login) or _registration(login)


def is_recently_recorded(user: Document, application_id: str | None, now: Instant) -> bool:
    """Whether the user and any registration have a login within the last `SESSION_RECORD_INTERVAL_SECONDS`."""
    registration = None if application_id is None else users.find_registration(user, application_id)
    last_logins: list[int] = [
        holder.get("lastLoginInstant", 0) for holder in (user, registration) if holder is not None
    ]
    return min(last_logins) > later(now, seconds=-SESSION_RECORD_INTERVAL_SECONDS)


_CHECKS: Final = (_deactivated, _prevented, _expired, _second_factor, _password_change, _email, _registration)
