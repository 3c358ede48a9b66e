"""Runs wrk with a Lua script and parses its result."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.figures import Latency

_SCRIPTS = Path(__file__).resolve().parent / "lua"
_TIMEOUT_SECONDS = 10
_PATIENCE_SECONDS = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A prepared request: headers and body."""

    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: str = ""

    @property
    def line(self) -> str:
        """The format of lua/cycle.lua."""
        return "\t".join([*(f"{name}: {value}" for name, value in self.headers.items()), self.body])

    def encode(self, method: str, path: str) -> bytes:
        """Return the whole HTTP request."""
        body = self.body.encode()
        headers = {"Host": "localhost", **self.headers}
        if body or method != "GET":
            headers["Content-Length"] = str(len(body))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The load of one wrk process: a script, its arguments, and lines that the script reads from a file."""

    script: str
    arguments: Callable[[str], Sequence[str]]
    lines: Sequence[str]
    connections: int = 16
    counts_good: bool = False
    """Whether the script counts what matters, where that is not every answer."""
    encoded: Callable[[], Sequence[bytes]] | None = None
    """The requests for a load at a fixed rate; None where a request depends on an earlier response."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """Operations, their rate per second, the latency, and what went wrong ("" for nothing)."""

    operations: int
    rate: float
    latency: Latency
    fault: str


def cycle(
    method: str,
    path: str,
    requests: Sequence[Request],
    *,
    location_has: str = "-",
    connections: int = 16,
    pause_ms: int = 0,
) -> Load:
    """Prepared requests in turn; each connection may pause between two of them."""

    def arguments(file: str) -> Sequence[str]:
        return (method, path, file, location_has, str(pause_ms))

    def encoded() -> Sequence[bytes]:
        return [request.encode(method, path) for request in requests]

    is_plain = location_has == "-" and not pause_ms
    lines = [request.line for request in requests]
    return Load("cycle.lua", arguments, lines, connections, encoded=encoded if is_plain else None)


async def run(url: str, load: Load, seconds: float) -> Outcome:
    """Run the load against one process. wrk supports whole seconds only."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{line}\n" for line in load.lines))
        file.flush()
        process = await asyncio.create_subprocess_exec(
            "wrk", "--threads=1", f"--connections={load.connections}", f"--duration={max(1, round(seconds))}s",
            f"--timeout={_TIMEOUT_SECONDS}s", f"--script={load.script}", url, "--", *load.arguments(file.name),
            cwd=_SCRIPTS, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(seconds + _PATIENCE_SECONDS):
                output, _ = await process.communicate()
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                process.kill()
    return _outcome(output.decode(), load)


async def together(urls: Sequence[str], load_of: Callable[[int], Load], seconds: float) -> Outcome:
    """Run one wrk per process concurrently; returns the sum of the rates and the worst latencies."""
    outcomes = await asyncio.gather(*(run(url, load_of(index), seconds) for index, url in enumerate(urls)))
    latencies = [outcome.latency for outcome in outcomes]
    return Outcome(
        sum(outcome.operations for outcome in outcomes),
        sum(outcome.rate for outcome in outcomes),
        Latency(*(max(getattr(one, name) or 0.0 for one in latencies) for name in ("p50_ms", "p95_ms", "p99_ms"))),
        "; ".join(outcome.fault for outcome in outcomes if outcome.fault),
    )


def _outcome(output: str, load: Load) -> Outcome:
    text = next((line for line in output.splitlines() if line.startswith("RESULT ")), None)
    if text is None:
        return Outcome(0, 0, Latency(), f"wrk failed: {output.strip()[-300:]}")
    result = json.loads(text.removeprefix("RESULT "))
    done = result["good"] if load.counts_good else result["requests"]
    latency = Latency(result["p50_ms"], result["p95_ms"], result["p99_ms"])
    return Outcome(done, done / result["seconds"], latency, _fault(result))


def _fault(result: Mapping[str, int]) -> str:
    counts = {name: result[name] for name in ("bad", "status", "connect", "read", "write", "timeout") if result[name]}
    if not counts:
        return "" if result["requests"] else "no answer at all"
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"of {result['requests']} answers were wrong: {summary} {result['complaint']}".rstrip()
