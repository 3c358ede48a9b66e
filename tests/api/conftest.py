"""Fixtures of the API tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.conftest import SUPER_KEY, Build, checking_client


@pytest.fixture(scope="session")
async def without_entities(build: Build) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service whose operator switched entities off."""
    async with (
        build(license__features="{entityManagement: false}") as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client,
    ):
        yield client
