"""Detection of delivery loops by the list of services passed through."""

from __future__ import annotations

import pytest

from identity.domain.webhooks.delivery_loop_detection import (
    HEADER,
    MAX_SERVICES,
    forwarded_headers,
    is_loop,
    parse,
    service_id_of,
)
from identity.trace_context import TraceContext

OWN, OTHER = (
    service_id_of("one instance"),
    service_id_of("another instance"),
)


def test_instance_mark_is_stable_and_opaque():
    assert OWN == service_id_of("one instance") != OTHER
    assert "instance" not in OWN


def test_via_header_round_trips():
    (header,) = forwarded_headers(None, (OTHER,), OWN).items()
    assert header[0] == HEADER
    assert parse(header[1]) == (OTHER, OWN)


def test_trace_context_is_propagated():
    trace = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "a=b")
    assert forwarded_headers(trace, (), OWN) == {
        **trace.headers,
        HEADER: OWN,
    }


@pytest.mark.parametrize("value", ["", "  ", ",,", "someone", OWN.upper(), f"{OWN}x", "0" * 17])
def test_foreign_via_entries_are_ignored(value):
    assert parse(value) == ()


def test_own_mark_means_a_loop():
    assert is_loop((OTHER, OWN), OWN)
    assert not is_loop((OTHER,), OWN)
    assert not is_loop((), OWN)


def test_too_many_marks_mean_a_loop():
    others = tuple(service_id_of(str(number)) for number in range(MAX_SERVICES))
    assert is_loop(others, OWN)
    assert not is_loop(others[:-1], OWN)
