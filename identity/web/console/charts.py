"""Bar charts as SVG, rendered on the server."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

_HEIGHT: Final = 100
_WIDTH: Final = 400
_GAP: Final = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One bar, in the units of the view box; `label` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A chart: its title, the sum of its values, its bars, and the text for screen readers."""

    title: str
    total: int
    bars: Sequence[Bar]
    summary: str
    view_box: str = f"0 0 {_WIDTH} {_HEIGHT}"


def by_day(counts: Iterable[Mapping[str, Any]], unit_hours: int, days: Sequence[datetime.date]) -> list[int]:
    """Return the count of each day, of counts by hour or by day since 1970."""
    found: dict[datetime.date, int] = {}
    epoch = datetime.date(1970, 1, 1)
    for entry in counts:
        day = epoch + datetime.timedelta(days=entry["interval"] * unit_hours // 24)
        found[day] = found.get(day, 0) + entry["count"]
    return [found.get(day, 0) for day in days]


def chart(title: str, values: Sequence[int], days: Sequence[datetime.date]) -> Chart:
    """Return the chart of one value per day."""
    highest = max(values, default=0)
    step = _WIDTH / max(len(values), 1)
    bars = []
    for index, (value, day) in enumerate(zip(values, days, strict=True)):
        height = round(value / highest * (_HEIGHT - 4), 1) if highest else 0
        label = f"{day.isoformat()}: {value}"
        bars.append(Bar(round(index * step, 1), _HEIGHT - height, round(step * (1 - _GAP), 1), height, label))
    summed = sum(values)
    span = f"{days[0].isoformat()} to {days[-1].isoformat()}" if days else ""
    return Chart(title, summed, bars, f"{title}: {summed} from {span}, at most {highest} a day")
