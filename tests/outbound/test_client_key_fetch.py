"""Published key sets of clients: fetching, caching, and separation of tenants."""

from __future__ import annotations

import asyncio
import json

import pytest

from identity.config.sections import AllowedNetworks, ClientKeys
from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.outbound import client_key_fetch
from identity.outbound.client_key_fetch import ClientKeyFetcher, ClientKeysError
from identity.outbound.http import Response
from tests.builders import NOW

ONE, OTHER = TenantId(new_id()), TenantId(new_id())
URL = "https://client.example.com/jwks"
KEY = {"kty": "EC", "crv": "P-256", "x": "x", "y": "y", "kid": "1"}


class Web:
    """A fake HTTP client with prepared responses, returned at once or on release."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status, self.body, self.truncated = 200, json.dumps({"keys": [KEY]}).encode(), False
        self.hanging: asyncio.Event | None = None

    async def request(self, request):
        self.asked.append(request.url)
        if self.hanging is not None:
            await self.hanging.wait()
        return Response(status=self.status, headers={}, body=self.body, url=request.url, truncated=self.truncated)

    async def close(self) -> None:
        pass


@pytest.fixture
def web():
    return Web()


@pytest.fixture
def published(web):
    return ClientKeyFetcher(web, ClientKeys(1, 1, 1, AllowedNetworks((), "")))


def after(seconds: int) -> Instant:
    return later(NOW, seconds=seconds)


async def test_key_set_is_cached_for_an_hour_as_the_same_object(web, published):
    first = await published.get(ONE, URL, NOW)
    assert first == {"keys": [KEY]}
    assert await published.get(ONE, URL, after(3599)) is first
    assert await published.get(ONE, URL, after(3600)) is not first
    assert len(web.asked) == 2


async def test_missing_key_is_refetched_at_once_and_then_once_a_minute(web, published):
    await published.get(ONE, URL, NOW)
    for seconds, asked in ((0, 2), (59, 2), (60, 3), (119, 3), (120, 4)):
        await published.get(ONE, URL, after(seconds), refetch=True)
        assert len(web.asked) == asked, seconds


@pytest.mark.requirement("oauth-12-5")
async def test_failed_refetch_keeps_the_cached_set_and_is_throttled(web, published):
    first = await published.get(ONE, URL, NOW)
    web.status = 500
    assert await published.get(ONE, URL, after(61), refetch=True) is first
    assert await published.get(ONE, URL, after(62), refetch=True) is first
    assert len(web.asked) == 2
    with pytest.raises(ClientKeysError):
        await published.get(ONE, URL, after(3600))


@pytest.mark.requirement("oauth-12-5")
async def test_failure_is_cached_briefly(web, published):
    web.status = 404
    for seconds, asked in ((0, 1), (9, 1), (10, 2)):
        with pytest.raises(ClientKeysError, match="404"):
            await published.get(ONE, URL, after(seconds))
        assert len(web.asked) == asked
    web.status = 200
    assert await published.get(ONE, URL, after(20)) == {"keys": [KEY]}


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"{}", b'{"keys": {}}', b"[" * 100_000])
async def test_invalid_key_set_is_rejected(web, published, body):
    web.body = body
    with pytest.raises(ClientKeysError):
        await published.get(ONE, URL, NOW)


@pytest.mark.requirement("oauth-12-5")
async def test_only_required_members_of_keys_are_cached(web, published):
    web.body = json.dumps({"keys": [{**KEY, "x5c": ["MII"], "n": "x" * 3000, "e": 7}, 1, *[KEY] * 60]}).encode()
    found = await published.get(ONE, URL, NOW)
    assert found["keys"][0] == KEY
    assert len(found["keys"]) == 49
    web.truncated = True
    with pytest.raises(ClientKeysError, match="larger than"):
        await published.get(ONE, URL + "2", NOW)


async def test_fetch_is_shared_and_survives_a_cancelled_caller(web, published):
    web.hanging = asyncio.Event()
    waiting = [asyncio.create_task(published.get(ONE, URL, NOW)) for _ in range(8)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    web.hanging.set()
    found = await asyncio.gather(*waiting[1:])
    assert found == [{"keys": [KEY]}] * 7
    assert len(web.asked) == 1


@pytest.mark.requirement("oauth-12-5")
async def test_hanging_key_sets_block_only_their_tenant(web, published):
    web.hanging = asyncio.Event()
    waiting = [
        asyncio.create_task(published.get(ONE, f"{URL}{n}", NOW)) for n in range(client_key_fetch.FETCHES_PER_TENANT)
    ]
    await asyncio.sleep(0)
    with pytest.raises(ClientKeysError, match="too many"):
        await published.get(ONE, URL, NOW)
    other = asyncio.create_task(published.get(OTHER, URL, NOW))
    await asyncio.sleep(0)
    web.hanging.set()
    assert await other == {"keys": [KEY]}
    await asyncio.gather(*waiting)
    assert await published.get(ONE, URL, NOW) == {"keys": [KEY]}


@pytest.mark.requirement("oauth-12-5")
async def test_tenant_with_many_key_sets_evicts_only_its_own(web, published, monkeypatch):
    monkeypatch.setattr(client_key_fetch, "_MAX_ENTRIES", 4)
    await published.get(OTHER, URL, NOW)
    for n in range(6):
        await published.get(ONE, f"{URL}{n}", NOW)
    asked = len(web.asked)
    await published.get(OTHER, URL, NOW)
    await published.get(ONE, f"{URL}5", NOW)
    assert len(web.asked) == asked
    await published.get(ONE, f"{URL}0", NOW)
    assert len(web.asked) == asked + 1


async def test_key_sets_are_cached_per_tenant(web, published):
    await published.get(ONE, URL, NOW)
    await published.get(OTHER, URL, NOW)
    assert len(web.asked) == 2


async def test_fetches_end_with_the_service(web, published):
    web.hanging = asyncio.Event()
    waiting = asyncio.create_task(published.get(ONE, URL, NOW))
    await asyncio.sleep(0)
    await published.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
