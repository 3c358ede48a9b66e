"""Fakes of game platforms: the endpoints that verify tokens, as the platforms document them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

from identity.call import Document
from identity.ids import new_id
from identity.tokens import jwks
from tests.fake_provider import make_key, signed
from tests.receiver import Received, Receiver, receiving

CLIENT_ID = "our-client"
SECRET = "our-secret"
WEB_API_KEY = "our-web-api-key"

Answer = tuple[int, Any]


@dataclasses.dataclass
class FakeConsoles:
    """All platforms at one address. `tokens` are the live ones: token -> (client id, account id)."""

    receiver: Receiver
    key: Document
    clock: Any
    tokens: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    one_time_tokens: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    name: str = "Player One"
    changed: Document = dataclasses.field(default_factory=dict)
    """path -> what it answers in place of the usual."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    def endpoints(self) -> dict[str, str]:
        """The addresses, under the names that the service gives them."""
        return {
            "epic_accounts": f"{self.url}/epic/id/v2/accounts",
            "epic_token_info": f"{self.url}/epic/oauth/v2/tokenInfo",
            "nintendo_issuer": "https://accounts.nintendo.com",
            "nintendo_keys": f"{self.url}/1.0.0/certificates",
            "nintendo_user": f"{self.url}/2.0.0/users/me",
            "sony_token_info": f"{self.url}/2.0/oauth/token",
            "steam_partner": f"{self.url}/partner",
            "steam_public": f"{self.url}/public",
            "xbox_user": f"{self.url}/user/authenticate",
            "xbox_xsts": f"{self.url}/xsts/authorize",
        }

    def issue(self, account: str, client_id: str = CLIENT_ID) -> str:
        """An opaque access token."""
        token = new_id()
        self.tokens[token] = (client_id, account)
        return token

    async def issue_jwt(self, account: str, **changes: Any) -> str:
        """An access token of Nintendo."""
        now = self.clock.now() // 1000
        usual = {
            "iss": "https://accounts.nintendo.com", "aud": CLIENT_ID, "sub": account, "typ": "token",
            "iat": now, "exp": now + 900, "jti": new_id(),
        }  # fmt: skip
        token = await signed(self.key, {**usual, **changes}, jku="https://evil.example.com/keys")
        self.tokens[token] = (CLIENT_ID, account)
        return token

    def issue_ticket(self, account: str, application_id: str = "480") -> str:
        """A session ticket of Steam."""
        ticket = new_id().replace("-", "").upper()
        self.one_time_tokens[application_id, ticket] = account
        return ticket

    def answer(self, request: Received) -> Answer:
        """What a request is answered with."""
        parts = urllib.parse.urlsplit(request.path)
        if parts.path in self.changed:
            return 200, self.changed[parts.path]
        query = dict(urllib.parse.parse_qsl(parts.query))
        if parts.path.startswith("/2.0/oauth/token/"):
            return self.sony(request, urllib.parse.unquote(parts.path.rpartition("/")[2]))
        if parts.path.startswith(("/partner/", "/public/")):
            return self.steam(parts.path, query)
        found = {
            "/epic/oauth/v2/tokenInfo": self.epic_token_info,
            "/epic/id/v2/accounts": self.epic_accounts,
            "/1.0.0/certificates": self.nintendo_keys,
            "/2.0.0/users/me": self.nintendo_user,
            "/user/authenticate": self.xbox_user,
            "/xsts/authorize": self.xbox_xsts,
        }.get(parts.path)
        return (404, {}) if found is None else found(request, query)

    def bearer(self, request: Received) -> str | None:
        """The account of the bearer token."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.tokens[token][1] if token in self.tokens else None

    def epic_token_info(self, request: Received, _query: Document) -> Answer:
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        if form.get("token") not in self.tokens:
            return 200, {"active": False}
        client_id, account = self.tokens[form["token"]]
        return 200, {"active": True, "token_type": "bearer", "account_id": account, "client_id": client_id}

    def epic_accounts(self, request: Received, query: Document) -> Answer:
        account = self.bearer(request)
        if account is None:
            return 401, {"errorCode": "errors.com.epicgames.common.authentication.token_verification_failed"}
        named = {"accountId": account, "displayName": self.name, "preferredLanguage": "en"}
        return 200, [named] if query.get("accountId") == account else []

    def nintendo_keys(self, _request: Received, _query: Document) -> Answer:
        return 200, {"keys": [jwks.to_jwk(self.key)]}

    def nintendo_user(self, request: Received, _query: Document) -> Answer:
        account = self.bearer(request)
        if account is None:
            return 401, {"errorCode": "invalid_token"}
        return 200, {"id": account, "nickname": self.name, "preferred_username": self.name, "country": "JP"}

    def sony(self, request: Received, token: str) -> Answer:
        basic = request.headers.get("authorization", "")
        if not basic.startswith("Basic "):
            return 401, {"error": "invalid_client", "error_code": 4102}
        if token not in self.tokens:
            return 404, {"error": "not_found", "error_code": 4159}
        client_id, account = self.tokens[token]
        return 200, {"scopes": "psn:s2s", "user_id": account, "client_id": client_id, "online_id": self.name}

    def steam(self, path: str, query: Document) -> Answer:
        method = path.partition("/I")[2]
        if method.startswith("SteamUserOAuth/"):
            found = self.tokens.get(query.get("access_token", ""))
            if found is None:
                return 401, {}
            return 200, {"response": {"steamid": found[1], "client_id": found[0], "expires": 3600}}
        if query.get("key") != WEB_API_KEY:
            return 403, {}
        if method.startswith("SteamUser/"):
            player = {"steamid": query["steamids"], "personaname": self.name, "communityvisibilitystate": 3}
            return 200, {"response": {"players": [player]}}
        account = self.one_time_tokens.get((query["appid"], query["ticket"]))
        if account is None:
            return 200, {"response": {"error": {"errorcode": 101, "errordesc": "Invalid ticket"}}}
        return 200, {"response": {"params": {"result": "OK", "steamid": account, "ownersteamid": account}}}

    def xbox_user(self, request: Received, _query: Document) -> Answer:
        properties = json.loads(request.body)["Properties"]
        ticket = properties["RpsTicket"].removeprefix("d=")
        if properties["AuthMethod"] != "RPS" or ticket not in self.tokens:
            return 401, {}
        return 200, {"Token": f"user {ticket}", "DisplayClaims": {"xui": [{"uhs": "1"}]}}

    def xbox_xsts(self, request: Received, _query: Document) -> Answer:
        (user_token,) = json.loads(request.body)["Properties"]["UserTokens"]
        found = self.tokens.get(str(user_token).removeprefix("user "))
        if found is None:
            return 401, {"XErr": 2148916233}
        claims = {"gtg": self.name, "xid": found[1], "uhs": "1", "agg": "Adult"}
        return 200, {"Token": "xsts", "DisplayClaims": {"xui": [claims]}}


@contextlib.asynccontextmanager
async def running(clock: Any) -> AsyncIterator[FakeConsoles]:
    """The running platforms."""
    async with receiving() as receiver:
        consoles = FakeConsoles(receiver, await make_key("RS256", kid="nintendo"), clock)

        async def behave(request: Received, writer: Any) -> None:
            status, body = consoles.answer(request)
            text = json.dumps(body).encode()
            head = f"HTTP/1.1 {status} Any\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
            writer.write(head.encode() + text)

        receiver.behaviour = behave
        yield consoles
