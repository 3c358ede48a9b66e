"""The certificate of a mutual-TLS connection, in a header that only a trusted proxy may send (RFC 8705, RFC 9440)."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final
from urllib.parse import unquote

import structlog
from tornado.httputil import HTTPServerRequest

from identity.web.client_address import ClientAddresses

_log = structlog.get_logger(__name__)

_MAXIMUM_LENGTH: Final = 16_384
_PEM = re.compile(r"\s*-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*")


def read(request: HTTPServerRequest, addresses: ClientAddresses, header: str) -> bytes | None:
    """Return the certificate in DER form; None without one, and for a header that no trusted proxy sent."""
    values = request.headers.get_list(header)
    if not values or not addresses.is_from_trusted_proxy(request):
        return None
    certificate = decode(values[0]) if len(values) == 1 else None
    if certificate is None:
        _log.warning("a proxy sent no certificate in its header", header=header, values=len(values))
    return certificate


def decode(value: str) -> bytes | None:
    """Return the DER form of a header value; None if it is malformed.

    Two formats: base64 between colons (RFC 9440 section 2), and URL-encoded PEM (`$ssl_client_escaped_cert` of nginx).
    """
    value = value.strip()
    if len(value) > _MAXIMUM_LENGTH:
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
