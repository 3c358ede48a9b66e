"""Device authorization grants (RFC 8628) in Redis, from the device and user codes to the issued tokens.

    Pending -> Approved -> Consumed        Pending -> Denied        Pending, Approved -> Expired

Every transition is one script, so that concurrent callers cannot both make it. Keys contain the SHA-256 of the codes.
Expired and consumed grants are retained for a quarter of an hour: a device receives `expired_token` instead of
`invalid_grant`, and a second use is detected as a replay.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final, Literal

from identity.call import Document
from identity.ids import TenantId, fingerprint
from identity.instants import Instant
from identity.store.redis import Redis, RedisStore, parse_document

RETENTION_SECONDS: Final = 900
"""How long a grant is retained after it expired or was consumed."""
SLOW_DOWN_SECONDS: Final = 5
"""How much each `slow_down` adds to the interval (RFC 8628 section 3.5)."""
LEEWAY_MILLISECONDS: Final = 1000
"""How much too early a poll may arrive, because network delays vary."""

Status = Literal["Pending", "Approved", "Denied", "Consumed", "Expired"]

# A user code is not issued again while its grant is pending or approved.
_ISSUE = """
local taken = redis.call('GET', KEYS[2])
if taken then
  local old = redis.call('HMGET', ARGV[1] .. taken, 'status', 'expires')
  if (old[1] == 'Pending' or old[1] == 'Approved') and tonumber(old[2]) > tonumber(ARGV[3]) then
    return 0
  end
end
redis.call('HSET', KEYS[1], 'status', 'Pending', 'grant', ARGV[5], 'client', ARGV[6], 'id', ARGV[7],
           'expires', ARGV[4], 'interval', ARGV[8])
redis.call('EXPIRE', KEYS[1], ARGV[9])
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[9])
return 1
"""

_FIND = """
local hash = redis.call('GET', KEYS[1])
if not hash then
  return false
end
return redis.call('HMGET', ARGV[1] .. hash, 'status', 'grant', 'client', 'id', 'expires')
"""

# The grant id must match, too: the user code may have been issued again since the caller read the grant.
_DECIDE = """
local hash = redis.call('GET', KEYS[1])
if not hash then
  return 'Unknown'
end
local key = ARGV[1] .. hash
local found = redis.call('HMGET', key, 'status', 'id', 'expires')
if found[1] ~= 'Pending' or found[2] ~= ARGV[2] then
  return 'Unknown'
end
if tonumber(found[3]) <= tonumber(ARGV[3]) then
  return 'Expired'
end
redis.call('HSET', key, 'status', ARGV[4], 'approval', ARGV[5])
return ARGV[4]
"""

_POLL = """
local found = redis.call('HMGET', KEYS[1], 'status', 'client', 'expires', 'interval', 'polled', 'grant', 'approval')
if not found[1] or found[2] ~= ARGV[1] then
  return {'Unknown'}
end
if found[1] == 'Consumed' then
  redis.call('HSET', KEYS[1], 'replayed', '1')
  return {'Consumed', redis.call('HGET', KEYS[1], 'given') or ''}
end
local now = tonumber(ARGV[2])
if tonumber(found[3]) <= now then
  return {'Expired'}
end
if found[1] == 'Approved' then
  redis.call('HSET', KEYS[1], 'status', 'Consumed')
  redis.call('HDEL', KEYS[1], 'grant', 'approval')
  redis.call('EXPIRE', KEYS[1], ARGV[3])
  return {'Approved', found[6], found[7]}
end
if found[1] == 'Pending' then
  if found[5] and now < tonumber(found[5]) + tonumber(found[4]) * 1000 - tonumber(ARGV[5]) then
    redis.call('HINCRBY', KEYS[1], 'interval', ARGV[4])
    return {'TooFast'}
  end
  redis.call('HSET', KEYS[1], 'polled', ARGV[2])
end
return {found[1]}
"""

_RECORD_REDEMPTION = """
redis.call('HSET', KEYS[1], 'status', 'Consumed', 'client', ARGV[3], 'given', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HEXISTS', KEYS[1], 'replayed')
"""


@dataclasses.dataclass(frozen=True, slots=True)
class NewDeviceGrant:
    """A grant to be issued; `interval_seconds` is the polling interval."""

    grant_id: str
    client_id: str
    grant: Document = dataclasses.field(repr=False)
    expires: Instant
    interval_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceGrant:
    """A grant found by its user code; `grant` is empty once it is consumed."""

    grant_id: str
    client_id: str
    status: Status
    grant: Document = dataclasses.field(repr=False)
    expires: Instant


@dataclasses.dataclass(frozen=True, slots=True)
class DevicePoll:
    """The result of a poll: `grant` and `approval` if it was approved, or the tokens `issued` by an earlier poll."""

    outcome: Literal["Pending", "TooFast", "Approved", "Denied", "Consumed", "Expired", "Unknown"]
    grant: Document = dataclasses.field(default_factory=dict, repr=False)
    approval: Document = dataclasses.field(default_factory=dict, repr=False)
    issued: Document | None = None


class DeviceGrants(RedisStore):
    """The device grants of all tenants."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._issue = redis.client.register_script(_ISSUE)
        self._find = redis.client.register_script(_FIND)
        self._decide = redis.client.register_script(_DECIDE)
        self._poll = redis.client.register_script(_POLL)
        self._record_redemption = redis.client.register_script(_RECORD_REDEMPTION)

    async def issue(
        self, tenant_id: TenantId, device_code: str, user_code: str, new: NewDeviceGrant, now: Instant
    ) -> bool:
        """Store a new grant; False if the user code belongs to an active grant, and the caller must try another."""
        hashed = fingerprint(device_code)
        lifetime_seconds = max(1, (new.expires - now) // 1000) + RETENTION_SECONDS
        args: list[str | int] = [self._prefix(tenant_id), hashed, now, new.expires, json.dumps(new.grant)]
        args += [new.client_id, new.grant_id, new.interval_seconds, lifetime_seconds]
        keys = [self._prefix(tenant_id) + hashed, self._user_key(tenant_id, user_code)]
        return bool(await self._issue(keys=keys, args=args))

    async def find(self, tenant_id: TenantId, user_code: str, now: Instant) -> DeviceGrant | None:
        """The grant of a user code, whatever its status."""
        fields: Any = await self._find(keys=[self._user_key(tenant_id, user_code)], args=[self._prefix(tenant_id)])
        if not fields or fields[0] is None:
            return None
        status, grant, client_id, grant_id, ends = fields
        expires = Instant(int(ends))
        if status in {"Pending", "Approved"} and expires <= now:
            status = "Expired"
        return DeviceGrant(grant_id, client_id, status, parse_document(grant) or {}, expires)

    async def decide(
        self,
        tenant_id: TenantId,
        user_code: str,
        grant_id: str,
        decision: Literal["Approved", "Denied"],
        approval: Document,
        now: Instant,
    ) -> Literal["Approved", "Denied", "Expired", "Unknown"]:
        """Approve or deny a pending grant. `Unknown`: it was decided before, or the code belongs to another grant."""
        args: list[str | int] = [self._prefix(tenant_id), grant_id, now, decision, json.dumps(approval)]
        answer: Any = await self._decide(keys=[self._user_key(tenant_id, user_code)], args=args)
        outcome: Literal["Approved", "Denied", "Expired", "Unknown"] = answer
        return outcome

    async def poll(self, tenant_id: TenantId, device_code: str, client_id: str, now: Instant) -> DevicePoll:
        """Poll a grant. Only one of several callers finds it approved, which consumes it.

        An early poll of a pending grant results in `TooFast` and a longer interval, counted from the last poll that was
        not early. For any client but the grant's, the result is `Unknown` and nothing changes.
        """
        args: list[str | int] = [client_id, now, RETENTION_SECONDS, SLOW_DOWN_SECONDS, LEEWAY_MILLISECONDS]
        answer: Any = await self._poll(keys=[self._key(tenant_id, device_code)], args=args)
        outcome, *rest = answer
        if outcome == "Approved":
            return DevicePoll("Approved", json.loads(rest[0]), json.loads(rest[1]))
        return DevicePoll(outcome, issued=parse_document(rest[0] or None) if rest else None)

    async def record_redemption(self, tenant_id: TenantId, device_code: str, client_id: str, issued: Document) -> bool:
        """Store the tokens issued for a grant, which a replay revokes.

        False if the code was replayed before: the caller has to revoke the tokens.
        """
        args: list[str | int] = [json.dumps(issued), RETENTION_SECONDS, client_id]
        return not await self._record_redemption(keys=[self._key(tenant_id, device_code)], args=args)

    def _key(self, tenant_id: TenantId, device_code: str) -> str:
        return self._prefix(tenant_id) + fingerprint(device_code)

    # The hash tag in braces puts both keys of a grant on one cluster node.
    def _prefix(self, tenant_id: TenantId) -> str:
        return self._redis.key("device", f"{{{tenant_id}}}", "")

    def _user_key(self, tenant_id: TenantId, user_code: str) -> str:
        return self._redis.key("device-user", f"{{{tenant_id}}}", fingerprint(user_code))
