"""A store that hangs: every kind of request is answered with 503 in its own shape, and everything goes on afterwards.

The servers are frozen (SIGSTOP), which is the worst way to be away: connections stay open and nothing ever comes back.
They thaw only when all answers have come.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from identity import app
from identity.store.embedded.stores import EmbeddedStores
from tests import relying_party
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, Build, checking_client
from tests.relying_party import RelyingParty


@pytest.fixture(scope="module")
async def own_stores() -> AsyncIterator[EmbeddedStores]:
    """Stores that may be frozen, because nobody else uses them."""
    folder = Path(tempfile.mkdtemp(prefix="identity-test-"))
    running = await EmbeddedStores.start(folder, mongodb=True, redis=True)
    yield running
    await running.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
async def frail(own_stores: EmbeddedStores, build: Build) -> AsyncIterator[app.Service]:
    """A service on those stores."""
    addresses = {"mongodb__uri": own_stores.mongodb_uri, "redis__url": own_stores.redis_url}
    async with build(**addresses) as running:
        yield running


@pytest.fixture
async def frail_api(frail: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(frail.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def browser(frail: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    async with checking_client(frail.base_url) as client:
        yield client


@pytest.fixture
async def client(frail_api: httpx.AsyncClient) -> RelyingParty:
    return await relying_party.make(frail_api)


@contextmanager
def frozen(stores: EmbeddedStores, name: str) -> Iterator[None]:
    """One of the two servers hangs inside the block."""
    pid = stores.pids()[("mongod", "redis").index(name)]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_requests_fail_fast_while_mongodb_hangs_and_recover(
    own_stores: EmbeddedStores, client: RelyingParty, frail_api: httpx.AsyncClient, browser: httpx.AsyncClient
) -> None:
    tokens = await client.tokens(browser, browser)
    code = await client.code(browser)
    login = await client.authorize(browser, prompt="login")
    user = {"user": {"email": "new@example.com", "password": relying_party.PASSWORD}}
    with frozen(own_stores, "mongod"):
        changed, read, refreshed, exchanged, logged_in = await asyncio.gather(
            frail_api.post("/api/user", json=user),
            frail_api.get("/api/webhook"),
            client.refresh(browser, tokens["refresh_token"]),
            client.exchange(browser, code),
            client.submit(browser, login),
        )
    for answer in (changed, read):
        assert answer.status_code == 503
        assert answer.json()["generalErrors"][0]["code"] == "[Unavailable]"
    for answer in (refreshed, exchanged):
        assert (answer.status_code, answer.json()["error"]) == (503, "server_error")
    assert relying_party.response(logged_in)["error"] == "server_error"

    assert (await _again(lambda: frail_api.get("/api/webhook"))).status_code == 200
    assert (await client.refresh(browser, tokens["refresh_token"])).status_code == 200
    assert (await frail_api.post("/api/user", json=user)).status_code in {200, 400}, "400: it was made after all"


async def test_requests_that_need_redis_fail_fast_while_it_hangs(
    own_stores: EmbeddedStores, client: RelyingParty, frail_api: httpx.AsyncClient, browser: httpx.AsyncClient
) -> None:
    tokens = await client.tokens(browser, browser)
    code = await client.code(browser)
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    with frozen(own_stores, "redis"):
        userinfo, exchanged, authorized, logged_out, read = await asyncio.gather(
            browser.get("/oauth2/userinfo", headers=bearer),
            client.exchange(browser, code),
            client.authorize(browser),
            browser.get("/oauth2/logout"),
            frail_api.get("/api/webhook"),
        )
    for answer in (userinfo, exchanged):
        assert (answer.status_code, answer.json()["error"]) == (503, "server_error")
    assert relying_party.response(authorized)["error"] == "server_error"
    assert (logged_out.status_code, logged_out.headers["Content-Type"]) == (503, "text/html; charset=utf-8")
    assert read.status_code == 200

    assert (await _again(lambda: browser.get("/oauth2/userinfo", headers=bearer))).status_code == 200


async def _again(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """Ask until the answer is no 503 any more; a service that does not recover fails by the limit on every test."""
    while True:
        answer = await ask()
        if answer.status_code != 503:
            return answer
        await asyncio.sleep(0.05)
