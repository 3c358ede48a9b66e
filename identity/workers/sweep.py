"""The sweeper: completes accepted work that was interrupted, such as the deletion of a tenant, and expires data."""

from __future__ import annotations

import asyncio

import structlog

from identity import background_tasks
from identity.operations import retention
from identity.operations.configuration import tenants
from identity.operations.groups import groups
from identity.operations.user_actions import action_expiry
from identity.operations.users import erasure, unverified_user_cleanup, user_consents, user_import
from identity.services import Services
from identity.store import mongo, outages

_log = structlog.get_logger(__name__)

_INTERVAL_SECONDS = 10.0


class Sweeper:
    """Looks for unfinished work every ten seconds, in every process: all of it is idempotent."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the loop."""
        self._tasks = [background_tasks.start("sweep", self._sweep_forever)]

    async def stop(self) -> None:
        """Stop the loop; unfinished work is found again later."""
        await background_tasks.end(self._tasks)

    async def _sweep_forever(self) -> None:
        while True:
            try:
                await tenants.finish_deletions(self._services)
                await groups.finish_deletions(self._services)
                await retention.sweep(self._services)
                await unverified_user_cleanup.sweep_hourly(self._services)
                await user_import.undo_abandoned(self._services)
                await user_consents.send_second_mails(self._services)
                await action_expiry.sweep(self._services)
                await erasure.sweep_regularly(self._services)
            except mongo.STORE_ERRORS as error:
                _log.warning("sweep interrupted", outage=outages.reason(error))
            await asyncio.sleep(_INTERVAL_SECONDS)
