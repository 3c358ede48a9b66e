"""Invalidates the caches of this process through a change stream over the database.

While the stream is down, cache entries live for a second. When it reopens, all caches are cleared, because changes may
have been missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from pymongo.errors import PyMongoError

from identity import background_tasks
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import LOCK_COUNTER, Documents
from identity.store.mongo import Database

_log = structlog.get_logger(__name__)

_RETRY_SECONDS = 0.5


class ChangeListener:
    """Reads the change stream and invalidates changed documents."""

    def __init__(
        self, database: Database, collections: Mapping[str, Documents], stream_status: ChangeStreamStatus
    ) -> None:
        self._database = database
        self._collections = collections
        self._stream_status = stream_status
        self._tasks: list[asyncio.Task[None]] = []
        self._started = asyncio.Event()

    async def start(self) -> None:
        """Start and wait until the stream is open or has failed."""
        self._tasks = [background_tasks.start("change-listener", self._follow_for_ever)]
        await self._started.wait()

    async def stop(self) -> None:
        """Stop; from then on cache entries live for a second."""
        await background_tasks.end(self._tasks)
        self._stream_status.is_streaming = False

    async def _follow_for_ever(self) -> None:
        while True:
            try:
                await self._follow()
            except PyMongoError as error:
                if self._stream_status.is_streaming:
                    _log.warning("change stream lost", error=type(error).__name__)
            finally:
                self._stream_status.is_streaming = False
                self._started.set()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self) -> None:
        # Locking a document for a reference does not change its content: see Documents.lock.
        changed = {"$map": {"input": {"$objectToArray": "$updateDescription.updatedFields"}, "in": "$$this.k"}}
        pipeline: list[dict[str, Any]] = [
            {"$match": {"ns.coll": {"$in": list(self._collections)}, "$expr": {"$ne": [changed, [LOCK_COUNTER]]}}},
            {"$project": {"ns.coll": 1, "documentKey._id": 1, "operationType": 1}},
        ]
        # Entering the block opens the stream at the server; no later change is missed.
        async with self._database.motor.watch(pipeline, max_await_time_ms=1000) as stream:
            for documents in self._collections.values():
                documents.invalidate_all()
            self._stream_status.is_streaming = True
            self._started.set()
            async for change in stream:
                self._invalidate(change)

    def _invalidate(self, change: Mapping[str, Mapping[str, str]]) -> None:
        documents = self._collections.get(change.get("ns", {}).get("coll", ""))
        if documents is not None:
            documents.invalidate(str(change.get("documentKey", {}).get("_id", "")))
