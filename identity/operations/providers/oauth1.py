"""OAuth 1.0a (RFC 5849), the protocol of the published Twitter settings `consumerKey` and `consumerSecret`."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Final, Literal

from oauthlib import oauth1

from identity.call import Call, Document
from identity.domain.providers import external_identities
from identity.errors import FieldError, Unauthorized
from identity.operations.objects import crud
from identity.operations.providers import openid_connect
from identity.outbound.federation import FederationError
from identity.services import Services

_MAX_TOKEN_LENGTH: Final = 255


async def request_token(services: Services, call: Call, oauth2: Document, callback_url: str) -> tuple[str, str]:
    """Return temporary credentials (section 2.1): the token and its secret. Raises Invalid."""
    answer = await _post(services, oauth2["request_token_endpoint"], _client(call, oauth2, callback=callback_url))
    if answer.get("oauth_callback_confirmed") != "true":
        raise openid_connect.provider_error("OpenIDConnectToken", "it did not confirm the callback")
    return answer["oauth_token"], answer["oauth_token_secret"]


async def fetch_claims(
    services: Services, call: Call, oauth2: Document, data: Mapping[str, str]
) -> tuple[Document, str]:
    """Return the account and the access token of temporary credentials with a verifier, or of an access token.

    Raises Invalid for missing data or an unusable response, Unauthorized for claims that cannot be stored.
    """
    names = ("oauth_token", "oauth_token_secret")
    crud.require_no_errors([FieldError.missing(f"data.{n}", "blank") for n in names if not data.get(n)])
    token, secret = data["oauth_token"], data["oauth_token_secret"]
    if data.get("oauth_verifier"):
        client = _client(call, oauth2, token=token, secret=secret, verifier=data["oauth_verifier"])
        answer = await _post(services, oauth2["token_endpoint"], client)
        token, secret = answer["oauth_token"], answer["oauth_token_secret"]
    url = f"{oauth2['userinfo_endpoint']}?include_email=true&skip_status=true"
    headers = _sign(_client(call, oauth2, token=token, secret=secret), url, "GET")
    try:
        claims = await services.outbound.federation.get_json(url, headers=headers)
    except FederationError as error:
        raise openid_connect.provider_error("OpenIDConnectUserinfo", str(error)) from error
    if not isinstance(claims, dict) or not external_identities.is_storable(claims):
        raise Unauthorized(log_detail="the claims cannot be stored")
    return claims, token


def _client(
    call: Call, oauth2: Document, *, token: str = "", secret: str = "", verifier: str = "", callback: str = ""
) -> oauth1.Client:
    return oauth1.Client(
        oauth2["client_id"],
        oauth2["client_secret"],
        resource_owner_key=token or None,
        resource_owner_secret=secret or None,
        verifier=verifier or None,
        callback_uri=callback or None,
        timestamp=str(call.now // 1000),
    )


def _sign(client: oauth1.Client, url: str, method: Literal["GET", "POST"]) -> Mapping[str, str]:
    """Return the headers of a signed request. Raises Invalid for a token that cannot be signed."""
    try:
        _, headers, _ = client.sign(url, method)
    except ValueError as error:
        raise openid_connect.provider_error("OpenIDConnectToken", "a token cannot be signed") from error
    return dict(headers)


async def _post(services: Services, url: str, client: oauth1.Client) -> dict[str, str]:
    """Return the form in a response; it contains a token and its secret."""
    try:
        body = await services.outbound.federation.post_form(url, {}, headers=_sign(client, url, "POST"))
    except FederationError as error:
        raise openid_connect.provider_error("OpenIDConnectToken", str(error)) from error
    answer = dict(urllib.parse.parse_qsl(body.decode("ascii", "replace")))
    if not all(0 < len(answer.get(name, "")) <= _MAX_TOKEN_LENGTH for name in ("oauth_token", "oauth_token_secret")):
        raise openid_connect.provider_error("OpenIDConnectToken", "its response has no token")
    return answer
