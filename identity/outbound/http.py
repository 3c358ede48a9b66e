"""HTTP client for URLs that callers configure: libcurl, driven by the running event loop.

It follows no redirects, decodes no compression, ignores .netrc, cookies and proxies of the environment, and bounds the
size and the duration of a response. The address guard checks the address of every connection just before it is opened.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import dataclasses
import hashlib
import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pycurl
import structlog

from identity.ids import Secret
from identity.outbound.addresses import Network, check_url, forbidden_port, forbidden_reason
from identity.outbound.connections import NameResolver, UnknownNameError, unresolved_host

_log = structlog.get_logger(__name__)

FailureKind = Literal["dns", "refused", "reset", "timeout", "tls", "blocked", "protocol", "too_large", "busy"]

_MAX_HEADER_BYTES = 65_536
_MAX_IDENTITIES = 64
_MAX_CONNECTION_SECONDS = 300
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_CURL_DEFAULT_HEADERS = ("Accept", "Content-Type", "Expect", "User-Agent")
"""Headers that libcurl or pycurl adds unless they are given or disabled."""

_TOO_LARGE = 100
"""CURLE_TOO_LARGE, for which pycurl has no constant: a header line is too long, or there are too many."""

_FAILURE_KINDS: Mapping[int, FailureKind] = {
    pycurl.E_COULDNT_RESOLVE_HOST: "dns",
    pycurl.E_COULDNT_CONNECT: "refused",
    pycurl.E_OPERATION_TIMEDOUT: "timeout",
    pycurl.E_RECV_ERROR: "reset",
    pycurl.E_SEND_ERROR: "reset",
    pycurl.E_GOT_NOTHING: "reset",
    pycurl.E_PARTIAL_FILE: "reset",
    pycurl.E_SSL_CONNECT_ERROR: "tls",
    pycurl.E_PEER_FAILED_VERIFICATION: "tls",
    pycurl.E_SSL_CERTPROBLEM: "tls",
    pycurl.E_SSL_CIPHER: "tls",
    pycurl.E_SSL_CACERT_BADFILE: "tls",
    pycurl.E_SSL_ISSUER_ERROR: "tls",
    pycurl.E_SSL_ENGINE_INITFAILED: "tls",
}


class OutboundError(Exception):
    """A request without a usable response; the message contains no secrets."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request.

    `connect_timeout_ms` limits resolving and connecting, `read_timeout_ms` the time from then to the last byte of the
    response. Unused connect time is not added to the read timeout.

    Only `headers`, Host and Content-Length are sent. `basic` is (username, password), ignored if `headers` has
    Authorization. `client_certificate` is (certificate PEM, private key PEM). `trust_pem` replaces the default trust
    anchors; `added_trust_pem` extends them.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    connect_timeout_ms: int
    read_timeout_ms: int
    basic: tuple[str, Secret] | None = None
    client_certificate: tuple[str, Secret] | None = None
    trust_pem: str | None = None
    added_trust_pem: str | None = None
    max_response_bytes: int = 65_536

    @property
    def identity(self) -> str:
        """A hash of the TLS credentials; only requests with the same hash may share connections."""
        certificate, key = self.client_certificate or ("", "")
        parts = (certificate, key, self.trust_pem or "", self.added_trust_pem or "")
        return hashlib.sha256("\0".join(parts).encode()).hexdigest() if any(parts) else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """A response. Header names are lower case; `truncated` means the body was longer than `max_response_bytes`."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    truncated: bool = False


class HttpClient:
    """Sends at most `max_connections` requests at a time and queues at most `max_waiting` more."""

    def __init__(
        self,
        *,
        allowed_networks: Sequence[Network] = (),
        max_connections: int = 200,
        max_waiting: int = 2000,
        user_agent: str = "identity",
        ca_file: Path | None = None,
        proxy: Secret | None = None,
    ) -> None:
        """`proxy` is the URL of an HTTP proxy for every request. The proxy then resolves names and filters networks."""
        self._allowed = allowed_networks
        self._proxy = proxy
        self._user_agent = user_agent
        self._ca_file = ca_file or system_ca_file()
        self._slots = asyncio.Semaphore(max_connections)
        self._max_connections = max_connections
        self._max_waiting = max_waiting
        self._waiting = 0
        self._resolver = NameResolver()
        self._pools: collections.OrderedDict[str, _Pool] = collections.OrderedDict()
        self._closed = False

    async def request(self, request: Request) -> Response:
        """Send the request and return the response, whatever its status. Raises OutboundError.

        Time in the queue does not count against the timeouts. A full queue raises `busy` at once.
        """
        if (reason := check_url(request.url, self._allowed)) is not None:
            raise OutboundError("blocked", f"The URL may not be called: {reason}.")
        if self._waiting >= self._max_waiting:
            raise OutboundError("busy", "Too many requests are queued.")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            remaining, entry = (request, None) if self._proxy is not None else await self._resolve(request)
            return await self._pool(request.identity).send(self._transfer(remaining, entry))
        finally:
            self._slots.release()

    async def close(self) -> None:
        """Close every connection; pending requests fail."""
        self._closed = True
        await self._resolver.close()
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    async def _resolve(self, request: Request) -> tuple[Request, str | None]:
        """The request with its remaining connect timeout, and the resolve entry for libcurl. Raises OutboundError."""
        target = unresolved_host(request.url)
        if target is None:
            return request, None
        started, limit_ms = time.monotonic(), request.connect_timeout_ms
        try:
            addresses = await self._resolver.resolve(target.host, limit_ms / 1000)
        except UnknownNameError as error:
            raise OutboundError("dns", f"Could not resolve host: {target.host}") from error
        except TimeoutError as error:
            raise OutboundError("timeout", f"Resolving timed out after {limit_ms} milliseconds") from error
        spent_ms = int((time.monotonic() - started) * 1000)
        if spent_ms:
            request = dataclasses.replace(request, connect_timeout_ms=max(1, limit_ms - spent_ms))
        return request, target.curl_resolve_entry(addresses)

    def _transfer(self, request: Request, resolve_entry: str | None) -> _Transfer:
        headers = {"User-Agent": self._user_agent, **request.headers}
        if request.basic is not None and "authorization" not in {name.lower() for name in headers}:
            pair = ":".join(request.basic).encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        lines, response = _header_lines(headers), asyncio.get_running_loop().create_future()
        return _Transfer(request, lines, self._allowed, self._ca_file, self._proxy, resolve_entry, response)

    def _pool(self, identity: str) -> _Pool:
        if self._closed:
            raise OutboundError("busy", "The service is stopping.")
        if identity not in self._pools:
            self._evict_idle_pool()
            self._pools[identity] = _Pool(self._max_connections)
        self._pools.move_to_end(identity)
        return self._pools[identity]

    def _evict_idle_pool(self) -> None:
        if len(self._pools) < _MAX_IDENTITIES:
            return
        idle = next((identity for identity, pool in self._pools.items() if pool.is_idle), None)
        if idle is not None:
            self._pools.pop(idle).close()


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class _Transfer:
    """The state of one request in libcurl: its options, and what was received so far."""

    request: Request
    header_lines: list[bytes]
    allowed: Sequence[Network]
    ca_file: Path | None
    proxy: Secret | None
    resolve_entry: str | None
    response: asyncio.Future[Response]
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    header_bytes: int = 0
    body: bytearray = dataclasses.field(default_factory=bytearray)
    truncated: bool = False
    blocked_reason: str | None = None
    has_opened_socket: bool = False
    read_timer: asyncio.TimerHandle | None = None

    def set_up(self, curl: Any) -> None:
        """Set the options of a fresh libcurl handle for this request."""
        request = self.request
        for option, value in _CONSTANT_OPTIONS:
            curl.setopt(option, value)
        curl.setopt(pycurl.URL, request.url)
        if self.resolve_entry is not None:
            curl.setopt(pycurl.RESOLVE, [self.resolve_entry])
        curl.setopt(pycurl.HTTPHEADER, self.header_lines)
        curl.setopt(pycurl.CUSTOMREQUEST, request.method)
        if request.body is not None:
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(request.body))
            curl.setopt(pycurl.POSTFIELDS, request.body)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, request.connect_timeout_ms)
        # An upper bound only: libcurl has no timeout that starts with the request, so `_start_reading` sets a timer.
        curl.setopt(pycurl.TIMEOUT_MS, request.connect_timeout_ms + request.read_timeout_ms)
        curl.setopt(pycurl.PREREQFUNCTION, self._start_reading)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        self._set_up_tls(curl)
        if self.proxy is not None:
            curl.setopt(pycurl.PROXY, str(self.proxy))
            curl.setopt(pycurl.NOPROXY, "")

    def finish(self, curl: Any, error: tuple[int, str] | None) -> None:
        """Complete the future with the response or with an OutboundError."""
        if self.response.done():
            return
        if error is None or (self.truncated and error[0] == pycurl.E_WRITE_ERROR):
            self.response.set_result(self._to_response(curl))
        else:
            self.response.set_exception(self._to_error(*error))

    def stop_timer(self) -> None:
        """Cancel the read timeout."""
        if self.read_timer is not None:
            self.read_timer.cancel()

    def _start_reading(self, *_addresses: object) -> int:
        """Start the read timeout. libcurl calls this once the request has a new or reused connection."""
        self.stop_timer()
        loop = self.response.get_loop()
        self.read_timer = loop.call_later(self.request.read_timeout_ms / 1000, self._time_out)
        return int(pycurl.PREREQFUNC_OK)

    def _time_out(self) -> None:
        if not self.response.done():
            message = f"No complete response within {self.request.read_timeout_ms} milliseconds"
            self.response.set_exception(OutboundError("timeout", message))

    def _set_up_tls(self, curl: Any) -> None:
        request = self.request
        if request.client_certificate is not None:
            certificate, key = request.client_certificate
            curl.setopt(pycurl.SSLCERT_BLOB, certificate.encode())
            curl.setopt(pycurl.SSLKEY_BLOB, key.encode())
        if request.trust_pem is not None:
            curl.setopt(pycurl.CAINFO_BLOB, request.trust_pem.encode())
        elif request.added_trust_pem is not None:
            default_anchors = self.ca_file.read_bytes() if self.ca_file is not None else b""
            curl.setopt(pycurl.CAINFO_BLOB, default_anchors + b"\n" + request.added_trust_pem.encode())
        elif self.ca_file is not None:
            curl.setopt(pycurl.CAINFO, str(self.ca_file))

    def _open_socket(self, _purpose: int, address: Any) -> Any:
        """Apply the address guard. libcurl calls this for each address, just before it connects."""
        try:
            family, kind, protocol, sockaddr = address
            host, port = sockaddr[0], sockaddr[1]
            # With a proxy, every connection goes to the address that the operator configured.
            is_exempt = self.proxy is not None
            reason = None if is_exempt else forbidden_reason(host, self.allowed) or forbidden_port(port)
            if reason is None:
                opened = _SocketForCurl(socket.socket(family, kind, protocol))
                self.has_opened_socket = True
                return opened
        except (OSError, TypeError, ValueError, IndexError) as error:
            reason = f"no socket could be opened for it ({error})"
        self.blocked_reason = reason
        return pycurl.SOCKET_BAD

    def _on_header(self, line: bytes) -> int | None:
        self.header_bytes += len(line)
        if self.header_bytes > _MAX_HEADER_BYTES:
            return -1
        text = line.decode("latin-1").rstrip("\r\n")
        if text.startswith("HTTP/"):
            self.headers.clear()
            return None
        name, colon, value = text.partition(":")
        if colon:
            name = name.strip().lower()
            value = value.strip()
            self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value
        return None

    def _on_body(self, chunk: bytes) -> int | None:
        room = self.request.max_response_bytes - len(self.body)
        self.body += chunk[:room]
        if len(chunk) > room:
            self.truncated = True
            return -1
        return None

    def _to_response(self, curl: Any) -> Response:
        return Response(
            status=curl.getinfo(pycurl.RESPONSE_CODE),
            headers=self.headers,
            body=bytes(self.body),
            url=self.request.url,
            truncated=self.truncated,
        )

    def _to_error(self, code: int, message: str) -> OutboundError:
        if self.blocked_reason is not None and code == pycurl.E_COULDNT_CONNECT:
            if self.has_opened_socket:
                # An allowed address failed, such as the IPv4 address of `localhost` where IPv6 is not allowed.
                return OutboundError("refused", f"{message}; not tried: {self.blocked_reason}")
            return OutboundError("blocked", f"The connection was not made: {self.blocked_reason}.")
        if self.header_bytes > _MAX_HEADER_BYTES and code == pycurl.E_WRITE_ERROR:
            return OutboundError("too_large", f"The response headers are larger than {_MAX_HEADER_BYTES} bytes.")
        if code == _TOO_LARGE:
            return OutboundError("too_large", message or "A response header is too large.")
        return OutboundError(_FAILURE_KINDS.get(code, "protocol"), message or f"libcurl error {code}")


class _SocketForCurl:
    """A socket for libcurl. pycurl duplicates the descriptor; the original is closed with this object."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        """The descriptor that pycurl duplicates."""
        return self._sock.fileno()

    def __del__(self) -> None:
        self._sock.close()


class _Pool:
    """One CurlMulti on the running loop; its transfers share connections with each other only."""

    def __init__(self, max_connections: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._multi: Any = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_connections)
        self._transfers: dict[Any, _Transfer] = {}
        self._free: list[Any] = []
        self._watched: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._transfers

    async def send(self, transfer: _Transfer) -> Response:
        """Run one transfer. Raises OutboundError."""
        curl = self._free.pop() if self._free else pycurl.Curl()
        try:
            transfer.set_up(curl)
        except (pycurl.error, UnicodeError) as error:
            curl.close()
            raise OutboundError("protocol", f"The request cannot be sent: {error}") from error
        self._transfers[curl] = transfer
        self._multi.add_handle(curl)
        try:
            return await transfer.response
        finally:
            transfer.stop_timer()
            self._release(curl)

    def close(self) -> None:
        """Fail every pending transfer and close every connection."""
        for curl, transfer in list(self._transfers.items()):
            if not transfer.response.done():
                transfer.response.set_exception(OutboundError("reset", "The service is stopping."))
            self._release(curl)
        for curl in self._free:
            curl.close()
        self._free.clear()
        for fd in list(self._watched):
            self._unwatch(fd)
        self._multi.close()
        self._on_timer(-1)

    def _release(self, curl: Any) -> None:
        """Remove a handle from the multi. The connection of a cancelled or failed transfer is closed."""
        if self._transfers.pop(curl, None) is not None:
            self._multi.remove_handle(curl)
            curl.reset()
            self._free.append(curl)

    # libcurl reports the sockets and the deadline to watch; the event loop reports back when they are ready.

    def _on_socket(self, event: int, fd: int, _multi: Any, _data: Any) -> None:
        # Always remove first: libcurl may have closed a socket and opened another with the same descriptor.
        self._unwatch(fd)
        if event in {pycurl.POLL_IN, pycurl.POLL_INOUT}:
            self._loop.add_reader(fd, self._act, fd, pycurl.CSELECT_IN)
        if event in {pycurl.POLL_OUT, pycurl.POLL_INOUT}:
            self._loop.add_writer(fd, self._act, fd, pycurl.CSELECT_OUT)
        if event != pycurl.POLL_REMOVE:
            self._watched[fd] = event

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)

    def _on_timer(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds >= 0:
            self._timer = self._loop.call_later(milliseconds / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0)

    def _act(self, fd: int, mask: int) -> None:
        if self._multi.closed:  # this call was queued before the pool was closed
            return
        if fd == pycurl.SOCKET_TIMEOUT:
            self._timer = None
        with contextlib.suppress(pycurl.error):
            self._multi.socket_action(fd, mask)
        self._collect()
        # If the loop's clock is ahead of libcurl's, libcurl did nothing and does not set a timer again.
        if fd == pycurl.SOCKET_TIMEOUT and self._timer is None and (due := self._multi.timeout()) >= 0:
            self._on_timer(due)

    def _collect(self) -> None:
        waiting = 1
        while waiting:
            waiting, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._transfers[curl].finish(curl, None)
            for curl, code, message in failed:
                self._transfers[curl].finish(curl, (code, message))


_CONSTANT_OPTIONS: tuple[tuple[int, Any], ...] = (
    (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
    (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
    (pycurl.FOLLOWLOCATION, 0),
    (pycurl.PATH_AS_IS, 1),
    (pycurl.PROXY, ""),
    (pycurl.NOPROXY, "*"),
    (pycurl.NETRC, pycurl.NETRC_IGNORED),
    (pycurl.NOSIGNAL, 1),
    (pycurl.NOPROGRESS, 1),
    (pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2),
    (pycurl.SSL_VERIFYPEER, 1),
    (pycurl.SSL_VERIFYHOST, 2),
    (pycurl.MAXLIFETIME_CONN, _MAX_CONNECTION_SECONDS),
)


def system_ca_file() -> Path | None:
    """The system's trust anchors; None when there are none (Debian: the package ca-certificates)."""
    found = ssl.get_default_verify_paths().cafile
    for candidate in (found, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"):
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    _log.warning("no trust anchors found: https receivers cannot be verified; install ca-certificates")
    return None


def _header_lines(headers: Mapping[str, str]) -> list[bytes]:
    """The header lines for libcurl, without its defaults. Raises OutboundError for a header that cannot be sent."""
    lines = []
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise OutboundError("protocol", f"The header {name!r} cannot be sent.")
        # libcurl: "Name:" suppresses the header, "Name;" sends it with an empty value.
        lines.append(f"{name}: {value}".encode() if value.strip() else f"{name};".encode())
    given = {name.lower() for name in headers}
    return lines + [f"{name}:".encode() for name in _CURL_DEFAULT_HEADERS if name.lower() not in given]
