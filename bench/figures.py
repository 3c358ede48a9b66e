"""Measured figures, their budgets, and the table that prints each row as soon as it is measured."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_COLUMNS: Final = (
    ("figure", 58),
    ("processes", 9),
    ("value", 10),
    ("spread", 7),
    ("p50 / p95 / p99 ms", 22),
    ("CPU s per 1,000", 28),
    ("at a fixed rate: p50 / p95 / p99 ms", 35),
    ("budget", 44),
    ("met", 4),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of a latency in milliseconds."""

    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """Return the percentiles of at least two times."""
        cuts = statistics.quantiles(seconds, n=100)
        return cls(1000 * cuts[49], 1000 * cuts[94], 1000 * cuts[98])

    def __str__(self) -> str:
        parts = (self.p50_ms, self.p95_ms, self.p99_ms)
        return "-" if parts == (None, None, None) else " / ".join("-" if one is None else rounded(one) for one in parts)


NO_LATENCY: Final = Latency()


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Processor seconds of the service, of its stores, and of the load."""

    service: float
    mongodb: float
    redis: float
    load: float

    def per_1000(self, before: ProcessorTime, operations: int) -> ProcessorTime:
        """Return the processor seconds since `before` per 1,000 operations."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(before), strict=True)
        return ProcessorTime(*(1000 * (after - earlier) / max(operations, 1) for after, earlier in pairs))

    def __str__(self) -> str:
        return f"{self.service:.2f} + {self.mongodb:.2f} + {self.redis:.2f} + {self.load:.2f}"


@dataclasses.dataclass(frozen=True, slots=True)
class FixedRate:
    """Latency with requests at an even pace, whether the responses keep up or not (an open loop)."""

    per_second: float
    latency: Latency

    def __str__(self) -> str:
        return f"{rounded(self.per_second)}/s: {self.latency}"


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, the median of its rounds. A fault makes it void; a note follows it."""

    value: float
    unit: str
    latency: Latency = NO_LATENCY
    fault: str = ""
    note: str = ""
    spread: float | None = None
    """The difference between the best and the worst round, as a part of the median."""
    processor: ProcessorTime | None = None
    fixed_rate: FixedRate | None = None

    def __str__(self) -> str:
        return "void" if self.fault else f"{rounded(self.value)}{'' if self.unit.startswith('/') else ' '}{self.unit}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a figure has to reach: bounds of its value and p99, and its ratios to rows that were measured before it."""

    at_least: float | None = None
    at_most: float | None = None
    p99_at_most_ms: float | None = None
    ratio_at_least: Mapping[str, float] = dataclasses.field(default_factory=dict)
    ratio_at_most: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def text(self, unit: str) -> str:
        """Return the budget as readable text; empty without one."""
        space = "" if unit.startswith("/") else " "
        parts = [f">= {rounded(self.at_least)}{space}{unit}"] if self.at_least is not None else []
        parts += [f"<= {rounded(self.at_most)}{space}{unit}"] if self.at_most is not None else []
        parts += [f"p99 <= {rounded(self.p99_at_most_ms)} ms"] if self.p99_at_most_ms is not None else []
        parts += [f">= {100 * share:.0f} % of {name}" for name, share in self.ratio_at_least.items()]
        parts += [f"<= {100 * share:.0f} % of {name}" for name, share in self.ratio_at_most.items()]
        return ", ".join(parts)

    def is_met(self, figure: Figure, reference: Mapping[str, float]) -> bool | None:
        """Return whether the figure meets it; None without a budget, or if a reference was not measured."""
        p99 = figure.latency.p99_ms
        checks = [figure.value >= self.at_least] if self.at_least is not None else []
        checks += [figure.value <= self.at_most] if self.at_most is not None else []
        checks += [p99 is not None and p99 <= self.p99_at_most_ms] if self.p99_at_most_ms is not None else []
        bounds = ((self.ratio_at_least, 1), (self.ratio_at_most, -1))
        for shares, sign in bounds:
            checks += [sign * figure.value >= sign * reference[n] * s for n, s in shares.items() if n in reference]
        is_complete = {*self.ratio_at_least, *self.ratio_at_most} <= set(reference)
        if figure.fault or False in checks:
            return False
        return True if checks and is_complete else None


NO_BUDGET: Final = Budget()


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One figure with a number of processes. `floor` names the row with the limit of the machine."""

    name: str
    processes: int
    figure: Figure
    budget: Budget = NO_BUDGET
    floor: str = ""


class Table:
    """Prints each row when it is added, so that an interrupted run keeps what it has measured."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._print([name for name, _ in _COLUMNS])
        self._print(["-" * width for _, width in _COLUMNS])

    def add(self, *rows: Row) -> None:
        """Print rows and keep them as references for the ratios of later ones."""
        for row in rows:
            self.rows.append(row)
            figure = row.figure
            self._print(
                [
                    row.name,
                    str(row.processes),
                    str(figure),
                    "-" if figure.spread is None else f"{100 * figure.spread:.0f} %",
                    str(figure.latency),
                    str(figure.processor or "-"),
                    str(figure.fixed_rate or "-"),
                    self._budget(row),
                    {True: "yes", False: "NO", None: "-"}[self._is_met(row)],
                ]
            )
            for text in filter(None, (figure.fault and f"void: {figure.fault}", figure.note, self._comparison(row))):
                print(f"|   {text}", flush=True)

    def as_json(self) -> list[dict[str, Any]]:
        """Return the rows for --json."""
        return [self._json(row) for row in self.rows]

    def write(self, path: Path) -> None:
        """Write the rows to a file as JSON."""
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")

    def _json(self, row: Row) -> dict[str, Any]:
        figure = row.figure
        return {
            "name": row.name,
            "processes": row.processes,
            "rate" if figure.unit == "/s" else "value": figure.value,
            "unit": figure.unit,
            **dataclasses.asdict(figure.latency),
            "spread": figure.spread,
            "processor_seconds_per_1000": figure.processor and dataclasses.asdict(figure.processor),
            "fixed_rate": figure.fixed_rate and dataclasses.asdict(figure.fixed_rate),
            "floor": row.floor or None,
            "ratio": self._ratio(row),
            "budget": row.budget.text(figure.unit) or None,
            "met": self._is_met(row),
            "note": figure.note or None,
            "fault": figure.fault or None,
        }

    def _budget(self, row: Row) -> str:
        return row.budget.text(row.figure.unit) or "-"

    def _is_met(self, row: Row) -> bool | None:
        return row.budget.is_met(row.figure, self._references(row))

    def _references(self, row: Row) -> dict[str, float]:
        """Return the values of the other valid rows: with as many processes, or else with fewer."""
        valid = [one for one in self.rows if one is not row and not one.figure.fault and one.processes <= row.processes]
        return {one.name: one.figure.value for one in sorted(valid, key=lambda one: one.processes)}

    def _ratio(self, row: Row) -> float | None:
        reference = self._references(row).get(row.floor)
        return row.figure.value / reference if reference and not row.figure.fault else None

    def _comparison(self, row: Row) -> str:
        ratio = self._ratio(row)
        return "" if ratio is None else f"{100 * ratio:.0f} % of {row.floor}"

    @staticmethod
    def _print(cells: Sequence[str]) -> None:
        padded = [text.ljust(width) for text, (_, width) in zip(cells, _COLUMNS, strict=True)]
        print("| " + " | ".join(padded) + " |", flush=True)


def median(rounds: Sequence[Figure]) -> Figure:
    """Return the median round with its spread, or the first round with a fault."""
    fault = next((figure for figure in rounds if figure.fault), None)
    if fault is not None:
        return fault
    ordered = sorted(rounds, key=lambda figure: figure.value)
    middle = ordered[len(ordered) // 2]
    if len(ordered) == 1 or not middle.value:
        return middle
    return dataclasses.replace(middle, spread=(ordered[-1].value - ordered[0].value) / middle.value)


def rounded(value: float) -> str:
    """Return a number with three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
