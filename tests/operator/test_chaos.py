"""A short run of the crash harness, and its judge: what it would say of lost, invented or disordered events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from chaos import __main__ as chaos
from chaos import verdict
from chaos.receiver import Receiver
from chaos.work import Writer
from identity.ids import new_id

SEED = 103
"""Its first disturbances: Redis is killed, a clock wrong, mongod killed, a run.py killed, the receiver fails."""


@pytest.mark.requirement("webhooks-15.2-19")
async def test_no_event_is_lost_or_invented_while_everything_is_killed() -> None:
    report = await chaos.run(events=200, seed=SEED, writers=6, disturbances=5)
    assert {"kill redis", "kill mongod", "kill service", "clock"} <= report.disturbances.keys()
    assert report.verdict.faults == []
    assert report.verdict.arrived >= 200


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
WHOLE = [event(number, original, type="group.update.complete") for number, original in ((1, 0), (2, 1), (4, 2))]


def judged(events: list[dict[str, Any]], acknowledged: set[int]) -> verdict.CorsDecision:
    receiver = Receiver(random.Random(0))
    receiver.events = {"/ordered": [*events, *WHOLE]}
    return verdict.judged(receiver, [Writer("group", 4, acknowledged)], {"group": 4})


@pytest.mark.parametrize("acknowledged", [{1, 2, 4}, {1, 4}])
def test_a_chain_to_the_stored_number_is_right_whatever_was_acknowledged_of_it(acknowledged: set[int]) -> None:
    found = judged([*CHAIN, CHAIN[0]], acknowledged)
    assert (found.faults, found.arrived, found.repeated) == ([], 6, 1)


@pytest.mark.parametrize("missing", range(3))
def test_what_is_missing_is_lost(missing: int) -> None:
    found = judged([one for place, one in enumerate(CHAIN) if place != missing], {1, 2, 4})
    assert any("was acknowledged" in line for line in found.lost)
    assert any("is stored" in line for line in found.lost)


def test_what_nobody_wrote_is_invented() -> None:
    assert judged([*CHAIN, event(3, 2)], {1, 2, 4}).faults
    assert judged([*CHAIN, event(7, 6)], {1, 2, 4}).invented


def test_a_repetition_under_another_id_and_another_order_are_faults() -> None:
    assert judged([*CHAIN, event(2, 1)], {1, 2, 4}).renamed
    assert judged([CHAIN[1], CHAIN[0], CHAIN[2]], {1, 2, 4}).disordered
