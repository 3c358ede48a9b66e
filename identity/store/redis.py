"""The Redis client, key names, and the base class of the stores in Redis.

Every key has the prefix of its database and a TTL. Keys contain the SHA-256 of a secret, never the secret.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redis import exceptions

from identity.call import Document
from identity.errors import StartupError
from identity.store import redis_clients
from identity.store.telemetry import StoreTelemetry
from identity.store.vault import Vault

_STARTUP_SECONDS = 10
_HEALTH_SECONDS = 60
_LUA = Path(__file__).with_name("lua")

STORE_ERRORS = (exceptions.RedisError,)
"""The exceptions that a store method may raise when Redis fails."""


class Redis:
    """One Redis database: its client and its key prefix."""

    def __init__(self, url: str, prefix: str, telemetry: StoreTelemetry | None = None) -> None:
        try:
            self.client = redis_clients.connect(url, telemetry or StoreTelemetry())
        except ValueError as error:
            raise StartupError(f"redis.url is not usable: {error}") from error
        self._prefix = prefix

    async def run(self, script: str, keys: Sequence[str], *args: str | bytes | float) -> Any:
        """Atomically run a Lua script from the folder `lua`. Its text is sent once and then referenced by its SHA-1."""
        text, sha = _script(script)
        try:
            return await self.client.execute_command("EVALSHA", sha, len(keys), *keys, *args)
        except exceptions.NoScriptError:
            return await self.client.execute_command("EVAL", text, len(keys), *keys, *args)

    async def set_hash(self, key: str, fields: Mapping[str, Any], ttl_seconds: int) -> None:
        """Atomically write the fields of a new hash and its TTL."""
        await self.run("hash_create", [key], ttl_seconds, *itertools.chain.from_iterable(fields.items()))

    def key(self, *parts: str) -> str:
        """The full name of a key."""
        return ":".join((self._prefix, *parts))

    async def check(self) -> None:
        """Raise StartupError unless the server answers."""
        try:
            # Without a limit, the client retries for minutes if the port accepts connections and never answers.
            async with asyncio.timeout(_STARTUP_SECONDS):
                await self.ping()
        except (exceptions.AuthenticationError, exceptions.ResponseError) as error:
            raise StartupError(f"Redis refused the connection (redis.url): {error}") from error
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            reason = str(error) or f"no answer in {_STARTUP_SECONDS} s"
            raise StartupError(f"Redis does not answer (redis.url): {reason}") from error

    async def ping(self) -> None:
        """One round trip; raises RedisError if the server is unavailable."""
        await self.client.ping()

    async def require_writable(self) -> None:
        """Write a key. Raises RedisError if the server is unavailable, or answers and refuses writes."""
        await self.client.set(self.key("health"), "1", ex=_HEALTH_SECONDS)

    async def close(self) -> None:
        """Close every connection."""
        await self.client.aclose()


@functools.cache
def _script(name: str) -> tuple[str, str]:
    """The text of a Lua script and its SHA-1."""
    text = (_LUA / f"{name}.lua").read_text()
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisStore:
    """The base of the stores in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis


class SealedRedisStore(RedisStore):
    """The base of the stores in Redis whose values are encrypted."""

    def __init__(self, redis: Redis, vault: Vault) -> None:
        super().__init__(redis)
        self._vault = vault

    def _seal(self, document: Document, context: str) -> str:
        return self._vault.seal(json.dumps(document), context)

    def _unseal(self, sealed: str, context: str) -> Document:
        return dict(json.loads(self._vault.unseal(sealed, context)))


def parse_document(text: bytes | str | None) -> Document | None:
    """A document stored as JSON; None for a missing key."""
    document: Document | None = None if text is None else json.loads(text)
    return document
