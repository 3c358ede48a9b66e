"""Configured headers of webhooks: which may be saved, and which are sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

SIGNATURE_HEADER = "X-FusionAuth-Signature-JWT"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# They frame the message or prove who sent it: a caller who sets one of them is mistaken or up to something.
_REFUSED = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
        "webhook-via",
        SIGNATURE_HEADER.lower(),
    }
)

# Ours has to stand, but old callers may send one: it is kept and not used.
_NOT_REPLACED = frozenset({"accept-encoding", "content-encoding", "content-type"})


def problem(headers: Mapping[str, str]) -> str | None:
    """Why these headers cannot be saved, or None.

    A name that is no token of RFC 9110 section 5.6.2, such as `Header 1`, is accepted: published examples have it.
    """
    for name, value in headers.items():
        if not name.strip() or ":" in name or _CONTROL.search(name) or _CONTROL.search(value):
            return "a header needs a name, and neither name nor value may have control characters"
        if name.strip().lower() in _REFUSED:
            return f"the header [{name.strip()[:100]}] is set by the service alone"
    return None


def sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """The configured headers that are sent; the last one wins of those that differ in case only."""
    by_name = {
        name.strip().lower(): (name.strip(), value)
        for name, value in headers.items()
        if _TOKEN.fullmatch(name.strip()) and not _CONTROL.search(value)
    }
    return {name: value for key, (name, value) in by_name.items() if key not in _REFUSED | _NOT_REPLACED}


def unsendable(headers: Mapping[str, str]) -> list[str]:
    """The names among the configured headers that no HTTP request can carry."""
    return [name for name in headers if not _TOKEN.fullmatch(name.strip())]
