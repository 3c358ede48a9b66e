"""Fixtures of the store tests: a separate database, a Redis key prefix, and a vault."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from identity.ids import new_id
from identity.store.embedded.stores import EmbeddedStores
from identity.store.mongo import Database
from identity.store.redis import Redis
from identity.store.vault import Vault


@pytest.fixture(scope="session")
async def redis(stores: EmbeddedStores) -> AsyncIterator[Redis]:
    """A separate key prefix in the session's Redis, or in the one at TEST_REDIS_URL."""
    connected = Redis(os.environ.get("TEST_REDIS_URL") or str(stores.redis_url), f"test_{new_id()}")
    yield connected
    await connected.close()


@pytest.fixture(scope="session")
async def database(stores: EmbeddedStores) -> AsyncIterator[Database]:
    """A separate database in the session's MongoDB."""
    async with database_of_its_own(stores) as connected:
        yield connected


@asynccontextmanager
async def database_of_its_own(stores: EmbeddedStores) -> AsyncIterator[Database]:
    """A separate database for one file of tests, or for one test."""
    connected = Database(str(stores.mongodb_uri), f"test_{new_id()[:13].replace('-', '')}")
    yield connected
    await connected.drop()
    connected.close()


@pytest.fixture(scope="session")
def vault() -> Vault:
    """A vault with its own keys."""
    return Vault({"test": secrets.token_bytes(32)}, secrets.token_bytes(32))
