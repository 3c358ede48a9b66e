"""The list of the services that a delivery has come through."""

from __future__ import annotations

import pytest

from identity.domain.webhooks import delivery_loop_detection as chains
from identity.trace_context import TraceContext

OWN, OTHER = chains.mark_of("one instance"), chains.mark_of("another instance")


def test_mark_is_the_same_for_all_processes_of_an_instance_and_tells_nothing_of_it():
    assert OWN == chains.mark_of("one instance") != OTHER
    assert "instance" not in OWN


def test_list_that_is_passed_on_is_read_again():
    (header,) = chains.passed_on(None, (OTHER,), OWN).items()
    assert header[0] == chains.HEADER
    assert chains.read(header[1]) == (OTHER, OWN)


def test_trace_goes_along():
    trace = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "a=b")
    assert chains.passed_on(trace, (), OWN) == {**trace.headers, chains.HEADER: OWN}


@pytest.mark.parametrize("value", ["", "  ", ",,", "someone", OWN.upper(), f"{OWN}x", "0" * 17])
def test_what_no_service_has_written_is_left_out(value):
    assert chains.read(value) == ()


def test_service_that_finds_itself_is_in_a_loop():
    assert chains.is_endless((OTHER, OWN), OWN)
    assert not chains.is_endless((OTHER,), OWN)
    assert not chains.is_endless((), OWN)


def test_very_long_way_is_taken_for_a_loop():
    others = tuple(chains.mark_of(str(number)) for number in range(chains.MOST_SERVICES))
    assert chains.is_endless(others, OWN)
    assert not chains.is_endless(others[:-1], OWN)
