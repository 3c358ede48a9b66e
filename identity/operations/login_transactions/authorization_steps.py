"""The steps of an authorization request: the response, the login page, or a page between login and response.

A page between login and response finds its login in a login transaction: see login_transactions.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.authorization.authorization_request import Channel
from identity.domain.authorization.response_types import ResponseMode
from identity.domain.login import authentication_methods, login_outcomes
from identity.domain.providers import identity_providers
from identity.ids import UserId
from identity.instants import Instant
from identity.operations.clients.clients import Client
from identity.store.browser_sessions import SsoSession

CONSENT_PAGE: Final = "consent"
"""The last path segment of the consent page."""

PASSKEY_OFFER_PAGE: Final = "webauthn-reauth-enable"
"""The last path segment of the page that offers to add a passkey."""


@dataclasses.dataclass(frozen=True, slots=True)
class NotRegistered:
    """The application requires a registration, which the user does not have."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownProvider:
    """The `idp_hint` of the request names no identity provider of the application."""


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedByWebhook:
    """A transactional webhook rejected the login."""


@dataclasses.dataclass(frozen=True, slots=True)
class RejectedByLambda:
    """The login validation lambda rejected the login with these errors, each with a code and a message."""

    texts: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Busy:
    """The password hashing queue is full."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderFailed:
    """The login through an identity provider failed; `key` names the page text with the reason."""

    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class StepFailed:
    """A step failed permanently and the login has to start again; `key` names the page text with the reason."""

    key: str


Problem = (
    login_outcomes.WrongCredentials
    | login_outcomes.TooManyAttempts
    | login_outcomes.AccountLocked
    | login_outcomes.Halt
    | NotRegistered
    | UnknownProvider
    | ProviderFailed
    | StepFailed
    | RejectedByWebhook
    | RejectedByLambda
    | Busy
)


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedClient:
    """A client and the redirect URI that was verified to be its own; from now on errors are redirected to `channel`.

    `given` holds the parameters of the request, not validated yet.
    """

    client: Client
    channel: Channel
    given: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Browser:
    """The cookies of a browser, and the Origin header of a request from another site (None for our own forms).

    `federation_secret` binds logins at identity providers to the browser; `trust_id` marks a device that is trusted
    for two-factor authentication.
    """

    sso_secret: str = dataclasses.field(default="", repr=False)
    origin: str | None = None
    federation_secret: str = dataclasses.field(default="", repr=False)
    trust_id: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class NewLogin:
    """A user who authenticated, and how. `is_persistent`: the session outlives the browser.

    `auth_instant` defaults to now. `second_factor` is the method used, empty for none. `second_factor_checked`: the
    two-factor policy was evaluated for this login. `realm` is that of its session. `start_instant` is when the session
    starts: the default is `auth_instant`, which is earlier for a user who has a session at an identity provider.
    `provider_session` is what a logout at that provider needs, if a logout ends its session.
    """

    user: Document
    authentication_type: str
    is_persistent: bool = False
    auth_instant: Instant | None = None
    second_factor: str = ""
    second_factor_checked: bool = False
    realm: str = ""
    start_instant: Instant | None = None
    provider_session: Document | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class CurrentLogin:
    """The session of a browser and its user; `secret` is the value of its cookie, empty if the tenant disables SSO.

    `authentication_type` is that of this request: PING if the session made a login unnecessary.
    `has_second_factor`: a second factor was used, or is not required for this request. `decision` is that of the risk
    or a lambda about the use of a session.
    """

    session: SsoSession
    user: Document
    secret: str = dataclasses.field(repr=False)
    authentication_type: str = "PING"
    has_second_factor: bool = False
    decision: login_outcomes.SecondFactorDecision | None = None

    @property
    def is_federated(self) -> bool:
        """Whether an identity provider authenticated the user."""
        return self.session.authentication_type in identity_providers.AUTHENTICATION_TYPES.values()

    @property
    def methods(self) -> tuple[str, ...]:
        """The authentication methods of the session as `amr` values (RFC 8176)."""
        return authentication_methods.of(self.session.authentication_type, self.session.second_factor)


@dataclasses.dataclass(frozen=True, slots=True)
class SsoCookie:
    """The SSO cookie to set; an empty `secret` sets none, and without an age the cookie ends with the browser.

    The browser also becomes a known device of the user `user_id` of `tenant`.
    """

    secret: str = dataclasses.field(repr=False)
    max_age_seconds: int | None
    user_id: UserId
    tenant: Document = dataclasses.field(repr=False)

    @classmethod
    def of(cls, client: Client, current: CurrentLogin) -> SsoCookie:
        """Return the cookie of a session."""
        idle_seconds = client.tenant["httpSessionMaxInactiveInterval"]
        age = idle_seconds if current.session.is_persistent else None
        return cls(current.secret, age, current.session.user_id, client.tenant)


@dataclasses.dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """The parameters for the redirect URI and the response mode; `cookie` is the SSO cookie to set, if any."""

    redirect_uri: str
    mode: ResponseMode
    parameters: Mapping[str, str] = dataclasses.field(repr=False)
    cookie: SsoCookie | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class LoginPage:
    """The login page; `problem` is the failure of the last attempt."""

    client: Client
    login_id: str = ""
    problem: Problem | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class IntermediatePage:
    """A redirect to a page that comes before the response, such as `/oauth2/consent`.

    `page` is an absolute path, or the last segment of one under /oauth2. `transaction_secret` is the secret of the
    stored login transaction; `cookie` is the SSO cookie to set, if any.
    """

    client: Client
    page: str
    transaction_secret: str = dataclasses.field(repr=False)
    cookie: SsoCookie | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRedirect:
    """A redirect to an identity provider; `secret` is the cookie value that binds the callback to the browser."""

    client: Client
    url: str
    parameters: Mapping[str, str] = dataclasses.field(repr=False)
    secret: str = dataclasses.field(repr=False)
    is_post: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class LinkRequired:
    """The user has to log in to link an account at a provider; `link` is the one-time token of the pending link."""

    client: Client
    link: str = dataclasses.field(repr=False)


Step = AuthorizationResponse | LoginPage | IntermediatePage | ProviderRedirect | LinkRequired
