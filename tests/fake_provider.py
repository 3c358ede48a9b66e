"""An OpenID Connect provider whose responses a test controls."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

from identity.call import Document
from identity.ids import base64url, new_id
from identity.tokens import jwks, jws, keys, signing_keys
from tests.builders import NOW
from tests.receiver import Received, Receiver, receiving


async def make_key(algorithm: str = "ES256", **members: Any) -> Document:
    """A key document with both halves."""
    length = {"length": 2048} if algorithm.startswith("RS") else {}
    made = await keys.generate({"algorithm": algorithm, **length}, "https://provider.example.com", NOW)
    return {"id": new_id(), "lastUpdateInstant": NOW, **made, **members}


async def signed(key: Document, claims: Document, **header: Any) -> str:
    """A token that the key has signed."""
    return await jws.sign(signing_keys.parse(key), claims, header)


def unsigned(claims: Document, **header: Any) -> str:
    """A token without a signature."""
    parts = (base64url(json.dumps(part).encode()) for part in (header, claims))
    return ".".join([*parts, ""])


@dataclasses.dataclass
class FakeProvider:
    """The provider; every member may be changed at any time. `None` of a part answers 404."""

    receiver: Receiver
    key: Document
    clock: Any
    client_id: str = "the-client"
    userinfo: Any = dataclasses.field(default_factory=dict)
    id_claims: Document | None = None
    id_token: str | None = None
    token_answer: Document = dataclasses.field(default_factory=dict)
    published: Document = dataclasses.field(default_factory=dict)
    keys: list[Document] = dataclasses.field(default_factory=list)
    status: int = 200
    raw: bytes | None = None
    broken: str = ""
    """The path that answers with `status` and `raw`."""

    @property
    def issuer(self) -> str:
        """Its address, which is its issuer."""
        return f"http://127.0.0.1:{self.receiver.port}"

    def claims(self, **changes: Any) -> Document:
        """The claims of a good ID token; None leaves one out."""
        now = self.clock.now() // 1000
        usual = {"iss": self.issuer, "aud": self.client_id, "sub": "person", "iat": now, "exp": now + 300}
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def requests_to(self, path: str) -> list[Received]:
        """What arrived at a path."""
        return [request for request in self.receiver.requests if request.path == path]

    def form(self) -> dict[str, str]:
        """The form of the last token request."""
        return dict(urllib.parse.parse_qsl(self.requests_to("/token")[-1].body.decode()))

    async def answer(self, request: Received) -> tuple[int, bytes]:
        """What a request is answered with."""
        if request.path == self.broken:
            return self.status, self.raw if self.raw is not None else b"{}"
        found = {
            "/.well-known/openid-configuration": self.configuration,
            "/jwks": self.key_set,
            "/token": self.tokens,
            "/userinfo": self.person,
        }.get(request.path)
        body = None if found is None else await found()
        if body is None:
            return 404, b"{}"
        return 200, body.encode() if isinstance(body, str) else json.dumps(body).encode()

    async def configuration(self) -> Document:
        usual = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
        }
        return {name: value for name, value in {**usual, **self.published}.items() if value is not None}

    async def key_set(self) -> Document:
        return {"keys": self.keys or [jwks.to_jwk(self.key)]}

    async def tokens(self) -> Document:
        answer = {"access_token": "the-access-token", "token_type": "Bearer"}
        if self.id_token is not None:
            answer["id_token"] = self.id_token
        elif self.id_claims is not None:
            answer["id_token"] = await signed(self.key, self.id_claims)
        return {name: value for name, value in {**answer, **self.token_answer}.items() if value is not None}

    async def person(self) -> Any:
        return self.userinfo


@contextlib.asynccontextmanager
async def providing(clock: Any, key: Document | None = None) -> AsyncIterator[FakeProvider]:
    """A running provider."""
    async with receiving() as receiver:
        provider = FakeProvider(receiver, key or await make_key(), clock)

        async def behave(request: Received, writer: Any) -> None:
            status, body = await provider.answer(request)
            is_token = request.path == "/userinfo" and isinstance(provider.userinfo, str)
            kind = "application/jwt; charset=utf-8" if is_token else "application/json"
            head = f"HTTP/1.1 {status} Any\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)

        receiver.behaviour = behave
        yield provider
