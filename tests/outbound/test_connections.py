"""Name resolution: queries are coalesced, and a name server that does not answer blocks no other name."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pycares
import pytest

from identity.outbound import connections
from identity.outbound.connections import FRESH_SECONDS, STALE_SECONDS, NameResolver, UnknownNameError
from identity.outbound.http import HttpClient, OutboundError, Request
from tests import certificates
from tests.receiver import receiving, until

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]
LONG = 20.0


class NameServers:
    """Answers by name: addresses, nothing, or (for `silent` names) no answer until the test ends."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, ...]] = {}
        self.asked: Counter[str] = Counter()
        self.released = asyncio.Event()

    async def look_up(self, _dns: object, host: str) -> tuple[str, ...]:
        self.asked[host] += 1
        if host.startswith("silent"):
            await self.released.wait()
        return self.known.get(host, ())


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServers]:
    found = NameServers()
    monkeypatch.setattr(connections, "look_up", found.look_up)
    yield found
    found.released.set()


class Seconds:
    """A clock controlled by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def post(url: str, connect_timeout_ms: int) -> Request:
    return Request("POST", url, {}, b"{}", connect_timeout_ms, 10_000)


@pytest.mark.requirement("attack-64")
async def test_attack_64_silent_name_server_blocks_no_other_receiver(servers: NameServers) -> None:
    """More requests and more such receivers than libcurl has resolver threads."""
    servers.known["good.example.com"] = ("127.0.0.1",)
    client = HttpClient(allowed_networks=LOOPBACK)
    async with receiving() as receiver:
        silent = ["silent.example.com"] * 60 + [f"silent{number}.example.com" for number in range(40)]
        waiting = [
            asyncio.create_task(client.request(post(f"http://{name}:{receiver.port}/", 20_000))) for name in silent
        ]
        await until(lambda: len(servers.asked) == 41)
        answer = await client.request(post(f"http://good.example.com:{receiver.port}/hook", 20_000))
        assert answer.status == 200
        assert receiver.requests[0].headers["host"] == f"good.example.com:{receiver.port}"
        assert not any(each.done() for each in waiting)
        assert servers.asked["silent.example.com"] == 1
        await client.close()
        assert {type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)} == {OutboundError}


@pytest.mark.requirement("webhooks-9-11")
async def test_the_name_is_what_tls_asks_for_and_verifies(servers: NameServers, tmp_path: Path) -> None:
    """The host name is verified, not the address, although the certificate covers both."""
    servers.known |= {"good.example.com": ("127.0.0.1",), "other.example.com": ("127.0.0.1",)}
    trusted = tmp_path / "ca.pem"
    trusted.write_text(certificates.authority().pem)
    context = certificates.server_context(certificates.make("s", certificates.authority(), name="good.example.com"))
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    client = HttpClient(allowed_networks=LOOPBACK, ca_file=trusted)
    async with receiving(tls=context) as receiver:
        answer = await client.request(post(f"https://good.example.com:{receiver.port}/", 20_000))
        assert answer.status == 200
        with pytest.raises(OutboundError) as caught:
            await client.request(post(f"https://other.example.com:{receiver.port}/", 20_000))
        assert caught.value.kind == "tls"
    assert asked == ["good.example.com", "other.example.com"]
    await client.close()


async def test_silent_name_server_is_a_timeout_and_unknown_name_is_an_error(servers: NameServers) -> None:
    client = HttpClient(allowed_networks=LOOPBACK)
    for host, kind, words in (
        ("silent.example.com", "timeout", "Resolving timed out after 50 milliseconds"),
        ("unknown.example.com", "dns", "Could not resolve host: unknown.example.com"),
    ):
        with pytest.raises(OutboundError) as caught:
            await client.request(post(f"https://{host}/", 50))
        assert (caught.value.kind, caught.value.message) == (kind, words)
    await client.close()


async def test_answer_is_cached_for_a_minute(servers: NameServers) -> None:
    seconds = Seconds()
    known = NameResolver(seconds)
    servers.known["a.example.com"] = ("192.0.2.1", "2001:db8::1")
    assert await known.resolve("a.example.com", LONG) == ("192.0.2.1", "2001:db8::1")
    servers.known["a.example.com"] = ("192.0.2.2",)
    seconds.now += FRESH_SECONDS - 1
    assert await known.resolve("a.example.com", LONG) == ("192.0.2.1", "2001:db8::1")
    assert servers.asked["a.example.com"] == 1
    seconds.now += 1
    assert await known.resolve("a.example.com", LONG) == ("192.0.2.2",)


async def test_stale_answer_is_served_for_a_limited_time_while_the_name_server_fails(servers: NameServers) -> None:
    seconds = Seconds()
    known = NameResolver(seconds)
    servers.known["a.example.com"] = ("192.0.2.1",)
    await known.resolve("a.example.com", LONG)
    del servers.known["a.example.com"]
    seconds.now += STALE_SECONDS - 1
    assert await known.resolve("a.example.com", LONG) == ("192.0.2.1",)
    assert servers.asked["a.example.com"] == 2
    seconds.now += 1
    with pytest.raises(UnknownNameError):
        await known.resolve("a.example.com", LONG)


async def test_stale_answer_is_served_while_the_name_server_is_silent(servers: NameServers) -> None:
    seconds = Seconds()
    known = NameResolver(seconds)
    servers.released.set()
    servers.known["silent.example.com"] = ("192.0.2.1",)
    await known.resolve("silent.example.com", LONG)
    servers.released.clear()
    seconds.now += FRESH_SECONDS
    assert await known.resolve("silent.example.com", 0.1) == ("192.0.2.1",)
    # No other resolution waits meanwhile.
    assert await known.resolve("silent.example.com", 1e6) == ("192.0.2.1",)
    await known.close()


async def test_missing_value_is_loaded_again(servers: NameServers) -> None:
    known = NameResolver()
    with pytest.raises(UnknownNameError):
        await known.resolve("late.example.com", LONG)
    servers.known["late.example.com"] = ("192.0.2.1",)
    assert await known.resolve("late.example.com", LONG) == ("192.0.2.1",)


async def test_cache_and_concurrent_queries_are_bounded(servers: NameServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_MAX_CACHED_NAMES", 2)
    monkeypatch.setattr(connections, "MAX_CONCURRENT_QUERIES", 1)
    servers.known |= {f"{letter}.example.com": ("192.0.2.1",) for letter in "abc"}
    known = NameResolver()
    for letter in "abca":
        await known.resolve(f"{letter}.example.com", LONG)
    assert servers.asked == {"a.example.com": 2, "b.example.com": 1, "c.example.com": 1}
    with pytest.raises(TimeoutError):
        await known.resolve("silent.example.com", 0.01)
    with pytest.raises(TimeoutError):
        await known.resolve("b.example.com", 0.01)
    servers.released.set()
    assert await known.resolve("b.example.com", LONG) == ("192.0.2.1",)


async def test_query_that_cannot_start_fails_and_the_next_one_succeeds(
    servers: NameServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = NameResolver()
    servers.known["a.example.com"] = ("192.0.2.1",)

    def broken(**_: object) -> None:
        raise pycares.AresError(15, "Out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(pycares, "Channel", broken)
        with pytest.raises(UnknownNameError):
            await known.resolve("a.example.com", LONG)
    assert await known.resolve("a.example.com", LONG) == ("192.0.2.1",)
    await known.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://EXAMPLE.com/x", "+example.com:443:192.0.2.1,[2001:db8::1]"),
        ("http://example.com", "+example.com:80:192.0.2.1,[2001:db8::1]"),
        ("http://example.com:8080/", "+example.com:8080:192.0.2.1,[2001:db8::1]"),
        ("http://192.0.2.1/", None),
        ("http://[2001:db8::1]:8080/", None),
        ("http://localhost:8080/", None),
        ("http://a.localhost/", None),
    ],
)
def test_names_are_distinguished_from_addresses(url: str, expected: str | None) -> None:
    found = connections.unresolved_host(url)
    assert (None if found is None else found.curl_resolve_entry(("192.0.2.1", "2001:db8::1"))) == expected


async def test_the_system_is_queried_and_unknown_names_have_no_address() -> None:
    known = NameResolver()
    assert "127.0.0.1" in await known.resolve("localhost", LONG)
    for invalid in ("a" * 64 + ".example", "a..example", "a" * 32 + ".invalid"):
        with pytest.raises(UnknownNameError):
            await known.resolve(invalid, LONG)
    await known.close()


async def test_pending_query_is_cancelled_when_the_resolver_is_closed() -> None:
    known = NameResolver()
    pending = asyncio.create_task(known.resolve("silent.example.com", LONG))
    await asyncio.sleep(0)
    await known.close()
    with pytest.raises((UnknownNameError, TimeoutError)):
        await pending
