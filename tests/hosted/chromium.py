"""A real browser for tests: headless Chromium, driven by chromedriver over the WebDriver protocol (W3C)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.receiver import DEADLINE_SECONDS, until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


class Chromium:
    """One browser window; waiting is by polling until what is asked for is there."""

    def __init__(self, http: httpx.AsyncClient, session_id: str) -> None:
        self._http = http
        self._path = f"/session/{session_id}"
        self._scripts: list[str] = []

    async def go(self, url: str) -> None:
        await self._send("/url", url=url)

    async def url(self) -> str:
        return str(await self._get("/url"))

    async def source(self) -> str:
        return str(await self._get("/source"))

    async def run(self, script: str, *arguments: object) -> Any:
        """The value that a script returns."""
        return await self._send("/execute/sync", script=script, args=list(arguments))

    async def add_script(self, script: str) -> None:
        """Run a script at the start of every later page: sending a large one to each page takes longer."""
        added = await self.emulate("Page.addScriptToEvaluateOnNewDocument", source=script)
        self._scripts.append(added["identifier"])

    async def remove_scripts(self) -> None:
        """Remove the scripts that were added."""
        while self._scripts:
            await self.emulate("Page.removeScriptToEvaluateOnNewDocument", identifier=self._scripts.pop())

    async def text(self) -> str:
        """What the page visibly says."""
        return str(await self.run("return document.body ? document.body.innerText : ''"))

    async def find(self, selector: str) -> str:
        """An element, as soon as there is one."""
        found: list[str] = []

        async def is_there() -> bool:
            answer = await self._http.post(f"{self._path}/element", json={"using": "css selector", "value": selector})
            if answer.status_code == 200:
                found.append(answer.json()["value"][ELEMENT])
            return bool(found)

        await until(is_there)
        return found[0]

    async def type(self, selector: str, text: str) -> None:
        await self._send(f"/element/{await self.find(selector)}/value", text=text)

    async def click(self, selector: str) -> None:
        await self._send(f"/element/{await self.find(selector)}/click")

    async def press(self, keys: str) -> None:
        """Press keys where the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        await self._send("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    async def emulate(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return await self._send("/goog/cdp/execute", cmd=command, params=parameters)

    async def look(self, width: int, scheme: str) -> None:
        """See pages at this width and under this prefers-color-scheme."""
        await self.emulate(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        await self.emulate("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(str(await self._get("/screenshot"))))

    async def forget(self) -> None:
        """Delete the cookies of every site."""
        await self.emulate("Network.clearBrowserCookies")

    async def _get(self, path: str) -> Any:
        return self._value(await self._http.get(self._path + path))

    async def _send(self, path: str, **body: Any) -> Any:
        return self._value(await self._http.post(self._path + path, json=body))

    @staticmethod
    def _value(answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]


@contextlib.asynccontextmanager
async def browsing() -> AsyncIterator[Chromium]:
    """A fresh browser, closed at the end; the test is skipped where Chromium is not installed."""
    driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or chromium is None:
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    process = await asyncio.create_subprocess_exec(
        driver, "--port=0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    folder = tempfile.mkdtemp(prefix="chromium-")
    try:
        port = await asyncio.wait_for(_port(process), DEADLINE_SECONDS)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http:
            options = {"binary": chromium, "args": [*ARGUMENTS, f"--user-data-dir={folder}"]}
            capabilities = {"alwaysMatch": {"goog:chromeOptions": options}}
            answer = await http.post("/session", json={"capabilities": capabilities})
            assert answer.status_code == 200, answer.text
            session_id = answer.json()["value"]["sessionId"]
            yield Chromium(http, session_id)
            await http.delete(f"/session/{session_id}")
    finally:
        process.kill()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout is not None
    async for line in process.stdout:
        _, found, port = line.decode().rpartition("started successfully on port ")
        if found:
            return int(port.strip().rstrip("."))
    raise AssertionError("chromedriver did not start")
