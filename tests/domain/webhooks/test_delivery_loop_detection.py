"""The list of the services that a delivery has come through."""

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


def test_mark_is_the_same_for_all_processes_of_an_instance_and_tells_nothing_of_it():
    assert OWN == service_id_of("one instance") != OTHER
    assert "instance" not in OWN


def test_list_that_is_passed_on_is_read_again():
    (header,) = forwarded_headers(None, (OTHER,), OWN).items()
    assert header[0] == HEADER
    assert parse(header[1]) == (OTHER, OWN)


def test_trace_goes_along():
    trace = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "a=b")
    assert forwarded_headers(trace, (), OWN) == {
        **trace.headers,
        HEADER: OWN,
    }


@pytest.mark.parametrize("value", ["", "  ", ",,", "someone", OWN.upper(), f"{OWN}x", "0" * 17])
def test_what_no_service_has_written_is_left_out(value):
    assert parse(value) == ()


def test_service_that_finds_itself_is_in_a_loop():
    assert is_loop((OTHER, OWN), OWN)
    assert not is_loop((OTHER,), OWN)
    assert not is_loop((), OWN)


def test_very_long_way_is_taken_for_a_loop():
    others = tuple(service_id_of(str(number)) for number in range(MAX_SERVICES))
    assert is_loop(others, OWN)
    assert not is_loop(others[:-1], OWN)
