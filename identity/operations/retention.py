"""Retention of logs by the system configuration, applied periodically by the sweeper."""

from __future__ import annotations

from identity.instants import Instant, later
from identity.services import Services

_DAY_SECONDS = 86_400


async def sweep(services: Services) -> None:
    """Remove rows beyond the configured age or number. Safe to run in several processes at once."""
    await services.configuration.system.refresh()
    settings = services.configuration.system.settings
    await services.logs.event_logs.keep_newest(settings.event_log_rows)
    if settings.audit_log_days is not None:
        await services.logs.audit_logs.delete_before(_days_ago(services, settings.audit_log_days))
    if settings.login_record_days is not None:
        await services.logs.login_records.delete_before(_days_ago(services, settings.login_record_days))


def _days_ago(services: Services, days: int) -> Instant:
    return later(services.clock.now(), seconds=-days * _DAY_SECONDS)
