"""SSO sessions in Redis, which expire after an idle timeout.

A session is identified by a secret that only the browser's cookie contains. Its public id (`session_id`, the `sid`
claim) identifies it for callers with an API key.
"""

from __future__ import annotations

import dataclasses

from identity.ids import TenantId, UserId, fingerprint
from identity.instants import Instant
from identity.store.redis import Redis, RedisStore

_CLIENT = "client:"

# A sorted set of a user's sessions by expiry, so that expired sessions do not accumulate.
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

_FIND = "return redis.call('HGETALL', KEYS[1])"

_ADD_CLIENT = """
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], '1')
end
"""

# If the session continues under a new secret, its id already refers to that one and remains.
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


# All sessions of a user; ARGV[2] decides whether they end.
_FIND_OF_USER = """
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
    """The login of a browser; `client_ids` are the applications that participate.

    `second_factor` is the method of the second factor, empty without one. `remaining_ms` is the time until the idle
    timeout and is set only for listed sessions.
    """

    session_id: str
    user_id: UserId
    auth_instant: Instant
    authentication_type: str
    is_persistent: bool
    client_ids: frozenset[str] = frozenset()
    second_factor: str = ""
    remaining_ms: int = dataclasses.field(default=0, compare=False)


class SsoSessions(RedisStore):
    """The sessions of all tenants."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._create = redis.client.register_script(_CREATE)
        self._touch = redis.client.register_script(_TOUCH)
        self._find = redis.client.register_script(_FIND)
        self._add_client = redis.client.register_script(_ADD_CLIENT)
        self._end = redis.client.register_script(_END)
        self._find_of_user = redis.client.register_script(_FIND_OF_USER)

    async def create(self, tenant_id: TenantId, secret: str, session: SsoSession, idle_seconds: int) -> None:
        """Store a session with an idle timeout."""
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
        id_key = self._ids(tenant_id) + session.session_id
        await self._create(keys=[key, users, id_key], args=[str(idle_seconds), fingerprint(secret), *flat])

    async def touch(self, tenant_id: TenantId, secret: str, idle_seconds: int) -> SsoSession | None:
        """The session with this secret; restarts its idle timeout."""
        args: list[int | str] = [idle_seconds, self._users(tenant_id), fingerprint(secret), self._ids(tenant_id)]
        return _session(await self._touch(keys=[self._key(tenant_id, secret)], args=args))

    async def find(self, tenant_id: TenantId, secret: str) -> SsoSession | None:
        """The session with this secret; the idle timeout continues."""
        return _session(await self._find(keys=[self._key(tenant_id, secret)]))

    async def find_by_id(self, tenant_id: TenantId, session_id: str) -> SsoSession | None:
        """The session with this id, with its remaining time; the idle timeout continues."""
        hashed_secret = await self._hashed_secret(tenant_id, session_id)
        if hashed_secret is None:
            return None
        session = _session(await self._find(keys=[self._prefix(tenant_id) + hashed_secret]))
        listed = [] if session is None else await self.find_of_user(tenant_id, session.user_id)
        return next((one for one in listed if one.session_id == session_id), None)

    async def end_by_id(self, tenant_id: TenantId, session_id: str) -> SsoSession | None:
        """End the session with this id and return it."""
        hashed_secret = await self._hashed_secret(tenant_id, session_id)
        return None if hashed_secret is None else await self._end_hashed(tenant_id, hashed_secret)

    async def add_client(self, tenant_id: TenantId, secret: str, client_id: str) -> None:
        """Record that an application participates, so that a logout can notify it."""
        await self._add_client(keys=[self._key(tenant_id, secret)], args=[_CLIENT + client_id])

    async def end(self, tenant_id: TenantId, secret: str) -> SsoSession | None:
        """End the session with this secret and return it."""
        return await self._end_hashed(tenant_id, fingerprint(secret))

    async def end_of_user(self, tenant_id: TenantId, user_id: UserId) -> list[SsoSession]:
        """End all sessions of a user and return them, atomically, so that no session created meanwhile remains."""
        return await self._list_of_user(tenant_id, user_id, "end")

    async def find_of_user(self, tenant_id: TenantId, user_id: UserId) -> list[SsoSession]:
        """All sessions of a user; their idle timeouts continue."""
        return await self._list_of_user(tenant_id, user_id, "find")

    async def _list_of_user(self, tenant_id: TenantId, user_id: UserId, mode: str) -> list[SsoSession]:
        args = [self._prefix(tenant_id), mode, self._ids(tenant_id)]
        found = await self._find_of_user(keys=[self._users(tenant_id) + user_id], args=args)
        return [session for fields in found if (session := _session(fields)) is not None]

    async def _hashed_secret(self, tenant_id: TenantId, session_id: str) -> str | None:
        found = await self._redis.client.get(self._ids(tenant_id) + session_id)
        return None if found is None else str(found)

    async def _end_hashed(self, tenant_id: TenantId, hashed_secret: str) -> SsoSession | None:
        args = [self._users(tenant_id), hashed_secret, self._ids(tenant_id)]
        return _session(await self._end(keys=[self._prefix(tenant_id) + hashed_secret], args=args))

    def _key(self, tenant_id: TenantId, secret: str) -> str:
        return self._prefix(tenant_id) + fingerprint(secret)

    # The hash tag in braces puts a session and the set of its user's sessions on one cluster node.
    def _prefix(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso", f"{{{tenant_id}}}", "")

    def _users(self, tenant_id: TenantId) -> str:
        return self._redis.key("sso-of-user", f"{{{tenant_id}}}", "")

    def _ids(self, tenant_id: TenantId) -> str:
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
