"""Unknown API keys, counted in Redis by the network that presented them.

Different values are counted, so that a client with an outdated key, however often it calls, uses up one attempt. Only
fingerprints are stored, and only for the time of the window.
"""

from __future__ import annotations

import collections
from typing import Final

from identity.ids import fingerprint
from identity.store.redis import Redis

DIFFERENT_KEYS: Final = 100
"""How many different unknown keys a network may present in a window."""
WINDOW_SECONDS: Final = 900
_REMEMBERED: Final = 10_000

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


class FailedApiKeys:
    """The unknown keys of every network, and the networks from which keys are known to be used."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._add = redis.client.register_script(_ADD)
        self._wait = redis.client.register_script(_WAIT)
        self._used: collections.OrderedDict[tuple[str, str], None] = collections.OrderedDict()

    async def add(self, network: str, key_fingerprint: str) -> int | None:
        """Count an unknown key; the seconds to wait if its network presented too many others."""
        arguments: list[str | int] = [fingerprint(key_fingerprint), DIFFERENT_KEYS, WINDOW_SECONDS]
        return _seconds(await self._add(keys=[self._key(network)], args=[*arguments]))

    async def wait_seconds(self, network: str, key_id: str) -> int | None:
        """The seconds to wait before a guessable key is accepted from a network; None if it is accepted now.

        A key that this process has accepted from the network before stays accepted.
        """
        if (network, key_id) in self._used:
            self._used.move_to_end((network, key_id))
            return None
        wait = _seconds(await self._wait(keys=[self._key(network)], args=[DIFFERENT_KEYS]))
        if wait is None:
            self._used[network, key_id] = None
            if len(self._used) > _REMEMBERED:
                self._used.popitem(last=False)
        return wait

    def _key(self, network: str) -> str:
        return self._redis.key("failed-api-keys", fingerprint(network))


def _seconds(wait: int) -> int | None:
    return None if wait < 0 else max(1, int(wait))
