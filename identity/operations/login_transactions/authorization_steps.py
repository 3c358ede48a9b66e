"""What an authorization request can come to: a response, the login page, or a page between login and response.

Pages that come between are found again by a login intent: see login_intents.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.authorization.authorization_request import Channel
from identity.domain.authorization.response_types import ResponseMode
from identity.domain.login import authentication_methods
from identity.domain.login import login_outcomes as steps
from identity.domain.providers import identity_providers
from identity.ids import UserId
from identity.instants import Instant
from identity.operations.clients.clients import Client
from identity.store.sso_sessions import SsoSession

CONSENT_PAGE: Final = "consent"
"""The last part of the path of the page that asks what an application may have."""


@dataclasses.dataclass(frozen=True, slots=True)
class NotRegistered:
    """The application takes only users who are registered for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class UnknownProvider:
    """The identity provider that the request hints at does not exist."""


@dataclasses.dataclass(frozen=True, slots=True)
class Vetoed:
    """A webhook that must agree to the login refused it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prevented:
    """The tenant's lambda refused the login; `messages` are what it says of it."""

    messages: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Busy:
    """Too many passwords wait to be compared."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderFailed:
    """Nobody could log in through the identity provider; `key` is that of the text that says why."""

    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class StepFailed:
    """A step of the login failed for good, and it has to begin again; `key` is that of the text that says why."""

    key: str


Problem = (
    steps.WrongCredentials
    | steps.TooManyAttempts
    | steps.AccountLocked
    | steps.Halt
    | NotRegistered
    | UnknownProvider
    | ProviderFailed
    | StepFailed
    | Vetoed
    | Prevented
    | Busy
)


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedClient:
    """A client whose redirect URI is its own: from here on errors go to the channel.

    `given` are the parameters of the request as they came.
    """

    client: Client
    channel: Channel
    given: Mapping[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Browser:
    """What a browser shows: its SSO cookie, and the Origin of a request from outside (None for our own form).

    `federation_secret` is what ties its ways to identity providers, and back, to it; `trust_id` tells whether it is a
    device on which a second factor need not be shown again.
    """

    sso_secret: str = dataclasses.field(default="", repr=False)
    origin: str | None = None
    federation_secret: str = dataclasses.field(default="", repr=False)
    trust_id: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class NewLogin:
    """A user who authenticated, how, and whether the session is to outlive the browser; just now if nothing is said.

    `second_factor` is the method of the second factor, empty where there was none. `is_judged`: whether a second factor
    is needed was judged a moment ago.
    """

    user: Document
    authentication_type: str
    is_persistent: bool = False
    auth_instant: Instant | None = None
    second_factor: str = ""
    is_judged: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Current:
    """A session of a browser with its user; `secret` is what its cookie holds, empty where the tenant has SSO off.

    `authentication_type` is how this request was authenticated: PING where the session made a login unnecessary.
    `has_second_factor`: one was shown, or need not be for this request.
    """

    session: SsoSession
    user: Document
    secret: str = dataclasses.field(repr=False)
    authentication_type: str = "PING"
    has_second_factor: bool = False

    @property
    def is_federated(self) -> bool:
        """Whether an identity provider vouched for the user, whose password here is not asked for."""
        return self.session.authentication_type in identity_providers.AUTHENTICATION_TYPES.values()

    @property
    def methods(self) -> tuple[str, ...]:
        """How the user authenticated when the session began, in the words of RFC 8176."""
        return authentication_methods.of(self.session.authentication_type, self.session.second_factor)


@dataclasses.dataclass(frozen=True, slots=True)
class SsoCookie:
    """The cookie of a session, empty where there is none to keep; without an age it ends with the browser.

    `user_id` and `tenant` are whose session it is: the browser is known to that user from now on.
    """

    secret: str = dataclasses.field(repr=False)
    max_age_seconds: int | None
    user_id: UserId
    tenant: Document = dataclasses.field(repr=False)

    @classmethod
    def of(cls, client: Client, current: Current) -> SsoCookie:
        """The cookie of a session."""
        idle_seconds = client.tenant["httpSessionMaxInactiveInterval"]
        age = idle_seconds if current.session.is_persistent else None
        return cls(current.secret, age, current.session.user_id, client.tenant)


@dataclasses.dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """What goes to the redirect URI, and how; `cookie` is the session's, where it is to be set."""

    redirect_uri: str
    mode: ResponseMode
    parameters: Mapping[str, str] = dataclasses.field(repr=False)
    cookie: SsoCookie | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class LoginPage:
    """The user has to log in; `problem` is what was wrong with the last attempt."""

    client: Client
    login_id: str = ""
    problem: Problem | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Interlude:
    """A page of ours comes before the response: `page` is the last part of its path, as in `/oauth2/consent`.

    `intent` is the secret of the login intent by which that page finds the login again; `cookie` as in a response.
    """

    client: Client
    page: str
    intent: str = dataclasses.field(repr=False)
    cookie: SsoCookie | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ToProvider:
    """The browser goes to an identity provider with these parameters, and comes back as the one with this secret."""

    client: Client
    url: str
    parameters: Mapping[str, str] = dataclasses.field(repr=False)
    secret: str = dataclasses.field(repr=False)
    is_post: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class LinkWanted:
    """The user has to say who they are here; `link` names what is to be linked, for this browser alone."""

    client: Client
    link: str = dataclasses.field(repr=False)


Step = AuthorizationResponse | LoginPage | Interlude | ToProvider | LinkWanted
