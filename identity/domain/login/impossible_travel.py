"""Impossible travel: a login from a position that the user cannot have reached since the previous login."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

IMPOSSIBLE_TRAVEL: Final = "ImpossibleTravel"

FASTEST_KM_PER_HOUR: Final = 1000.0
"""The maximum speed in km/h; airliners are slower."""
NEAR_KM: Final = 100.0
"""The accuracy of GeoIP: smaller distances are ignored."""
_EARTH_RADIUS_KM: Final = 6371.0
_HOUR_MS: Final = 3_600_000


def find_threats(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the threats of two positions of a user, each with `latitude`, `longitude` (degrees) and `instant`."""
    if before is None or now is None:
        return ()
    distance = distance_km(before, now)
    elapsed_ms = max(0, int(now["instant"]) - int(before["instant"]))
    is_impossible = distance > NEAR_KM and distance * _HOUR_MS > FASTEST_KM_PER_HOUR * elapsed_ms
    return (IMPOSSIBLE_TRAVEL,) if is_impossible else ()


def distance_km(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the great-circle distance of two positions (haversine formula)."""
    from_latitude, to_latitude = math.radians(one["latitude"]), math.radians(other["latitude"])
    longitude = math.radians(other["longitude"] - one["longitude"])
    half = (
        math.sin((to_latitude - from_latitude) / 2) ** 2
        + math.cos(from_latitude) * math.cos(to_latitude) * math.sin(longitude / 2) ** 2
    )
    return 2 * _EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))
