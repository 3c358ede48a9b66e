"""An application that lets its users sign in through the identity service: a whole OpenID Connect relying party.

    .venv/bin/python examples/login/app.py        # then open http://localhost:9080/

It knows four things: the issuer, its own address, its client id and its client secret. Everything else (endpoints,
keys) it discovers from the issuer. The flow is the authorization code grant with PKCE (RFC 7636), `state` against
forged responses, `nonce` against replayed ID tokens, and `iss` against responses of another provider (RFC 9207).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import re
import secrets
import urllib.parse
from pathlib import Path
from typing import Any, cast

import tornado.escape
import tornado.httpclient
import tornado.web
from jose import jwt

CLIENT_ID = "e9fdb985-9173-4e01-9d73-ac2d60d1dc8e"
ALGORITHMS = ("RS256", "ES256")
Json = dict[str, Any]


class Provider:
    """The identity service, as its discovery document describes it."""

    def __init__(self, issuer: str, client_id: str, client_secret: str, base_url: str) -> None:
        self.issuer, self.client_id, self.client_secret, self.base_url = issuer, client_id, client_secret, base_url
        self.redirect_uri = f"{base_url}/callback"
        self._http = tornado.httpclient.AsyncHTTPClient()

    async def discover(self) -> Json:
        """The provider's endpoints. A document of another issuer is refused (OpenID Connect Discovery 4.3)."""
        found = await self._json(f"{self.issuer}/.well-known/openid-configuration")
        if found["issuer"] != self.issuer:
            raise tornado.web.HTTPError(502, f"the issuer calls itself {found['issuer']}")
        return found

    async def exchange(self, code: str, code_verifier: str) -> Json:
        """The tokens of a code."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.redirect_uri}
        request = {
            "method": "POST",
            "auth_username": self.client_id,
            "auth_password": self.client_secret,
            "body": urllib.parse.urlencode({**form, "code_verifier": code_verifier}),
        }
        return await self._json((await self.discover())["token_endpoint"], **request)

    async def verified(self, id_token: str, nonce: str) -> Json:
        """The claims of an ID token of this provider, for this application and this login; JWTError otherwise."""
        keys = (await self._json((await self.discover())["jwks_uri"]))["keys"]
        kid = jwt.get_unverified_header(id_token).get("kid")
        key = next((key for key in keys if key["kid"] == kid and key["alg"] in ALGORITHMS), None)
        if key is None:
            raise tornado.web.HTTPError(400, "this ID token was signed by none of the provider's keys")
        # The key decides the algorithm, never the token: a published key must not be taken for an HMAC secret.
        options = {"verify_at_hash": False}
        claims = jwt.decode(id_token, key, [key["alg"]], audience=self.client_id, issuer=self.issuer, options=options)
        if not secrets.compare_digest(str(claims.get("nonce", "")), nonce):
            raise tornado.web.HTTPError(400, "this ID token belongs to another login")
        return claims

    async def user_info(self, access_token: str) -> Json:
        """Return the claims of the userinfo endpoint."""
        headers = {"Authorization": f"Bearer {access_token}"}
        return await self._json((await self.discover())["userinfo_endpoint"], headers=headers)

    async def _json(self, url: str, **request: Any) -> Json:
        return cast("Json", json.loads((await self._http.fetch(url, **request)).body))


class Handler(tornado.web.RequestHandler):
    """Base of all pages: a signed cookie identifies the user."""

    @property
    def provider(self) -> Provider:
        """The identity service."""
        return cast("Provider", self.settings["provider"])

    def remembered(self, name: str) -> Json:
        """The content of a signed cookie, or nothing."""
        return cast("Json", json.loads(self.get_signed_cookie(name) or b"{}"))

    def remember(self, name: str, value: Json) -> None:
        """Keep something in a signed cookie until the browser closes."""
        self.set_signed_cookie(name, json.dumps(value), expires_days=None, httponly=True, samesite="Lax")


class Home(Handler):
    """The front page: who is signed in, or a link to sign in."""

    def get(self) -> None:
        """Show it."""
        user = self.remembered("user")
        if user:
            shown = tornado.escape.xhtml_escape(json.dumps(user["claims"], indent=2, sort_keys=True))
            self.finish(f'<h1>Signed in</h1><pre>{shown}</pre><p><a id="logout" href="/logout">Sign out</a></p>')
        else:
            self.finish('<h1>Example application</h1><p><a id="login" href="/login">Sign in</a></p>')


class Login(Handler):
    """The start: to the provider's login page, with what its answer has to match kept here."""

    async def get(self) -> None:
        """Redirect to the authorization endpoint."""
        flow = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "code_verifier")}
        self.remember("flow", flow)
        digest = hashlib.sha256(flow["code_verifier"].encode()).digest()
        query = {
            "client_id": self.provider.client_id,
            "redirect_uri": self.provider.redirect_uri,
            "response_type": "code",
            "scope": "openid profile email",
            "state": flow["state"],
            "nonce": flow["nonce"],
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        endpoint = (await self.provider.discover())["authorization_endpoint"]
        self.redirect(f"{endpoint}?{urllib.parse.urlencode(query)}")


class Callback(Handler):
    """The end: the provider sent the browser back, with a code or an error."""

    async def get(self) -> None:
        """Check that the answer is ours, exchange the code, verify the ID token, remember the user."""
        flow = self.remembered("flow")
        self.clear_cookie("flow")
        if not flow or not secrets.compare_digest(self.get_argument("state", ""), flow["state"]):
            raise tornado.web.HTTPError(400, "this response belongs to no login of this browser")
        if self.get_argument("iss", self.provider.issuer) != self.provider.issuer:
            raise tornado.web.HTTPError(400, "this response comes from another provider")
        if "code" not in self.request.query_arguments:
            raise tornado.web.HTTPError(400, self.get_argument("error", "the provider sent no code"))
        tokens = await self.provider.exchange(self.get_argument("code"), flow["code_verifier"])
        id_token = await self.provider.verified(tokens["id_token"], flow["nonce"])
        claims = await self.provider.user_info(tokens["access_token"])
        if claims["sub"] != id_token["sub"]:
            raise tornado.web.HTTPError(400, "the tokens speak of two users")
        self.remember("user", {"claims": claims, "id_token": tokens["id_token"]})
        self.redirect("/")


class Logout(Handler):
    """Sign out here and at the provider (OpenID Connect RP-Initiated Logout)."""

    async def get(self) -> None:
        """Forget the user, and go on to the provider."""
        user = self.remembered("user")
        self.clear_cookie("user")
        query = {"post_logout_redirect_uri": f"{self.provider.base_url}/", "id_token_hint": user.get("id_token", "")}
        endpoint = (await self.provider.discover())["end_session_endpoint"]
        self.redirect(f"{endpoint}?{urllib.parse.urlencode({**query, 'client_id': self.provider.client_id})}")


def application(provider: Provider) -> tornado.web.Application:
    """The application; its cookies hold until it is started anew."""
    routes = [("/", Home), ("/login", Login), ("/callback", Callback), ("/logout", Logout)]
    return tornado.web.Application(routes, provider=provider, cookie_secret=secrets.token_urlsafe(32))


async def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="An application that signs its users in through the identity service.")
    parser.add_argument("--issuer", default="http://localhost:9011", help="the identity service")
    parser.add_argument("--port", type=int, default=9080)
    parser.add_argument("--client-id", default=CLIENT_ID)
    parser.add_argument("--client-secret", help="default: the one that the first start of the service wrote down")
    parser.add_argument("--secrets", type=Path, default=Path("var/kickstart-secrets.txt"))
    options = parser.parse_args()
    secret = options.client_secret or _written_secret(options.secrets)
    base_url = f"http://localhost:{options.port}"
    application(Provider(options.issuer, options.client_id, secret, base_url)).listen(options.port, "127.0.0.1")
    print(f"Open {base_url}/")
    await asyncio.Event().wait()


def _written_secret(file: Path) -> str:
    found = re.search(r"^Example client secret: *(\S+)$", file.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{file} holds no client secret; give one with --client-secret")
    return found[1]


if __name__ == "__main__":
    asyncio.run(main())
