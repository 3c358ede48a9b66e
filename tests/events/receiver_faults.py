"""Receiver behaviours: responses, failures and attacks, each with the expected result."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import email.utils
import functools
import gzip
import socket
import ssl
import struct
import time
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from tests import certificates
from tests.conftest import UNKNOWN_ID
from tests.receiver import Behaviour, answers, drips, hangs, receiving, resets, sends

SOON_MS = 150
"""The timeouts of receivers that are expected to time out; others have enough time even on a busy machine."""

SCHEDULED_SECONDS = 5
"""The first wait of the retry schedule of the tests."""
OVERLOADED_SECONDS = 60
DAY_SECONDS = 86_400
KEPT_BYTES = 16_384

Server = Callable[[], AbstractAsyncContextManager[str]]
"""Runs a receiver for a test and yields its URL."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A receiver, and what the log says of an attempt to reach it.

    `status` is None where there is no answer, and `kinds` are the first words that the exception may have. `answer` is
    what the log keeps of the body, where it matters. `wait_seconds`: when the next attempt is due; None for never.
    """

    name: str
    running: Server
    status: int | None
    kinds: tuple[str, ...] = ()
    answer: str | None = None
    wait_seconds: float | None = SCHEDULED_SECONDS
    webhook: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    names_a_date: bool = False

    @property
    def succeeds(self) -> bool:
        """Whether the event has arrived."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def ends(self) -> bool:
        """Whether no retry follows: the event has arrived, or the receiver is gone."""
        return self.wait_seconds is None

    def waits_about(self, seconds: float) -> bool:
        """Whether this is the expected wait; with a date, the time since the response is subtracted."""
        slack = 120 if self.names_a_date else 0.001
        return self.wait_seconds is not None and -0.001 <= self.wait_seconds - seconds <= slack


# Places


def at(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> Server:
    """A receiver that reads the request first."""

    @contextlib.asynccontextmanager
    async def running() -> AsyncIterator[str]:
        async with receiving(behaviour, tls) as receiver:
            yield receiver.url

    return running


def raw_server(converse: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any], scheme: str = "http") -> Server:
    """A server with full control of its connections."""

    @contextlib.asynccontextmanager
    async def running() -> AsyncIterator[str]:
        under_way: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            under_way.add(task)
            try:
                with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                    await converse(reader, writer)
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await server.wait_closed()

    return running


@contextlib.asynccontextmanager
async def nowhere() -> AsyncIterator[str]:
    """A port that is bound but not listening."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{closed.getsockname()[1]}/hook"


@contextlib.asynccontextmanager
async def unplugged() -> AsyncIterator[str]:
    """A full accept queue drops the handshake, like a machine that is switched off."""
    with socket.socket() as listener, contextlib.ExitStack() as fillers:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield f"http://127.0.0.1:{port}/hook"


@contextlib.asynccontextmanager
async def redirecting(status: int) -> AsyncIterator[str]:
    """A receiver that redirects to an internal address, which must never be called."""
    async with receiving() as inside:
        async with receiving(answers(status, b"over there", [f"Location: {inside.url}"])) as receiver:
            yield receiver.url
        assert inside.connections == 0, f"{status} was followed"


# Conversations


async def _reset_at_once(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _read_nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _speak_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    await reader.read()


async def _cut_off(_request: Any, writer: asyncio.StreamWriter, head: bytes) -> None:
    writer.write(head)
    await writer.drain()
    await asyncio.sleep(0.02)  # so that it arrives before the reset, which would overtake it
    await resets(_request, writer)


def cut_off(head: bytes) -> Behaviour:
    """Send these bytes, and then a TCP reset."""
    return functools.partial(_cut_off, head=head)


# TLS


@functools.cache
def _good() -> certificates.Certificate:
    return certificates.make("server", certificates.authority())


def _old_tls() -> ssl.SSLContext:
    """A server without TLS 1.2."""
    context = certificates.server_context(_good())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    return context


# The table


def _raw(text: bytes, *, then_close: bool = True) -> Server:
    return at(sends(text, then_close=then_close))


def _takes(name: str, running: Server, answer: str | None = None, status: int = 200, **webhook: Any) -> Fault:
    return Fault(name, running, status, (), answer, None, webhook)


def _fails(name: str, running: Server, *kinds: str, **webhook: Any) -> Fault:
    return Fault(name, running, None, kinds, webhook=webhook)


def _statuses() -> list[Fault]:
    refused = (400, 401, 403, 404, 405, 407, 408, 409, 411, 413, 415, 417, 418, 421, 422, 425, 426, 431, 451)
    broken = (500, 501, 502, 504, 505, 507, 511, 599, 600, 999)
    return [
        *(_takes(f"{code}", at(answers(code)), None, code) for code in (200, 201, 202, 204, 205, 206, 226, 299)),
        *(
            Fault(f"{code} to an address inside", functools.partial(redirecting, code), code, (), "over there")
            for code in (300, 301, 302, 303, 305, 307, 308)
        ),
        *(Fault(f"{code}", at(answers(code, b"no")), code, (), "no") for code in (*refused, *broken)),
        Fault("410", at(answers(410)), 410, (), None, None),
    ]


def _pauses() -> list[Fault]:
    """Receivers that send Retry-After."""

    def retry_after(status: int, value: str | None, wait_seconds: float, name: str = "Retry-After") -> Fault:
        headers = [] if value is None else [f"{name}: {value}"]
        running = at(answers(status, headers=headers))
        return Fault(
            f"{status} {name} {value}"[:40], running, status, (), None, wait_seconds, names_a_date=value == date
        )

    date = email.utils.formatdate(time.time() + 600, usegmt=True)
    return [
        retry_after(429, None, OVERLOADED_SECONDS),
        retry_after(429, "90", 90),
        retry_after(429, "2", SCHEDULED_SECONDS),
        retry_after(429, "1.5", OVERLOADED_SECONDS),
        retry_after(429, "-90", OVERLOADED_SECONDS),
        retry_after(429, "soon", OVERLOADED_SECONDS),
        retry_after(429, "90, 91", OVERLOADED_SECONDS),
        retry_after(429, "9" * 400, DAY_SECONDS),
        retry_after(429, date, 600),
        retry_after(503, None, SCHEDULED_SECONDS),
        retry_after(503, "90", 90),
        retry_after(503, "90", 90, "rEtRy-AfTeR"),
        retry_after(503, date, 600),
        retry_after(503, "Sun Nov  6 08:49:37 1994", SCHEDULED_SECONDS),
        retry_after(500, "90", SCHEDULED_SECONDS),
    ]


def _early() -> list[Fault]:
    """Informational responses (RFC 9110 section 15.2)."""
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    refused = b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno"
    go_on, wait = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n"
    hints, another = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"
    return [
        _takes("100, 200", _raw(go_on + final), "ok"),
        _takes("102, 103, 200", _raw(wait + hints + final), "ok"),
        Fault("100, 500", _raw(go_on + refused), 500, (), "no"),
        _fails("100 and no more", _raw(go_on), "reset"),
        _fails("199 and no more", _raw(b"HTTP/1.1 199 OK\r\n\r\n"), "reset"),
        _fails("103 and no more", _raw(hints), "reset"),
        _fails("101", _raw(another), "reset", "protocol"),
        _fails("100 for ever", at(drips(b"", go_on, 0)), "too_large"),
    ]


def _slow() -> list[Fault]:
    def runs_out(name: str, running: Server) -> Fault:
        timeouts = {"connectTimeout": SOON_MS, "readTimeout": SOON_MS}
        return Fault(name, running, None, ("timeout",), None, OVERLOADED_SECONDS, timeouts)

    return [
        runs_out("is switched off", unplugged),
        runs_out("accepts and reads nothing", raw_server(_read_nothing)),
        runs_out("hangs", at(hangs)),
        runs_out("hangs before TLS", raw_server(_read_nothing, "https")),
        runs_out("drips a status line", at(drips(b"HTTP/1.1 200 ", b"O"))),
        runs_out("drips headers", at(drips(b"HTTP/1.1 200 OK\r\n", b"X: 1\r\n"))),
        runs_out("drips a header", at(drips(b"HTTP/1.1 200 OK\r\nX: ", b"y"))),
        runs_out("drips a body", at(drips(b"HTTP/1.1 200 OK\r\n\r\n", b"."))),
        runs_out("drips chunks", at(drips(_CHUNKED, b"1\r\n.\r\n"))),
        runs_out("drips 100", at(drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"))),
        runs_out("says there is more", _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", then_close=False)),
    ]


def _gone() -> list[Fault]:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"
    return [
        _fails("refuses", nowhere, "refused"),
        _fails("resets at once", raw_server(_reset_at_once), "reset"),
        _fails("resets after the request", at(resets), "reset"),
        _fails("closes after the request", _raw(b""), "reset"),
        _fails("resets among the headers", at(cut_off(b"HTTP/1.1 200 OK\r\nX: ")), "reset"),
        _fails("resets in the body", at(cut_off(begun)), "reset"),
        _fails("closes in the body", _raw(begun), "reset"),
        _fails("closes in a chunk", _raw(_CHUNKED + b"9\r\nok"), "reset"),
        _fails("closes between chunks", _raw(_CHUNKED), "reset"),
    ]


def _bodies() -> list[Fault]:
    flood, kept = b"x" * 65_536, "x" * KEPT_BYTES
    bomb = gzip.compress(b"\0" * 5_000_000)
    begun = b"HTTP/1.1 200 OK\r\n"
    return [
        _takes("endless body", at(drips(begun + b"\r\n", flood, 0)), kept),
        Fault("endless body of a failure", at(drips(b"HTTP/1.1 500 Oh\r\n\r\n", flood, 0)), 500, (), kept),
        _takes("endless chunks", at(drips(_CHUNKED, b"10000\r\n" + flood + b"\r\n", 0)), kept),
        _takes("one byte more than is kept", at(answers(200, b"x" * (KEPT_BYTES + 1))), kept),
        _takes(
            "gzip bomb",
            at(answers(200, bomb, ["Content-Encoding: gzip"])),
            bomb[:KEPT_BYTES].decode("utf-8", "replace"),
        ),
        _takes("no gzip after all", at(answers(200, b"ok", ["Content-Encoding: gzip, br"])), "ok"),
        _takes("no text", at(answers(200, b"\0\xff\xfe{")), "\0\ufffd\ufffd{"),
        _takes("more than it said", _raw(begun + b"Content-Length: 2\r\n\r\nokHTTP/1.1 500 Oh\r\n\r\n"), "ok"),
        _takes("204 with a body", _raw(b"HTTP/1.1 204 No\r\n\r\nthere is one"), "", 204),
        _takes("an encoding that is none", _raw(begun + b"Transfer-Encoding: \xff\xfe\r\n\r\nok"), "ok"),
        _takes("a length and chunks", _raw(_CHUNKED[:-2] + b"Content-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n"), "ok"),
        _fails("compressed chunks", _raw(begun + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n"), "protocol"),
        _fails("a chunk of endless size", at(drips(_CHUNKED, b"0" * 1000, 0)), "reset", "protocol"),
        _fails("a chunk of no size", _raw(_CHUNKED + b"zz\r\nok\r\n"), "reset", "protocol"),
        _fails("a length that is none", _raw(begun + b"Content-Length: many\r\n\r\nok"), "protocol"),
        _fails("a negative length", _raw(begun + b"Content-Length: -2\r\n\r\nok"), "protocol"),
        _fails("two lengths", _raw(begun + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"), "protocol"),
    ]


def _protocols() -> list[Fault]:
    other = {
        "HTTP/0.9": b"ok\n",
        "a greeting": b"220 mail.example.com ESMTP\r\n",
        "zeros": b"\0" * 100,
        "TLS": b"\x16\x03\x01\x00\x05hello",
        "no status": b"HTTP/1.1\r\n\r\n",
        "two digits": b"HTTP/1.1 20 OK\r\n\r\n",
        "no class of status": b"HTTP/1.1 000 OK\r\n\r\n",
        "a negative status": b"HTTP/1.1 -200 OK\r\n\r\n",
        "HTTP/2 in clear": b"HTTP/2 200 \r\n\r\n",
        "HTTP/7": b"HTTP/7.1 200 OK\r\n\r\n",
        "another protocol": b"RTSP/1.0 200 OK\r\n\r\n",
        "a radio": b"ICY 200 OK\r\n\r\n",
    }
    return [
        _takes("HTTP/1.0", _raw(b"HTTP/1.0 200 OK\r\n\r\nok"), "ok"),
        _takes("no reason phrase", _raw(b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"), "ok"),
        _takes("a colon in the status line", _raw(b"HTTP/1.1 200 OK: fine\r\nContent-Length: 2\r\n\r\nok"), "ok"),
        _takes("bare line feeds", _raw(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"), "ok"),
        *(_fails(name, _raw(raw), "protocol") for name, raw in other.items()),
        _fails("speaks first", raw_server(_speak_first), "protocol"),
    ]


def _headers() -> list[Fault]:
    def having(*lines: bytes) -> Server:
        return _raw(b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Length: 2", *lines, b"", b"ok"]))

    endless = drips(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 4000 + b"\r\n", 0)
    folded = drips(b"HTTP/1.1 200 OK\r\nX: y\r\n", b" " + b"y" * 4000 + b"\r\n", 0)
    trailing = drips(_CHUNKED + b"2\r\nok\r\n0\r\n", b"X: " + b"y" * 4000 + b"\r\n", 0)
    return [
        _takes("names that MongoDB reads as operators", having(b"$set: 1", b"a.b: 2", b"$: 3", b".: 4"), "ok"),
        _takes("a header without a name", having(b": nothing"), "ok"),
        _takes("no text in a header", having(b"X-Bytes: \xff\xfe"), "ok"),
        _takes("a thousand headers", having(*[b"x: y"] * 1000), "ok"),
        _takes("a giant name", having(b"x" * 60_000 + b": y"), "ok"),
        _fails("ten thousand headers", having(*[b"x:y"] * 10_000), "too_large"),
        _fails("headers beyond the bound", having(*[b"X: " + b"y" * 1000] * 70), "too_large"),
        _fails("a giant header", having(b"X: " + b"y" * 400_000), "too_large"),
        _fails("endless headers", at(endless), "too_large"),
        _fails("an endless header on many lines", at(folded), "too_large"),
        _fails("endless headers after the body", at(trailing), "too_large"),
        _fails("a zero in a header", having(b"X: a\0b"), "protocol"),
        _fails("a zero in a name", having(b"X\0Y: a"), "protocol"),
        _fails("a line that is no header", having(b"nonsense"), "protocol"),
    ]


def _encrypted() -> list[Fault]:
    authority, other = certificates.authority(), certificates.make("Other", address=None, is_authority=True)
    alone = certificates.make("alone")
    bad = {
        "self-signed": certificates.server_context(alone),
        "of an authority that is not trusted": certificates.server_context(certificates.make("server", other)),
        "expired": certificates.server_context(certificates.make("server", authority, days=(-5, -1))),
        "not valid yet": certificates.server_context(certificates.make("server", authority, days=(1, 5))),
        "for another host": certificates.server_context(certificates.make("server", authority, address="127.0.0.2")),
        "TLS 1.1": _old_tls(),
    }
    good = at(answers(200), certificates.server_context(_good()))
    strict = at(answers(200), certificates.server_context(_good(), client_authority=authority))
    alone_strict = at(answers(200), certificates.server_context(alone, client_authority=authority))
    by_itself = at(answers(200), certificates.server_context(alone))
    return [
        _takes("good TLS", good),
        *(_fails(name, at(answers(200), context), "tls") for name, context in bad.items()),
        _fails("plain text behind https", raw_server(_answer_in_clear, "https"), "tls"),
        _fails("resets TLS", raw_server(_reset_at_once, "https"), "tls", "reset"),
        _takes("trusted by its PEM", by_itself, sslCertificate=alone.pem),
        _fails("another than its PEM", good, "tls", sslCertificate=alone.pem),
        _fails("wants a certificate", strict, "tls", "reset"),
        _fails("wants one, and gets a PEM to trust", alone_strict, "tls", "reset", sslCertificate=alone.pem),
        _takes("gets the certificate that it wants", strict, sslCertificateKeyId=CLIENT_KEY),
        _fails("a key that is gone", good, "configuration", sslCertificateKeyId=UNKNOWN_ID),
    ]


CLIENT_KEY = "11111111-2222-4333-8444-555555555555"
"""The key of the webhook that has a client certificate."""

_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def _answer_in_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 This is no HTTPS\r\nContent-Length: 0\r\n\r\n")
    await reader.read()


def faults() -> list[Fault]:
    """Every receiver that a delivery may meet."""
    groups = (_statuses, _pauses, _early, _slow, _gone, _bodies, _protocols, _headers, _encrypted)
    return [fault for group in groups for fault in group()]
