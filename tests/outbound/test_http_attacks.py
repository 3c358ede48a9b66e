"""Attacks by receivers and DNS: unsolicited responses, and DNS rebinding."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
from collections.abc import AsyncIterator

import pytest

from identity.config.sections import AllowedNetworks
from identity.outbound import connections
from identity.outbound.http import HttpClient, OutboundError, Request
from tests.receiver import Receiver, in_turn, receiving, sends

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BROKEN = b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno"


def post(url: str) -> Request:
    return Request("POST", url, {}, b"{}", 5000, 10_000)


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    found = HttpClient(allowed_networks=[ipaddress.ip_network("127.0.0.0/8")])
    yield found
    await found.close()


@pytest.mark.requirement("webhooks-faults-13")
async def test_unsolicited_response_is_discarded(client: HttpClient) -> None:
    """Of two responses to one request, the second could turn the failure of the next delivery into a success."""
    async with receiving(in_turn(sends(OK + OK, then_close=False), sends(BROKEN, then_close=False))) as receiver:
        first = await client.request(post(receiver.url))
        second = await client.request(post(receiver.url))
        assert (first.status, first.body) == (200, b"ok")
        assert (second.status, second.body) == (500, b"no")
        assert receiver.connections == 2


async def test_answer_that_comes_before_the_body_was_read_is_the_answer(client: HttpClient) -> None:
    """The receiver rejects a large body and closes the connection with most of it unread."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    response = await client.request(dataclasses.replace(post(url), body=b"x" * 10_000_000))
    assert (response.status, response.body) == (413, b"no")
    server.close()
    await server.wait_closed()


@pytest.mark.requirement("webhooks-faults-13")
async def test_closed_idle_connection_is_replaced_without_a_failed_attempt(client: HttpClient) -> None:
    """The receiver has closed the idle connection; the request is sent again on a new one."""
    async with receiving(sends(OK)) as receiver:
        for _ in range(3):
            assert (await client.request(post(receiver.url))).status == 200
        assert len(receiver.requests) == receiver.connections == 3


async def test_status_line_with_a_colon_is_no_header(client: HttpClient) -> None:
    async with receiving(sends(b"HTTP/1.1 200 OK: fine\r\nContent-Length: 0\r\nX-One:two\r\n\r\n")) as receiver:
        assert (await client.request(post(receiver.url))).headers == {"content-length": "0", "x-one": "two"}


@pytest.mark.requirement("webhooks-faults-13")
async def test_headers_of_early_answers_are_not_those_of_the_answer(client: HttpClient) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 86400\r\n\r\n"
    async with receiving(sends(early + OK)) as receiver:
        assert (await client.request(post(receiver.url))).headers == {"content-length": "2"}


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (b"X: " + b"y" * 400_000, "A response header is too large."),
        (b"X: y\r\n" * 6000, "Too many response headers, 5000 is max"),
        (b"X: " + b"y" * 1000 + b"\r\nX: " + b"y" * 65_000, "The response headers are larger than 65536 bytes."),
    ],
    ids=["long", "many", "together"],
)
async def test_oversized_headers_have_a_readable_error(client: HttpClient, headers: bytes, words: str) -> None:
    async with receiving(sends(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n")) as receiver:
        with pytest.raises(OutboundError) as caught:
            await client.request(post(receiver.url))
    assert (caught.value.kind, caught.value.message) == ("too_large", words)


# Names. What DNS says is said here, so that it can be something else the next time.


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make every name resolve to these addresses."""
    answers: list[str] = []

    async def look_up(_dns: object, _host: str) -> tuple[str, ...]:
        return tuple(answers)

    monkeypatch.setattr(connections, "look_up", look_up)
    return answers


@contextlib.asynccontextmanager
async def listening(address: str, port: int) -> AsyncIterator[Receiver]:
    """A receiver at another address of this machine, on the port of the first."""
    receiver = Receiver()
    await receiver.start(port, address)
    try:
        yield receiver
    finally:
        await receiver.stop()


def only(address: str) -> HttpClient:
    networks = (ipaddress.ip_network(f"{address}/32"),)
    return HttpClient(allowed_networks=AllowedNetworks(networks, "webhooks.allowed_networks"))


@pytest.mark.requirement("attack-58", "webhooks-15.3-40")
async def test_attack_58_name_that_resolves_to_something_else_after_the_check_is_not_followed(dns: list[str]) -> None:
    """The URL was valid and called successfully; then its name is changed to an address of this machine."""
    async with receiving() as allowed:
        port = allowed.port
        async with listening("127.0.0.2", port) as inside:
            url = f"http://rebind.example.com:{port}/"
            client = only("127.0.0.1")
            dns[:] = ["127.0.0.1"]
            assert (await client.request(post(url))).status == 200
            await client.close()
            for answer in ("127.0.0.2", "::ffff:127.0.0.2", "::1", "10.0.0.1", "169.254.169.254", "64:ff9b::7f00:2"):
                client = only("127.0.0.1")
                dns[:] = [answer]
                with pytest.raises(OutboundError) as caught:
                    await client.request(post(url))
                assert caught.value.kind == "blocked", answer
                assert "webhooks.allowed_networks" in caught.value.message, answer
                await client.close()
            assert inside.connections == 0
            assert allowed.connections == 1


@pytest.mark.requirement("attack-58", "webhooks-15.3-40")
async def test_attack_58_of_several_addresses_only_those_are_tried_that_may_be(dns: list[str]) -> None:
    async with receiving() as allowed, listening("127.0.0.2", allowed.port) as inside:
        dns[:] = ["127.0.0.2", "127.0.0.1"]
        client = only("127.0.0.1")
        assert (await client.request(post(f"http://both.example.com:{allowed.port}/"))).status == 200
        await client.close()
        assert (inside.connections, allowed.connections) == (0, 1)


@pytest.mark.requirement("attack-58", "webhooks-15.3-40")
async def test_attack_58_address_that_was_checked_is_the_one_that_is_connected_to(dns: list[str]) -> None:
    async with receiving() as other, listening("127.0.0.2", other.port) as pinned:
        dns[:] = ["127.0.0.2"]
        client = only("127.0.0.2")
        assert (await client.request(post(f"http://pinned.example.com:{other.port}/"))).status == 200
        await client.close()
        assert (len(pinned.requests), other.connections) == (1, 0)
