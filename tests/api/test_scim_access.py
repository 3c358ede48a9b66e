"""Who may use SCIM: the tenant's setting, tokens of entities, permissions, and discovery."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from identity import app
from identity.domain.scim import models
from tests import relying_party, scim
from tests.conftest import SUPER_KEY, checking_client
from tests.scim import ENTERPRISE, GROUP, PERMISSIONS, USER, ScimClient

Document = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent.parent

REQUESTS = [
    ("POST", "/Users", "scim:user:create"),
    ("GET", "/Users", "scim:user:read"),
    ("GET", "/Users/{user}", "scim:user:read"),
    ("POST", "/Users/.search", "scim:user:read"),
    ("PUT", "/Users/{user}", "scim:user:update"),
    ("PATCH", "/Users/{user}", "scim:user:update"),
    ("DELETE", "/Users/{user}", "scim:user:delete"),
    ("POST", "/EnterpriseUsers", "scim:enterprise:user:create"),
    ("GET", "/EnterpriseUsers/{user}", "scim:enterprise:user:read"),
    ("PUT", "/EnterpriseUsers/{user}", "scim:enterprise:user:update"),
    ("DELETE", "/EnterpriseUsers/{user}", "scim:enterprise:user:delete"),
    ("POST", "/Groups", "scim:group:create"),
    ("GET", "/Groups/{group}", "scim:group:read"),
    ("PATCH", "/Groups/{group}", "scim:group:update"),
    ("DELETE", "/Groups/{group}", "scim:group:delete"),
    ("POST", "/.search", "scim:group:read"),
    ("GET", "/ServiceProviderConfig", "scim:service-provider-config:read"),
    ("GET", "/ResourceTypes", "scim:resource-types:read"),
    ("GET", "/ResourceTypes/User", "scim:resource-types:read"),
    ("GET", "/Schemas", "scim:schemas:read"),
    ("GET", f"/Schemas/{USER}", "scim:schemas:read"),
]


@pytest.fixture
async def client(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[ScimClient]:
    found = await scim.make_client(service.base_url, api)
    yield found
    await scim.close(found)


@pytest.mark.requirement("scim-2", "core-4-4")
async def test_every_request_requires_its_permission(client: ScimClient) -> None:
    user, group = await client.make_user(), await client.make_group()
    refused = client.token
    for method, template, permission in REQUESTS:
        path = template.format(user=user["id"], group=group["id"])
        body = None if method in {"GET", "DELETE"} else {"userName": "x", "displayName": "x"}
        token = await client.authorize(*[name for name in PERMISSIONS if name != permission])
        assert await client.refused(method, path, body, token=token) == (401, None), (method, path)
        refused = token
    assert (await client.send("GET", f"/Users/{user['id']}", token=await client.authorize())).status_code == 200
    # The token lacks the permission although the grant has it again.
    assert await client.refused("GET", "/Schemas", token=refused) == (401, None)


@pytest.mark.requirement("scim-2")
async def test_withdrawn_permission_takes_effect_on_issued_tokens(client: ScimClient) -> None:
    token = client.token
    assert (await client.send("GET", "/Users", token=token)).status_code == 200
    await client.authorize("scim:group:read")
    assert await client.refused("GET", "/Users", token=token) == (401, None)
    parameters = {"recipientEntityId": client.entity["id"]}
    answer = await client.api.delete(f"/api/entity/{client.server['id']}/grant", params=parameters)
    assert answer.status_code == 200, answer.text
    assert await client.refused("GET", "/Groups", token=token) == (401, None)


async def test_revoked_token_is_refused(client: ScimClient) -> None:
    credentials = {"client_id": client.entity["clientId"], "client_secret": client.entity["clientSecret"]}
    answer = await client.http.post("/oauth2/revoke", data={**credentials, "token": client.token})
    assert answer.status_code == 200, answer.text
    assert await client.refused("GET", "/Users") == (401, None)


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer x.y.z", "Basic eDp5", "a-super-key"])
async def test_challenge_has_an_error_code_only_with_a_token(client: ScimClient, authorization: str) -> None:
    answer = await client.send("GET", "/Users", headers={"Authorization": authorization})
    assert answer.status_code == 401
    has_token = authorization.startswith("Bearer ")
    assert answer.headers["WWW-Authenticate"] == ('Bearer error="invalid_token"' if has_token else "Bearer")


async def test_api_key_and_tokens_of_others_are_unauthorized(
    service: app.Service,
    api: httpx.AsyncClient,
    browser: httpx.AsyncClient,
    http: httpx.AsyncClient,
    client: ScimClient,
) -> None:
    key = api.headers["Authorization"]
    for authorization in (key, f"Bearer {key}"):
        assert await client.refused("GET", "/Users", headers={"Authorization": authorization}) == (401, None)
    rp = await relying_party.make(api)
    tokens = (await rp.exchange(http, await rp.code(browser))).json()
    assert await client.refused("GET", "/Users", token=tokens["access_token"]) == (401, None)
    other = await scim.make_client(service.base_url, api)
    headers = {"X-FusionAuth-TenantId": client.tenant["id"]}
    assert await client.refused("GET", "/Users", token=other.token, headers=headers) == (401, None)
    await other.configure(scimServerConfiguration={"clientEntityTypeId": other.server["type"]["id"]})
    assert await other.refused("GET", "/Users") == (401, None)
    await scim.close(other)


@pytest.mark.requirement("scim-3")
async def test_tenant_without_scim_has_no_resources(client: ScimClient) -> None:
    await client.configure(scimServerConfiguration={"enabled": False})
    for path in ("/Users", "/ServiceProviderConfig", "/Schemas", "/anything"):
        assert await client.refused("GET", path) == (404, None)


@pytest.mark.requirement("scim-3")
async def test_service_without_scim_announces_nothing(without_entities: httpx.AsyncClient) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}):
        for path in ("/Users", "/ServiceProviderConfig"):
            assert (await without_entities.get(f"{scim.ROOT}{path}", headers=headers)).status_code == 404


async def test_service_provider_config_names_what_is_supported(client: ScimClient) -> None:
    shown = await client.ask("GET", "/ServiceProviderConfig")
    supported = {name for name, value in shown.items() if isinstance(value, dict) and value.get("supported")}
    assert supported == {"patch", "bulk", "filter", "changePassword", "sort", "etag"}
    assert (shown["bulk"]["maxOperations"], shown["filter"]["maxResults"]) == (100, 200)
    assert shown["authenticationSchemes"][0]["type"] == "oauthbearertoken"


async def test_resource_types_and_schemas_describe_the_resources(client: ScimClient) -> None:
    types = await client.ask("GET", "/ResourceTypes")
    assert {one["name"]: one["endpoint"] for one in types["Resources"]} == models.ENDPOINTS
    assert await client.ask("GET", "/ResourceTypes/User") == types["Resources"][0]
    schemas = await client.ask("GET", "/Schemas")
    assert [one["id"] for one in schemas["Resources"]] == [USER, ENTERPRISE, GROUP]
    assert await client.ask("GET", f"/Schemas/{GROUP}") == schemas["Resources"][2]
    for path in ("/ResourceTypes/Pet", "/Schemas/urn:x", "/Devices"):
        assert await client.refused("GET", path) == (404, None)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        assert await client.refused(method, "/Me") == (501, None)
    assert await client.refused("GET", "/Schemas", params={"filter": 'id eq "x"'}) == (403, None)
    assert await client.refused("POST", "/Schemas", {}) == (405, None)


async def test_declared_extension_can_be_patched_and_filtered(client: ScimClient) -> None:
    badge = "urn:example:params:scim:schemas:extension:badge:2.0:User"
    attribute = {
        "name": "badge",
        "type": "string",
        "multiValued": False,
        "mutability": "readWrite",
        "returned": "default",
    }
    settings = {"schemas": {"Resources": [{"id": badge, "name": "Badge", "attributes": [attribute]}, {"id": 7}, "x"]}}
    before = await client.make_user(**{badge: {"badge": "1"}})
    assert before[badge] == {"badge": "1"}
    await client.configure(scimServerConfiguration=settings)
    assert badge in [one["id"] for one in (await client.ask("GET", "/Schemas"))["Resources"]]
    shown = await client.patch(f"/Users/{before['id']}", {"op": "replace", "path": f"{badge}:badge", "value": "A-2"})
    assert shown[badge] == {"badge": "A-2"}
    assert await client.found("/Users", f'{badge}:badge eq "a-2"') == [before["id"]]


async def test_other_media_types_are_refused(client: ScimClient) -> None:
    for kind, status in (("application/json", 201), ("text/plain", 400)):
        answer = await client.send("POST", "/Users", {"userName": "x"}, headers={"Content-Type": kind})
        assert answer.status_code == status, answer.text


LOADING = """
import asyncio, sys, threading
from identity.web.api import scim
class Recorder:
    threads = []
    def find_spec(self, name, path=None, target=None):
        if name == "scim2_models":
            self.threads.append(threading.current_thread() is threading.main_thread())
sys.meta_path.insert(0, Recorder())
assert "scim2_models" not in sys.modules
async def main():
    await asyncio.gather(*(scim._load_protocol() for _ in range(3)))
asyncio.run(main())
assert "scim2_models" in sys.modules
print(Recorder.threads)
"""


@pytest.mark.requirement("scim-2")
def test_library_of_the_protocol_is_loaded_by_a_thread() -> None:
    """The first request would otherwise stop the event loop for half a second, and for seconds on a busy machine."""
    done = subprocess.run([sys.executable, "-c", LOADING], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[False]"


@pytest.mark.requirement("scim-15")
async def test_walk_through_of_the_documentation_enables_scim_with_a_token_for_a_year(
    service: app.Service, api: httpx.AsyncClient
) -> None:
    tenant = await relying_party.make_tenant(api)
    guide = (ROOT / "docs/scim.md").read_text()
    commands = "\n".join(re.findall(r"^ *```sh\n(.*?)^ *```$", guide, re.DOTALL | re.MULTILINE))
    variables = {
        "base": service.base_url,
        "api_key": SUPER_KEY,
        "tenant_id": tenant["id"],
        "PATH": os.environ["PATH"],
    }
    process = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", commands, env=variables,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, (output, errors)
    *_, token = json_objects(output.decode())
    assert token["expires_in"] == 31_536_000
    async with checking_client(service.base_url) as client:
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        for path in ("/Users", "/EnterpriseUsers", "/Groups", "/ServiceProviderConfig", "/ResourceTypes", "/Schemas"):
            answer = await client.get(f"{scim.ROOT}{path}", headers=headers)
            assert answer.status_code == 200, answer.text


def json_objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects that follow each other in a text."""
    found, decoder, position = [], json.JSONDecoder(), 0
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        found.append(value)
        while position < len(text) and text[position].isspace():
            position += 1
    return found
