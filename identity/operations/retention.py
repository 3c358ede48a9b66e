"""How long logs are kept: what the system configuration says, done again and again by the sweeper."""

from __future__ import annotations

from identity.instants import later
from identity.services import Services

_DAY_SECONDS = 86_400


async def sweep(services: Services) -> None:
    """Remove what is too much or too old. Safe to run in several processes at once."""
    await services.system.refresh()
    settings = services.system.settings
    await services.event_logs.keep_newest(settings.event_log_rows)
    if settings.audit_log_days is not None:
        before = later(services.clock.now(), seconds=-settings.audit_log_days * _DAY_SECONDS)
        await services.audit_logs.delete_before(before)
