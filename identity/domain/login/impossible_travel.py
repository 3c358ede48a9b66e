"""What makes a login suspicious: it comes from a place that its user cannot have got to since the login before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

IMPOSSIBLE_TRAVEL: Final = "ImpossibleTravel"

FASTEST_KM_PER_HOUR: Final = 1000.0
"""Airliners are slower."""
NEAR_KM: Final = 100.0
"""Addresses are not placed more exactly than that: what is nearer is no journey."""
_EARTH_RADIUS_KM: Final = 6371.0
_HOUR_MS: Final = 3_600_000


def find_threats(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What is suspicious about two places of a user, each `latitude`, `longitude` (degrees) and `instant`."""
    if before is None or now is None:
        return ()
    distance = distance_km(before, now)
    elapsed_ms = max(0, int(now["instant"]) - int(before["instant"]))
    is_impossible = distance > NEAR_KM and distance * _HOUR_MS > FASTEST_KM_PER_HOUR * elapsed_ms
    return (IMPOSSIBLE_TRAVEL,) if is_impossible else ()


def distance_km(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The way between two places along a great circle."""
    here, there = math.radians(one["latitude"]), math.radians(other["latitude"])
    turn = math.radians(other["longitude"] - one["longitude"])
    half = math.sin((there - here) / 2) ** 2 + math.cos(here) * math.cos(there) * math.sin(turn / 2) ** 2
    return 2 * _EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))
