"""Unknown API keys, counted in Redis per network.

Distinct values are counted, so that a client with an outdated key uses only one attempt, however often it calls. Only
fingerprints are stored, for the duration of the window.
"""

from __future__ import annotations

import collections
from typing import Final

from identity.ids import fingerprint
from identity.store.redis import Redis, RedisStore

DIFFERENT_KEYS: Final = 100
"""The maximum number of distinct unknown keys of a network per window."""
WINDOW_SECONDS: Final = 900
_MAX_ACCEPTED: Final = 10_000

_ADD = """
local wait = redis.call('TTL', KEYS[1])
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then
  return -1
end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return wait
end
redis.call('SADD', KEYS[1], ARGV[1])
if wait < 0 then
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return -1
"""

_WAIT = """
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return redis.call('TTL', KEYS[1])
end
return -1
"""


class FailedApiKeys(RedisStore):
    """The unknown keys of every network, and the valid keys accepted from each network."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._add = redis.client.register_script(_ADD)
        self._wait = redis.client.register_script(_WAIT)
        self._accepted: collections.OrderedDict[tuple[str, str], None] = collections.OrderedDict()

    async def add(self, network: str, key_fingerprint: str) -> int | None:
        """Count an unknown key; returns the seconds to wait if the limit of its network is reached."""
        arguments: list[str | int] = [fingerprint(key_fingerprint), DIFFERENT_KEYS, WINDOW_SECONDS]
        return _seconds(await self._add(keys=[self._key(network)], args=[*arguments]))

    async def wait_seconds(self, network: str, key_id: str) -> int | None:
        """The seconds until a valid key of guessable length is accepted from a network; None if it is accepted now.

        A key that this process has accepted from the network before remains accepted.
        """
        if (network, key_id) in self._accepted:
            self._accepted.move_to_end((network, key_id))
            return None
        wait = _seconds(await self._wait(keys=[self._key(network)], args=[DIFFERENT_KEYS]))
        if wait is None:
            self._accepted[network, key_id] = None
            if len(self._accepted) > _MAX_ACCEPTED:
                self._accepted.popitem(last=False)
        return wait

    def _key(self, network: str) -> str:
        return self._redis.key("failed-api-keys", fingerprint(network))


def _seconds(wait: int) -> int | None:
    return None if wait < 0 else max(1, int(wait))
