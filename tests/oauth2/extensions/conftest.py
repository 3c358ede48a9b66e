"""A service with the OAuth extensions that the configuration leaves off by default."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from identity import app
from tests import certificates
from tests.conftest import Build, ShiftedClock


@pytest.fixture(scope="package")
async def service(
    build: Build, session_clock: ShiftedClock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[app.Service]:
    """The service of these tests, in place of the shared one."""
    settings = {
        "token_exchange__enabled": "true",
        "mutual_tls__enabled": "true",
        "mutual_tls__authorities_file": str(tmp_path_factory.mktemp("authorities") / "clients.pem"),
        "mutual_tls__base_url": "https://mtls.example.com",
    }
    Path(settings["mutual_tls__authorities_file"]).write_text(certificates.authority().pem)
    async with build(clock=session_clock, **settings) as running:
        yield running
