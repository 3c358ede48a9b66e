"""Wrong codes of few letters, counted for whom they are about, however often somebody starts anew.

The five tries that one id stands do not hold off whoever may ask for another id: these counters do, and nothing but
time resets them. Of a million codes somebody who tries a hundred a day finds one in thirty years.
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
    """Count a try, before anything is compared. Raises Unavailable when there were too many."""
    wait_seconds = await services.rate_limits.consume(tenant_id, _limits(kind, owner))
    if wait_seconds is not None:
        raise Unavailable(f"Too many incorrect codes. Try again in {wait_seconds} seconds.")


async def give_back(services: Services, tenant_id: TenantId, kind: str, owner: str) -> None:
    """The code was right: its try does not count."""
    await services.rate_limits.refund(tenant_id, _limits(kind, owner))


def _limits(kind: str, owner: str) -> list[Limit]:
    return [
        Limit(f"codes-{kind}", owner, FAILURES, _WINDOW_SECONDS),
        Limit(f"codes-{kind}-day", owner, DAILY_FAILURES, _DAY_SECONDS),
    ]
