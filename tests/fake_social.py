"""The published identity providers, all at one address: each endpoint answers as its provider documents.

The service reaches them through `identity_providers.endpoint_overrides`, under their original issuers and URLs.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import json
import re
import urllib.parse
from collections.abc import AsyncIterator, Callable
from typing import Any

from jose import jwt
from oauthlib import oauth1

from identity.call import Document
from identity.domain.authorization import pkce
from identity.ids import new_id, new_secret
from identity.tokens import jwks
from tests.fake_consoles import FakeConsoles
from tests.fake_provider import make_key, signed
from tests.receiver import Received, Receiver, receiving

CLIENT_ID = "our-client"
SECRET = "our-secret"
WEB_API_KEY = "our-web-api-key"
TEAM_ID = "TEAM123456"
CONSOLE_PATHS = {"api.steampowered.com": "/public", "partner.steam-api.com": "/partner"}

# Type or preset -> (path, issuer of the ID tokens, whether the client authenticates by HTTP Basic).
DIRECTORY = "login.microsoftonline.com/the-directory"
TOKEN_ENDPOINTS = {
    "Apple": ("/appleid.apple.com/auth/token", "https://appleid.apple.com", False),
    "Discord": ("/discord.com/api/oauth2/token", None, False),
    "EntraID": (f"/{DIRECTORY}/oauth2/v2.0/token", f"https://{DIRECTORY}/v2.0", False),
    "EpicGames": ("/api.epicgames.dev/epic/oauth/v2/token", None, True),
    "Facebook": ("/graph.facebook.com/v23.0/oauth/access_token", None, False),
    "GitHub": ("/github.com/login/oauth/access_token", None, False),
    "GitLab": ("/gitlab.com/oauth/token", "https://gitlab.com", False),
    "Google": ("/oauth2.googleapis.com/token", "https://accounts.google.com", False),
    "LinkedIn": ("/www.linkedin.com/oauth/v2/accessToken", "https://www.linkedin.com/oauth", False),
    "Nintendo": ("/accounts.nintendo.com/connect/1.0.0/api/token", None, True),
    "SonyPSN": ("/auth.api.sonyentertainmentnetwork.com/2.0/oauth/token", None, True),
    "Slack": ("/slack.com/api/openid.connect.token", "https://slack.com", False),
    "Twitch": ("/id.twitch.tv/oauth2/token", "https://id.twitch.tv/oauth2", False),
    "Xbox": ("/login.live.com/oauth20_token.srf", None, False),
}
CONFIGURATIONS = {
    "EntraID": (f"https://{DIRECTORY}/oauth2/v2.0/authorize", "https://graph.microsoft.com/oidc/userinfo"),
    "GitLab": ("https://gitlab.com/oauth/authorize", "https://gitlab.com/oauth/userinfo"),
    "Slack": ("https://slack.com/openid/connect/authorize", "https://slack.com/api/openid.connect.userInfo"),
}
"""Preset -> the endpoints that its issuer publishes: authorization and userinfo."""
KEY_SETS = {
    *(f"/slack.com/{kind}/keys" for kind in CONFIGURATIONS),
    "/appleid.apple.com/auth/keys",
    "/www.googleapis.com/oauth2/v3/certs",
    "/www.linkedin.com/oauth/openid/jwks",
    "/id.twitch.tv/oauth2/keys",
}
USERINFO = {
    "/api.github.com/user": "GitHub",
    "/discord.com/api/users/@me": "Discord",
    **{url.removeprefix("https:/"): kind for kind, (_, url) in CONFIGURATIONS.items()},
    "/openidconnect.googleapis.com/v1/userinfo": "Google",
    "/api.linkedin.com/v2/userinfo": "LinkedIn",
    "/id.twitch.tv/oauth2/userinfo": "Twitch",
}
REVOCATION = {
    "/appleid.apple.com/auth/revoke",
    "/oauth2.googleapis.com/revoke",
    "/www.linkedin.com/oauth/v2/revoke",
    "/gitlab.com/oauth/revoke",
}
HOSTS = (
    *("api.github.com", "discord.com", "github.com", "gitlab.com", "graph.microsoft.com", "login.microsoftonline.com"),
    *("slack.com", "accounts.nintendo.com", "api.accounts.nintendo.com", "api.epicgames.dev", "api.linkedin.com"),
    *("api.steampowered.com", "api.twitter.com", "appleid.apple.com", "auth.api.sonyentertainmentnetwork.com"),
    *("graph.facebook.com", "id.twitch.tv", "login.live.com", "oauth2.googleapis.com", "openidconnect.googleapis.com"),
    *("partner.steam-api.com", "steamcommunity.com", "user.auth.xboxlive.com", "www.googleapis.com"),
    *("www.linkedin.com", "xsts.auth.xboxlive.com"),
)
STEAM = "https://steamcommunity.com/openid/login"
_FIRST_NAME = "Ada"

Answer = tuple[int, Any]


@dataclasses.dataclass
class FakeSocial:
    """All providers. A test may change every member; `reset` puts them back."""

    receiver: Receiver
    key: Document
    clock: Any
    consoles: FakeConsoles
    account: str = ""
    email: str | None = None
    is_verified: bool = True
    codes: dict[str, tuple[str, Document]] = dataclasses.field(default_factory=dict)
    """code -> (type of the provider, authorization request)."""
    issued: dict[str, str] = dataclasses.field(default_factory=dict)
    """access token -> client."""
    secrets: dict[str, str] = dataclasses.field(default_factory=dict)
    """OAuth 1.0a token -> its secret."""
    assertions: set[str] = dataclasses.field(default_factory=set)
    apple_key: Document = dataclasses.field(default_factory=dict)
    id_claims: Document = dataclasses.field(default_factory=dict)
    """What differs in the ID token; None leaves a claim out."""
    broken: str = ""
    """The path that answers 500."""

    def reset(self) -> None:
        """A new account, and nothing issued."""
        self.account = str(int(new_id().replace("-", "")[:15], 16))
        self.email, self.is_verified, self.broken, self.id_claims = f"{new_id()}@example.com", True, "", {}
        for issued in (self.codes, self.issued, self.secrets, self.assertions, self.consoles.tokens):
            issued.clear()
        self.receiver.requests.clear()

    def overrides(self) -> str:
        """The setting with which the service finds the fakes."""
        return json.dumps({f"https://{host}": f"http://127.0.0.1:{self.receiver.port}/{host}" for host in HOSTS})

    def requests_to(self, path: str) -> list[Received]:
        """What arrived at a path."""
        return [request for request in self.receiver.requests if request.path.partition("?")[0] == path]

    # In the browser

    def approve(self, kind: str, request: Document) -> Document:
        """The parameters of the response after the user signed in and agreed."""
        if kind == "Twitter":
            return {"oauth_token": request["oauth_token"], "oauth_verifier": "the-verifier"}
        if kind == "Steam":
            return self.assertion(request)
        assert (request["response_type"], request["client_id"]) == ("code", CLIENT_ID)
        assert (request.get("response_mode") == "form_post") is (kind == "Apple")
        code = new_secret()
        self.codes[code] = kind, request
        named = {
            "user": json.dumps({"name": {"firstName": _FIRST_NAME, "lastName": "Lovelace"}, "email": "x@evil.example"})
        }
        return {"code": code, "state": request["state"], **(named if kind == "Apple" else {})}

    def deny(self, kind: str, request: Document) -> Document:
        """The parameters of the response after the user declined."""
        if kind == "Twitter":
            return {"denied": request["oauth_token"]}
        if kind == "Steam":
            state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request["openid.return_to"]).query))
            return {**state, "openid.mode": "cancel"}
        error = "user_cancelled_authorize" if kind == "Apple" else "access_denied"
        return {"error": error, "state": request["state"]}

    def assertion(self, request: Document) -> Document:
        """A positive assertion of Steam (OpenID Authentication 2.0 section 10.1)."""
        assert request["openid.return_to"].startswith(request["openid.realm"])
        nonce = new_id()
        self.assertions.add(nonce)
        claimed = f"https://steamcommunity.com/openid/id/{self.account}"
        members = {
            "op_endpoint": STEAM, "claimed_id": claimed, "identity": claimed, "return_to": request["openid.return_to"],
            "response_nonce": nonce, "assoc_handle": "1234567890",
        }  # fmt: skip
        sent = {"ns": request["openid.ns"], "mode": "id_res", **members, "signed": ",".join(members), "sig": "c2ln"}
        state = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request["openid.return_to"]).query))
        return {**state, **{f"openid.{name}": value for name, value in sent.items()}}

    async def issue(self, kind: str, client_id: str = CLIENT_ID) -> str:
        """An access token."""
        if kind == "Nintendo":
            return await self.consoles.issue_jwt(self.account, aud=client_id)
        token = self.consoles.issue(self.account, client_id)
        self.issued[token] = client_id
        return token

    async def id_token(self, kind: str, **changes: Any) -> str:
        """An ID token."""
        now = self.clock.now() // 1000
        usual = {"iss": TOKEN_ENDPOINTS[kind][1], "aud": CLIENT_ID, "sub": self.account, "iat": now, "exp": now + 300}
        # Apple states it as text.
        verified: Any = str(self.is_verified).lower() if kind == "Apple" else self.is_verified
        mail = {} if kind in {"EntraID", "LinkedIn", "Twitch"} else {"email": self.email, "email_verified": verified}
        claims = {**usual, **mail, **changes, **self.id_claims}
        return await signed(self.key, {name: value for name, value in claims.items() if value is not None})

    # Requests of the service

    async def answer(self, request: Received) -> Answer:
        """What a request is answered with."""
        parts = urllib.parse.urlsplit(request.path)
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        query = dict(urllib.parse.parse_qsl(parts.query))
        for kind, (path, _, _) in TOKEN_ENDPOINTS.items():
            if parts.path == path and parts.path != self.broken:
                return await self.exchange(kind, request, form)
        if parts.path == self.broken:
            return 500, {}
        if parts.path.endswith("/.well-known/openid-configuration"):
            return self.configuration(parts.path)
        if parts.path in KEY_SETS:
            return 200, {"keys": [jwks.to_jwk(self.key)]}
        if parts.path in USERINFO:
            return self.userinfo(USERINFO[parts.path], request)
        if parts.path in REVOCATION:
            return 200, ""
        for prefix, handler in _HANDLERS.items():
            if parts.path == prefix:
                return handler(self, request, {**query, **form})
        _, host, path = parts.path.split("/", 2)
        inner = dataclasses.replace(request, path=f"{CONSOLE_PATHS.get(host, '')}/{path}?{parts.query}")
        return self.consoles.answer(inner)

    async def exchange(self, kind: str, request: Received, form: Document) -> Answer:
        """A token response (RFC 6749 section 5)."""
        _, issuer, is_basic = TOKEN_ENDPOINTS[kind]
        if not self.is_client(kind, request, form, is_basic=is_basic):
            return 401, {"error": "invalid_client"}
        owner, asked = self.codes.pop(form.get("code", ""), ("", {}))
        if owner != kind and kind == "GitHub":
            return 200, {"error": "bad_verification_code"}
        if owner != kind or form.get("redirect_uri") != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        challenge = asked.get("code_challenge")
        if challenge is not None and pkce.challenge(form.get("code_verifier", "")) != challenge:
            return 400, {"error": "invalid_grant"}
        tokens = {"access_token": await self.issue(kind), "token_type": "Bearer", "refresh_token": "the-refresh-token"}
        if issuer is not None and (kind != "LinkedIn" or "openid" in asked["scope"]):
            # LinkedIn ignores the nonce.
            nonce = None if kind == "LinkedIn" else asked.get("nonce")
            tokens["id_token"] = await self.id_token(kind, **({} if nonce is None else {"nonce": nonce}))
        return 200, tokens

    def configuration(self, path: str) -> Answer:
        """The configuration of an issuer (OpenID Connect Discovery 1.0)."""
        issuer = "https:/" + path.removesuffix("/.well-known/openid-configuration")
        kind = next(name for name in CONFIGURATIONS if TOKEN_ENDPOINTS[name][1] == issuer)
        authorization, userinfo = CONFIGURATIONS[kind]
        revocation = {"revocation_endpoint": "https://gitlab.com/oauth/revoke"} if kind == "GitLab" else {}
        return 200, revocation | {
            "issuer": issuer, "authorization_endpoint": authorization, "userinfo_endpoint": userinfo,
            "token_endpoint": f"https:/{TOKEN_ENDPOINTS[kind][0]}", "jwks_uri": f"https://slack.com/{kind}/keys",
        }  # fmt: skip

    def is_client(self, kind: str, request: Received, form: Document, *, is_basic: bool) -> bool:
        """Whether the client authenticated as the provider requires."""
        if is_basic:
            expected = base64.b64encode(f"{CLIENT_ID}:{SECRET}".encode()).decode()
            return request.headers.get("authorization") == f"Basic {expected}" and "client_secret" not in form
        if kind != "Apple":
            return (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, SECRET)
        header = jwt.get_unverified_header(form["client_secret"])
        claims = jwt.decode(
            form["client_secret"], self.apple_key["publicKey"], algorithms=["ES256"],
            audience="https://appleid.apple.com", options={"verify_exp": False, "verify_iat": False},
        )  # fmt: skip
        is_current = claims["iat"] <= self.clock.now() // 1000 < claims["exp"] <= claims["iat"] + 15_777_000
        names = (claims["iss"], claims["sub"], header["kid"])
        return is_current and names == (TEAM_ID, form["client_id"], self.apple_key["kid"])

    def userinfo(self, kind: str, request: Received) -> Answer:
        """Claims of OpenID Connect."""
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.issued:
            return 401, {"error": "invalid_token"}
        if kind == "GitHub":
            return 200, {"id": int(self.account), "login": "ada", "email": None}
        if kind == "Discord":
            return 200, {"id": self.account, "username": "ada", "email": self.email, "verified": self.is_verified}
        if kind == "EntraID":
            return 200, {"sub": self.account, "email": self.email, "name": "Ada Lovelace"}
        claims = {
            "sub": self.account, "email": self.email, "email_verified": self.is_verified,
            "picture": "https://images.example.com/ada.png",
        }  # fmt: skip
        names = {"given_name": _FIRST_NAME, "family_name": "Lovelace", "name": "Ada Lovelace"}
        return 200, claims | ({"preferred_username": "ada"} if kind == "Twitch" else names)

    def twitch_validate(self, request: Received, _given: Document) -> Answer:
        token = request.headers.get("authorization", "").removeprefix("OAuth ")
        if token not in self.issued:
            return 401, {"status": 401, "message": "invalid access token"}
        return 200, {"client_id": self.issued[token], "login": "ada", "user_id": self.account, "expires_in": 5520838}

    def github_emails(self, request: Received, _given: Document) -> Answer:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.issued:
            return 401, {"message": "Bad credentials"}
        other = {"email": "other@example.com", "primary": False, "verified": True, "visibility": None}
        return 200, [other, {"email": self.email, "primary": True, "verified": self.is_verified, "visibility": None}]

    def facebook_debug_token(self, _request: Received, given: Document) -> Answer:
        if given.get("access_token") != f"{CLIENT_ID}|{SECRET}":
            return 400, {"error": {"message": "Invalid OAuth access token.", "code": 190}}
        token = given.get("input_token", "")
        if token not in self.issued:
            return 200, {"data": {"is_valid": False, "error": {"code": 190}}}
        return 200, {"data": {"app_id": self.issued[token], "is_valid": True, "user_id": self.account}}

    def facebook_me(self, request: Received, given: Document) -> Answer:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        proof = hmac.new(SECRET.encode(), token.encode(), hashlib.sha256).hexdigest()
        if token not in self.issued or given.get("appsecret_proof") != proof:
            return 400, {"error": {"message": "Invalid appsecret_proof provided in the API argument", "code": 100}}
        known = {
            "id": self.account, "email": self.email, "first_name": _FIRST_NAME, "last_name": "Lovelace",
            "picture": {"data": {"url": "https://images.example.com/ada.png", "is_silhouette": False}},
        }  # fmt: skip
        return 200, {name: known[name] for name in given["fields"].split(",") if known.get(name) is not None}

    def steam_login(self, _request: Received, given: Document) -> Answer:
        nonce = given.get("openid.response_nonce", "")
        is_valid = given.get("openid.mode") == "check_authentication" and nonce in self.assertions
        self.assertions.discard(nonce)
        return 200, f"ns:http://specs.openid.net/auth/2.0\nis_valid:{str(is_valid).lower()}\n"

    def twitter_request_token(self, request: Received, _given: Document) -> Answer:
        return self.twitter_token(request) if self.is_signed(request, "") else (401, {"errors": [{"code": 32}]})

    def twitter_access_token(self, request: Received, _given: Document) -> Answer:
        given = _oauth1_parameters(request)
        if given.get("oauth_verifier") != "the-verifier" or not self.is_signed(request, given.get("oauth_token", "")):
            return 401, "Reverse auth credentials are invalid"
        return self.twitter_token(request)

    def twitter_account(self, request: Received, given: Document) -> Answer:
        if not self.is_signed(request, _oauth1_parameters(request).get("oauth_token", "?")):
            return 401, {"errors": [{"code": 89, "message": "Invalid or expired token."}]}
        # An address that is not verified is null.
        email = self.email if given.get("include_email") == "true" and self.is_verified else None
        return 200, {
            "id": int(self.account),
            "id_str": self.account,
            "screen_name": "ada",
            "name": "Ada",
            "email": email,
        }

    def twitter_token(self, _request: Received) -> Answer:
        token = new_id()
        self.secrets[token] = new_id()
        form = {"oauth_token": token, "oauth_token_secret": self.secrets[token], "oauth_callback_confirmed": "true"}
        return 200, urllib.parse.urlencode(form)

    def is_signed(self, request: Received, token: str) -> bool:
        """Whether a request has the signature of RFC 5849 section 3.4."""
        if token and token not in self.secrets:
            return False
        given = _oauth1_parameters(request)
        client = oauth1.Client(
            CLIENT_ID, SECRET, resource_owner_key=token or None, resource_owner_secret=self.secrets.get(token),
            verifier=given.get("oauth_verifier"), callback_uri=given.get("oauth_callback"),
            timestamp=given.get("oauth_timestamp"), nonce=given.get("oauth_nonce"),
        )  # fmt: skip
        url = f"https:/{request.path}"
        _, headers, _ = client.sign(url, request.method)  # type: ignore[arg-type]
        return str(headers["Authorization"]) == request.headers.get("authorization")


_HANDLERS: dict[str, Callable[[FakeSocial, Received, Document], Answer]] = {
    "/api.github.com/user/emails": FakeSocial.github_emails,
    "/api.twitter.com/1.1/account/verify_credentials.json": FakeSocial.twitter_account,
    "/api.twitter.com/oauth/access_token": FakeSocial.twitter_access_token,
    "/api.twitter.com/oauth/request_token": FakeSocial.twitter_request_token,
    "/graph.facebook.com/v23.0/debug_token": FakeSocial.facebook_debug_token,
    "/graph.facebook.com/v23.0/me": FakeSocial.facebook_me,
    "/id.twitch.tv/oauth2/validate": FakeSocial.twitch_validate,
    "/steamcommunity.com/openid/login": FakeSocial.steam_login,
}


def _oauth1_parameters(request: Received) -> Document:
    pairs = re.findall(r'(oauth_\w+)="([^"]*)"', request.headers.get("authorization", ""))
    return {name: urllib.parse.unquote(value) for name, value in pairs}


@contextlib.asynccontextmanager
async def running(clock: Any) -> AsyncIterator[FakeSocial]:
    """The running providers."""
    async with receiving() as receiver:
        key = await make_key("RS256", kid="theirs")
        social = FakeSocial(receiver, key, clock, FakeConsoles(receiver, key, clock))

        async def behave(request: Received, writer: Any) -> None:
            status, body = await social.answer(request)
            text = (body if isinstance(body, str) else json.dumps(body)).encode()
            writer.write(f"HTTP/1.1 {status} Any\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)

        receiver.behaviour = behave
        yield social
