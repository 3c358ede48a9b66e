"""The command line against the shared service."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from identity.cli.main import main
from tests import internals
from tests.conftest import MANAGER_KEY
from tests.operator.processes import run


@dataclasses.dataclass(frozen=True)
class Finished:
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The printed JSON; the shared service logs to the same output."""
        assert self.code == 0, self.err
        start = re.search(r"^[\[{]", self.out, re.MULTILINE)
        assert start, self.out
        return json.JSONDecoder().raw_decode(self.out[start.start() :])[0]


Identity = Callable[..., Awaitable[Finished]]


@pytest.fixture
def identity(service, monkeypatch, capsys) -> Identity:
    """Runs a command with the key manager's key, in a thread: the service answers in this one."""
    monkeypatch.setenv("IDENTITY_URL", service.base_url)
    monkeypatch.setenv("IDENTITY_API_KEY", MANAGER_KEY)

    async def run_command(*arguments: str, **environ: str) -> Finished:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = await asyncio.to_thread(main, arguments)
        captured = capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def locally(service) -> Identity:
    """Runs a command with --local in a process of its own, on the stores of the shared service, without an API key."""
    settings = internals.config(service)
    stores = {
        "mongodb__uri": settings.mongodb.uri,
        "mongodb__database": settings.mongodb.database,
        "redis__url": settings.redis.url,
        "kickstart__file": "null",
    }

    async def run_command(*arguments: str) -> Finished:
        def finished() -> subprocess.CompletedProcess[str]:
            return run(Path(settings.data_dir), *arguments, "--local", **stores)

        assert "IDENTITY_API_KEY" not in os.environ
        done = await asyncio.to_thread(finished)
        return Finished(done.returncode, done.stdout, done.stderr)

    return run_command
