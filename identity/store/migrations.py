"""The schema version of the database, and the migrations between versions.

Migrations run at the start of a process, while others serve: each one is idempotent, changes one document at a time,
and continues where an interrupted run ended. Processes that start together may run the same one.

A version is readable by processes of the release before, so that they can be restarted one after the other, unless its
migration says otherwise. A process that does not understand the stored data refuses to start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from identity.errors import StartupError
from identity.store.instance import INSTANCE_ID
from identity.store.mongo import Collection, Database
from identity.store.store_circuit_breaker import time_limit

_log = structlog.get_logger(__name__)

SCHEMA_VERSION: Final = 2
"""The newest schema that this release understands, and the one that it writes. Version 1 is that of 0.1.0."""

READABLE_FROM: Final = 1
"""The oldest schema whose processes understand what this release writes."""

_ID = "schema"
_TOO_NEW = (
    "The database was upgraded by version {release} of the service to the schema {readable_from}, and this is version"
    " {own}, which understands schemas up to {supported}. Install version {release} or a later one, or restore the"
    " backup that was taken before the upgrade (docs/upgrading.md)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """The step to a schema version; `readable_from` is the oldest version whose processes understand the result."""

    version: int
    readable_from: int
    run: Callable[[], Awaitable[object]]


class SchemaVersion:
    """Reads and raises the stored schema version."""

    def __init__(self, database: Database, release: str) -> None:
        self._collection: Collection = database.collection("instance")
        self._release = release

    async def require_supported(self) -> None:
        """Raise StartupError if a later release wrote data that this one does not understand."""
        stored = await self._collection.find_one({"_id": _ID}) or {}
        readable_from = stored.get("readableFrom", 1)
        if readable_from > SCHEMA_VERSION:
            release = stored.get("release", "a later one")
            raise StartupError(
                _TOO_NEW.format(
                    release=release, readable_from=readable_from, own=self._release, supported=SCHEMA_VERSION
                )
            )

    async def record_new_database(self) -> None:
        """Record the newest version in a database without an instance, which has nothing to migrate.

        This runs before the instance is stored, so that processes that start together agree.
        """
        if await self._collection.find_one({"_id": INSTANCE_ID}) is None:
            await self._record(SCHEMA_VERSION, READABLE_FROM)

    async def migrate(self, migrations: Sequence[Migration]) -> None:
        """Run the migrations that the database lacks, in order; the version is stored after each one."""
        stored = await self._collection.find_one({"_id": _ID}) or {}
        for migration in migrations:
            if migration.version <= stored.get("version", 1):
                continue
            _log.info("migrating the database", version=migration.version)
            with time_limit(0):
                await migration.run()
            await self._record(migration.version, migration.readable_from)

    async def _record(self, version: int, readable_from: int) -> None:
        reached = {"version": version, "readableFrom": readable_from}
        await self._collection.update_one(
            {"_id": _ID}, {"$max": reached, "$set": {"release": self._release}}, upsert=True
        )
