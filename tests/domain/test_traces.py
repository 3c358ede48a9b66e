"""W3C Trace Context: parsing, rejection, and propagation."""

from __future__ import annotations

import pytest

from identity import trace_context
from identity.trace_context import TraceContext

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_example_of_the_specification_is_parsed_and_propagated():
    context = trace_context.read(PARENT, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
    assert context == TraceContext(TRACE, SPAN, 1, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")
    assert context.headers == {"traceparent": PARENT, "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}


@pytest.mark.requirement("webhooks-15.2-21")
@pytest.mark.parametrize(
    "parent",
    [
        None,
        "",
        "ff" + PARENT[2:],
        PARENT.upper(),
        PARENT.replace(TRACE, "0" * 32),
        PARENT.replace(SPAN, "0" * 16),
        PARENT[:-1],
        f"{PARENT}-more",
        f"{PARENT}, {PARENT}",
        f"{PARENT}\r\nX: y",
        f"0{PARENT}",
        PARENT.replace("-", "_"),
    ],
)
def test_malformed_header_is_ignored(parent):
    assert trace_context.read(parent, "a=b") is None


def test_later_version_is_parsed_as_version_00():
    context = trace_context.read(f"cc-{TRACE}-{SPAN}-ff-what-the-future-will-be-like", None)
    assert context is not None
    assert context.parent == f"00-{TRACE}-{SPAN}-03"


def test_surrounding_white_space_is_ignored():
    assert trace_context.read(f" {PARENT} ", None) == TraceContext(TRACE, SPAN, 1)


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        (None, ""),
        ("", ""),
        (" a=b , ,c=d", "a=b,c=d"),
        ("tenant@system=1", "tenant@system=1"),
        ("a=b c", "a=b c"),
        ("A=b", ""),
        ("a=", ""),
        ("a=b=c", ""),
        ("a", ""),
        ("a=\N{LATIN SMALL LETTER E WITH ACUTE}", ""),
        ("a=b\r\nX: y", ""),
        (",".join(f"k{number}=v" for number in range(32)), ",".join(f"k{number}=v" for number in range(32))),
        (",".join(f"k{number}=v" for number in range(33)), ""),
        ("a=" + "b" * 256, "a=" + "b" * 256),
        ("a=" + "b" * 257, ""),
        ("a=" + "b" * 255 + ",c=" + "d" * 255, ""),
    ],
)
def test_invalid_tracestate_is_dropped_without_the_parent(state, kept):
    context = trace_context.read(PARENT, state)
    assert context == TraceContext(TRACE, SPAN, 1, kept)
    assert ("tracestate" in context.headers) is bool(kept)
