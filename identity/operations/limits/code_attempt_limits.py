"""Limits of incorrect codes per account, across all ids and challenges that the codes belong to.

An id or challenge allows five attempts, but a new one can be requested at any time. These limits hold across them, and
only time resets them. At 100 attempts a day, guessing one of a million codes that were sent takes 30 years on average.
Of the codes of an authenticator app three are valid at any moment: at 50 attempts a day, it takes more than ten years.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from identity.ids import TenantId
from identity.services import Services
from identity.store.rate_limits import Limit

ATTEMPTS: Final = 5
"""The maximum of codes entered for one id or challenge."""

FAILURES: Final = 20
DAILY_FAILURES: Final = 100
TWO_FACTOR_FAILURES: Final = 10
TWO_FACTOR_DAILY_FAILURES: Final = 50
_WINDOW_SECONDS: Final = 900
_DAY_SECONDS: Final = 86_400


def attempt(services: Services, tenant_id: TenantId, limits: Sequence[Limit]) -> AbstractAsyncContextManager[None]:
    """Count an attempt before the block compares a code. Raises Unavailable after too many incorrect ones."""
    return services.limits.rate_limits.attempt(tenant_id, limits, "Too many incorrect codes.")


def of_sent_codes(kind: str, owner: str) -> list[Limit]:
    """Return the limits of the codes of a kind that are sent to an account."""
    return _limits(f"codes-{kind}", owner, FAILURES, DAILY_FAILURES)


def of_two_factor(user_id: str) -> list[Limit]:
    """Return the limits of an account's two-factor codes."""
    return _limits("two-factor-account", user_id, TWO_FACTOR_FAILURES, TWO_FACTOR_DAILY_FAILURES)


def _limits(purpose: str, owner: str, failures: int, daily_failures: int) -> list[Limit]:
    return [
        Limit(purpose, owner, failures, _WINDOW_SECONDS),
        Limit(f"{purpose}-day", owner, daily_failures, _DAY_SECONDS),
    ]
