"""What was measured, and the table that it ends up in."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

COLUMNS = ("one process", "two processes")


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; a fault makes it void, and a note follows it."""

    value: float
    unit: str
    p99_ms: float | None = None
    fault: str = ""
    p95_ms: float | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.fault:
            return "void"
        tails = (("p95", self.p95_ms), ("p99", self.p99_ms))
        tail = "".join(f", {name} {rounded(value)} ms" for name, value in tails if value is not None)
        note = f" ({self.note})" if self.note else ""
        return f"{rounded(self.value)}{'' if self.unit.startswith('/') else ' '}{self.unit}{tail}{note}"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `against` names the row that says what the machine could do at best."""

    name: str
    figures: Sequence[Figure | None]
    budget: str = ""
    against: str = ""


def rendered(rows: Sequence[Row]) -> Iterator[str]:
    """The table, as lines of Markdown; below it what made figures void."""
    floors = {row.name: row for row in rows}
    cells = [["figure", *COLUMNS, "budget", "measured against"]]
    cells += [
        [row.name, *_texts(row), row.budget or "-", _comparison(row, floors) if row.against else "-"] for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    cells.insert(1, ["-" * width for width in widths])
    for line in cells:
        yield "| " + " | ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) + " |"
    for row in rows:
        for figure in row.figures:
            if figure is not None and figure.fault:
                yield f"void: {row.name}: {figure.fault}"


def _texts(row: Row) -> list[str]:
    texts = ["-" if figure is None else str(figure) for figure in row.figures]
    return [*texts, *["-"] * (len(COLUMNS) - len(texts))]


def _comparison(row: Row, floors: Mapping[str, Row]) -> str:
    """This row as a part of its floor, with as many processes as both have."""
    floor = floors.get(row.against)
    if floor is None:
        return row.against
    pairs = [
        (mine, best)
        for mine, best in zip(row.figures, floor.figures, strict=False)
        if mine is not None and best is not None and not mine.fault and not best.fault and best.value
    ]
    if not pairs or pairs[-1][0].unit != pairs[-1][1].unit:
        return row.against
    mine, best = pairs[-1]
    return f"{100 * mine.value / best.value:.0f} % of {row.against}"


def rounded(value: float) -> str:
    """Three figures, or all of those before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
