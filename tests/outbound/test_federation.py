"""Published documents of providers: shared fetches, bounded caching, no redirects and no environment proxies."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator

import pytest

from identity.config.sections import AllowedNetworks, IdentityProviders
from identity.ids import Secret
from identity.instants import Instant
from identity.outbound import federation
from identity.outbound.federation import FederationClient, FederationError
from identity.outbound.http import HttpClient
from tests.builders import NOW
from tests.receiver import Receiver, answers, hangs, receiving

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


def settings(*, read_timeout: int, max_concurrency: int = 50) -> IdentityProviders:
    return IdentityProviders(max_concurrency, 2000, read_timeout, AllowedNetworks((), ""), {})


@pytest.fixture
async def client() -> AsyncIterator[FederationClient]:
    http = HttpClient(allowed_networks=LOOPBACK, user_agent="identity/test")
    made = FederationClient(http, settings(read_timeout=300))
    yield made
    await made.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving(answers(200, b'{"keys": []}')) as running:
        yield running


def after(seconds: float) -> Instant:
    return Instant(NOW + round(seconds * 1000))


async def test_concurrent_callers_share_one_fetch(client, receiver):
    found = await asyncio.gather(*(client.keys(receiver.url, Instant(NOW)) for _ in range(64)))
    assert found == [{"keys": []}] * 64
    assert len(receiver.requests) == 1


async def test_failing_fetch_is_shared_and_its_failure_cached(client, receiver):
    receiver.behaviour = hangs

    async def error_of() -> str:
        with pytest.raises(FederationError) as caught:
            await client.keys(receiver.url, Instant(NOW))
        return str(caught.value)

    reasons = await asyncio.gather(*(error_of() for _ in range(16)))
    assert len(receiver.requests) == 1
    assert all("no answer" in reason for reason in reasons)


async def test_key_sets_are_renewed_once_for_each_unknown_key_within_a_limit(client, receiver):
    known = await client.keys(receiver.url, Instant(NOW))
    for seconds, kid, expected in ((0, "a", 2), (1, "a", 2), (2, "b", 3), (11, "a", 4), (11, "c", 5), (11, "d", 6)):
        newer = await client.keys(receiver.url, after(seconds), lacking=known, kid=kid)
        assert len(receiver.requests) == expected, (seconds, kid)
        known = newer
    for number in range(20):
        assert await client.keys(receiver.url, after(11), lacking=known, kid=str(number)) is not None
    assert len(receiver.requests) <= 1 + federation.REFETCH_BURST + 2


async def test_callers_that_lack_the_same_key_share_the_renewal(client, receiver):
    known = await client.keys(receiver.url, Instant(NOW))
    found = await asyncio.gather(*(client.keys(receiver.url, after(1), lacking=known, kid="a") for _ in range(64)))
    assert len(receiver.requests) == 2
    assert all(each is found[0] for each in found)
    assert found[0] is not known


async def test_known_keys_are_returned_while_a_provider_does_not_answer_a_renewal(client, receiver):
    known = await client.keys(receiver.url, Instant(NOW))
    behaviour, blocked, arrived = receiver.behaviour, asyncio.Event(), asyncio.Event()

    async def wait(request, writer):
        arrived.set()
        await blocked.wait()
        await behaviour(request, writer)

    receiver.behaviour = wait
    renewal = asyncio.create_task(client.keys(receiver.url, after(1), lacking=known, kid="a"))
    await arrived.wait()
    assert await client.keys(receiver.url, after(1)) is known
    blocked.set()
    assert await renewal is not known


@pytest.fixture
def small_cache(monkeypatch):
    monkeypatch.setattr(federation, "_MAX_CACHE_ENTRIES", 3)


@pytest.mark.requirement("core-11-18")
async def test_cache_is_bounded(small_cache, client, receiver):
    for number in range(5):
        await client.keys(f"{receiver.url}/{number}", Instant(NOW))
    await client.keys(f"{receiver.url}/4", Instant(NOW))
    assert len(receiver.requests) == 5
    await client.keys(f"{receiver.url}/0", Instant(NOW))
    assert len(receiver.requests) == 6
    published = client._cache
    assert len(published._entries) == 3
    assert not published._locks


async def test_redirect_is_not_followed(client, receiver):
    receiver.behaviour = answers(302, b"{}", [f"Location: {receiver.url}/elsewhere"])
    with pytest.raises(FederationError, match="answered 302"):
        await client.keys(receiver.url, Instant(NOW))
    assert len(receiver.requests) == 1


async def test_error_contains_the_code_of_the_provider_but_no_parameters(client, receiver):
    receiver.behaviour = answers(400, b'{"error": "invalid_grant", "error_description": "code the-code is spent"}')
    with pytest.raises(FederationError) as caught:
        await client.exchange(f"{receiver.url}?secret=1", {"code": "the-code"}, ("me", Secret("s")))
    assert "invalid_grant" in str(caught.value)
    assert "the-code" not in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_issuer_with_trailing_slash_has_the_correct_configuration_url(client, receiver):
    receiver.behaviour = answers(200, b'{"issuer": "%s/"}' % receiver.url.encode())
    assert await client.configuration(f"{receiver.url}/", Instant(NOW))
    assert receiver.requests[0].path == "/hook/.well-known/openid-configuration"
    with pytest.raises(FederationError, match="another issuer"):
        await client.configuration(receiver.url, after(10))


async def test_address_without_allowed_network_is_not_called(receiver):
    closed = FederationClient(HttpClient(user_agent="identity/test"), settings(read_timeout=2000))
    with pytest.raises(FederationError, match="may not be called"):
        await closed.keys(receiver.url, Instant(NOW))
    assert receiver.requests == []
    await closed.close()


@pytest.mark.requirement("core-11-17")
async def test_hanging_provider_blocks_no_other(receiver):
    http = HttpClient(allowed_networks=LOOPBACK, user_agent="identity/test", max_connections=3, max_waiting=3)
    client = FederationClient(http, settings(read_timeout=60_000, max_concurrency=10))
    async with receiving(hangs) as stuck:
        waiting = [asyncio.create_task(client.userinfo(stuck.url, "token")) for _ in range(20)]
        await stuck.wait_for(2)
        with pytest.raises(FederationError, match="are queued"):
            await client.userinfo(stuck.url, "token")
        assert await client.userinfo(receiver.url, "token") == {"keys": []}
        assert len(stuck.requests) == 2, "the others wait for their turn, and take no connection"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        stuck.behaviour = answers(200, b"{}")
        assert await client.userinfo(stuck.url, "token") == {}
    await client.close()
