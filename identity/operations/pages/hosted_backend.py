"""The hosted backend: logins for single-page applications whose tokens stay in cookies (`/app/*`).

The service is the client of its own authorization server: it sends the browser to the login with PKCE and a state of
its own, exchanges the code, and keeps the tokens in cookies of the browser. State and verifier are new for every login,
belong to the browser that began it (RFC 9700 sections 2.1 and 4.7) and are consumed by its callback.
"""

from __future__ import annotations

import asyncio
import dataclasses
import urllib.parse
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization import hosted_backend as rules
from identity.domain.authorization import pkce
from identity.domain.clients import redirect_uris
from identity.domain.users import self_registration
from identity.errors import InvalidRequest
from identity.ids import new_secret
from identity.operations import grants
from identity.operations.authorization import hosted_backend_callback
from identity.operations.clients import bearer_tokens, clients, ip_access_lists
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.issuance import token_responses, userinfo
from identity.operations.limits import anonymous_request_limits
from identity.services import Services
from identity.tokens.jws import Rejection

_LOGIN: Final = "/oauth2/authorize"
_REGISTER: Final = "/oauth2/register"
_LOGOUT: Final = "/oauth2/logout"
_OWN: Final = frozenset({"client_id", "redirect_uri", "scope", "state", "tenantId"})
_RESPONSE_ERRORS: Final = ("error", "error_reason", "error_description")


@dataclasses.dataclass(frozen=True, slots=True)
class LoginRedirect:
    """Where the browser goes to log in, the secret that it has to return with, and how long the login may take."""

    location: str
    browser_secret: str
    ttl_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class CookieTokens:
    """The tokens that the cookies of a browser hold, with the seconds after which each is worthless."""

    access_token: str
    expires_in: int
    expires_at_seconds: int
    id_token: str | None
    refresh_token: str | None
    refresh_expires_in: int
    domain: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class LoginResult:
    """The way back to the application; `tokens` is None where the login failed, which the URL then reports."""

    location: str
    tokens: CookieTokens | None


async def find_client(services: Services, call: Call, hints: TenantHints, client_id: str | None) -> Client:
    """The client of a request. Raises InvalidRequest, UnauthorizedClient and AddressRefusedError."""
    client = await clients.get_client(services, hints, client_id)
    await ip_access_lists.require_address(services, client, call.origin.ip_address)
    rules.require_supported(client.application)
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
    """Begin a login, or a registration where the application offers that. Raises InvalidRequest."""
    secret, state, verifier = browser_secret or new_secret(), new_secret(), new_secret()
    detour: Document = {
        "clientId": client.client_id,
        "codeVerifier": verifier,
        "redirectUri": rules.target(client.application, given.get("redirect_uri")),
        "state": given.get("state"),
    }
    anonymous_request_limits.require_maximum_size({**detour, **given})
    await anonymous_request_limits.count_request(services, client.tenant_id, call.origin.ip_address)
    ttl_seconds: int = client.tenant["externalIdentifierConfiguration"]["loginIntentTimeToLiveInSeconds"]
    await services.backend_logins.issue(client.tenant_id, state, secret, detour, ttl_seconds)
    path = _REGISTER if registers and self_registration.is_enabled(client.application) else _LOGIN
    parameters = {
        **{name: value for name, value in given.items() if name not in _OWN},
        "client_id": client.client_id,
        "code_challenge": pkce.challenge(verifier),
        "code_challenge_method": pkce.METHOD,
        "redirect_uri": hosted_backend_callback.redirect_uri(call, client),
        "response_type": "code",
        "scope": given.get("scope", rules.DEFAULT_SCOPE),
        "state": state,
        "tenantId": client.tenant_id,
    }
    return LoginRedirect(redirect_uris.with_query(call.origin.base_url + path, parameters), secret, ttl_seconds)


async def complete_login(services: Services, call: Call, given: Mapping[str, str], browser_secret: str) -> LoginResult:
    """Exchange the code of an authorization response, for the browser that began the login, and only once.

    Raises InvalidRequest for any other browser and for a login that is over, and what the token endpoint raises.
    """
    found = await services.backend_logins.consume_across_tenants(given.get("state", ""), browser_secret)
    if found is None:
        raise InvalidRequest("unknown", "This sign-in has expired, was completed already, or began in another browser.")
    tenant_id, detour = found
    client = await find_client(services, call, TenantHints(parameter=tenant_id), detour["clientId"])
    back = {} if detour["state"] is None else {"state": str(detour["state"])}
    target = rules.target(client.application, detour["redirectUri"])
    if "error" in given:
        told = {name: given[name] for name in _RESPONSE_ERRORS if name in given}
        return LoginResult(redirect_uris.with_query(target, {**told, **back}), None)
    form = {
        "grant_type": "authorization_code",
        "code": given.get("code"),
        "code_verifier": detour["codeVerifier"],
        "redirect_uri": hosted_backend_callback.redirect_uri(call, client),
    }
    tokens = await _exchanged(services, call, client, form)
    return LoginResult(redirect_uris.with_query(target, back), tokens)


async def refresh(
    services: Services, call: Call, client: Client, refresh_token: str, access_token: str
) -> CookieTokens:
    """New tokens for the refresh token of a browser. Raises what the token endpoint raises."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token or None, "access_token": access_token or None}
    return await _exchanged(services, call, client, form)


async def retrieve_user(services: Services, call: Call, access_token: str, origin: str | None) -> Document:
    """The claims about the user of an access token.

    Raises InvalidToken, and InvalidRequest for a page of an origin that is not the application's.
    """
    found = await bearer_tokens.verify(services, call, access_token)
    rules.require_supported(found.token.application)
    require_origin(services, origin, found.token.application)
    return await userinfo.claims_of(services, call, found)


def require_origin(services: Services, origin: str | None, application: Document) -> None:
    """Raise InvalidRequest for an origin that neither the application has nor the system allows with credentials."""
    if origin is None or rules.is_allowed_origin(origin, application):
        return
    cors = services.system.settings.cors
    if not (cors.enabled and cors.allow_credentials and origin in cors.origins):
        raise InvalidRequest("invalid_origin", f"Invalid origin uri {origin[:100]}")


async def log_out(
    services: Services, call: Call, client: Client, given: Mapping[str, str], refresh_token: str, id_token: str
) -> tuple[str, str | None]:
    """End the refresh token of a browser; answers where its session ends, and the domain of its cookies.

    The ID token is passed on as a hint where it is the client's: another application of the same domain may have
    replaced the cookies.
    """
    if refresh_token:
        await _end(services, call, client, refresh_token)
    parameters = logout_parameters(client, given)
    if id_token and await _is_own(services, client, id_token):
        parameters["id_token_hint"] = id_token
    return redirect_uris.with_query(_LOGOUT, parameters), await cookie_domain(call)


def logout_url(client: Client, given: Mapping[str, str]) -> str:
    """Where the session of the browser ends, once the user has confirmed it."""
    return redirect_uris.with_query(_LOGOUT, logout_parameters(client, given))


def logout_parameters(client: Client, given: Mapping[str, str]) -> dict[str, str]:
    """The logout request; the endpoint checks that the redirect URI is registered."""
    wanted = {
        "client_id": client.client_id,
        "post_logout_redirect_uri": given.get("post_logout_redirect_uri", given.get("redirect_uri")),
        "state": given.get("state"),
        "tenantId": client.tenant_id,
    }
    return {name: value for name, value in wanted.items() if value is not None}


async def cookie_domain(call: Call) -> str | None:
    """The domain of the cookies; in a thread, because the first use reads the public suffix list."""
    host = urllib.parse.urlsplit(call.origin.base_url).hostname or ""
    return await asyncio.to_thread(rules.cookie_domain, host)


async def _exchanged(services: Services, call: Call, client: Client, form: Document) -> CookieTokens:
    given = {name: value for name, value in form.items() if value is not None}
    answer = await grants.exchange(services, call, IdentifiedClient.internal(client), given)
    expires = client.refresh_policy.expires(call.now, call.now)
    return CookieTokens(
        access_token=answer["access_token"],
        expires_in=answer["expires_in"],
        expires_at_seconds=call.now // 1000 + answer["expires_in"],
        id_token=answer.get("id_token"),
        refresh_token=answer.get("refresh_token", given.get("refresh_token")),
        refresh_expires_in=(expires - call.now) // 1000,
        domain=await cookie_domain(call),
    )


async def _end(services: Services, call: Call, client: Client, refresh_token: str) -> None:
    presented = await services.refresh_tokens.find_by_value(client.tenant_id, refresh_token, call.now)
    if presented is None or presented.record.get("applicationId") != client.client_id:
        return
    found = await services.users.find_cached(client.tenant_id, presented.record["userId"])
    await token_responses.revoke_refresh_token(services, call, client, found, presented.record["id"])


async def _is_own(services: Services, client: Client, id_token: str) -> bool:
    hint = await services.tokens.verify_id_token_hint(id_token, clients.client_finder(services))
    return not isinstance(hint, Rejection) and hint.application["id"] == client.client_id
