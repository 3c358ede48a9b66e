"""Tokens of console and game platforms, which the platform verifies.

If the platform states the client that a token was issued to, it must be that of the provider: other applications could
otherwise use the tokens of their users here. Xbox does not state it, and Steam not always.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.providers import external_identities, social_providers
from identity.domain.providers.external_identities import ExternalIdentity
from identity.errors import Unauthorized
from identity.ids import Secret
from identity.instants import numeric_date
from identity.operations.providers import openid_connect
from identity.operations.providers.login_trace import LoginTrace
from identity.outbound.federation import FederationError
from identity.services import Services
from identity.tokens import jws

ENDPOINTS: Final[dict[str, str]] = {
    "epic_accounts": "https://api.epicgames.dev/epic/id/v2/accounts",
    "epic_token_info": "https://api.epicgames.dev/epic/oauth/v2/tokenInfo",
    "nintendo_issuer": "https://accounts.nintendo.com",
    "nintendo_keys": "https://accounts.nintendo.com/1.0.0/certificates",
    "nintendo_user": "https://api.accounts.nintendo.com/2.0.0/users/me",
    "sony_token_info": "https://auth.api.sonyentertainmentnetwork.com/2.0/oauth/token",
    "steam_partner": "https://partner.steam-api.com",
    "steam_public": "https://api.steampowered.com",
    "xbox_user": "https://user.auth.xboxlive.com/user/authenticate",
    "xbox_xsts": "https://xsts.auth.xboxlive.com/xsts/authorize",
}
"""The endpoints of the platforms."""

_SETTINGS: Final = (
    *("apiMode", "client_id", "client_secret", "emailClaim", "uniqueIdClaim", "usernameClaim", "webAPIKey"),
)
_XBOX_HEADERS: Final = {"x-xbl-contract-version": "1"}


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Tokens to verify, for a provider with the settings of one application."""

    services: Services
    call: Call
    settings: Document = dataclasses.field(repr=False)
    tokens: Sequence[str] = dataclasses.field(repr=False)


Verify = Callable[[Request], Awaitable[ExternalIdentity]]


async def identify(
    services: Services, call: Call, provider: Document, application_id: str, tokens: Sequence[str], trace: LoginTrace
) -> ExternalIdentity:
    """Return the account at the platform that the tokens belong to.

    Raises Unauthorized for tokens that cannot be trusted, Invalid for an unusable response of the platform.
    """
    settings = _settings(provider, application_id)
    if len(tokens) not in TOKEN_COUNTS[provider["type"]] or not all(map(_is_sendable, tokens)):
        raise Unauthorized(log_detail="the scope has too few or too many tokens, or one that cannot be sent")
    try:
        identity = await VERIFIERS[provider["type"]](Request(services, call, settings, tokens))
    except FederationError as error:
        raise openid_connect.provider_error(provider["type"], str(error)) from error
    trace.add_claims(provider["type"], identity.claims)
    return identity


async def identify_steam_account(
    services: Services, call: Call, provider: Document, application_id: str, steam_id: str, trace: LoginTrace
) -> ExternalIdentity:
    """Return the account with a verified Steam id. Raises Unauthorized for an unknown player, and Invalid."""
    try:
        identity = await _steam_player(Request(services, call, _settings(provider, application_id), ()), steam_id, None)
    except FederationError as error:
        raise openid_connect.provider_error(provider["type"], str(error)) from error
    trace.add_claims(provider["type"], identity.claims)
    return identity


def _settings(provider: Document, application_id: str) -> Document:
    settings = social_providers.settings_of(provider, application_id)
    return {name: settings.get(name) for name in _SETTINGS}


async def _epic_games(request: Request) -> ExternalIdentity:
    """Verify an access token: https://dev.epicgames.com/docs/web-api-ref/authentication."""
    federation, (token,) = request.services.outbound.federation, request.tokens
    info = await federation.exchange(ENDPOINTS["epic_token_info"], {"token": token}, None)
    if info.get("active") is not True:
        raise Unauthorized(log_detail="the token is not active")
    _require_client(request, info.get("client_id"))
    account_id = str(info.get("account_id", ""))
    url = f"{ENDPOINTS['epic_accounts']}?{urllib.parse.urlencode({'accountId': account_id})}"
    accounts = await federation.get_json(url, headers={"Authorization": f"Bearer {token}"})
    account = _first(accounts if isinstance(accounts, list) else [])
    if account.get("accountId") != account_id:
        raise Unauthorized(log_detail="the response is about another account")
    return _identity(account, "accountId", "displayName")


async def _nintendo(request: Request) -> ExternalIdentity:
    """Verify an access token, which is a JWT, and fetch the user resource."""
    federation, (token,) = request.services.outbound.federation, request.tokens
    verified = await openid_connect.verify_with_key_set(
        request.services, request.call, ENDPOINTS["nintendo_keys"], token
    )
    if isinstance(verified, jws.Rejection):
        raise Unauthorized(log_detail=f"the token is {verified.value}")
    claims = verified.claims
    if (rejection := jws.check_times(claims, numeric_date(request.call.now))) is not None:
        raise Unauthorized(log_detail=f"the token is {rejection.value}")
    if claims.get("iss") != ENDPOINTS["nintendo_issuer"] or claims.get("typ") != "token":
        raise Unauthorized(log_detail="the token is not an access token of Nintendo")
    _require_client(request, claims.get("aud"))
    user = await federation.userinfo(ENDPOINTS["nintendo_user"], token)
    if not isinstance(user, dict) or user.get("id") != claims.get("sub"):
        raise Unauthorized(log_detail="the user resource belongs to another user")
    names = request.settings
    return _identity(
        user, names["uniqueIdClaim"] or "id", names["usernameClaim"] or "preferred_username",
        email_claim=names["emailClaim"] or "email", token=token,
    )  # fmt: skip


async def _sony_psn(request: Request) -> ExternalIdentity:
    """Verify an access token with the token resource, which responds only to the client of the token."""
    federation, (token,) = request.services.outbound.federation, request.tokens
    basic = (request.settings["client_id"], Secret(request.settings["client_secret"]))
    url = f"{ENDPOINTS['sony_token_info']}/{urllib.parse.quote(token, safe='')}"
    info = await federation.get_json(url, basic=basic, name=ENDPOINTS["sony_token_info"])
    info = info if isinstance(info, dict) else {}
    _require_client(request, info.get("client_id"))
    return _identity(info, "user_id", "online_id", token=token)


async def _steam(request: Request) -> ExternalIdentity:
    """Verify an OAuth access token, or an application id and a session ticket."""
    if len(request.tokens) == 2:
        steam_id, token = await _steam_ticket(request, *request.tokens), None
    else:
        steam_id, token = await _steam_token(request, request.tokens[0]), request.tokens[0]
    return await _steam_player(request, steam_id, token)


async def _steam_player(request: Request, steam_id: str, token: str | None) -> ExternalIdentity:
    query = {"key": request.settings["webAPIKey"], "steamids": steam_id}
    response = await _steam_get(request, "ISteamUser/GetPlayerSummaries/v2/", query)
    player = _first(response.get("players"))
    if player.get("steamid") != steam_id:
        raise Unauthorized(log_detail="the player of the token is unknown")
    return _identity(player, "steamid", "personaname", token=token)


async def _steam_token(request: Request, token: str) -> str:
    details = await _steam_get(request, "ISteamUserOAuth/GetTokenDetails/v1/", {"access_token": token}, "steam_public")
    if "client_id" in details:
        _require_client(request, details["client_id"])
    return _steam_id(details)


async def _steam_ticket(request: Request, application_id: str, ticket: str) -> str:
    query = {"key": request.settings["webAPIKey"], "appid": application_id, "ticket": ticket}
    result = (await _steam_get(request, "ISteamUserAuth/AuthenticateUserTicket/v1/", query)).get("params")
    if not isinstance(result, dict) or result.get("result") != "OK":
        raise Unauthorized(log_detail="the session ticket is not valid")
    return _steam_id(result)


async def _steam_get(request: Request, path: str, query: Mapping[str, str], host: str | None = None) -> Document:
    """Return the `response` of a method of the web API; the host depends on the configured API mode."""
    host = host or ("steam_partner" if request.settings["apiMode"] == "Partner" else "steam_public")
    url = f"{ENDPOINTS[host]}/{path}?{urllib.parse.urlencode(query)}"
    body = await request.services.outbound.federation.get_json(url)
    response = body.get("response") if isinstance(body, dict) else None
    return response if isinstance(response, dict) else {}


def _steam_id(response: Document) -> str:
    steam_id = str(response.get("steamid", ""))
    if not steam_id.isdigit():
        raise Unauthorized(log_detail="the response has no Steam id")
    return steam_id


async def _xbox(request: Request) -> ExternalIdentity:
    """Exchange an access token of a Microsoft account for a user token, and that for the claims of the player."""
    federation, (token,) = request.services.outbound.federation, request.tokens
    properties = {"AuthMethod": "RPS", "SiteName": "user.auth.xboxlive.com", "RpsTicket": f"d={token}"}
    body = {"RelyingParty": "http://auth.xboxlive.com", "TokenType": "JWT", "Properties": properties}
    user = await federation.post_json(ENDPOINTS["xbox_user"], body, _XBOX_HEADERS)
    user_tokens = {"SandboxId": "RETAIL", "UserTokens": [user.get("Token")]}
    body = {"RelyingParty": "http://xboxlive.com", "TokenType": "JWT", "Properties": user_tokens}
    response = await federation.post_json(ENDPOINTS["xbox_xsts"], body, _XBOX_HEADERS)
    claims = response.get("DisplayClaims")
    return _identity(_first(claims.get("xui") if isinstance(claims, dict) else None), "xid", "gtg")


def _identity(
    claims: Document, unique_id_claim: str, username_claim: str, *, email_claim: str = "email", token: str | None = None
) -> ExternalIdentity:
    if not external_identities.is_storable(claims):
        raise Unauthorized(log_detail="the claims cannot be stored")
    names = {
        "uniqueIdClaim": unique_id_claim,
        "usernameClaim": username_claim,
        "emailClaim": email_claim,
        "emailVerifiedClaim": "email_verified",
    }
    identity = external_identities.parse(names, claims, lambda_arguments=(claims,), token=token)
    if identity is None:
        raise Unauthorized(log_detail="the response has no unique id")
    return identity


def _require_client(request: Request, client_id: object) -> None:
    if str(client_id) != request.settings["client_id"]:
        raise Unauthorized(log_detail="the token was issued to another client")


def _first(value: Any) -> Document:
    """Return the first object of a list, or an empty one."""
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def _is_sendable(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable()


VERIFIERS: Final[Mapping[str, Verify]] = {
    "EpicGames": _epic_games,
    "Nintendo": _nintendo,
    "SonyPSN": _sony_psn,
    "Steam": _steam,
    "Xbox": _xbox,
}
TOKEN_COUNTS: Final[Mapping[str, tuple[int, ...]]] = {**dict.fromkeys(VERIFIERS, (1,)), "Steam": (1, 2)}
"""The permitted numbers of tokens, by provider type."""
