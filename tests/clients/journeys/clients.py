"""The official clients, unmodified, behind one interface: a method by its published name, with named arguments."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import subprocess
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from fusionauth.fusionauth_client import FusionAuthClient

_LINE_BYTES = 64 * 1024 * 1024
_NOT_CALLS = {"convertTrueFalse", "setObjectMapper", "setRequestCredentials", "setTenantId", "start", "startAnonymous"}


class Answer(dict[Any, Any]):
    """The body of a response. A member that it does not have is empty, so that a journey goes on after a refusal."""

    def __missing__(self, key: Any) -> Answer:
        return Answer()


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a client returned for a call."""

    status: int
    is_successful: bool
    body: Any


class Client(Protocol):
    """An official client."""

    async def methods(self) -> set[str]:
        """Return the names of its methods that send a request."""

    async def call(self, method: str, arguments: dict[str, Any], key: str, tenant_id: str | None) -> Outcome:
        """Call a method with an API key, in a tenant if one is given."""


class _Request(dict[str, Any]):
    """A request that the Python client reads both as a dictionary and by attribute."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


class PythonClient:
    """`fusionauth-client`, whose method and parameter names are the published names in snake case."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        members = inspect.getmembers(FusionAuthClient, inspect.isfunction)
        self._names = {_plain(name): name for name, _ in members if not name.startswith("_")}

    async def methods(self) -> set[str]:
        return set(self._names) - {_plain(name) for name in _NOT_CALLS}

    async def call(self, method: str, arguments: dict[str, Any], key: str, tenant_id: str | None) -> Outcome:
        client = FusionAuthClient(key, self._base_url)
        client.set_tenant_id(tenant_id)
        function = getattr(client, self._names[_plain(method)])
        parameters = {_plain(name): name for name in inspect.signature(function).parameters}
        named = {parameters[_plain(name)]: _readable(value) for name, value in arguments.items()}
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            answer = await asyncio.to_thread(function, **named)
        body = answer.success_response if answer.was_successful() else answer.error_response
        return Outcome(answer.status, answer.was_successful(), body or str(answer.exception or ""))


def _plain(name: str) -> str:
    """Return a name without the marks of a naming convention."""
    return name.replace("_", "").lower()


def _readable(value: Any) -> Any:
    return _Request(value) if isinstance(value, dict) else value


class ProcessClient:
    """A client in another language: a program that reads a call per line, and writes an outcome per line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def methods(self) -> set[str]:
        return {_plain(name) for name in await self._exchange({})} - {_plain(name) for name in _NOT_CALLS}

    async def call(self, method: str, arguments: dict[str, Any], key: str, tenant_id: str | None) -> Outcome:
        answer = await self._exchange({"method": method, "arguments": arguments, "key": key, "tenantId": tenant_id})
        return Outcome(answer["status"], answer["ok"], answer.get("body"))

    async def _exchange(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert line, "the client stopped"
        return json.loads(line)


@asynccontextmanager
async def started(command: Sequence[str | Path], folder: Path) -> AsyncIterator[ProcessClient]:
    """Start the program of a client."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=_LINE_BYTES
    )
    try:
        yield ProcessClient(process)
    finally:
        assert process.stdin
        process.stdin.close()
        await process.wait()


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a journey, and how it ended."""

    method: str
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.method}: {self.outcome.status} {json.dumps(self.outcome.body)[:600]}"


class Journey:
    """The calls of one client, in order."""

    def __init__(self, client: Client, offered: set[str], key: str) -> None:
        self._client = client
        self._offered = offered
        self._key = key
        self.tenant_id: str | None = None
        self.calls: list[Call] = []
        self.differences: list[str] = []
        """The paths of members that were read with another value than they were written with."""

    async def __call__(self, method: str, /, *, key: str | None = None, **arguments: Any) -> Answer:
        """Call a method and return the body; a method that this release of the client does not have is left out."""
        if _plain(method) not in self._offered:
            return Answer()
        outcome = await self._client.call(method, arguments, self._key if key is None else key, self.tenant_id)
        self.calls.append(Call(method, outcome))
        body = json.loads(json.dumps(outcome.body), object_hook=Answer)
        return body if outcome.is_successful and isinstance(body, Answer) else Answer()

    def has(self, method: str) -> bool:
        """Return whether this release of the client has a method."""
        return _plain(method) in self._offered

    @property
    def refused(self) -> list[Call]:
        return [call for call in self.calls if not call.outcome.is_successful]

    def missing(self) -> set[str]:
        """Return the methods of the client that the journey did not call."""
        return self._offered - {_plain(call.method) for call in self.calls}
