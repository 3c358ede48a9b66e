"""Configured headers of webhooks: which can be stored, and which are sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

SIGNATURE_HEADER = "X-FusionAuth-Signature-JWT"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# They frame the message or authenticate the sender, so they cannot be configured.
_RESERVED = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection",
    "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "webhook-id",
    "webhook-signature", "webhook-timestamp", "webhook-via", SIGNATURE_HEADER.lower(),
})  # fmt: skip

# Older callers may configure these; they are stored and not sent.
_NOT_SENT = frozenset({"accept-encoding", "content-encoding", "content-type"})


def problem(headers: Mapping[str, str]) -> str | None:
    """Why these headers cannot be stored, or None.

    A name that is not a token of RFC 9110 section 5.6.2, such as `Header 1`, is accepted: published examples use it.
    """
    for name, value in headers.items():
        if not name.strip() or ":" in name or _CONTROL.search(name) or _CONTROL.search(value):
            return "a header needs a name, and neither name nor value may have control characters"
        if name.strip().lower() in _RESERVED:
            return f"the header [{name.strip()[:100]}] is set by the service alone"
    return None


def sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """The configured headers that are sent; of names that differ only in case, the last one is used."""
    by_name = {
        name.strip().lower(): (name.strip(), value)
        for name, value in headers.items()
        if _TOKEN.fullmatch(name.strip()) and not _CONTROL.search(value)
    }
    return {name: value for key, (name, value) in by_name.items() if key not in _RESERVED | _NOT_SENT}


def unsendable(headers: Mapping[str, str]) -> list[str]:
    """The configured names that are not valid in an HTTP request."""
    return [name for name in headers if not _TOKEN.fullmatch(name.strip())]
