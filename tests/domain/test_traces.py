"""Trace contexts as W3C Trace Context has them: what is read, what is none, what goes on."""

from __future__ import annotations

import pytest

from identity import trace_context
from identity.trace_context import TraceContext

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def test_example_of_the_specification_is_read_and_goes_on_as_it_was():
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
def test_what_is_malformed_is_no_context(parent):
    assert trace_context.read(parent, "a=b") is None


def test_later_version_is_read_as_far_as_it_is_known():
    context = trace_context.read(f"cc-{TRACE}-{SPAN}-ff-what-the-future-will-be-like", None)
    assert context is not None
    assert context.parent == f"00-{TRACE}-{SPAN}-03"


def test_blanks_around_the_header_do_not_matter():
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
def test_state_goes_on_whole_or_not_at_all_and_never_takes_the_parent_with_it(state, kept):
    context = trace_context.read(PARENT, state)
    assert context == TraceContext(TRACE, SPAN, 1, kept)
    assert ("tracestate" in context.headers) is bool(kept)
