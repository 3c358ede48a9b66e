"""The hosted backend: logins for single-page applications whose tokens stay in cookies (`/app/*`).

The service acts as a client of its own authorization server: it redirects the browser to the login with PKCE and its
own state, exchanges the code, and stores the tokens in cookies. State and code verifier are new for every login, bound
to the browser (RFC 9700 sections 2.1 and 4.7), and consumed by the callback.
"""

from __future__ import annotations

import asyncio
import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization import hosted_backend as hosted_backend_rules
from identity.domain.clients import redirect_uris
from identity.domain.users import self_registration
from identity.errors import InvalidRequest
from identity.operations import grants
from identity.operations.authorization import first_party_redirects
from identity.operations.clients import bearer_tokens, client_authentication, clients, ip_access_lists
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.issuance import token_responses, userinfo
from identity.operations.limits import anonymous_request_limits
from identity.operations.pages import code_flow
from identity.operations.pages.code_flow import CodeFlow, LoginRedirect
from identity.services import Services
from identity.tokens.jws import Rejection

_REGISTER: Final = "/oauth2/register"
_LOGOUT: Final = "/oauth2/logout"
_REPLACED_PARAMETERS: Final = frozenset({"client_id", "redirect_uri", "scope", "state", "tenantId"})
_ERROR_PARAMETERS: Final = ("error", "error_reason", "error_description")


@dataclasses.dataclass(frozen=True, slots=True)
class CookieTokens:
    """The tokens for the cookies of a browser, with their lifetimes in seconds."""

    access_token: str
    expires_in: int
    expires_at_seconds: int
    id_token: str | None
    refresh_token: str | None
    refresh_expires_in: int
    domain: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class LoginResult:
    """The URL of the application to return to; `tokens` is None if the login failed, which the URL reports."""

    location: str
    tokens: CookieTokens | None


async def find_client(services: Services, call: Call, hints: TenantHints, client_id: str | None) -> Client:
    """Return the client of a request. Raises InvalidRequest, UnauthorizedClient and AddressRefusedError."""
    client = await clients.get_client(services, hints, client_id)
    await ip_access_lists.require_address(services, client, call.origin.ip_address)
    hosted_backend_rules.require_supported(client.application)
    return client


async def begin_login(
    services: Services,
    call: Call,
    client: Client,
    given: Mapping[str, str],
    browser_secret: str,
    *,
    registers: bool = False,
) -> LoginRedirect:
    """Start a login, or a registration if the application enables it. Raises InvalidRequest."""
    pending_login: Document = {
        "clientId": client.presented_client_id,
        "redirectUri": hosted_backend_rules.target(client.application, given.get("redirect_uri")),
        "state": given.get("state"),
    }
    anonymous_request_limits.require_maximum_size({**pending_login, **given})
    path = _REGISTER if registers and self_registration.is_enabled(client.application) else code_flow.AUTHORIZE
    flow, scope = CodeFlow(client, browser_secret), given.get("scope", hosted_backend_rules.DEFAULT_SCOPE)
    parameters = {
        **{name: value for name, value in given.items() if name not in _REPLACED_PARAMETERS},
        **flow.parameters(first_party_redirects.hosted_backend_uri(call, client), scope),
    }
    location = redirect_uris.with_query(call.origin.base_url + path, parameters)
    return await flow.store(services, call, services.sessions.backend_logins, location, pending_login)


async def complete_login(services: Services, call: Call, given: Mapping[str, str], browser_secret: str) -> LoginResult:
    """Exchange the code of an authorization response, once and only in the browser that started the login.

    Raises InvalidRequest for other browsers and for expired logins, and the errors of the token endpoint.
    """
    tenant_id, pending_login = await code_flow.consume(services.sessions.backend_logins, given, browser_secret)
    client = await find_client(services, call, TenantHints(parameter=tenant_id), pending_login["clientId"])
    state = {} if pending_login["state"] is None else {"state": str(pending_login["state"])}
    target = hosted_backend_rules.target(client.application, pending_login["redirectUri"])
    if "error" in given:
        error = {name: given[name] for name in _ERROR_PARAMETERS if name in given}
        return LoginResult(redirect_uris.with_query(target, {**error, **state}), None)
    redirect_uri = first_party_redirects.hosted_backend_uri(call, client)
    form = code_flow.token_request(pending_login, redirect_uri, given.get("code"))
    tokens = await _exchange(services, call, client, form)
    return LoginResult(redirect_uris.with_query(target, state), tokens)


async def refresh(
    services: Services, call: Call, client: Client, refresh_token: str, access_token: str
) -> CookieTokens:
    """Issue new tokens for the refresh token of a browser. Raises the errors of the token endpoint."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token or None, "access_token": access_token or None}
    return await _exchange(services, call, client, form)


async def retrieve_user(services: Services, call: Call, access_token: str, origin: str | None) -> Document:
    """Return the userinfo claims of an access token.

    Raises InvalidToken, and InvalidRequest for an origin that the application does not authorize.
    """
    bearer = await bearer_tokens.verify(services, call, access_token)
    hosted_backend_rules.require_supported(bearer.token.application)
    require_origin(services, origin, bearer.token.application)
    return await userinfo.claims_of(services, call, bearer)


def require_origin(services: Services, origin: str | None, application: Document) -> None:
    """Raise InvalidRequest for an origin that neither the application nor the CORS settings of the system allow."""
    if origin is None or hosted_backend_rules.is_allowed_origin(origin, application):
        return
    cors = services.configuration.system.settings.cors
    if not (cors.enabled and cors.allow_credentials and origin in cors.origins):
        raise InvalidRequest("invalid_origin", f"Invalid origin uri {origin[:100]}")


async def log_out(
    services: Services, call: Call, client: Client, given: Mapping[str, str], refresh_token: str, id_token: str
) -> tuple[str, str | None]:
    """Revoke the refresh token of a browser; returns the URL that ends its session, and the domain of its cookies.

    The ID token becomes the hint only if it is the client's: another application of the same domain may have replaced
    the cookies.
    """
    if refresh_token:
        await _revoke(services, call, client, refresh_token)
    parameters = _logout_parameters(client, given)
    if id_token and await _is_token_of(services, client, id_token):
        parameters["id_token_hint"] = id_token
    return redirect_uris.with_query(_LOGOUT, parameters), await cookie_domain(call)


def logout_url(client: Client, given: Mapping[str, str]) -> str:
    """Return the URL of a logout that the user has to confirm."""
    return redirect_uris.with_query(_LOGOUT, _logout_parameters(client, given))


def _logout_parameters(client: Client, given: Mapping[str, str]) -> dict[str, str]:
    """Return the logout request; the logout endpoint validates the redirect URI."""
    parameters = {
        "client_id": client.presented_client_id,
        "post_logout_redirect_uri": given.get("post_logout_redirect_uri", given.get("redirect_uri")),
        "state": given.get("state"),
        "tenantId": client.tenant_id,
    }
    return {name: value for name, value in parameters.items() if value is not None}


async def cookie_domain(call: Call) -> str | None:
    """Return the domain of the cookies, from a thread, because the first use reads the public suffix list."""
    host = urllib.parse.urlsplit(call.origin.base_url).hostname or ""
    return await asyncio.to_thread(hosted_backend_rules.cookie_domain, host)


async def _exchange(services: Services, call: Call, client: Client, form: Document) -> CookieTokens:
    given = {name: value for name, value in form.items() if value is not None}
    response = await grants.exchange(services, call, client_authentication.internal(client), given)
    expires = client.refresh_policy.expires(call.now, call.now)
    return CookieTokens(
        access_token=response["access_token"],
        expires_in=response["expires_in"],
        expires_at_seconds=call.now // 1000 + response["expires_in"],
        id_token=response.get("id_token"),
        refresh_token=response.get("refresh_token", given.get("refresh_token")),
        refresh_expires_in=(expires - call.now) // 1000,
        domain=await cookie_domain(call),
    )


async def _revoke(services: Services, call: Call, client: Client, refresh_token: str) -> None:
    presented = await services.tokens.refresh_tokens.find_by_value(client.tenant_id, refresh_token, call.now)
    if presented is None or presented.record.get("applicationId") != client.client_id:
        return
    user = await services.directory.users.find_cached(client.tenant_id, presented.record["userId"])
    await token_responses.revoke_refresh_token(services, call, client, user, presented.record["id"])


async def _is_token_of(services: Services, client: Client, id_token: str) -> bool:
    hint = await services.tokens.issuer.verify_id_token_hint(id_token, clients.client_finder(services))
    return not isinstance(hint, Rejection) and hint.application["id"] == client.client_id
