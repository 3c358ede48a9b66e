"""The service of the tests in this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from identity import app
from tests.conftest import Build, ShiftedClock


@pytest.fixture(scope="session")
async def service(build: Build, session_clock: ShiftedClock) -> AsyncIterator[app.Service]:
    """A service with an empty database: these tests read all that is stored, and others leave thousands of objects."""
    async with build(clock=session_clock) as running:
        yield running
