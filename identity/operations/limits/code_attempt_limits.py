"""Limits of incorrect verification codes per account, across all codes that were sent to it.

An id allows five attempts, but a new id can be requested at any time. These limits hold across ids, and only time
resets them: at 100 attempts a day, guessing one of a million codes takes 30 years on average.
"""

from __future__ import annotations

from typing import Final

from identity.errors import Unavailable
from identity.ids import TenantId
from identity.services import Services
from identity.store.rate_limits import Limit

FAILURES: Final = 20
DAILY_FAILURES: Final = 100
_WINDOW_SECONDS: Final = 900
_DAY_SECONDS: Final = 86_400


async def count_attempt(services: Services, tenant_id: TenantId, kind: str, owner: str) -> None:
    """Count an attempt before anything is compared. Raises Unavailable when the limit is exceeded."""
    wait_seconds = await services.limits.rate_limits.consume(tenant_id, _limits(kind, owner))
    if wait_seconds is not None:
        raise Unavailable(f"Too many incorrect codes. Try again in {wait_seconds} seconds.")


async def refund_attempt(services: Services, tenant_id: TenantId, kind: str, owner: str) -> None:
    """Refund an attempt with a correct code."""
    await services.limits.rate_limits.refund(tenant_id, _limits(kind, owner))


def _limits(kind: str, owner: str) -> list[Limit]:
    return [
        Limit(f"codes-{kind}", owner, FAILURES, _WINDOW_SECONDS),
        Limit(f"codes-{kind}-day", owner, DAILY_FAILURES, _DAY_SECONDS),
    ]
