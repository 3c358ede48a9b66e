"""A SCIM client in tests: an entity with a token for the SCIM server of a tenant, and what it sends."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx

from identity.ids import new_id
from tests import relying_party
from tests.conftest import SUPER_KEY, checking_client

Document = dict[str, Any]

ROOT = "/api/scim/resource/v2"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"

PERMISSIONS = [
    *(
        f"scim:{kind}:{verb}"
        for kind in ("user", "enterprise:user", "group")
        for verb in ("create", "read", "update", "delete")
    ),
    "scim:resource-types:read",
    "scim:schemas:read",
    "scim:service-provider-config:read",
]


@dataclasses.dataclass
class ScimClient:
    """A SCIM client with every permission, unless its token is for fewer."""

    api: httpx.AsyncClient
    http: httpx.AsyncClient
    tenant: Document
    server: Document
    entity: Document
    token: str = ""

    async def authorize(self, *permissions: str) -> str:
        """A token for these permissions, which are granted to the entity; all of them if none are named."""
        wanted = list(permissions or PERMISSIONS)
        body = {"grant": {"recipientEntityId": self.entity["id"], "permissions": wanted}}
        answer = await self.api.post(f"/api/entity/{self.server['id']}/grant", json=body)
        assert answer.status_code == 200, answer.text
        form = {
            "grant_type": "client_credentials",
            "client_id": self.entity["clientId"],
            "client_secret": self.entity["clientSecret"],
            "scope": f"target-entity:{self.server['id']}:{','.join(wanted)}",
        }
        answer = await self.http.post("/oauth2/token", data=form)
        assert answer.status_code == 200, answer.text
        self.token = str(answer.json()["access_token"])
        return self.token

    async def send(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **settings: Any
    ) -> httpx.Response:
        """A request of the client below the base URL."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}", **settings.pop("headers", {})}
        if body is not None:
            headers.setdefault("Content-Type", "application/scim+json")
            settings["content"] = (
                body if isinstance(body, bytes) else httpx.Request("POST", "http://x", json=body).content
            )
        return await self.http.request(method, f"{ROOT}{path}", headers=headers, **settings)

    async def ask(self, method: str, path: str, body: Any = None, status: int = 200, **settings: Any) -> Document:
        """The JSON of a response with the expected status."""
        answer = await self.send(method, path, body, **settings)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return dict(answer.json()) if answer.content else {}

    async def refused(self, method: str, path: str, body: Any = None, **settings: Any) -> tuple[int, str | None]:
        """The status and the scimType of a refusal."""
        answer = await self.send(method, path, body, **settings)
        assert answer.status_code >= 400, answer.text
        shown = answer.json()
        assert shown["status"] == str(answer.status_code)
        return answer.status_code, shown.get("scimType")

    async def make_user(self, **members: Any) -> Document:
        body = {"schemas": [USER], "userName": f"user-{new_id()}", **members}
        return await self.ask("POST", "/Users", body, 201)

    async def make_group(self, *members: Document, **more: Any) -> Document:
        body = {
            "schemas": [GROUP],
            "displayName": f"Group {new_id()}",
            "members": [{"value": one["id"]} for one in members],
            **more,
        }
        return await self.ask("POST", "/Groups", body, 201)

    async def patch(self, path: str, *operations: Document, status: int = 200) -> Document:
        return await self.ask("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)}, status)

    async def found(self, path: str, scim_filter: str, **parameters: Any) -> list[str]:
        """The ids of the resources that a filter finds."""
        listed = await self.ask("GET", path, params={"filter": scim_filter, **parameters})
        assert listed["totalResults"] >= listed["itemsPerPage"]
        return [one["id"] for one in listed["Resources"]]

    async def user(self, user_id: str) -> Document:
        """The user in the management API."""
        answer = await self.api.get(f"/api/user/{user_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["user"])

    async def configure(self, **settings: Any) -> None:
        """Change settings of the tenant."""
        answer = await self.api.patch(f"/api/tenant/{self.tenant['id']}", json={"tenant": settings})
        assert answer.status_code == 200, answer.text


async def make_client(base_url: str, api: httpx.AsyncClient, **tenant_members: Any) -> ScimClient:
    """A SCIM client of a tenant of its own, which has SCIM enabled, with a token for every permission."""
    members = {"passwordEncryptionConfiguration": relying_party.CHEAP, **tenant_members}
    tenant = await relying_party.make_tenant(api, **members)
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    own = checking_client(base_url, headers=headers)
    types = {}
    for kind, permissions in (("client", []), ("server", PERMISSIONS)):
        body = {"name": f"SCIM {kind} {new_id()}", "permissions": [{"name": name} for name in permissions]}
        answer = await own.post("/api/entity/type", json={"entityType": body})
        assert answer.status_code == 200, answer.text
        types[kind] = answer.json()["entityType"]["id"]
    entities = {}
    for kind, type_id in types.items():
        answer = await own.post("/api/entity", json={"entity": {"name": f"SCIM {kind}", "type": {"id": type_id}}})
        assert answer.status_code == 200, answer.text
        entities[kind] = answer.json()["entity"]
    client = ScimClient(own, checking_client(base_url), tenant, entities["server"], entities["client"])
    settings = {"enabled": True, "clientEntityTypeId": types["client"], "serverEntityTypeId": types["server"]}
    await client.configure(scimServerConfiguration=settings)
    await client.authorize()
    return client


async def close(client: ScimClient) -> None:
    """Close the connections of a client."""
    await client.api.aclose()
    await client.http.aclose()
