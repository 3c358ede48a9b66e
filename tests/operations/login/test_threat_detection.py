"""Impossible travel by distance and time between two logins."""

from __future__ import annotations

from typing import Any

import pytest

from identity.operations.login import threat_detection

BERLIN = {"latitude": 52.52, "longitude": 13.405}
POTSDAM = {"latitude": 52.39, "longitude": 13.06}
PARIS = {"latitude": 48.857, "longitude": 2.352}
SYDNEY = {"latitude": -33.87, "longitude": 151.21}
HOUR = 3_600_000


@pytest.mark.parametrize(("one", "other", "kilometres"), [(BERLIN, PARIS, 878), (BERLIN, SYDNEY, 16_090)])
def test_distance_is_that_of_a_great_circle(one: dict[str, Any], other: dict[str, Any], kilometres: int) -> None:
    assert threat_detection.distance_km(one, other) == pytest.approx(kilometres, rel=0.01)
    assert threat_detection.distance_km(other, one) == pytest.approx(threat_detection.distance_km(one, other))


def test_extreme_distances_are_computed() -> None:
    pole, antipole = {"latitude": 90, "longitude": 0}, {"latitude": -90, "longitude": 77}
    assert threat_detection.distance_km(pole, antipole) == pytest.approx(20_015, rel=0.01)
    assert threat_detection.distance_km(BERLIN, BERLIN) == 0


@pytest.mark.requirement("users-10-19")
@pytest.mark.parametrize(
    ("before", "now", "elapsed", "is_impossible"),
    [
        (BERLIN, PARIS, 0, True),
        (BERLIN, PARIS, HOUR // 2, True),
        (BERLIN, PARIS, HOUR, False),
        (BERLIN, POTSDAM, 0, False),
        (BERLIN, SYDNEY, 15 * HOUR, True),
        (BERLIN, SYDNEY, 17 * HOUR, False),
        (BERLIN, BERLIN, 0, False),
        (BERLIN, PARIS, -HOUR, True),
    ],
)
def test_travel_faster_than_an_airliner_is_impossible(before: Any, now: Any, elapsed: int, is_impossible: bool) -> None:
    found = threat_detection.find_threats({**before, "instant": 10 * HOUR}, {**now, "instant": 10 * HOUR + elapsed})
    assert found == (("ImpossibleTravel",) if is_impossible else ())


def test_unknown_location_is_no_threat() -> None:
    known = {**BERLIN, "instant": 0}
    assert threat_detection.find_threats(None, known) == threat_detection.find_threats(known, None) == ()
