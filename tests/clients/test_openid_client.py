"""An unmodified OpenID client in another language: `openid-client` from npm, where node is there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from identity import app
from tests import npm, relying_party
from tests.client_signer import new_key, public
from tests.conftest import checking_client
from tests.oauth2.devices import Device, device_client
from tests.oauth2.test_client_credentials import make as make_machine
from tests.relying_party import RelyingParty, claims

HERE = Path(__file__).resolve().parent / "node"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None,
    reason="openid-client is tested where node is installed",
)


@pytest.fixture(scope="module")
def packages() -> None:
    """The packages that package-lock.json names."""
    npm.install(HERE)


class Script:
    """The client at work."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> dict[str, Any]:
        """What it says next."""
        process = self._process
        assert process.stdout
        assert process.stderr
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line, (await process.stderr.read()).decode()
        return dict(json.loads(line))

    def tell(self, text: str) -> None:
        """The input of the user."""
        assert self._process.stdin
        self._process.stdin.write(f"{text}\n".encode())

    async def browse(self, party: RelyingParty, base_url: str) -> dict[str, Any]:
        """Log in where it sends the browser, and say what comes of it."""
        url = (await self.line())["url"]
        async with checking_client(base_url) as browser:
            shown = await browser.get(url)
            if shown.status_code == 302:  # a pushed or signed request goes on under a short name
                shown = await browser.get(shown.headers["Location"])
            answer = await party.submit(browser, shown)
        self.tell(answer.headers["Location"])
        return await self.line()


@contextlib.asynccontextmanager
async def working(what: str, issuer: str, client_id: str, secret: str, **settings: Any) -> AsyncIterator[Script]:
    given = {"issuer": issuer, "clientId": client_id, "clientSecret": secret, **settings}
    given.setdefault("redirectUri", relying_party.REDIRECT_URI)
    process = await asyncio.create_subprocess_exec(
        *("node", "client.mjs", what, json.dumps(given)),
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Script(process)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def discoverable(party: RelyingParty, base_url: str) -> RelyingParty:
    """The same, of a tenant whose issuer leads to its metadata."""
    party.tenant["issuer"] = f"{base_url}/{party.tenant['id']}"
    await party.configure_tenant(issuer=party.tenant["issuer"])
    return party


@pytest.fixture
async def party(api: httpx.AsyncClient, service: app.Service) -> RelyingParty:
    return await discoverable(await relying_party.make(api), service.base_url)


async def verified(http: httpx.AsyncClient, token: str) -> dict[str, Any]:
    """The claims of a token, by another library and the published keys."""
    keys = KeySet.import_key_set((await http.get("/.well-known/jwks.json")).json())
    registry = jwt.JWSRegistry(algorithms=["RS256"], strict_check_header=False)
    return dict(jwt.decode(token, keys, registry=registry).claims)


async def is_whole(result: dict[str, Any], party: RelyingParty, http: httpx.AsyncClient) -> None:
    """Whether login, userinfo, refresh, introspection and revocation all did what they should."""
    assert result["claims"]["iss"] == party.tenant["issuer"]
    assert result["claims"]["sub"] == party.user["id"]
    assert result["userinfo"]["email"] == party.login_id
    assert result["refreshed"]["auth_time"] == result["claims"]["auth_time"]
    assert (result["before"]["active"], result["before"]["sub"]) == (True, party.user["id"])
    assert result["after"] == {"active": False}
    assert await verified(http, result["idToken"]) == result["claims"]
    assert (await verified(http, result["accessToken"]))["sub"] == party.user["id"]


@pytest.mark.requirement(
    "certification-authorize-5",
    "certification-discovery-1",
    "certification-token-4",
    "clients-1",
    "clients-3",
    "clients-7",
    "clients-9",
    "demo-2",
    "oauth-4.4-10",
    "service-2",
)
@pytest.mark.parametrize("what", ["code", "par", "client_secret_jwt", "hybrid"])
async def test_login_userinfo_refresh_introspection_and_revocation(packages, service, party, http, what) -> None:
    if what == "hybrid":
        await party.configure(
            hybridResponseTypesEnabled=True, enabledGrants=["authorization_code", "implicit", "refresh_token"]
        )
    if what == "client_secret_jwt":
        await party.configure(clientAuthenticationMethods=["client_secret_jwt"])
    async with working(what, party.tenant["issuer"], party.client_id, party.secret) as script:
        await is_whole(await script.browse(party, service.base_url), party, http)


@pytest.mark.requirement("clients-11", "clients-8")
@pytest.mark.parametrize("what", ["private_key_jwt", "jar"])
async def test_client_signs_with_a_key_of_its_own(packages, service, party, http, what) -> None:
    key = new_key("ES256")
    await party.configure(jwks=public(key))
    if what == "private_key_jwt":
        await party.configure(clientAuthenticationMethods=["private_key_jwt"])
    settings = {"key": {**key.as_dict(private=True), "alg": "ES256"}}
    async with working(what, party.tenant["issuer"], party.client_id, party.secret, **settings) as script:
        await is_whole(await script.browse(party, service.base_url), party, http)


@pytest.mark.requirement("clients-2")
async def test_implicit_grant(packages, service, party) -> None:
    await party.configure(enabledGrants=["implicit"])
    async with working("implicit", party.tenant["issuer"], party.client_id, party.secret) as script:
        result = await script.browse(party, service.base_url)
    assert (result["claims"]["sub"], result["claims"]["email"]) == (party.user["id"], party.login_id)


@pytest.mark.requirement("clients-4")
async def test_device_grant(packages, service, api, http) -> None:
    party = await discoverable(await device_client(api), service.base_url)
    async with working("device", party.tenant["issuer"], party.client_id, party.secret) as script:
        user_code = (await script.line())["userCode"]
        await Device(party, http, {"user_code": user_code}).approved(http)
        script.tell("")
        await is_whole(await script.line(), party, http)


@pytest.mark.requirement("clients-5")
async def test_client_credentials_grant(packages, service, api, tenant_api, tenant, http) -> None:
    machine = await make_machine(api, tenant_api, http, tenant)
    target = await machine.target("read")
    issuer = f"{service.base_url}/{tenant['id']}"
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": {"issuer": issuer}})).status_code == 200
    scope = f"target-entity:{target['id']}"
    async with working("client_credentials", issuer, machine.client_id, machine.secret, scope=scope) as script:
        result = await script.line()
    assert result["before"]["permissions"] == {target["id"]: ["read"]}
    assert (await verified(http, result["accessToken"]))["sub"] == machine.entity["id"]
    assert claims(result["accessToken"])["iss"] == issuer


@pytest.mark.requirement("clients-10")
async def test_tokens_bound_to_a_key(packages, service, party, http) -> None:
    await party.configure(dpopBoundAccessTokens=True)
    async with working("dpop", party.tenant["issuer"], party.client_id, party.secret) as script:
        result = await script.browse(party, service.base_url)
    await is_whole(result, party, http)
    assert result["tokenType"].lower() == "dpop"
    assert len(claims(result["accessToken"])["cnf"]["jkt"]) == 43
    stolen = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {result['accessToken']}"})
    assert stolen.status_code == 401
