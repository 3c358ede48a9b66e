"""The system configuration as the service follows it: read once, whenever it changes."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping
from typing import Any

from identity.domain.objects.cors import Cors

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclasses.dataclass(frozen=True, slots=True)
class SentEvents:
    """What is kept of events that were sent: whether the log shows them, and for how many days; None for ever."""

    are_logged: bool = True
    days: int | None = 30

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> SentEvents:
        """From `webhookEventLogConfiguration`."""
        return cls(configuration["enabled"], _days(configuration))

    def seconds(self) -> float | None:
        """How long an event is kept after its last attempt; None for ever. What is not logged need not be kept."""
        if not self.are_logged:
            return 0
        return None if self.days is None else self.days * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class SystemSettings:
    """What the service does by the configuration.

    `trusted_proxies` None: those of the deployment are trusted as they are. `audit_log_days` and
    `login_record_days` None: nothing is removed.
    `event_log_rows` is of the event log, `sent_events` of the log of events that were sent to webhooks.
    """

    cors: Cors
    trusted_proxies: tuple[Network, ...] | None
    audit_log_days: int | None
    login_record_days: int | None
    event_log_rows: int
    sent_events: SentEvents
    report_timezone: str

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> SystemSettings:
        """From the stored configuration, which has passed its checks."""
        proxies = configuration["trustedProxyConfiguration"]
        trusted = None
        if proxies["trustPolicy"] == "OnlyConfigured":
            trusted = tuple(found for text in proxies["trusted"] if (found := network(text)) is not None)
        return cls(
            Cors.of(configuration["corsConfiguration"]),
            trusted,
            _days(configuration["auditLogConfiguration"]),
            _days(configuration["loginRecordConfiguration"]),
            configuration["eventLogConfiguration"]["numberToRetain"],
            SentEvents.of(configuration["webhookEventLogConfiguration"]),
            configuration["reportTimezone"],
        )


def _days(configuration: Mapping[str, Any]) -> int | None:
    """For how many days a log is kept; None for ever."""
    delete = configuration["delete"]
    return delete["numberOfDaysToRetain"] if delete["enabled"] else None


def network(text: str) -> Network | None:
    """An address or a CIDR; None for what is neither."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None
