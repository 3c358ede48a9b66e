"""verify-token and explain: what a token or an authorization request means to an instance."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
import sys
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any, Final

import click

from identity.cli import exit_codes
from identity.cli.api import Api, Json, UnauthorizedError
from identity.cli.connection import with_api
from identity.cli.output import Output, instant

_INSTANTS: Final = ("auth_time", "exp", "iat", "nbf")
_READS_INPUT: Final = "-"


@click.command("verify-token")
@click.argument("token", default=_READS_INPUT)
@with_api
def verify_token(api: Api, output: Output, token: str) -> int:
    """Verify an access token with the instance, and print its claims. Without TOKEN: read standard input."""
    try:
        claims = _validated(api, _text(token))
    except UnauthorizedError:
        output.message("The token is not valid: unknown signature, expired, or revoked.", valid=False)
        return exit_codes.REFUSED
    output.object(claims)
    return exit_codes.OK


@click.command("explain")
@click.argument("text", metavar="TOKEN|URL", default=_READS_INPUT)
@with_api
def explain(api: Api, output: Output, text: str) -> None:
    """Explain a JWT, or an authorization URL: what it says, and what the instance makes of it. Secrets are not sent."""
    text = _text(text)
    is_url = text.startswith(("http://", "https://"))
    output.object(dict(_url_explained(api, text) if is_url else _token_explained(api, text)))


COMMANDS = (verify_token, explain)


def _text(argument: str) -> str:
    return (sys.stdin.read() if argument == _READS_INPUT else argument).strip()


def _validated(api: Api, token: str) -> Json:
    headers = {"Authorization": f"Bearer {token}"}
    claims: Json = api.send("GET", "/api/jwt/validate", headers=headers)["jwt"]
    return claims


def _token_explained(api: Api, token: str) -> Iterator[tuple[str, Any]]:
    header, claims = _decoded(token)
    yield "header", header
    yield "claims", {name: _readable(name, value) for name, value in claims.items()}
    yield "key", _key_of(api, header)
    for member, kind in (("tid", "tenant"), ("applicationId", "application")):
        if claims.get(member):
            found = api.find(f"/api/{kind}/{claims[member]}")
            yield kind, found[kind]["name"] if found else "not an object of this instance"
    expires = claims.get("exp")
    if isinstance(expires, int):
        left = expires - round(time.time())
        yield "expires", f"in {left} s" if left > 0 else f"expired {-left} s ago"
    yield "verification", _verification(api, token)


def _decoded(token: str) -> tuple[Json, Json]:
    parts = token.split(".")
    if len(parts) != 3:
        message = "this is not a JWT: refresh tokens, codes and API keys are random texts without content"
        raise click.UsageError(message)
    try:
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2])
    except (binascii.Error, ValueError) as error:
        raise click.UsageError(f"this is not a JWT: {error}") from error
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise click.UsageError("this is not a JWT: header and claims must be objects")
    return header, claims


def _readable(name: str, value: Any) -> Any:
    is_instant = name in _INSTANTS and isinstance(value, int)
    return f"{value} ({instant(value * 1000)})" if is_instant else value


def _key_of(api: Api, header: Json) -> str:
    matches = [one for one in api.get("/api/key").get("keys", []) if one.get("kid") == header.get("kid")]
    return f"{matches[0]['name']} ({matches[0]['id']})" if matches else "no key of this instance has this kid"


def _verification(api: Api, token: str) -> str:
    try:
        _validated(api, token)
    except UnauthorizedError:
        return "refused as an access token: unknown signature, expired, revoked, or a token of another kind"
    return "valid access token"


def _url_explained(api: Api, url: str) -> Iterator[tuple[str, Any]]:
    """Yield the parameters, the client, and the response of the instance to a browser without a session."""
    parts = urllib.parse.urlsplit(url)
    parameters = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    yield "endpoint", parts.path
    yield "parameters", parameters
    client_id = parameters.get("client_id", "")
    found = api.find(f"/api/application/{client_id}") if re.fullmatch(r"[0-9a-fA-F-]{36}", client_id) else None
    if found is not None:
        configured = found["application"].get("oauthConfiguration", {})
        names = ("authorizedRedirectURLs", "enabledGrants", "proofKeyForCodeExchangePolicy", "profile")
        yield "client", {"name": found["application"]["name"], **{name: configured.get(name) for name in names}}
    headers = {"Authorization": "", "Accept": "text/html"}
    status, answer, text = api.exchange("GET", f"{parts.path}?{parts.query}", headers=headers)
    yield "response", _response(status, answer.get("Location"), text)


def _response(status: int, location: str | None, page: str) -> Any:
    if location is not None:
        target = urllib.parse.urlsplit(location)
        sent = dict(urllib.parse.parse_qsl(target.query or target.fragment))
        if "error" in sent:
            return {"refused": True, **{name: value for name, value in sent.items() if name.startswith("error")}}
        return {"refused": False, "redirect": location}
    details = re.search(r"<pre[^>]*>(\{.*?\})</pre>", page, re.DOTALL)
    if status >= 400:
        return {"refused": True, **(json.loads(html.unescape(details[1])) if details else {"status": status})}
    return {"refused": False, "page": "the login page"}
