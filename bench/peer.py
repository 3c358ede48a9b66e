"""The peer that is measured in the same run: node oidc-provider, in memory, where node and npm are installed."""

from __future__ import annotations

import asyncio
import base64
import shutil
from pathlib import Path
from typing import Final

from bench import floors, programs, wrk
from bench.figures import Row
from bench.programs import ROOT

PEER: Final = "node oidc-provider in memory, client credentials RS256"

_SOURCE: Final = ROOT / "bench" / "node_peer"
_FOLDER: Final = ROOT / "build" / "bench-peer"
_INSTALL_SECONDS: Final = 120
_BASIC: Final = base64.b64encode(b"bench:a-secret-of-the-benchmarks-0123456789").decode()
_HEADERS: Final = {"Authorization": f"Basic {_BASIC}", "Content-Type": "application/x-www-form-urlencoded"}


def is_available() -> bool:
    """Return whether node and npm are installed."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


async def rows(logs: Path, seconds: float, rounds: int) -> list[Row]:
    """Measure one process and two. Raises RuntimeError if the packages cannot be installed."""
    await _install()
    running = [_program(logs, index) for index in range(2)]
    try:
        for program in running:
            await program.wait_until_ready("/.well-known/openid-configuration")
        load = wrk.cycle("POST", "/token", [wrk.Request(_HEADERS, "grant_type=client_credentials&scope=read")])
        urls = [program.url for program in running]
        return [Row(PEER, count, await floors.rate(urls[:count], load, seconds, rounds)) for count in (1, 2)]
    finally:
        for program in running:
            await program.stop()


def _program(logs: Path, index: int) -> programs.Program:
    port = programs.free_port()
    return programs.Program(["node", str(_FOLDER / "server.js"), str(port)], port, logs / f"peer-{index}.log")


async def _install() -> None:
    """Install the packages once, in build/."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "server.js"):
        shutil.copyfile(_SOURCE / name, _FOLDER / name)
    if (_FOLDER / "node_modules" / "oidc-provider").is_dir():
        return
    npm = await asyncio.create_subprocess_exec(
        "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
        cwd=_FOLDER, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with asyncio.timeout(_INSTALL_SECONDS):
        output, _ = await npm.communicate()
    if npm.returncode:
        raise RuntimeError(f"npm install failed: {output.decode()[-500:]}")
