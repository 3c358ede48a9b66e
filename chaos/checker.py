"""Checks the received events: for each group and type, a chain from the first number to the stored one."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from chaos.receiver import Receiver
from chaos.work import TYPES, Writer


@dataclasses.dataclass
class CheckResult:
    """`lost` are acknowledged or stored changes without an event, `invented` are events without a change.

    `renamed` events arrived under two ids, `disordered` ones in the wrong order.
    """

    arrived: int = 0
    repeated: int = 0
    lost: list[str] = dataclasses.field(default_factory=list)
    invented: list[str] = dataclasses.field(default_factory=list)
    renamed: list[str] = dataclasses.field(default_factory=list)
    disordered: list[str] = dataclasses.field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """All violations of the guarantees; a repetition under the same id is allowed."""
        return [*self.lost, *self.invented, *self.renamed, *self.disordered]


def check(receiver: Receiver, writers: list[Writer], stored: dict[str, int]) -> CheckResult:
    """Check all events that have arrived."""
    result = CheckResult()
    for path, events in receiver.events.items():
        by_group: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
        for event in events:
            by_group[event["group"]["id"], event["type"]].append(event)
        for writer in writers:
            for kind in TYPES:
                _check(result, f"{path} {kind}", writer, stored[writer.group_id], by_group[writer.group_id, kind])
    return result


def _check(result: CheckResult, where: str, writer: Writer, stored: int, events: list[dict[str, Any]]) -> None:
    first: dict[int, dict[str, Any]] = {}
    for event in events:
        number = event["group"]["data"]["n"]
        if number not in first:
            first[number] = event
        elif first[number]["id"] != event["id"]:
            result.renamed.append(f"{where}: {number} arrived under two ids")
    result.arrived += len(first)
    result.repeated += len(events) - len(first)
    successors = {event["original"]["data"]["n"]: number for number, event in first.items()}
    chain: list[int] = []
    last = 0
    while last in successors and len(chain) <= len(first):
        last = successors[last]
        chain.append(last)
    if last != stored:
        result.lost.append(f"{where}: nothing follows {last} in group {writer.group_id}, where {stored} is stored")
    result.lost += [f"{where}: {number} was acknowledged" for number in writer.acknowledged - first.keys()]
    result.invented += [f"{where}: {number}" for number in first.keys() - set(chain)]
    if where.startswith("/ordered") and list(first) != chain:
        result.disordered.append(f"{where}: the events of group {writer.group_id} arrived out of order")
