"""An unmodified OpenID client in another language: `openid-client` from npm, where node is there."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from identity import app
from tests import relying_party
from tests.conftest import DEFAULT_TENANT, checking_client

HERE = Path(__file__).resolve().parent / "node"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None,
    reason="openid-client is tested where node is installed",
)


@pytest.fixture(scope="module")
def packages() -> None:
    """The packages that package-lock.json names."""
    if not (HERE / "node_modules" / "openid-client").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, capture_output=True)


async def test_code_flow_with_discovery_pkce_userinfo_and_refresh(
    packages: None, service: app.Service, api: httpx.AsyncClient
) -> None:
    tenant = (await api.get(f"/api/tenant/{DEFAULT_TENANT}")).json()["tenant"]
    party = await relying_party.make(api, tenant=tenant)
    arguments = [service.base_url, party.client_id, party.secret, relying_party.REDIRECT_URI]
    process = await asyncio.create_subprocess_exec(
        "node", "login.mjs", *arguments, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    request = await _line(process)
    async with checking_client(service.base_url) as browser:
        answer = await party.submit(browser, await browser.get(request["url"]))
    process.stdin.write(f"{answer.headers['Location']}\n".encode())
    result = await _line(process)
    assert await process.wait() == 0
    assert result["claims"]["iss"] == service.base_url
    assert result["claims"]["sub"] == party.user["id"]
    assert result["userinfo"]["email"] == party.login_id
    assert result["refreshed"]["auth_time"] == result["claims"]["auth_time"]


async def _line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout
    assert process.stderr
    line = await asyncio.wait_for(process.stdout.readline(), 60)
    assert line, (await process.stderr.read()).decode()
    return dict(json.loads(line))
