"""The parsed system configuration."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping
from typing import Any

from identity.domain.objects.cors import Cors

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclasses.dataclass(frozen=True, slots=True)
class SentEvents:
    """Retention of sent events: whether the log shows them, and for how many days; None is unlimited."""

    are_logged: bool = True
    days: int | None = 30

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> SentEvents:
        """Parse `webhookEventLogConfiguration`."""
        return cls(configuration["enabled"], _days(configuration))

    def seconds(self) -> float | None:
        """The retention of an event after its last attempt; None is unlimited, 0 for events that are not logged."""
        if not self.are_logged:
            return 0
        return None if self.days is None else self.days * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class SystemSettings:
    """The settings of the service in the configuration.

    `trusted_proxies` None: those of the deployment apply. `audit_log_days` and `login_record_days` None: nothing is
    removed. `event_log_rows` is for the event log, `sent_events` for the log of events that were sent to webhooks.
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
        """Parse the stored configuration, which is valid."""
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
    """Return the retention of a log in days; None is unlimited."""
    delete = configuration["delete"]
    return delete["numberOfDaysToRetain"] if delete["enabled"] else None


def network(text: str) -> Network | None:
    """Parse an address or a CIDR; None for anything else."""
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None
