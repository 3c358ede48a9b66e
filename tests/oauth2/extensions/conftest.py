"""A service with the OAuth extensions that the configuration leaves off by default."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from identity import app
from tests.conftest import Build, ShiftedClock


@pytest.fixture(scope="package")
async def service(build: Build, session_clock: ShiftedClock) -> AsyncIterator[app.Service]:
    """The service of these tests, in place of the shared one."""
    async with build(clock=session_clock, token_exchange__enabled="true") as running:
        yield running
