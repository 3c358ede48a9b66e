"""Unknown API keys, counted in Redis per network.

Distinct values are counted, so that a client with an outdated key uses only one attempt, however often it calls. Only
fingerprints are stored, for the duration of the window.
"""

from __future__ import annotations

from typing import Final

from cachetools import LRUCache

from identity.ids import fingerprint
from identity.store.redis import Redis, RedisStore

DIFFERENT_KEYS: Final = 100
"""The maximum number of distinct unknown keys of a network per window."""
WINDOW_SECONDS: Final = 900
_MAX_ACCEPTED: Final = 10_000


class FailedApiKeys(RedisStore):
    """The unknown keys of every network, and the valid keys accepted from each network."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self._accepted: LRUCache[tuple[str, str], bool] = LRUCache(_MAX_ACCEPTED)

    async def add(self, network: str, key_fingerprint: str) -> int | None:
        """Count an unknown key; returns the seconds to wait if the limit of its network is reached."""
        args = (fingerprint(key_fingerprint), DIFFERENT_KEYS, WINDOW_SECONDS)
        return _seconds(await self._redis.run("failed_key_add", [self._key(network)], *args))

    async def wait_seconds(self, network: str, key_id: str) -> int | None:
        """The seconds until a valid key of guessable length is accepted from a network; None if it is accepted now.

        A key that this process has accepted from the network before remains accepted.
        """
        if self._accepted.get((network, key_id)):
            return None
        wait = _seconds(await self._redis.run("failed_key_wait", [self._key(network)], DIFFERENT_KEYS))
        if wait is None:
            self._accepted[network, key_id] = True
        return wait

    def _key(self, network: str) -> str:
        return self._redis.key("failed-api-keys", fingerprint(network))


def _seconds(wait: int) -> int | None:
    return None if wait < 0 else max(1, int(wait))
