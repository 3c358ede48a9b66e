"""Logins through providers with a type of their own: one engine, which reads their rows in `social_providers.yaml`.

An authorization code is exchanged for tokens. The API login also accepts a token that the application received, if the
provider states that it was issued to the configured client: another application could otherwise use the tokens of its
users here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.providers import external_identities, social_providers
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.social_providers import SocialProvider
from identity.errors import FieldError, Unauthorized
from identity.operations.objects import crud
from identity.operations.providers import apple_client_secret, console_tokens, oauth1, openid_connect, steam_openid
from identity.operations.providers.login_trace import LoginTrace
from identity.operations.providers.openid_connect import FetchUserinfo, ProviderEndpoints
from identity.outbound.federation import FederationError
from identity.services import Services


async def identify(
    services: Services,
    call: Call,
    provider: Document,
    application_id: str,
    data: Mapping[str, str],
    trace: LoginTrace,
    *,
    return_to: str | None = None,
) -> ExternalIdentity:
    """Return the account at a provider that a code, a token or an assertion belongs to.

    An OpenID 2.0 assertion is accepted only for the URL `return_to`. Raises Invalid for missing data or an unusable
    response of the provider, Unauthorized for one that cannot be trusted.
    """
    row = social_providers.PROVIDERS[provider["type"]]
    if row.platform:
        return await _identify_player(services, call, provider, application_id, data, trace, return_to)
    if row.flow == "oauth1":
        oauth2 = social_providers.oauth2_of(provider, application_id)
        claims, access_token = await oauth1.fetch_claims(services, call, oauth2, data)
        trace.add_claims(provider["type"], claims)
        found = external_identities.parse(oauth2, claims, lambda_arguments=()) if claims else None
        tokens: Document = {"oauth_token": access_token}
    else:
        endpoints = await resolve_endpoints(services, call, provider, application_id, data)
        tokens = await _get_tokens(services, endpoints, row, data)
        found = await openid_connect.identify_by_tokens(
            services, call, endpoints, tokens, data.get("nonce"), trace, _USERINFO.get(provider["type"])
        )
    return _complete(row, found, tokens, data)


async def resolve_endpoints(
    services: Services, call: Call, provider: Document, application_id: str, data: Mapping[str, str]
) -> ProviderEndpoints:
    """Return the endpoints and settings of a provider; for Apple with a signed client secret. Raises Invalid."""
    oauth2 = social_providers.oauth2_of(provider, application_id)
    if provider["type"] == "Apple":
        settings = social_providers.settings_of(provider, application_id)
        if _is_native(data) and settings.get("bundleId"):
            oauth2["client_id"] = settings["bundleId"]
        oauth2["client_secret"] = await apple_client_secret.sign(services, call, settings, oauth2)
    if "client_secret" not in oauth2:
        oauth2["clientAuthenticationMethod"] = "none"
    return await openid_connect.resolve_endpoints(services, call, oauth2)


async def _identify_player(
    services: Services,
    call: Call,
    provider: Document,
    application_id: str,
    data: Mapping[str, str],
    trace: LoginTrace,
    return_to: str | None,
) -> ExternalIdentity:
    """Return the account at a console or game platform."""
    if provider["type"] == "Steam" and return_to is not None:
        oauth2 = social_providers.oauth2_of(provider, application_id)
        steam_id = await steam_openid.verify(services, oauth2["authorization_endpoint"], data, return_to)
        return await console_tokens.identify_steam_account(services, call, provider, application_id, steam_id, trace)
    if provider["type"] == "Steam" and data.get("appId") and data.get("sessionTicket"):
        ticket = (data["appId"], data["sessionTicket"])
        return await console_tokens.identify(services, call, provider, application_id, ticket, trace)
    row, endpoints = social_providers.PROVIDERS[provider["type"]], None
    if data.get("code") and provider["type"] != "Steam":
        endpoints = await resolve_endpoints(services, call, provider, application_id, data)
    tokens = await _get_tokens(services, endpoints, row, data)
    access_token = str(tokens.get("access_token", ""))
    identity = await console_tokens.identify(services, call, provider, application_id, (access_token,), trace)
    return dataclasses.replace(identity, token=identity.token or _text(tokens.get("refresh_token")))


async def _get_tokens(
    services: Services, endpoints: ProviderEndpoints | None, row: SocialProvider, data: Mapping[str, str]
) -> Document:
    """Exchange the code, or return the verified token of the application."""
    token = data.get("id_token") or data.get("token", "")
    if endpoints is not None and (data.get("code") or not row.token):
        required = ("code",) if _is_native(data) else ("code", "redirect_uri")
        crud.require_no_errors([_blank(name) for name in required if not data.get(name)])
        return await openid_connect.exchange_code(services, endpoints, data)
    if not token:
        crud.require_no_errors([_blank("token")])
    if row.token == "access_token" and endpoints is not None:  # noqa: S105 (name of a token)
        await _require_own_token(services, endpoints, token)
    return {row.token: token}


async def _require_own_token(services: Services, endpoints: ProviderEndpoints, token: str) -> None:
    """Require an access token that was issued to the configured client. Raises Unauthorized and Invalid."""
    if not token.isascii() or not token.isprintable():
        raise Unauthorized(log_detail="the access token cannot be sent")
    oauth2, federation = endpoints.oauth2, services.outbound.federation
    url = oauth2["introspection_endpoint"]
    try:
        if "fields" in oauth2:
            own = f"{oauth2['client_id']}|{oauth2['client_secret']}"
            query = urllib.parse.urlencode({"input_token": token, "access_token": own})
            body = await federation.get_json(f"{url}?{query}")
            stated = body.get("data") if isinstance(body, dict) else None
            is_own = isinstance(stated, dict) and stated.get("is_valid") is True
            client_id = stated.get("app_id") if is_own and isinstance(stated, dict) else None
        else:
            body = await federation.get_json(url, headers={"Authorization": f"OAuth {token}"})
            client_id = body.get("client_id") if isinstance(body, dict) else None
    except FederationError as error:
        raise openid_connect.provider_error("OpenIDConnectToken", str(error)) from error
    if str(client_id) != oauth2["client_id"]:
        raise Unauthorized(log_detail="the access token was issued to another client")


async def _facebook_userinfo(
    services: Services, _call: Call, endpoints: ProviderEndpoints, access_token: object
) -> Document:
    """Return the fields of a user; the proof shows that the request comes from the server of the application."""
    oauth2 = endpoints.oauth2
    if not isinstance(access_token, str):
        return {}
    proof = hmac.new(oauth2["client_secret"].encode(), access_token.encode(), hashlib.sha256).hexdigest()
    query = urllib.parse.urlencode({"fields": oauth2["fields"], "appsecret_proof": proof})
    try:
        claims = await services.outbound.federation.userinfo(f"{endpoints.userinfo_endpoint}?{query}", access_token)
    except FederationError as error:
        raise openid_connect.provider_error("OpenIDConnectUserinfo", str(error)) from error
    if not isinstance(claims, dict):
        raise openid_connect.provider_error("OpenIDConnectUserinfo", "its response is no JSON object")
    picture = claims.get("picture")
    data = picture.get("data") if isinstance(picture, dict) else None
    return {**claims, "picture": data.get("url") if isinstance(data, dict) else None}


_USERINFO: Final[Mapping[str, FetchUserinfo]] = {"Facebook": _facebook_userinfo}
"""The userinfo request of a type, if it is not that of OpenID Connect."""


def _complete(
    row: SocialProvider, found: ExternalIdentity | None, tokens: Document, data: Mapping[str, str]
) -> ExternalIdentity:
    """Return the identity with what the row states about it. Raises Unauthorized without a unique id."""
    if found is None:
        raise Unauthorized(log_detail="the claims have no unique id")
    claims = {**_apple_name(data.get("user") or data.get("appleUser")), **found.claims}
    return dataclasses.replace(
        found,
        is_email_verified=True if row.verifies_email and found.email else found.is_email_verified,
        claims=claims,
        lambda_arguments=(claims,),
        token=_text(tokens.get(row.keeps)),
    )


def _apple_name(text: str | None) -> Document:
    """Return the name that Apple sends with the first response; the unsigned email next to it is ignored."""
    try:
        user: Any = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    name = user.get("name") if isinstance(user, dict) else None
    members = name if isinstance(name, dict) else {}
    known = {key: members[key] for key in ("firstName", "lastName") if isinstance(members.get(key), str)}
    return known if external_identities.is_storable(known) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_native(data: Mapping[str, str]) -> bool:
    return data.get("isNativeApp") == "true"


def _blank(name: str) -> FieldError:
    return FieldError.missing(f"data.{name}", "blank")
