"""Client addresses, certificates and base URLs behind proxies, whose headers count only from trusted proxies."""

from __future__ import annotations

import base64
import binascii
import functools
import ipaddress
import random
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import structlog
from tornado.httputil import HTTPServerRequest

_log = structlog.get_logger(__name__)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_CACHE_SIZE = 4096
_LONGEST = 80
"""An IPv6 address with brackets, zone and port; longer texts are no addresses and are not cached."""

REQUEST_ID_HEADER: Final = "X-Request-Id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?")


# Matches no trusted proxy, and no entry of an access list except its default.
_UNKNOWN = str(ipaddress.IPv4Address(0))

_MAXIMUM_CERTIFICATE: Final = 16_384
_PEM = re.compile(r"\s*-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*")


class ClientAddresses:
    """Resolves client addresses and base URLs under the configured proxies."""

    def __init__(self, trusted_proxies: Sequence[Network], base_url: str | None) -> None:
        self._is_trusted = functools.lru_cache(_CACHE_SIZE)(functools.partial(_is_among, tuple(trusted_proxies)))
        self._base_url = base_url.rstrip("/") if base_url else None

    def client_address(self, request: HTTPServerRequest, listed: tuple[Network, ...] | None = None) -> str:
        """Return the right-most address that is not one of our proxies: clients can forge the others.

        Where proxies are `listed`, a hop must be among them as well to be skipped; the peer of the connection is
        checked against the configured proxies only.
        """
        peer = _canonical(request.remote_ip or "") or _UNKNOWN
        if not self._is_trusted(peer):
            return peer
        hops = [hop.strip() for value in request.headers.get_list("X-Forwarded-For") for hop in value.split(",")]
        client = peer
        for hop in reversed(hops):
            address = _canonical(hop)
            if address is None:
                return client
            client = address
            if not self._is_trusted(address) or (listed is not None and not _is_among(listed, address)):
                return client
        return client

    def request_id(self, request: HTTPServerRequest) -> str:
        """Return the request id that a trusted proxy chose, or else a new one.

        It identifies a request in the logs only, so that it may be guessable and needs no system call.
        """
        given = request.headers.get(REQUEST_ID_HEADER, "")
        if _REQUEST_ID.fullmatch(given) and self._is_trusted(_canonical(request.remote_ip or "") or ""):
            return given
        return f"{random.getrandbits(128):032x}"

    def is_from_trusted_proxy(self, request: HTTPServerRequest) -> bool:
        """Return whether the peer of the connection is one of our proxies, whose headers count."""
        return self._is_trusted(_canonical(request.remote_ip or "") or "")

    def client_certificate(self, request: HTTPServerRequest, header: str) -> bytes | None:
        """Return the certificate of a mutual-TLS connection in DER form (RFC 8705), which `header` has.

        None without one, and for a header that no trusted proxy sent.
        """
        values = request.headers.get_list(header)
        if not values or not self.is_from_trusted_proxy(request):
            return None
        certificate = decode_certificate(values[0]) if len(values) == 1 else None
        if certificate is None:
            _log.warning("a proxy sent no certificate in its header", header=header, values=len(values))
        return certificate

    def base_url(self, request: HTTPServerRequest) -> str:
        """Return the configured base URL, or else scheme and host of the request, as a trusted proxy reports them."""
        if self._base_url is not None:
            return self._base_url
        scheme, host = request.protocol, self._reported_host(request)
        if self.is_from_trusted_proxy(request):
            scheme = request.headers.get("X-Forwarded-Proto", scheme).strip().lower()
        if scheme not in {"http", "https"}:
            scheme = "http"
        return f"{scheme}://{host if _HOST.fullmatch(host) else 'localhost'}"

    def is_sent_to(self, request: HTTPServerRequest, base_url: str) -> bool:
        """Return whether a request was sent to the host of a URL, as a trusted proxy reports it."""
        return self._reported_host(request).lower() == urlsplit(base_url).netloc.lower()

    def _reported_host(self, request: HTTPServerRequest) -> str:
        host: str = request.host
        if self.is_from_trusted_proxy(request):
            host = request.headers.get("X-Forwarded-Host", host).strip()
        return host


def _is_among(networks: Sequence[Network], address: str) -> bool:
    if not address:
        return False
    ip = ipaddress.ip_address(address)
    return any(ip in network for network in networks if network.version == ip.version)


def _canonical(text: str) -> str | None:
    return _parsed(text) if len(text) <= _LONGEST else None


@functools.lru_cache(_CACHE_SIZE)
def _parsed(text: str) -> str | None:
    text = text.strip().strip('"')
    if text.startswith("[") and "]" in text:
        text = text[1 : text.index("]")]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        ip = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(ip, "ipv4_mapped", None)
    return str(mapped or ip)


def decode_certificate(value: str) -> bytes | None:
    """Return the DER form of a certificate in a header; None if it is malformed.

    Two formats: base64 between colons (RFC 9440 section 2), and URL-encoded PEM (`$ssl_client_escaped_cert` of nginx).
    """
    value = value.strip()
    if len(value) > _MAXIMUM_CERTIFICATE:
        return None
    if value.startswith(":"):
        encoded = value[1:-1] if value.endswith(":") and len(value) > 1 else ""
    else:
        found = _PEM.fullmatch(unquote(value))
        encoded = "" if found is None else "".join(found[1].split())
    try:
        return base64.b64decode(encoded, validate=True) or None
    except binascii.Error:
        return None
