"""Threat detection at logins: new devices and impossible travel, with their events and notification mails.

Travel is impossible to a position that the user cannot have reached since the previous login.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.login.client_risk import IMPOSSIBLE_TRAVEL, ClientRisk
from identity.domain.objects import event_info
from identity.ids import TenantId
from identity.operations.login import known_devices
from identity.operations.messaging import user_notifications
from identity.services import Services

FASTEST_KM_PER_HOUR: Final = 1000.0
"""The maximum speed in km/h; airliners are slower."""
NEAR_KM: Final = 100.0
"""The accuracy of GeoIP: smaller distances are ignored."""
_EARTH_RADIUS_KM: Final = 6371.0
_HOUR_MS: Final = 3_600_000


def find_threats(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the threats of two positions of a user, each with `latitude`, `longitude` (degrees) and `instant`."""
    if before is None or now is None:
        return ()
    distance = distance_km(before, now)
    elapsed_ms = max(0, int(now["instant"]) - int(before["instant"]))
    is_impossible = distance > NEAR_KM and distance * _HOUR_MS > FASTEST_KM_PER_HOUR * elapsed_ms
    return (IMPOSSIBLE_TRAVEL,) if is_impossible else ()


def distance_km(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the great-circle distance of two positions (haversine formula)."""
    from_latitude, to_latitude = math.radians(one["latitude"]), math.radians(other["latitude"])
    longitude = math.radians(other["longitude"] - one["longitude"])
    half = (
        math.sin((to_latitude - from_latitude) / 2) ** 2
        + math.cos(from_latitude) * math.cos(to_latitude) * math.sin(longitude / 2) ** 2
    )
    return 2 * _EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))


@dataclasses.dataclass(frozen=True, slots=True)
class ThreatAssessment:
    """Whether the device is new, the threats found, and the geographic position, stored as `private.place`.

    On the first login of a user every device is new, which is no news to the user. `risk` is the assessed risk, if any;
    `is_suspicious`: a lambda demands the event of a suspicious login.
    """

    is_new_device: bool
    threats: tuple[str, ...]
    place: Document | None
    is_first_login: bool = False
    risk: ClientRisk | None = None
    is_suspicious: bool = False

    @property
    def event_types(self) -> list[str]:
        """The types of the login events, in their order; `user.login.success` is the last."""
        detected = {
            "user.login.new-device": self.is_new_device,
            "user.login.suspicious": self.is_suspicious or bool(self.threats),
        }
        return [*(name for name, is_detected in detected.items() if is_detected), "user.login.success"]

    def event_members(self, event_type: str) -> Document:
        """Return the payload members that only events of this type have."""
        return {"threatsDetected": list(self.threats)} if event_type == "user.login.suspicious" else {}


def assess(services: Services, call: Call, user: Document, *, is_new_device: bool = False) -> ThreatAssessment:
    """Assess a login that passed all checks; `user` as stored before it.

    `is_new_device` is what the caller reports. No store is queried: the position of the last login is on the user.
    """
    place = find_place(services, call)
    is_new = is_new_device or known_devices.is_new_device(services, call, user)
    threats = find_threats(user["private"].get("place"), place)
    return ThreatAssessment(is_new, threats, place, is_first_login="lastLoginInstant" not in user)


async def notify_user(
    services: Services, call: Call, user: Document, application: Document | None, assessment: ThreatAssessment
) -> None:
    """Mail the user about a new device or a threat, where the tenant or application has a template for it."""
    is_suspicious = assessment.is_suspicious or bool(assessment.threats)
    if not assessment.is_new_device and not is_suspicious:
        return
    tenant = await services.configuration.tenants.get_cached(None, TenantId(user["tenantId"]))
    if assessment.is_new_device and not assessment.is_first_login:
        await user_notifications.notify(
            services, call, tenant, user, "loginNewDeviceEmailTemplateId", application=application
        )
    if is_suspicious:
        data = {"threatsDetected": list(assessment.threats)}
        await user_notifications.notify(
            services, call, tenant, user, "loginSuspiciousEmailTemplateId", data, application=application
        )


def find_place(services: Services, call: Call) -> Document | None:
    """Return the position that the caller states, or that GeoIP has for the IP address; None if unknown."""
    location = event_info.build(call, services.runtime.geoip.find).get("location", {})
    names = ("latitude", "longitude")
    if not all(name in location for name in names):
        return None
    return {"instant": call.now, **{name: location[name] for name in names}}
