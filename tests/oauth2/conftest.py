"""Fixtures of the protocol tests, such as browsers with cookie jars."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import httpx
import pytest

from identity import app
from tests.conftest import checking_client


@pytest.fixture
async def new_browser(service: app.Service) -> AsyncIterator[Callable[[], httpx.AsyncClient]]:
    """Makes browsers: clients that keep cookies and follow no redirect."""
    async with AsyncExitStack() as stack:
        opened: list[httpx.AsyncClient] = []

        def make() -> httpx.AsyncClient:
            client = checking_client(service.base_url)
            stack.push_async_callback(client.aclose)
            opened.append(client)
            return client

        yield make


@pytest.fixture
def browser(new_browser: Callable[[], httpx.AsyncClient]) -> httpx.AsyncClient:
    """A fresh browser."""
    return new_browser()
