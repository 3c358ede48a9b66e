"""The client credentials grant: entities as clients, and what their tokens are good for."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest

from tests.api.test_entities import make as make_entity
from tests.api.test_entity_types import make as make_type
from tests.relying_party import claims, header

Document = dict[str, Any]
PERMISSIONS = [{"name": "read"}, {"name": "write"}, {"name": "scim:user:read"}]


@dataclasses.dataclass
class Machine:
    """An entity that asks for tokens, in a tenant, with entities that it asks for."""

    api: httpx.AsyncClient
    http: httpx.AsyncClient
    tenant: Document
    kind: Document
    entity: Document

    @property
    def client_id(self) -> str:
        return str(self.entity["clientId"])

    @property
    def secret(self) -> str:
        return str(self.entity["clientSecret"])

    async def target(self, *permissions: str, **members: Any) -> Document:
        """Another entity of the same type, on which ours may do something."""
        made = await make_entity(self.api, self.kind, **members)
        if permissions:
            await self.grant(made, *permissions)
        return made

    async def grant(self, target: Document, *permissions: str) -> None:
        body = {"grant": {"recipientEntityId": self.entity["id"], "permissions": list(permissions)}}
        answer = await self.api.post(f"/api/entity/{target['id']}/grant", json=body)
        assert answer.status_code == 200, answer.text

    async def ask(self, scope: str | None = None, **form: str | None) -> httpx.Response:
        merged = {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.secret,
            "scope": scope,
            **form,
        }
        return await self.http.post("/oauth2/token", data={k: v for k, v in merged.items() if v is not None})

    async def token(self, *targets: Document) -> str:
        answer = await self.ask(" ".join(f"target-entity:{target['id']}" for target in targets) or None)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    async def introspect(self, asking: Document, token: str, **form: str) -> httpx.Response:
        credentials = {"client_id": asking["clientId"], "client_secret": asking["clientSecret"]}
        return await self.http.post("/oauth2/introspect", data={**credentials, "token": token, **form})

    async def revoke(self, asking: Document, token: str, **form: str) -> httpx.Response:
        credentials = {"client_id": asking["clientId"], "client_secret": asking["clientSecret"]}
        return await self.http.post("/oauth2/revoke", data={**credentials, "token": token, **form})


async def make(api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, http: Any, tenant: Document) -> Machine:
    kind = await make_type(api, permissions=PERMISSIONS)
    return Machine(tenant_api, http, tenant, kind, await make_entity(tenant_api, kind, name="Machine"))


@pytest.fixture
async def machine(api, tenant_api, http, tenant) -> Machine:
    """An entity in a fresh tenant."""
    return await make(api, tenant_api, http, tenant)


def refused(answer: httpx.Response, error: str, reason: str | None, status: int = 400) -> None:
    assert (answer.status_code, answer.json()["error"], answer.json().get("error_reason")) == (status, error, reason)


# Tokens


async def test_token_for_one_target_names_it_and_what_may_be_done_there(machine):
    target = await machine.target("read", "write")
    scope = f"target-entity:{target['id']}:read"
    answer = await machine.ask(scope)
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    token = body.pop("access_token")
    assert body == {"expires_in": 3600, "scope": scope, "token_type": "Bearer"}
    assert header(token)["gty"] == ["client_credentials"]
    said = claims(token)
    assert len(said.pop("jti")) == 36
    assert said.pop("exp") - said.pop("iat") == 3600
    assert said == {
        "aud": target["id"],
        "gty": ["client_credentials"],
        "iss": "https://issuer.example.com",
        "permissions": {target["id"]: ["read"]},
        "scope": scope,
        "sub": machine.entity["id"],
        "tid": machine.tenant["id"],
        "tty": "at",
    }
