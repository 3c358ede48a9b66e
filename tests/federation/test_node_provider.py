"""node oidc-provider, unmodified, as the identity provider: algorithms, rotation of keys, prompts and logout."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import client_signer, npm, plain_http, relying_party
from tests.federation.conftest import Scenario
from tests.federation.hosted import CALLBACK
from tests.federation.interoperability import LOGOUT_CALLBACK, SECRET, Journey, walk

HERE = Path(__file__).resolve().parent / "node"
ALGORITHMS = ["RS256", "PS256", "ES256", "HS256"]

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None, reason="runs where node is installed"
)


@dataclasses.dataclass
class NodeProvider:
    """A provider process, which is replaced by one with new keys on the same port; its sessions are in memory."""

    base_url: str
    port: int = 0
    running: contextlib.AsyncExitStack = dataclasses.field(default_factory=contextlib.AsyncExitStack)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start with new keys, instead of the process that may be running."""
        await self.running.aclose()
        keys = [client_signer.new_key("RS256"), client_signer.new_key("ES256")]
        clients = [
            {
                "client_id": algorithm,
                "client_secret": SECRET,
                "id_token_signed_response_alg": algorithm,
                "userinfo_signed_response_alg": algorithm if algorithm in {"PS256", "ES256"} else None,
                "redirect_uris": [f"{self.base_url}{CALLBACK}"],
                "post_logout_redirect_uris": [f"{self.base_url}{LOGOUT_CALLBACK}"],
            }
            for algorithm in ALGORITHMS
        ]
        given = {
            "port": self.port,
            "jwks": {"keys": [key.as_dict(private=True) for key in keys]},
            "clients": [{name: value for name, value in each.items() if value is not None} for each in clients],
        }
        process = await asyncio.create_subprocess_exec(
            "node", HERE / "provider.mjs", json.dumps(given),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self.running.push_async_callback(process.wait)
        self.running.callback(process.kill)
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line, process.stderr and (await process.stderr.read()).decode()
        self.port = int(line)


def fill(answer: httpx.Response, fields: dict[str, Any]) -> dict[str, Any]:
    """Fill in a form of the provider's built-in pages."""
    if "login" in fields:
        return {**fields, "login": "ada", "password": "any"}
    return {**fields, **({"logout": "yes"} if "xsrf" in fields else {})}


@pytest.fixture
async def node(service: Any) -> AsyncIterator[NodeProvider]:
    npm.install(HERE)
    provider = NodeProvider(service.base_url)
    await provider.start()
    async with provider.running:
        yield provider


@pytest.fixture
async def journey(
    tenant: Any, api: Any, tenant_api: Any, http: Any, browser: Any, node: NodeProvider
) -> AsyncIterator[Journey]:
    party = await relying_party.make(api, tenant=tenant)
    scenario = Scenario(tenant, party.application, tenant_api, http)
    async with plain_http.client(node.issuer) as there:
        yield Journey(party, scenario, browser, there, fill)


@pytest.mark.requirement("core-11-54", "core-11-55", "core-11-56", "core-11-59")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_login_prompt_rotation_and_logout_at_node_oidc_provider(journey, node, algorithm) -> None:
    await walk(journey, node.issuer, algorithm, node.start)
