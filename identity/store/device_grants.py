"""Device grants in Redis: from the codes that a device shows and keeps to the tokens that it gets, once.

    Pending -> Approved -> Consumed        Pending -> Denied        Pending, Approved -> Expired

Every step is one script, so that of all who come at once one takes it. Keys hold the SHA-256 of the codes. What has
expired is kept for a quarter of an hour, so that a device learns that its code was a good one; what was consumed as
long, so that a second use is known as one.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final, Literal

from identity.call import Document
from identity.ids import TenantId, fingerprint
from identity.instants import Instant
from identity.store.redis import Redis

KEPT_SECONDS: Final = 900
"""How long a code is remembered after its end."""
SLOWER_SECONDS: Final = 5
"""What each `slow_down` adds to the interval (RFC 8628 section 3.5)."""
LEEWAY_MILLISECONDS: Final = 1000
"""How much too early a poll may come: networks are not even, and who keeps to the interval must not starve."""

Status = Literal["Pending", "Approved", "Denied", "Consumed", "Expired"]

# A user code that is still of use to a device is never given to another.
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

# The grant is named by its id, too: a user code may have been given to another device since it was looked at.
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

_REDEEMED = """
redis.call('HSET', KEYS[1], 'status', 'Consumed', 'client', ARGV[3], 'given', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HEXISTS', KEYS[1], 'replayed')
"""


@dataclasses.dataclass(frozen=True, slots=True)
class NewDeviceGrant:
    """A grant that begins: its id, its client, what it is for, when it ends and how often a device may ask."""

    grant_id: str
    client_id: str
    grant: Document = dataclasses.field(repr=False)
    expires: Instant
    interval_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceGrant:
    """A grant as a user code leads to it; `grant` is empty once it was consumed."""

    grant_id: str
    client_id: str
    status: Status
    grant: Document = dataclasses.field(repr=False)
    expires: Instant


@dataclasses.dataclass(frozen=True, slots=True)
class DevicePoll:
    """What a device that asks is to be told; `grant` and `approval` once, `given` what an earlier use gave."""

    outcome: Literal["Pending", "TooFast", "Approved", "Denied", "Consumed", "Expired", "Unknown"]
    grant: Document = dataclasses.field(default_factory=dict, repr=False)
    approval: Document = dataclasses.field(default_factory=dict, repr=False)
    given: Document | None = None


class DeviceGrants:
    """The device grants of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._issue = redis.client.register_script(_ISSUE)
        self._find = redis.client.register_script(_FIND)
        self._decide = redis.client.register_script(_DECIDE)
        self._poll = redis.client.register_script(_POLL)
        self._redeemed = redis.client.register_script(_REDEEMED)

    async def issue(
        self, tenant_id: TenantId, device_code: str, user_code: str, new: NewDeviceGrant, now: Instant
    ) -> bool:
        """Begin a grant. False when the user code is taken by one that is still alive: take another code."""
        hashed = fingerprint(device_code)
        lifetime_seconds = max(1, (new.expires - now) // 1000) + KEPT_SECONDS
        args: list[str | int] = [self._prefix(tenant_id), hashed, now, new.expires, json.dumps(new.grant)]
        args += [new.client_id, new.grant_id, new.interval_seconds, lifetime_seconds]
        keys = [self._prefix(tenant_id) + hashed, self._user_key(tenant_id, user_code)]
        return bool(await self._issue(keys=keys, args=args))

    async def find(self, tenant_id: TenantId, user_code: str, now: Instant) -> DeviceGrant | None:
        """The grant that a user code stands for, whatever became of it."""
        fields: Any = await self._find(keys=[self._user_key(tenant_id, user_code)], args=[self._prefix(tenant_id)])
        if not fields or fields[0] is None:
            return None
        status, grant, client_id, grant_id, ends = fields
        expires = Instant(int(ends))
        is_over = status in {"Pending", "Approved"} and expires <= now
        return DeviceGrant(
            grant_id, client_id, "Expired" if is_over else status, json.loads(grant) if grant else {}, expires
        )

    async def decide(
        self,
        tenant_id: TenantId,
        user_code: str,
        grant_id: str,
        verdict: Literal["Approved", "Denied"],
        approval: Document,
        now: Instant,
    ) -> Literal["Approved", "Denied", "Expired", "Unknown"]:
        """Approve or deny a pending grant. `Unknown`: another decided before, or the code is another grant's by now."""
        args: list[str | int] = [self._prefix(tenant_id), grant_id, now, verdict, json.dumps(approval)]
        answer: Any = await self._decide(keys=[self._user_key(tenant_id, user_code)], args=args)
        outcome: Literal["Approved", "Denied", "Expired", "Unknown"] = answer
        return outcome

    async def poll(self, tenant_id: TenantId, device_code: str, client_id: str, now: Instant) -> DevicePoll:
        """Ask for the tokens of a grant: of all callers one finds it approved, and it is consumed by that.

        While it is pending, who asks too early is told so, and has to wait longer from then on; the time counts from
        the last time that was not too early. Another client than the grant's learns and changes nothing.
        """
        args: list[str | int] = [client_id, now, KEPT_SECONDS, SLOWER_SECONDS, LEEWAY_MILLISECONDS]
        answer: Any = await self._poll(keys=[self._key(tenant_id, device_code)], args=args)
        outcome, *rest = answer
        if outcome == "Approved":
            return DevicePoll("Approved", json.loads(rest[0]), json.loads(rest[1]))
        given: Any = json.loads(rest[0]) if rest and rest[0] else None
        return DevicePoll(outcome, given=given)

    async def record_redemption(self, tenant_id: TenantId, device_code: str, client_id: str, given: Document) -> bool:
        """Remember what a grant gave, for a second use to undo. False when one came first: the caller undoes it."""
        args: list[str | int] = [json.dumps(given), KEPT_SECONDS, client_id]
        return not await self._redeemed(keys=[self._key(tenant_id, device_code)], args=args)

    def _key(self, tenant_id: TenantId, device_code: str) -> str:
        return self._prefix(tenant_id) + fingerprint(device_code)

    # Braces: in a cluster both keys of a grant have to be on one node.
    def _prefix(self, tenant_id: TenantId) -> str:
        return self._redis.key("device", f"{{{tenant_id}}}", "")

    def _user_key(self, tenant_id: TenantId, user_code: str) -> str:
        return self._redis.key("device-user", f"{{{tenant_id}}}", fingerprint(user_code))
