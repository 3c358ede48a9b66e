"""What a login tells of itself beside that it happened: a device that is new for its user, and what is suspicious."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.login import impossible_travel as rules
from identity.domain.objects import event_info
from identity.ids import TenantId
from identity.operations.login import known_devices
from identity.operations.messaging import user_notifications
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class ThreatAssessment:
    """Whether the device is new, what is suspicious, and where the user is, as `private.place` of the user keeps it."""

    is_new_device: bool
    threats: tuple[str, ...]
    place: Document | None

    @property
    def event_types(self) -> list[str]:
        """The events about the login, in the order in which they are told."""
        found = {"user.login.new-device": self.is_new_device, "user.login.suspicious": bool(self.threats)}
        return [*(name for name, is_so in found.items() if is_so), "user.login.success"]

    def members(self, event_type: str) -> Document:
        """What an event of this type has beside what the others have."""
        return {"threatsDetected": list(self.threats)} if event_type == "user.login.suspicious" else {}


def assess(services: Services, call: Call, user: Document, *, is_new_device: bool = False) -> ThreatAssessment:
    """Look at a login that lacks nothing; `user` as before it. `is_new_device`: the caller says so.

    Nothing is asked of a store: the last place of the user stands on the user.
    """
    place = _place(services, call)
    is_new = is_new_device or known_devices.is_new_device(services, call, user)
    return ThreatAssessment(is_new, rules.find_threats(user["private"].get("place"), place), place)


async def notify_user(
    services: Services, call: Call, user: Document, application: Document | None, judgement: ThreatAssessment
) -> None:
    """Tell the user by mail, after the commit, where tenant or application name the templates."""
    if not judgement.is_new_device and not judgement.threats:
        return
    tenant = await services.tenants.get(None, TenantId(user["tenantId"]))
    if judgement.is_new_device:
        await user_notifications.tell(
            services, call, tenant, user, "loginNewDeviceEmailTemplateId", application=application
        )
    if judgement.threats:
        data = {"threatsDetected": list(judgement.threats)}
        await user_notifications.tell(
            services, call, tenant, user, "loginSuspiciousEmailTemplateId", data, application=application
        )


def _place(services: Services, call: Call) -> Document | None:
    """Where the call comes from, as the caller says or the address tells; None where that is not known."""
    location = event_info.of(call, services.geoip.find).get("location", {})
    names = ("latitude", "longitude")
    if not all(name in location for name in names):
        return None
    return {"instant": call.now, **{name: location[name] for name in names}}
