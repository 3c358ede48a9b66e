"""An authorization request, from its checks to its response (RFC 6749 section 4.1, OpenID Connect Core 3.1.2).

`prove` finds client and redirect URI: what fails there is told on a page. Everything that fails later belongs at the
redirect URI, and `refusal` makes the response of it. `begin` answers from the browser's SSO session or wants the login
page; `log_in` takes what the login page sends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain import authorization_request as rules
from identity.domain import consent, scopes, user_state, users
from identity.domain import login as steps
from identity.domain.authorization_request import AuthorizationRequest, Channel
from identity.domain.response_types import ResponseMode
from identity.errors import (
    AccessDenied,
    ConsentRequired,
    InteractionRequired,
    InvalidRequest,
    LoginPrevented,
    LoginRequired,
    OAuth2Error,
    Unavailable,
    WebhookTransactionFailed,
)
from identity.ids import UserId, new_secret
from identity.operations import access_lists, clients, login, request_sources, sso, token_lambdas
from identity.operations.clients import Client, TenantHints
from identity.operations.login import Credentials
from identity.services import Services
from identity.store.sso_sessions import SsoSession
from identity.tokens.access_tokens import Login
from identity.tokens.issuer import IssuedToken
from identity.tokens.jws import Rejection


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


Problem = (
    steps.WrongCredentials
    | steps.TooManyAttempts
    | steps.Halt
    | NotRegistered
    | UnknownProvider
    | Vetoed
    | Prevented
    | Busy
)

_INTERACTIONS: Mapping[type, str] = {
    steps.SecondFactorRequired: "multi_factor_challenge_required",
    steps.EmailNotVerified: "email_verification_required",
    steps.RegistrationNotVerified: "registration_verification_required",
    NotRegistered: "registration_required",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Proven:
    """A client whose redirect URI is its own: from here on errors go to the channel."""

    client: Client
    channel: Channel


@dataclasses.dataclass(frozen=True, slots=True)
class Browser:
    """What a browser shows: its SSO cookie, and the Origin of a request from outside (None for our own form)."""

    sso_secret: str = dataclasses.field(default="", repr=False)
    origin: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SsoCookie:
    """The cookie of a session; without an age it ends with the browser."""

    secret: str = dataclasses.field(repr=False)
    max_age_seconds: int | None


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


Step = AuthorizationResponse | LoginPage


@dataclasses.dataclass(frozen=True, slots=True)
class _Session:
    """A live session of a browser, with its user and its secret."""

    session: SsoSession
    user: Document
    secret: str = dataclasses.field(repr=False)


async def prove(services: Services, call: Call, hints: TenantHints, given: Mapping[str, Any]) -> Proven:
    """The client of a request and its redirect URI.

    Raises InvalidRequest, and AddressRefusedError for a browser that is kept from the client's pages; both belong on
    a page.
    """
    client = await clients.find(services, hints, given.get("client_id"))
    await access_lists.require_address(services, client, call.origin.ip_address)
    rules.require_redirect_uri(given, client.application)
    return Proven(client, rules.channel(given, client.application))


def refusal(proven: Proven, error: OAuth2Error) -> AuthorizationResponse:
    """The error response (RFC 6749 section 4.1.2.1)."""
    channel = proven.channel
    parameters = rules.error_parameters(error, channel.state, proven.client.issuer)
    return AuthorizationResponse(str(channel.redirect_uri), channel.mode, parameters)


async def begin(services: Services, call: Call, proven: Proven, given: Mapping[str, Any], browser: Browser) -> Step:
    """Answer from the SSO session where that will do; else the login page. Raises OAuth2Error."""
    client = proven.client
    request = _validated(call, client, given, browser.origin)
    current = await _current(services, call, client, request, browser)
    if current is None:
        if request.forbids_pages:
            raise LoginRequired("authentication_required", "The user has to log in.")
        unknown = None if request.idp_hint is None else UnknownProvider()
        return LoginPage(client, request.login_hint or "", unknown)
    problem = _problem(call, client, current.user)
    if problem is None:
        _require_consent(client, request)
        problem = await _recorded(services, call, client, current.user)
    if problem is None:
        return await _response(services, call, client, request, current)
    if request.forbids_pages:
        raise _interaction(problem)
    return LoginPage(client, users.login_value(current.user), problem)


async def log_in(
    services: Services,
    call: Call,
    proven: Proven,
    given: Mapping[str, Any],
    browser: Browser,
    credentials: Credentials,
    *,
    is_persistent: bool,
) -> Step:
    """Log in with what the login page sent: the response, or the page again. Raises OAuth2Error."""
    client = proven.client
    request = _validated(call, client, given, None)
    if request.forbids_pages:
        return await begin(services, call, proven, given, browser)
    _require_consent(client, request)
    inside = call.within(client.tenant_id)
    try:
        result = await login.authenticate(services, inside, credentials, client.application)
    except WebhookTransactionFailed:
        return LoginPage(client, credentials.login_id, Vetoed())
    except LoginPrevented as error:
        return LoginPage(client, credentials.login_id, Prevented(tuple(error.messages)))
    except Unavailable:
        return LoginPage(client, credentials.login_id, Busy())
    if not isinstance(result, steps.LoggedIn):
        return LoginPage(client, credentials.login_id, result)
    if _lacks_registration(client, result.user):
        return LoginPage(client, credentials.login_id, NotRegistered())
    secret, session = await sso.begin(
        services,
        call,
        client.tenant,
        UserId(result.user["id"]),
        "PASSWORD",
        client_id=client.client_id,
        is_persistent=is_persistent,
        replacing=browser.sso_secret,
    )
    current = _Session(session, result.user, secret)
    return await _response(services, call, client, request, current, authentication_type="PASSWORD")


def _validated(call: Call, client: Client, given: Mapping[str, Any], origin: str | None) -> AuthorizationRequest:
    request = rules.validated(given, client.application, origin=origin, own_origin=call.origin.base_url)
    if request.user_code is not None:
        raise InvalidRequest("invalid_user_code", "The user_code is unknown.")
    return request


async def _current(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, browser: Browser
) -> _Session | None:
    """The browser's session, if this request may be answered from it."""
    if request.forces_login:
        return None
    session = await sso.find(services, client.tenant, browser.sso_secret)
    if session is None or (request.max_age is not None and call.now - session.auth_instant > request.max_age * 1000):
        return None
    if not await _is_expected(services, request, session):
        return None
    user = await services.users.cached(client.tenant_id, session.user_id)
    if user is None or not user["active"] or (user.get("expiry") or call.now + 1) <= call.now:
        return None
    if client.client_id not in session.client_ids:
        await services.sso_sessions.join(client.tenant_id, browser.sso_secret, client.client_id)
    return _Session(session, user, browser.sso_secret)


async def _is_expected(services: Services, request: AuthorizationRequest, session: SsoSession) -> bool:
    """Whether the session is of the user whom id_token_hint names; a hint that is not ours says nothing."""
    if request.id_token_hint is None:
        return True
    hint = await services.tokens.verify_id_token_hint(request.id_token_hint, clients.finder(services))
    return isinstance(hint, Rejection) or hint.claims["sub"] == session.user_id


def _problem(call: Call, client: Client, user: Document) -> Problem | None:
    """What stands between a session and this application: the gates of a fresh login hold for it too."""
    halt = steps.halt(steps.Authenticated(client.tenant, client.application, user, call.now))
    if halt is None and _lacks_registration(client, user):
        return NotRegistered()
    return halt


def _lacks_registration(client: Client, user: Document) -> bool:
    is_registered = users.find_registration(user, client.client_id) is not None
    return bool(client.oauth["requireRegistration"]) and not is_registered


def _interaction(problem: Problem) -> OAuth2Error:
    """What prompt=none answers in place of a page (OpenID Connect Core 3.1.2.6)."""
    if isinstance(problem, steps.PasswordChangeRequired):
        return InteractionRequired(f"change_password_{problem.reason.lower()}", "The password has to be changed.")
    if type(problem) in _INTERACTIONS:
        return InteractionRequired(_INTERACTIONS[type(problem)], "The user has to do something first.")
    return AccessDenied("unknown", "The login was refused.")


def _require_consent(client: Client, request: AuthorizationRequest) -> None:
    """Refuse what the user would have to be asked for. Raises ConsentRequired."""
    if asked := consent.to_ask(client.application, request.scopes):
        raise ConsentRequired("consent_required", f"The user has to agree to: {' '.join(asked)}")


async def _recorded(services: Services, call: Call, client: Client, user: Document) -> Problem | None:
    """Note a login that the session made unnecessary to repeat."""
    try:
        await login.complete(services, call.within(client.tenant_id), user, client.application, "PING")
    except WebhookTransactionFailed:
        return Vetoed()
    return None


async def _response(
    services: Services,
    call: Call,
    client: Client,
    request: AuthorizationRequest,
    current: _Session,
    *,
    authentication_type: str = "PING",
) -> AuthorizationResponse:
    """The successful response, with a code or tokens, and the session's cookie. Raises InvalidRequestUri."""
    await request_sources.spend(services, client, request)
    granted = Login(
        tenant=client.tenant,
        application=client.application,
        user=current.user,
        scopes=request.scopes,
        grants=("implicit",),
        authentication_type=authentication_type,
        auth_instant=current.session.auth_instant,
        nonce=request.nonce,
        sso_session_id=current.session.session_id if current.secret else None,
    )
    parameters = await _given(services, call, client, request, granted)
    if request.state is not None:
        parameters["state"] = request.state
    if request.locales:
        parameters["locale"] = request.locales[0]
    parameters["userState"] = user_state.of(current.user, client.tenant, client.application)
    parameters["iss"] = client.issuer
    cookie = _cookie(client, current) if current.secret else None
    return AuthorizationResponse(request.redirect_uri, request.response_mode, parameters, cookie)


async def _given(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, granted: Login
) -> dict[str, str]:
    """Code and tokens, whichever the response type names (RFC 6749 sections 4.1.2 and 4.2.2, OpenID Connect Core 3)."""
    wanted, parameters = request.response_type, {}
    access_token = await token_lambdas.access_token(services, call, granted) if wanted.gives("token") else None
    if wanted.gives("code"):
        parameters["code"] = await _code(services, client, request, granted, access_token)
    if access_token is not None:
        parameters["access_token"] = access_token.token
        parameters |= {"token_type": "Bearer", "expires_in": str(access_token.expires_in)}
    if wanted.gives("id_token"):
        token = None if access_token is None else access_token.token
        id_token = await token_lambdas.id_token(
            services, call, granted, access_token=token, code=parameters.get("code")
        )
        parameters["id_token"] = id_token.token
    if request.scopes and wanted.words != {"code"}:
        parameters["scope"] = scopes.joined(request.scopes)
    return parameters


async def _code(
    services: Services, client: Client, request: AuthorizationRequest, granted: Login, beside: IssuedToken | None
) -> str:
    """A new code. A replay of it takes back the access token `beside` it too: whoever read one has the other."""
    code = new_secret()
    grant = {
        "clientId": client.client_id,
        "redirectUri": request.redirect_uri,
        "userId": granted.user["id"],
        "scopes": list(request.scopes),
        "nonce": request.nonce,
        "codeChallenge": request.code_challenge,
        "authInstant": granted.auth_instant,
        "authenticationType": granted.authentication_type,
        "ssoSessionId": granted.sso_session_id,
        "device": dict(request.device),
        "tokenIds": [] if beside is None else [beside.token_id],
    }
    ttl_seconds = client.tenant["externalIdentifierConfiguration"]["authorizationGrantIdTimeToLiveInSeconds"]
    await services.authorization_codes.issue(client.tenant_id, code, grant, ttl_seconds)
    return code


def _cookie(client: Client, current: _Session) -> SsoCookie:
    idle_seconds = client.tenant["httpSessionMaxInactiveInterval"]
    return SsoCookie(current.secret, idle_seconds if current.session.is_persistent else None)
