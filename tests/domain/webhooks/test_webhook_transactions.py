"""The complete truth table of transaction types."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from identity.domain.webhooks.webhook_transactions import is_satisfied, stricter
from identity.schemas import load

# Successes needed among n = 0..6 webhooks.
NEEDED = {
    "None": (0, 0, 0, 0, 0, 0, 0),
    "Any": (0, 1, 1, 1, 1, 1, 1),
    "SimpleMajority": (0, 1, 1, 2, 2, 3, 3),
    "SuperMajority": (0, 1, 2, 2, 3, 4, 4),
    "AbsoluteMajority": (0, 1, 2, 3, 4, 5, 6),
}


def test_every_transaction_type_has_a_rule() -> None:
    tenant = load("api/tenant.json")["properties"]["tenant"]["properties"]
    entry = tenant["eventConfiguration"]["properties"]["events"]["additionalProperties"]
    assert set(entry["properties"]["transactionType"]["enum"]) == set(NEEDED)


@pytest.mark.requirement("webhooks-8-1", "webhooks-8-2")
@pytest.mark.parametrize("transaction_type", NEEDED)
@pytest.mark.parametrize("asked", range(7))
def test_required_successes_match_the_table(transaction_type: str, asked: int) -> None:
    needed = NEEDED[transaction_type][asked]
    for successes in range(asked + 1):
        assert is_satisfied(transaction_type, successes, asked) == (successes >= needed)


@pytest.mark.requirement("webhooks-15.3-36")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # busy machines are slow, not faulty
@given(st.sampled_from(sorted(NEEDED)), st.integers(1, 10_000), st.floats(0, 1))
def test_thresholds_are_computed_exactly(kind: str, asked: int, share: float) -> None:
    least = {"None": Fraction(0), "Any": Fraction(1, asked), "SimpleMajority": Fraction(1, 2)}
    least |= {"SuperMajority": Fraction(2, 3), "AbsoluteMajority": Fraction(1)}
    for successes in {round(asked * share), *(round(asked * least[kind]) + near for near in (-1, 0, 1))}:
        if 0 <= successes <= asked:
            assert is_satisfied(kind, successes, asked) == (Fraction(successes, asked) >= least[kind])


def test_more_successes_never_fail_a_transaction() -> None:
    for transaction_type in NEEDED:
        for asked in range(60):
            verdicts = [is_satisfied(transaction_type, successes, asked) for successes in range(asked + 1)]
            assert verdicts == sorted(verdicts)
            assert verdicts[-1]


def test_stricter_type_requires_more_successes() -> None:
    order = list(NEEDED)
    for one in order:
        for other in order:
            assert stricter(one, other) == order[max(order.index(one), order.index(other))]
