"""The HTTP client against a receiver that behaves, misbehaves and attacks (attacks 58 to 61)."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gzip
import ipaddress
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from identity.ids import Secret
from identity.outbound import http
from identity.outbound.http import HttpClient, OutboundError, Request
from tests import certificates
from tests.receiver import Receiver, answers, drips, hangs, receiving, resets, sends

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(allowed_networks=LOOPBACK, user_agent="identity/test")
    yield client
    await client.close()


def post(url: str, body: bytes | None = b'{"event":{}}', **changes: Any) -> Request:
    request = Request(
        method="POST",
        url=url,
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        body=body,
        connect_timeout_ms=5000,
        read_timeout_ms=10_000,
    )
    return dataclasses.replace(request, **changes)


async def failure(client: HttpClient, request: Request) -> OutboundError:
    with pytest.raises(OutboundError) as caught:
        await client.request(request)
    return caught.value


@pytest.mark.requirement("service-19")
async def test_request_has_exactly_the_headers_given(client: HttpClient) -> None:
    async with receiving(answers(201, b"done", ["X-One: 1", "X-One: 2"])) as receiver:
        response = await client.request(post(receiver.url))
    assert (response.status, response.body, response.headers["x-one"]) == (201, b"done", "1, 2")
    received = receiver.requests[0]
    assert (received.method, received.path, received.version) == ("POST", "/hook", "HTTP/1.1")
    assert received.body == b'{"event":{}}'
    assert received.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "user-agent": "identity/test",
        "content-type": "application/json",
        "accept": "application/json",
        "content-length": "12",
    }


async def test_nothing_is_added_to_a_request_without_headers(client: HttpClient) -> None:
    async with receiving() as receiver:
        await client.request(post(receiver.url, headers={"X-Empty": ""}, body=b"x" * 2_000_000))
        assert set(receiver.requests[0].headers) == {"host", "user-agent", "content-length", "x-empty"}
        assert len(receiver.requests[0].body) == 2_000_000


async def test_get_has_no_body(client: HttpClient) -> None:
    async with receiving() as receiver:
        await client.request(post(receiver.url, method="GET", body=None, headers={}))
        assert (receiver.requests[0].method, receiver.requests[0].body) == ("GET", b"")


async def test_path_is_sent_as_it_was_written(client: HttpClient) -> None:
    async with receiving() as receiver:
        await client.request(post(f"http://127.0.0.1:{receiver.port}/a/../b//c;d?e=%2F"))
        assert receiver.requests[0].path == "/a/../b//c;d?e=%2F"


@pytest.mark.requirement("webhooks-2-8")
async def test_basic_credentials_are_sent_unless_a_header_has_its_own(client: HttpClient) -> None:
    async with receiving() as receiver:
        await client.request(post(receiver.url, basic=("üser", Secret("pass:word"))))
        assert receiver.requests[0].headers["authorization"] == "Basic w7xzZXI6cGFzczp3b3Jk"
        own = {"authorization": "Bearer x"}
        await client.request(post(receiver.url, basic=("user", Secret("password")), headers=own))
        assert receiver.requests[1].headers["authorization"] == "Bearer x"


@pytest.mark.parametrize("headers", [{"A b": "c"}, {"": "c"}, {"A": "b\r\nC: d"}, {"A": "\0"}, {"A:": "b"}])
async def test_header_that_would_break_the_request_is_not_sent(client: HttpClient, headers: dict[str, str]) -> None:
    async with receiving() as receiver:
        assert (await failure(client, post(receiver.url, headers=headers))).kind == "protocol"
        assert receiver.requests == []


@pytest.mark.requirement("webhooks-9-9")
async def test_connections_are_reused(client: HttpClient) -> None:
    async with receiving() as receiver:
        for _ in range(5):
            await client.request(post(receiver.url))
        assert receiver.connections == 1


@pytest.mark.requirement("webhooks-9-9")
async def test_many_requests_run_at_once_but_not_more_than_allowed() -> None:
    client = HttpClient(allowed_networks=LOOPBACK, max_connections=8)
    running = most = 0
    gate = asyncio.Event()

    async def behave(request: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            gate.set()
        await gate.wait()
        running -= 1
        await answers(200)(request, writer)

    async with receiving(behave) as receiver:
        responses = await asyncio.gather(*(client.request(post(receiver.url)) for _ in range(40)))
    await client.close()
    assert [response.status for response in responses] == [200] * 40
    assert most == 8


async def test_full_queue_says_so_at_once() -> None:
    client = HttpClient(allowed_networks=LOOPBACK, max_connections=1, max_waiting=1)
    async with receiving(hangs) as receiver:
        waiting = [asyncio.create_task(client.request(post(receiver.url))) for _ in range(2)]
        await receiver.wait_for(1)
        assert (await failure(client, post(receiver.url))).kind == "busy"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    await client.close()


async def test_cancelled_request_frees_its_slot() -> None:
    client = HttpClient(allowed_networks=LOOPBACK, max_connections=1)
    async with receiving(hangs) as receiver:
        task = asyncio.create_task(client.request(post(receiver.url)))
        await receiver.wait_for(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        receiver.behaviour = answers(200)
        assert (await client.request(post(receiver.url))).status == 200
    await client.close()


async def test_closing_fails_what_is_in_flight() -> None:
    client = HttpClient(allowed_networks=LOOPBACK)
    async with receiving(hangs) as receiver:
        task = asyncio.create_task(client.request(post(receiver.url)))
        await receiver.wait_for(1)
        await client.close()
        with pytest.raises(OutboundError):
            await task
        assert (await failure(client, post(receiver.url))).kind == "busy"


@pytest.mark.requirement("attack-59", "webhooks-15.3-1", "webhooks-9-7")
@pytest.mark.parametrize("status", [204, 301, 302, 307, 308, 400, 404, 410, 429, 500, 503])
async def test_attack_59_every_status_is_an_answer_and_no_redirect_is_followed(client: HttpClient, status: int) -> None:
    async with receiving() as inside:
        async with receiving(answers(status, headers=[f"Location: {inside.url}"])) as receiver:
            assert (await client.request(post(receiver.url))).status == status
        assert inside.requests == []


async def test_refused_connection(client: HttpClient) -> None:
    async with receiving() as receiver:
        url = receiver.url
    assert (await failure(client, post(url))).kind == "refused"


async def test_reset_connection(client: HttpClient) -> None:
    async with receiving(resets) as receiver:
        assert (await failure(client, post(receiver.url))).kind == "reset"


async def test_connection_closed_without_an_answer(client: HttpClient) -> None:
    async with receiving(sends(b"")) as receiver:
        assert (await failure(client, post(receiver.url))).kind == "reset"


async def test_body_cut_short(client: HttpClient) -> None:
    async with receiving(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")) as receiver:
        assert (await failure(client, post(receiver.url))).kind == "reset"


@pytest.mark.requirement("webhooks-9-5")
async def test_receiver_that_hangs(client: HttpClient) -> None:
    async with receiving(hangs) as receiver:
        request = post(receiver.url, connect_timeout_ms=100, read_timeout_ms=100)
        assert (await failure(client, request)).kind == "timeout"


@pytest.mark.requirement("audit-d1-timeouts")
@pytest.mark.parametrize("reused", [False, True], ids=["new connection", "reused connection"])
async def test_unused_connect_time_is_not_added_to_the_read_timeout(client: HttpClient, reused: bool) -> None:
    async with receiving() as receiver:
        if reused:
            await client.request(post(receiver.url))
        receiver.behaviour = hangs
        request = post(receiver.url, connect_timeout_ms=60_000, read_timeout_ms=100)
        assert (await asyncio.wait_for(failure(client, request), 10)).kind == "timeout"
        receiver.behaviour = answers(200)
        assert (await client.request(post(receiver.url))).status == 200


@pytest.mark.requirement("audit-d1-timeouts")
async def test_read_timeout_covers_the_whole_response(client: HttpClient) -> None:
    async with receiving(drips(b"HTTP/1.1 200 OK\r\n\r\n", b".")) as receiver:
        request = post(receiver.url, connect_timeout_ms=60_000, read_timeout_ms=200)
        assert (await asyncio.wait_for(failure(client, request), 10)).kind == "timeout"


@pytest.mark.requirement("contract-webhook-timeouts", "webhooks-9-5")
async def test_connect_timeout() -> None:
    # A full accept queue drops the handshake, as a machine that is switched off does.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        client = HttpClient(allowed_networks=LOOPBACK)
        request = post(f"http://127.0.0.1:{port}/", connect_timeout_ms=100, read_timeout_ms=60_000)
        assert (await failure(client, request)).kind == "timeout"
        await client.close()
        for filler in fillers:
            filler.close()


@pytest.mark.requirement("webhooks-15.3-13", "webhooks-9-6")
async def test_configured_proxy_gets_every_request_and_only_it_gets_its_password() -> None:
    async with receiving(answers(202, b"from the proxy")) as proxy:
        url = Secret(f"http://us%40er:pass@127.0.0.1:{proxy.port}")
        client = HttpClient(proxy=url)
        response = await client.request(post("http://receiver.example.com/hook"))
        await client.close()
    assert (response.status, response.body) == (202, b"from the proxy")
    (received,) = proxy.requests
    assert received.path == "http://receiver.example.com/hook"
    assert received.headers["host"] == "receiver.example.com"
    assert base64.b64decode(received.headers["proxy-authorization"].removeprefix("Basic ")) == b"us@er:pass"


@pytest.mark.requirement("webhooks-9-6")
async def test_https_uses_a_tunnel_of_the_proxy_which_may_be_refused() -> None:
    async with receiving(answers(403)) as proxy:
        client = HttpClient(proxy=Secret(f"http://user:the-password@127.0.0.1:{proxy.port}"))
        error = await failure(client, post("https://receiver.example.com/hook"))
        await client.close()
    assert (error.kind, error.message) == ("refused", "CONNECT tunnel failed, response 403")
    assert (proxy.requests[0].method, proxy.requests[0].path) == ("CONNECT", "receiver.example.com:443")


@pytest.mark.requirement("webhooks-9-6")
@pytest.mark.parametrize("url", ["http://169.254.169.254/", "http://127.0.0.1/", "http://[::1]/", "http://localhost/"])
async def test_ip_addresses_are_checked_even_with_a_proxy(url: str) -> None:
    async with receiving() as proxy:
        client = HttpClient(proxy=Secret(f"http://127.0.0.1:{proxy.port}"))
        assert (await failure(client, post(url))).kind == "blocked"
        await client.close()
    assert proxy.requests == []


@pytest.mark.requirement("attack-61")
@pytest.mark.parametrize(
    "behaviour",
    [
        drips(b"", b"H"),
        drips(b"HTTP/1.1 200 OK\r\n", b"X-Slow: 1\r\n"),
        drips(b"HTTP/1.1 200 OK\r\n\r\n", b"."),
        drips(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n.\r\n"),
        drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["status", "headers", "body", "chunks", "informational"],
)
async def test_attack_61_dripping_receiver_does_not_hold_the_connection_open(
    client: HttpClient, behaviour: Any
) -> None:
    async with receiving(behaviour) as receiver:
        request = post(receiver.url, connect_timeout_ms=200, read_timeout_ms=200)
        assert (await failure(client, request)).kind in {"timeout", "protocol"}


@pytest.mark.requirement("attack-61", "webhooks-9-8")
async def test_attack_61_endless_body_is_cut_off_and_its_status_counts(client: HttpClient) -> None:
    async with receiving(drips(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000, 0)) as receiver:
        response = await client.request(post(receiver.url, max_response_bytes=1000))
    assert (response.status, response.body, response.truncated) == (200, b"x" * 1000, True)


@pytest.mark.requirement("attack-61")
async def test_attack_61_compressed_answer_is_not_decompressed(client: HttpClient) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    async with receiving(answers(200, bomb, ["Content-Encoding: gzip"])) as receiver:
        response = await client.request(post(receiver.url))
    assert response.body == bomb


@pytest.mark.requirement("attack-61")
async def test_attack_61_endless_headers_are_refused(client: HttpClient) -> None:
    async with receiving(drips(b"HTTP/1.1 200 OK\r\n", b"X-Many: " + b"y" * 1000 + b"\r\n", 0)) as receiver:
        assert (await failure(client, post(receiver.url))).kind == "too_large"


@pytest.mark.parametrize("raw", [b"hello\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"\0" * 100])
async def test_answer_that_is_not_http(client: HttpClient, raw: bytes) -> None:
    async with receiving(sends(raw)) as receiver:
        assert (await failure(client, post(receiver.url))).kind == "protocol"


async def test_unknown_host(client: HttpClient) -> None:
    assert (await failure(client, post("http://no-such-host.invalid/"))).kind in {"dns", "timeout"}


@pytest.mark.requirement("attack-57")
async def test_attack_57_address_outside_the_allowed_networks_is_never_connected_to() -> None:
    client = HttpClient()
    async with receiving() as receiver:
        assert (await failure(client, post(receiver.url))).kind == "blocked"
        assert receiver.connections == 0
    await client.close()


@pytest.mark.requirement("attack-58", "webhooks-15.3-3")
async def test_attack_58_name_that_resolves_inside_is_stopped_at_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL is valid, as with DNS rebinding; the resolved address is blocked."""
    monkeypatch.setattr(http, "check_url", lambda url, allowed: None)
    client = HttpClient()
    async with receiving() as receiver:
        error = await failure(client, post(f"http://localhost:{receiver.port}/"))
        assert error.kind == "blocked"
        assert "loopback" in error.message
        # c-ares does not read a number as an address.
        assert (await failure(client, post(f"http://2130706433:{receiver.port}/"))).kind == "dns"
        assert receiver.connections == 0
    await client.close()


async def test_allowed_address_that_refuses_is_not_hidden_by_one_that_is_not_allowed(client: HttpClient) -> None:
    """`localhost` is 127.0.0.1 and ::1 to libcurl, and only the network of the first is allowed here."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        error = await failure(client, post(f"http://localhost:{closed.getsockname()[1]}/"))
    assert error.kind == "refused"
    assert error.message.startswith("Failed to connect to localhost")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://127.0.0.1:25/", "dict://127.0.0.1/"])
async def test_other_protocols_and_ports_are_blocked_at_the_call_too(client: HttpClient, url: str) -> None:
    assert (await failure(client, post(url))).kind == "blocked"


@pytest.mark.requirement("attack-60")
async def test_attack_60_environment_and_netrc_are_ignored(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login stolen password stolen\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    async with receiving() as proxy, receiving() as receiver:
        for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert (await client.request(post(receiver.url))).status == 200
        assert proxy.requests == []
        assert "authorization" not in receiver.requests[0].headers


@pytest.mark.requirement("attack-60")
async def test_attack_60_cookies_are_forgotten(client: HttpClient) -> None:
    async with receiving(answers(200, headers=["Set-Cookie: session=1; Path=/"])) as receiver:
        for _ in range(2):
            await client.request(post(receiver.url))
        assert "cookie" not in receiver.requests[1].headers


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    file = tmp_path / "ca.pem"
    file.write_text(certificates.authority().pem)
    return file


async def test_tls_with_a_certificate_of_a_trusted_authority(trusted: Path) -> None:
    client = HttpClient(allowed_networks=LOOPBACK, ca_file=trusted)
    context = certificates.server_context(certificates.make("server", certificates.authority()))
    async with receiving(tls=context) as receiver:
        assert (await client.request(post(receiver.url))).status == 200
    await client.close()


@pytest.mark.requirement("webhooks-9-11")
async def test_bad_certificates_are_refused(trusted: Path) -> None:
    client = HttpClient(allowed_networks=LOOPBACK, ca_file=trusted)
    authority = certificates.authority()
    for bad in (
        certificates.make("self-signed"),
        certificates.make("expired", authority, days=(-5, -1)),
        certificates.make("not yet valid", authority, days=(1, 5)),
        certificates.make("wrong host", authority, address="127.0.0.2"),
    ):
        async with receiving(tls=certificates.server_context(bad)) as receiver:
            assert (await failure(client, post(receiver.url))).kind == "tls"
            assert receiver.requests == []
    await client.close()


async def test_plain_text_behind_an_https_url_is_a_tls_failure(client: HttpClient) -> None:
    async with receiving(sends(b"HTTP/1.1 200 OK\r\n\r\n")) as receiver:
        request = post(f"https://127.0.0.1:{receiver.port}/", connect_timeout_ms=2000, read_timeout_ms=1)
        assert (await failure(client, request)).kind in {"tls", "timeout"}


async def test_configured_trust_anchor_replaces_the_default_ones(trusted: Path) -> None:
    client = HttpClient(allowed_networks=LOOPBACK, ca_file=trusted)
    alone = certificates.make("alone")
    usual = certificates.make("server", certificates.authority())
    async with receiving(tls=certificates.server_context(alone)) as receiver:
        assert (await client.request(post(receiver.url, trust_pem=alone.pem))).status == 200
        assert (await client.request(post(receiver.url, added_trust_pem=alone.pem))).status == 200
        assert (await failure(client, post(receiver.url))).kind == "tls"
    async with receiving(tls=certificates.server_context(usual)) as receiver:
        assert (await failure(client, post(receiver.url, trust_pem=alone.pem))).kind == "tls"
        assert (await client.request(post(receiver.url, added_trust_pem=alone.pem))).status == 200
    await client.close()


def _with_client(certificate: certificates.Certificate) -> dict[str, Any]:
    return {"client_certificate": (certificate.pem, Secret(certificate.key_pem))}


@pytest.mark.requirement("attack-60")
async def test_attack_60_connections_are_not_shared_between_client_certificates(trusted: Path) -> None:
    client = HttpClient(allowed_networks=LOOPBACK, ca_file=trusted)
    authority = certificates.authority()
    one, other = (certificates.make(name, authority, address=None) for name in ("one", "other"))
    context = certificates.server_context(certificates.make("server", authority), client_authority=authority)
    async with receiving(tls=context) as receiver:
        for certificate in (one, other, one):
            assert (await client.request(post(receiver.url, **_with_client(certificate)))).status == 200
        names = [_common_name(request.peer_certificate) for request in receiver.requests]
        assert names == ["one", "other", "one"]
        assert [request.connection for request in receiver.requests] == [1, 2, 1]
        assert (await failure(client, post(receiver.url))).kind in {"tls", "reset"}
    await client.close()


def _common_name(peer: dict[str, Any] | None) -> str:
    assert peer is not None
    return dict(pair for group in peer["subject"] for pair in group)["commonName"]


async def test_invalid_certificate_is_a_tls_failure(client: HttpClient) -> None:
    context = certificates.server_context(certificates.make("server", certificates.authority()))
    async with receiving(tls=context) as receiver:
        request = post(receiver.url, client_certificate=("nonsense", Secret("nonsense")))
        assert (await failure(client, request)).kind == "tls"


async def test_secrets_do_not_show_in_a_request() -> None:
    request = post(
        "http://example.com/", basic=("user", Secret("hunter2")), client_certificate=("pem", Secret("hunter3"))
    )
    assert "hunter" not in repr(request)


async def test_no_socket_is_left_open() -> None:
    async with receiving() as receiver:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            client = HttpClient(allowed_networks=LOOPBACK)
            await asyncio.gather(*(client.request(post(receiver.url)) for _ in range(20)))
            await client.close()
        await receiver.stop()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_client_runs_on_uvloop() -> None:
    async def main() -> list[int]:
        receiver = Receiver()
        await receiver.start()
        client = HttpClient(allowed_networks=LOOPBACK)
        responses = await asyncio.gather(*(client.request(post(receiver.url)) for _ in range(50)))
        await client.close()
        await receiver.stop()
        return [response.status for response in responses]

    results: list[int] = []
    thread = threading.Thread(target=lambda: results.extend(uvloop.run(main())))
    thread.start()
    thread.join()
    assert results == [200] * 50
