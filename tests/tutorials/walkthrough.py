"""Follow a tutorial as its reader does: run its commands in a shell, and use the application with a browser."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests import shell
from tests.conftest import ROOT, SUPER_KEY
from tests.ports import free_port
from tests.relying_party import PASSWORD, page

PAGES = ROOT / "docs" / "tutorials"
EXAMPLES = ROOT / "examples" / "tutorials"

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_DOWNLOAD = re.compile(
    r"^(python3 -m venv|pip install|npm ci|npm install|go mod download|mvn .*package)\b.*\n", re.MULTILINE
)
_PORT = re.compile(r"APP_URL=http://localhost:([0-9]+)")


class Tutorial:
    """The page of a tutorial: its commands by section."""

    def __init__(self, name: str) -> None:
        self.name = name
        parts = _HEADING.split((PAGES / f"{name}.md").read_text())
        self.sections = dict(zip(parts[1::2], map(shell.blocks_of, parts[2::2]), strict=True))

    def script(self, *, downloads: bool) -> str:
        """The commands up to the one that starts the program; without downloads, those are left out."""
        names = ("Create the application", "Install", "Run it")
        commands = "\n".join(block for name in names for block in self.sections[name])
        return commands if downloads else _DOWNLOAD.sub("", commands)


class Instance:
    """The service as a tutorial expects it, with a tenant whose issuer is found by discovery."""

    def __init__(self, base_url: str, tenant: dict[str, Any], folder: Path) -> None:
        self.base_url = base_url
        self.tenant = tenant
        self.folder = folder

    def prepare(self, tutorial: Tutorial) -> None:
        """Lay out what a clone has after the first start, and what the tutorial adds to it."""
        (self.folder / "var").mkdir()
        (self.folder / "var" / "kickstart-secrets.txt").write_text(f"API key: {SUPER_KEY}\n")
        (self.folder / ".curlrc").write_text(f'header = "X-FusionAuth-TenantId: {self.tenant["id"]}"\n')
        ignored = shutil.ignore_patterns("node_modules", ".next", "target", ".venv", "__pycache__", "*.sqlite3")
        shutil.copytree(
            EXAMPLES / tutorial.name, self.folder / "examples" / "tutorials" / tutorial.name, ignore=ignored
        )

    def adapt(self, script: str) -> str:
        """The script with the addresses of this service."""
        script = script.replace("OIDC_ISSUER=http://localhost:9011", f"OIDC_ISSUER={self.tenant['issuer']}")
        return script.replace("http://localhost:9011", self.base_url)


class Program:
    """The program of a tutorial while it runs."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log
        self._started = time.monotonic()

    def report_login(self, tutorial: str) -> None:
        """Print the time from the first command of the page to the login, which ends now."""
        print(f"{tutorial}: first login after {time.monotonic() - self._started:.0f} s", flush=True)

    async def until_printed(self, pattern: str) -> re.Match[str]:
        """The first match of what the program prints."""
        while (found := re.search(pattern, self.log.read_text())) is None:
            await self._pause()
        return found

    async def until_ready(self) -> None:
        """Wait until the application responds."""
        async with httpx.AsyncClient(trust_env=False, timeout=120) as http:
            while True:
                try:
                    await http.get(self.url)
                except httpx.TransportError:
                    await self._pause()
                else:
                    return

    async def until_ended(self) -> str:
        """All that the program printed."""
        assert await self.process.wait() == 0, self.log.read_text()
        return self.log.read_text()

    async def _pause(self) -> None:
        assert self.process.returncode is None, self.log.read_text()
        await asyncio.sleep(0.05)


@asynccontextmanager
async def running(tutorial: Tutorial, instance: Instance, *, downloads: bool) -> AsyncIterator[Program]:
    """Run the commands of a tutorial; its program is stopped at the end."""
    instance.prepare(tutorial)
    script = instance.adapt(tutorial.script(downloads=downloads))
    url = ""
    if found := _PORT.search(script):
        port = str(free_port())
        script = re.sub(rf"\b{found[1]}\b", port, script)
        url = f"http://localhost:{port}"
    log = instance.folder / "output.txt"
    # curl reads .curlrc from CURL_HOME; webbrowser runs BROWSER.
    environment = {**os.environ, "CURL_HOME": str(instance.folder), "BROWSER": "true", "CI": "1"}
    if not downloads:
        environment["PATH"] = f"{ROOT / '.venv' / 'bin'}:{environment['PATH']}"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-e", "-c", script),
            cwd=instance.folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield Program(process, url, log)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()


class Visitor:
    """A browser without scripts: cookies, links and forms."""

    def __init__(self, http: httpx.AsyncClient, email: str) -> None:
        self._http = http
        self._email = email
        self.answer = httpx.Response(204)

    async def open(self, url: str) -> str:
        """Open an address, and return the text of the page that the redirects lead to."""
        self.answer = await self._http.get(url)
        return self.text

    async def follow(self) -> str:
        """Follow the first link of the page."""
        found = re.search(r'<a href="([^"]+)"', self.answer.text)
        assert found, self.answer.text
        return await self.open(urllib.parse.urljoin(str(self.answer.url), found[1]))

    async def submit(self, **fields: str) -> str:
        """Submit the first form of the page."""
        form = page(self.answer).forms[0]
        url = urllib.parse.urljoin(str(self.answer.url), form["action"])
        self.answer = await self._http.post(url, data={**form["fields"], **fields})
        return self.text

    async def log_in(self) -> str:
        """Enter the credentials on the login page of the service."""
        assert "loginId" in page(self.answer).forms[0]["fields"], self.answer.text
        return await self.submit(loginId=self._email, password=PASSWORD)

    @property
    def text(self) -> str:
        assert self.answer.status_code == 200, (self.answer.url, self.answer.status_code, self.answer.text[-2000:])
        return page(self.answer).text
