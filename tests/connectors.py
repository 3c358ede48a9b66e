"""Connectors for tests: an HTTP server with users, and what an administrator configures."""

from __future__ import annotations

from typing import Any

import httpx
import orjson

from identity.ids import new_id
from tests.receiver import Behaviour, Received, answers

Document = dict[str, Any]

INTERNAL = "e3306678-a53a-4964-9040-1c96f36dda72"
PASSWORD = "the password elsewhere"


class UserServer:
    """The behaviour of a generic connector's server, as published: the user of correct credentials, 404 otherwise."""

    def __init__(self, *users: Document) -> None:
        self.users = {login: user for user in users for login in (user.get("email"), user.get("username")) if login}

    async def __call__(self, request: Received, writer: Any) -> None:
        login = orjson.loads(request.body)
        user = self.users.get(login["loginId"])
        is_correct = user is not None and login["password"] == PASSWORD
        behave: Behaviour = (
            answers(200, orjson.dumps({"user": user, "token": "unused"})) if is_correct else answers(404)
        )
        await behave(request, writer)


def a_user(**members: Any) -> Document:
    """A user elsewhere, with an address of its own."""
    name = new_id()[:13]
    return {
        "id": new_id(),
        "email": f"{name}@example.com",
        "firstName": "Ada",
        "data": {"from": "elsewhere"},
        **members,
    }


def generic(url: str, **members: Any) -> Document:
    """The settings of a generic connector."""
    settings = {"type": "Generic", "name": new_id(), "authenticationURL": url}
    return {**settings, "connectTimeout": 5000, "readTimeout": 20_000, **members}


async def make(api: httpx.AsyncClient, connector: Document) -> str:
    """Create a connector, and return its id."""
    answer = await api.post("/api/connector", json={"connector": connector})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["connector"]["id"])


async def use(api: httpx.AsyncClient, tenant_id: str, *policies: Document) -> None:
    """Let the tenant use connectors in this order, before the internal one."""
    wanted = [{"domains": ["*"], "migrate": False, **policy} for policy in policies]
    body = {"tenant": {"connectorPolicies": [*wanted, {"connectorId": INTERNAL}]}}
    tenant = (await api.get(f"/api/tenant/{tenant_id}")).json()["tenant"]
    answer = await api.put(f"/api/tenant/{tenant_id}", json={"tenant": {**tenant, **body["tenant"]}})
    assert answer.status_code == 200, answer.text
