"""The judgement: for each group and type, the events must be a chain from the first number to the stored one."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from chaos.receiver import Receiver
from chaos.work import TYPES, Writer


@dataclasses.dataclass
class Verdict:
    """What was found: `lost` is what was acknowledged or stored and did not arrive, `invented` what nobody did."""

    arrived: int = 0
    repeated: int = 0
    lost: list[str] = dataclasses.field(default_factory=list)
    invented: list[str] = dataclasses.field(default_factory=list)
    renamed: list[str] = dataclasses.field(default_factory=list)
    disordered: list[str] = dataclasses.field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """Everything that must not be; a repetition under the same id may."""
        return [*self.lost, *self.invented, *self.renamed, *self.disordered]


def judged(receiver: Receiver, writers: list[Writer], stored: dict[str, int]) -> Verdict:
    """Look at everything that arrived."""
    verdict = Verdict()
    for path, events in receiver.events.items():
        sorted_out: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
        for event in events:
            sorted_out[event["group"]["id"], event["type"]].append(event)
        for writer in writers:
            for kind in TYPES:
                _judge(verdict, f"{path} {kind}", writer, stored[writer.group_id], sorted_out[writer.group_id, kind])
    return verdict


def _judge(verdict: Verdict, where: str, writer: Writer, stored: int, events: list[dict[str, Any]]) -> None:
    first: dict[int, dict[str, Any]] = {}
    for event in events:
        number = event["group"]["data"]["n"]
        if number not in first:
            first[number] = event
        elif first[number]["id"] != event["id"]:
            verdict.renamed.append(f"{where}: {number} came under two ids")
    verdict.arrived += len(first)
    verdict.repeated += len(events) - len(first)
    after = {event["original"]["data"]["n"]: number for number, event in first.items()}
    chain: list[int] = []
    place = 0
    while place in after and len(chain) <= len(first):
        place = after[place]
        chain.append(place)
    if place != stored:
        verdict.lost.append(f"{where}: nothing follows {place} in group {writer.group_id}, where {stored} is stored")
    verdict.lost += [f"{where}: {number} was acknowledged" for number in writer.acknowledged - first.keys()]
    verdict.invented += [f"{where}: {number}" for number in first.keys() - set(chain)]
    if where.startswith("/ordered") and list(first) != chain:
        verdict.disordered.append(f"{where}: the events of group {writer.group_id} came out of order")
