"""SSO sessions in Redis: who logged in, when and how, until the browser has been idle for too long.

A session is known by a secret that only the browser's cookie holds; `session_id` is its public name (`sid`), by which
callers with an API key find it.
"""

from __future__ import annotations

import dataclasses

from identity.ids import TenantId, UserId, fingerprint
from identity.instants import Instant
from identity.store.redis import Redis

_CLIENT = "client:"

# A user's sessions by their ends: who logs in again and again must not leave a growing list of what is long over.
_LIST = """
local function list(users, hash, idle)
  local now = tonumber(redis.call('TIME')[1])
  redis.call('ZREMRANGEBYSCORE', users, '-inf', now)
  redis.call('ZADD', users, now + idle, hash)
  if redis.call('TTL', users) < idle then
    redis.call('EXPIRE', users, idle)
  end
end
"""

_CREATE = (
    _LIST
    + """
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('SET', KEYS[3], ARGV[2], 'EX', ARGV[1])
list(KEYS[2], ARGV[2], tonumber(ARGV[1]))
"""
)

_TOUCH = (
    _LIST
    + """
local fields = redis.call('HGETALL', KEYS[1])
if #fields == 0 then
  return fields
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
list(ARGV[2] .. redis.call('HGET', KEYS[1], 'user'), ARGV[3], tonumber(ARGV[1]))
redis.call('SET', ARGV[4] .. redis.call('HGET', KEYS[1], 'id'), ARGV[3], 'EX', ARGV[1])
return fields
"""
)

_LOOK = "return redis.call('HGETALL', KEYS[1])"

_JOIN = """
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], '1')
end
"""

# The name of a session that goes on under another secret leads there already, and stays.
_END = """
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 0 then
  local name = ARGV[3] .. redis.call('HGET', KEYS[1], 'id')
  redis.call('ZREM', ARGV[1] .. redis.call('HGET', KEYS[1], 'user'), ARGV[2])
  if redis.call('GET', name) == ARGV[2] then
    redis.call('DEL', name)
  end
  redis.call('DEL', KEYS[1])
end
return fields
"""


# Every session of a user, which ends with it unless it is only looked at.
_ALL = """
local found = {}
for _, hash in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local key = ARGV[1] .. hash
  local fields = redis.call('HGETALL', key)
  if #fields > 0 then
    fields[#fields + 1] = 'left'
    fields[#fields + 1] = tostring(redis.call('PTTL', key))
    found[#found + 1] = fields
    if ARGV[2] == 'end' then
      redis.call('DEL', ARGV[3] .. redis.call('HGET', key, 'id'), key)
    end
  end
end
if ARGV[2] == 'end' then
  redis.call('DEL', KEYS[1])
end
return found
"""


@dataclasses.dataclass(frozen=True, slots=True)
class SsoSession:
    """One login of one browser; `client_ids` are the applications that joined it.

    `second_factor` is the method of the second factor, empty where there was none. `left_ms` is how long the session
    goes on without use, and known only where sessions are listed.
    """

    session_id: str
    user_id: UserId
    auth_instant: Instant
    authentication_type: str
    is_persistent: bool
    client_ids: frozenset[str] = frozenset()
    second_factor: str = ""
    left_ms: int = dataclasses.field(default=0, compare=False)


class SsoSessions:
    """The sessions of all tenants."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._create = redis.client.register_script(_CREATE)
        self._touch = redis.client.register_script(_TOUCH)
        self._look = redis.client.register_script(_LOOK)
        self._join = redis.client.register_script(_JOIN)
        self._end = redis.client.register_script(_END)
        self._all = redis.client.register_script(_ALL)

    async def create(self, tenant_id: TenantId, secret: str, session: SsoSession, idle_seconds: int) -> None:
        """Begin a session that ends after `idle_seconds` without use."""
        key, users = self._key(tenant_id, secret), self._users(tenant_id) + session.user_id
        fields: dict[str, str] = {
            "id": session.session_id,
            "user": session.user_id,
            "auth": str(session.auth_instant),
            "type": session.authentication_type,
            "persistent": str(int(session.is_persistent)),
            "second": session.second_factor,
            **{_CLIENT + client_id: "1" for client_id in session.client_ids},
        }
        flat = [text for field in fields.items() for text in field]
        name = self._names(tenant_id) + session.session_id
        await self._create(keys=[key, users, name], args=[str(idle_seconds), fingerprint(secret), *flat])

    async def touch(self, tenant_id: TenantId, secret: str, idle_seconds: int) -> SsoSession | None:
        """The session of a browser, if it still lives; its idle time begins anew."""
        args: list[int | str] = [idle_seconds, self._users(tenant_id), fingerprint(secret), self._names(tenant_id)]
        return _session(await self._touch(keys=[self._key(tenant_id, secret)], args=args))

    async def find(self, tenant_id: TenantId, secret: str) -> SsoSession | None:
        """The session of a browser, if it still lives; being looked at is no use."""
        return _session(await self._look(keys=[self._key(tenant_id, secret)]))

    async def find_by_id(self, tenant_id: TenantId, session_id: str) -> SsoSession | None:
        """The live session of a name, with how long it goes on; being looked at is no use."""
        hashed = await self._hashed(tenant_id, session_id)
        session = None if hashed is None else _session(await self._look(keys=[self._prefix(tenant_id) + hashed]))
        every = [] if session is None else await self.find_of_user(tenant_id, session.user_id)
        return next((one for one in every if one.session_id == session_id), None)

    async def end_by_id(self, tenant_id: TenantId, session_id: str) -> SsoSession | None:
        """End the session of a name; answers what it was."""
        hashed = await self._hashed(tenant_id, session_id)
        return None if hashed is None else await self._end_hashed(tenant_id, hashed)

    async def add_client(self, tenant_id: TenantId, secret: str, client_id: str) -> None:
        """Remember that an application took part, so that a logout can tell it."""
        await self._join(keys=[self._key(tenant_id, secret)], args=[_CLIENT + client_id])

    async def end(self, tenant_id: TenantId, secret: str) -> SsoSession | None:
        """End a session; answers what it was."""
        return await self._end_hashed(tenant_id, fingerprint(secret))

    async def end_of_user(self, tenant_id: TenantId, user_id: UserId) -> list[SsoSession]:
        """End every session of a user in one step, so that none begins in between and stays; answers what they were."""
        return await self._every(tenant_id, user_id, "end")

    async def find_of_user(self, tenant_id: TenantId, user_id: UserId) -> list[SsoSession]:
        """Every session of a user; being looked at is no use."""
        return await self._every(tenant_id, user_id, "look")

    async def _every(self, tenant_id: TenantId, user_id: UserId, deed: str) -> list[SsoSession]:
        args = [self._prefix(tenant_id), deed, self._names(tenant_id)]
        found = await self._all(keys=[self._users(tenant_id) + user_id], args=args)
        return [session for fields in found if (session := _session(fields)) is not None]

    async def _hashed(self, tenant_id: TenantId, session_id: str) -> str | None:
        found = await self._redis.client.get(self._names(tenant_id) + session_id)
        return None if found is None else str(found)

    async def _end_hashed(self, tenant_id: TenantId, hashed: str) -> SsoSession | None:
        args = [self._users(tenant_id), hashed, self._names(tenant_id)]
        return _session(await self._end(keys=[self._prefix(tenant_id) + hashed], args=args))

    def _key(self, tenant_id: TenantId, secret: str) -> str:
        return self._prefix(tenant_id) + fingerprint(secret)

    # Braces: in a cluster a session and the list of its user's sessions have to be on one node.
    def _prefix(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso", f"{{{tenant_id}}}", "")

    def _users(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso-of-user", f"{{{tenant_id}}}", "")

    def _names(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso-named", f"{{{tenant_id}}}", "")


def _session(flat: list[str]) -> SsoSession | None:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    if not fields:
        return None
    return SsoSession(
        fields["id"],
        UserId(fields["user"]),
        Instant(int(fields["auth"])),
        fields["type"],
        fields["persistent"] == "1",
        frozenset(name.removeprefix(_CLIENT) for name in fields if name.startswith(_CLIENT)),
        fields.get("second", ""),
        int(fields.get("left", "0")),
    )
