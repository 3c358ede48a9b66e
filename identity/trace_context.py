"""W3C Trace Context, level 1 (https://www.w3.org/TR/trace-context/): the headers `traceparent` and `tracestate`.

A malformed context is ignored (section 2.2). Values are validated strictly, because they are sent on to receivers.
"""

from __future__ import annotations

import dataclasses
import re

PARENT_HEADER = "traceparent"
STATE_HEADER = "tracestate"

_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KNOWN_FLAGS = 0b11
"""Sampled, and (level 2) that the trace id is random; the others have no meaning yet and are sent as 0."""

_MAX_STATE_LENGTH = 512
_MAX_MEMBERS = 32
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


@dataclasses.dataclass(frozen=True, slots=True)
class TraceContext:
    """The hexadecimal ids of a trace and a span, the flags, and the vendor-specific state."""

    trace_id: str
    span_id: str
    flags: int = 0
    state: str = ""

    @property
    def parent(self) -> str:
        """The value of `traceparent` for child spans."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers to propagate the context."""
        return {PARENT_HEADER: self.parent, **({STATE_HEADER: self.state} if self.state else {})}


def read(parent: str | None, state: str | None) -> TraceContext | None:
    """The context of a request, or None. Only the state is dropped if it alone is malformed (section 3.3)."""
    if not parent:
        return None
    found = _PARENT.fullmatch(parent.strip())
    if found is None or (found[1] == "00" and found[5]):
        return None
    return TraceContext(found[2], found[3], int(found[4], 16) & _KNOWN_FLAGS, _state(state or ""))


def _state(text: str) -> str:
    members = [member.strip() for member in text.split(",") if member.strip()]
    if len(text) > _MAX_STATE_LENGTH or len(members) > _MAX_MEMBERS:
        return ""
    return ",".join(members) if all(_MEMBER.fullmatch(member) for member in members) else ""
