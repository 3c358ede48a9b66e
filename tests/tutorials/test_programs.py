"""The tutorials of a native application, of a device, and of an application that runs in the browser alone."""

from __future__ import annotations

import asyncio
import html
import os
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import ROOT
from tests.hosted.chromium import Chromium, browsing
from tests.receiver import until
from tests.relying_party import PASSWORD
from tests.tutorials.conftest import Registered, Start, needs_downloads
from tests.tutorials.walkthrough import Tutorial, Visitor

pytestmark = pytest.mark.timeout(900)


@pytest.mark.requirement("ship-18")
async def test_native_application(
    start: Start, registered: Registered, visitor: Visitor, user: dict[str, Any], tmp_path: Path
) -> None:
    async with start("native-app") as program:
        found = await program.until_printed(r"Open this page to sign in: (\S+)")
        await visitor.open(found[1])
        assert "Signed in" in await visitor.log_in()
        assert f"Signed in as {user['email']}" in await program.until_ended()
        program.report_login("native-app")
        folder = tmp_path / "examples" / "tutorials" / "native-app"
        assert (folder / "token.json").stat().st_mode & 0o777 == 0o600
        sections = Tutorial("native-app").sections
        environment = await environment_of(registered)
        assert await again(sections["Refresh"], folder, environment) == f"Signed in as {user['email']}\n"
        assert await again(sections["Sign out"], folder, environment) == "Signed out\n"
        assert not (folder / "token.json").exists()


async def environment_of(registered: Registered) -> dict[str, str]:
    """The variables that the commands of a page set for the programs of its terminal."""
    party = await registered()
    return {"OIDC_ISSUER": party.tenant["issuer"], "OIDC_CLIENT_ID": party.client_id}


async def again(blocks: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What further commands of a page print."""
    path = f"{folder / '.venv' / 'bin'}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-e", "-c", "\n".join(blocks)),
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.requirement("ship-18")
async def test_native_application_refuses_a_response_of_another_login(start: Start) -> None:
    async with start("native-app") as program:
        found = await program.until_printed(r"redirect_uri=(http%3A%2F%2F127\.0\.0\.1%3A[0-9]+%2Fcallback)")
        async with httpx.AsyncClient(trust_env=False) as http:
            await http.get(urllib.parse.unquote(found[1]), params={"code": "a-code", "state": "another"})
        assert await program.process.wait() != 0
    assert "mismatching_state" in program.log.read_text()


@pytest.mark.requirement("ship-18")
async def test_device(start: Start, visitor: Visitor, user: dict[str, Any]) -> None:
    async with start("device") as program:
        found = await program.until_printed(r"or open (\S+)")
        await visitor.open(html.unescape(found[1]))
        await allow(visitor)
        printed = await program.until_ended()
        program.report_login("device")
    assert f"Signed in as {user['email']}\nSigned out\n" in printed


async def allow(visitor: Visitor) -> None:
    """Enter the prefilled code, log in, and allow the request."""
    await visitor.submit()
    await visitor.log_in()
    await visitor.submit(action="allow")


@pytest.fixture
async def browser() -> AsyncIterator[Chromium]:
    async with browsing() as running:
        yield running


@pytest.fixture
async def restored_cors(api: httpx.AsyncClient) -> AsyncIterator[None]:
    """Restore the configuration of cross-origin calls, which applies to the whole service."""
    before = (await api.get("/api/system-configuration")).json()
    yield
    assert (await api.put("/api/system-configuration", json=before)).status_code == 200


@pytest.mark.requirement("ship-18")
@needs_downloads
async def test_single_page_application(
    start: Start, restored_cors: None, browser: Chromium, user: dict[str, Any]
) -> None:
    async def shows(text: str) -> None:
        async def is_there() -> bool:
            return text in await browser.text()

        await until(is_there)

    async with start("spa") as program:
        await program.until_ready()
        await browser.go(program.url)
        await shows("Signed out")
        await browser.click("#login")
        await browser.type("#loginId", user["email"])
        await browser.type("#password", PASSWORD)
        await browser.click("button[type=submit]")
        await shows(f"Signed in as {user['email']}")
        program.report_login("spa")
        assert await browser.url() == f"{program.url}/"
        await browser.click("#refresh")
        await shows(f"Refreshed for {user['email']}")
        await browser.click("#logout")
        await shows("Signed out")
        await browser.click("#login")
        await browser.find("#password")
