"""Device authorization grants (RFC 8628) in Redis, from the device and user codes to the issued tokens.

    Pending -> Approved -> Consumed        Pending -> Denied        Pending, Approved -> Expired

Every transition is one script, so that concurrent callers cannot both make it. Keys contain the SHA-256 of the codes.
Expired and consumed grants are retained for a quarter of an hour: a device receives `expired_token` instead of
`invalid_grant`, and a second use is detected as a replay.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Final, Literal

from identity.call import Document
from identity.domain.authorization.device_grants import DeviceApproval, DeviceRequest
from identity.domain.objects import stored_values
from identity.ids import TenantId, fingerprint
from identity.instants import Instant
from identity.store.redis import RedisStore, parse_document

RETENTION_SECONDS: Final = 900
"""How long a grant is retained after it expired or was consumed."""
SLOW_DOWN_SECONDS: Final = 5
"""How much each `slow_down` adds to the interval (RFC 8628 section 3.5)."""
LEEWAY_MILLISECONDS: Final = 1000
"""How much too early a poll may arrive, because network delays vary."""

Status = Literal["Pending", "Approved", "Denied", "Consumed", "Expired"]


@dataclasses.dataclass(frozen=True, slots=True)
class NewDeviceGrant:
    """A grant to be issued; `interval_seconds` is the polling interval."""

    grant_id: str
    client_id: str
    request: DeviceRequest
    expires: Instant
    interval_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceGrant:
    """A grant found by its user code; `request` is empty once it is consumed."""

    grant_id: str
    client_id: str
    status: Status
    request: DeviceRequest
    expires: Instant


@dataclasses.dataclass(frozen=True, slots=True)
class DevicePoll:
    """The result of a poll: `device` and `approval` if it was approved, or the tokens `issued` by an earlier poll."""

    outcome: Literal["Pending", "TooFast", "Approved", "Denied", "Consumed", "Expired", "Unknown"]
    device: Mapping[str, str] = dataclasses.field(default_factory=dict)
    approval: DeviceApproval | None = None
    issued: Document | None = None


class DeviceGrants(RedisStore):
    """The device grants of all tenants."""

    async def issue(
        self, tenant_id: TenantId, device_code: str, user_code: str, new: NewDeviceGrant, now: Instant
    ) -> bool:
        """Store a new grant; False if the user code belongs to an active grant, and the caller must try another."""
        hashed = fingerprint(device_code)
        lifetime_seconds = max(1, (new.expires - now) // 1000) + RETENTION_SECONDS
        keys = [self._prefix(tenant_id) + hashed, self._user_key(tenant_id, user_code)]
        grant = (
            json.dumps(stored_values.to_document(new.request)),
            new.client_id,
            new.grant_id,
            new.interval_seconds,
            lifetime_seconds,
        )
        issued = await self._redis.run("device_issue", keys, self._prefix(tenant_id), hashed, now, new.expires, *grant)
        return bool(issued)

    async def find(self, tenant_id: TenantId, user_code: str, now: Instant) -> DeviceGrant | None:
        """The grant of a user code, whatever its status."""
        keys = [self._user_key(tenant_id, user_code)]
        fields = await self._redis.run("device_find", keys, self._prefix(tenant_id))
        if not fields or fields[0] is None:
            return None
        status, grant, client_id, grant_id, ends = fields
        expires = Instant(int(ends))
        if status in {"Pending", "Approved"} and expires <= now:
            status = "Expired"
        stored = parse_document(grant)
        request = DeviceRequest() if stored is None else stored_values.from_document(DeviceRequest, stored)
        return DeviceGrant(grant_id, client_id, status, request, expires)

    async def decide(
        self, tenant_id: TenantId, user_code: str, grant_id: str, approval: DeviceApproval | None, now: Instant
    ) -> Literal["Approved", "Denied", "Expired", "Unknown"]:
        """Approve a pending grant, or deny it without an approval.

        `Unknown`: it was decided before, or the code belongs to another grant.
        """
        decision, stored = ("Denied", {}) if approval is None else ("Approved", stored_values.to_document(approval))
        keys = [self._user_key(tenant_id, user_code)]
        outcome: Literal["Approved", "Denied", "Expired", "Unknown"] = await self._redis.run(
            "device_decide", keys, self._prefix(tenant_id), grant_id, now, decision, json.dumps(stored)
        )
        return outcome

    async def poll(self, tenant_id: TenantId, device_code: str, client_id: str, now: Instant) -> DevicePoll:
        """Poll a grant. Only one of several callers finds it approved, which consumes it.

        An early poll of a pending grant results in `TooFast` and a longer interval, counted from the last poll that was
        not early. For any client but the grant's, the result is `Unknown` and nothing changes.
        """
        keys, settings = (
            [self._key(tenant_id, device_code)],
            (RETENTION_SECONDS, SLOW_DOWN_SECONDS, LEEWAY_MILLISECONDS),
        )
        outcome, *rest = await self._redis.run("device_poll", keys, client_id, now, *settings)
        if outcome == "Approved":
            grant, approval = (json.loads(text) for text in rest)
            return DevicePoll("Approved", grant["device"], stored_values.from_document(DeviceApproval, approval))
        return DevicePoll(outcome, issued=parse_document(rest[0] or None) if rest else None)

    async def record_redemption(self, tenant_id: TenantId, device_code: str, client_id: str, issued: Document) -> bool:
        """Store the tokens issued for a grant, which a replay revokes.

        False if the code was replayed before: the caller has to revoke the tokens.
        """
        keys, args = [self._key(tenant_id, device_code)], (json.dumps(issued), RETENTION_SECONDS, client_id)
        return not await self._redis.run("device_record_redemption", keys, *args)

    def _key(self, tenant_id: TenantId, device_code: str) -> str:
        return self._prefix(tenant_id) + fingerprint(device_code)

    # The hash tag in braces puts both keys of a grant on one cluster node.
    def _prefix(self, tenant_id: TenantId) -> str:
        return self._redis.key("device", f"{{{tenant_id}}}", "")

    def _user_key(self, tenant_id: TenantId, user_code: str) -> str:
        return self._redis.key("device-user", f"{{{tenant_id}}}", fingerprint(user_code))
