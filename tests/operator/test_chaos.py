"""A short run of the chaos test, and its checker with lost, invented and disordered events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from chaos import __main__ as chaos
from chaos import checker
from chaos.receiver import Receiver
from chaos.work import Writer
from identity.ids import new_id

SEED = 103
"""Its first faults: Redis killed, a clock error, mongod killed, a service process killed, a failing receiver."""


@pytest.mark.requirement("webhooks-15.2-19")
async def test_no_event_is_lost_or_invented_while_everything_is_killed() -> None:
    report = await chaos.run(events=200, seed=SEED, writers=6, min_faults=5)
    assert {"kill redis", "kill mongod", "kill service", "clock"} <= report.faults.keys()
    assert report.result.failures == []
    assert report.result.arrived >= 200


def event(number: int, original: int, **members: Any) -> dict[str, Any]:
    group = {"id": "group", "data": {"n": number}}
    return {
        "id": new_id(),
        "type": "group.update",
        "group": group,
        "original": {"id": "group", "data": {"n": original}},
        **members,
    }


CHAIN = [event(1, 0), event(2, 1), event(4, 2)]
COMPLETE = [event(number, original, type="group.update.complete") for number, original in ((1, 0), (2, 1), (4, 2))]


def check(events: list[dict[str, Any]], acknowledged: set[int]) -> checker.CheckResult:
    receiver = Receiver(random.Random(0))
    receiver.events = {"/ordered": [*events, *COMPLETE]}
    return checker.check(receiver, [Writer("group", 4, acknowledged)], {"group": 4})


@pytest.mark.parametrize("acknowledged", [{1, 2, 4}, {1, 4}])
def test_chain_to_the_stored_number_passes_whatever_was_acknowledged(acknowledged: set[int]) -> None:
    found = check([*CHAIN, CHAIN[0]], acknowledged)
    assert (found.failures, found.arrived, found.repeated) == ([], 6, 1)


@pytest.mark.parametrize("missing", range(3))
def test_missing_event_is_lost(missing: int) -> None:
    found = check([one for index, one in enumerate(CHAIN) if index != missing], {1, 2, 4})
    assert any("was acknowledged" in line for line in found.lost)
    assert any("is stored" in line for line in found.lost)


def test_event_without_a_change_is_invented() -> None:
    assert check([*CHAIN, event(3, 2)], {1, 2, 4}).failures
    assert check([*CHAIN, event(7, 6)], {1, 2, 4}).invented


def test_repetition_under_another_id_and_wrong_order_are_failures() -> None:
    assert check([*CHAIN, event(2, 1)], {1, 2, 4}).renamed
    assert check([CHAIN[1], CHAIN[0], CHAIN[2]], {1, 2, 4}).disordered
