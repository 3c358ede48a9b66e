"""Rate limits of two-factor codes, by account and however often a login starts again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from identity.errors import Unavailable
from identity.ids import TenantId
from identity.services import Services
from identity.store.rate_limits import Limit

ATTEMPTS: Final = 5
"""How many codes may be entered for one challenge."""

ACCOUNT_FAILURES: Final = 10
ACCOUNT_DAILY_FAILURES: Final = 50
"""How many incorrect codes an account allows in 15 minutes, and in a day.

Three of a million codes are valid at any moment: at 50 attempts a day, guessing one takes more than ten years.
"""
_WINDOW_SECONDS: Final = 900
_DAY_SECONDS: Final = 86_400


async def count_attempt(services: Services, tenant_id: TenantId, limits: Sequence[Limit]) -> None:
    """Count an attempt before any code is compared. Raises Unavailable after too many."""
    wait_seconds = await services.limits.rate_limits.consume(tenant_id, limits)
    if wait_seconds is not None:
        raise Unavailable(f"Too many incorrect codes. Try again in {wait_seconds} seconds.")


def account_limits(user_id: str) -> list[Limit]:
    """Return the limits of an account; only time resets them."""
    return [
        Limit("two-factor-account", user_id, ACCOUNT_FAILURES, _WINDOW_SECONDS),
        Limit("two-factor-account-day", user_id, ACCOUNT_DAILY_FAILURES, _DAY_SECONDS),
    ]
