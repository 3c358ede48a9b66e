"""Bulk deletion: deactivate or delete many users, independently of each other."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from identity.call import Call, Document
from identity.errors import Invalid, NotFound, WebhookTransactionFailed
from identity.operations.objects import index_search
from identity.operations.users import users
from identity.services import Services

REQUEST: Final = "api/user-delete.request.json"
_CONCURRENCY = 8
_LOOK_UP_BATCH = 500
_MAXIMUM_NAMES = 10
"""How many users an error message names."""

Operation = Callable[[Services, Call, str], Awaitable[object]]


@dataclasses.dataclass(slots=True)
class _Progress:
    """User ids yet to be processed, users whose change a webhook vetoed, and unexpected errors."""

    remaining: Iterator[str]
    vetoed: list[str]
    failures: list[Exception]


async def delete(services: Services, call: Call, request: Document) -> Document:
    """Deactivate or delete the users that a request names or finds, up to its limit; return their ids.

    A veto for one user does not affect the others. Raises Invalid, and WebhookTransactionFailed after all other users
    have been processed.
    """
    parsed = services.schemas[REQUEST].read(request)
    user_ids = await _select(services, call, parsed)
    if not parsed["dryRun"]:
        await _apply_to_each(services, call, user_ids, users.delete if parsed["hardDelete"] else users.deactivate)
    flags = {name: parsed[name] for name in ("dryRun", "hardDelete")}
    return {**flags, "total": len(user_ids), "userIds": user_ids}


async def _select(services: Services, call: Call, request: Document) -> list[str]:
    """Return the ids of the selected users: `userIds` takes precedence over `query`, and that over `queryString`."""
    if user_ids := request.get("userIds"):
        return await _existing(services, call, user_ids[: request["limit"]])
    if "query" in request or "queryString" in request:
        criteria: Document = {name: request[name] for name in ("query", "queryString") if name in request}
        return await index_search.ids(services.directory.users, call, criteria, request["limit"])
    raise Invalid.field("missing", "userIds", "You must specify the [userIds], or the [queryString].")


async def _existing(services: Services, call: Call, user_ids: Sequence[str]) -> list[str]:
    existing = set[str]()
    for start in range(0, len(user_ids), _LOOK_UP_BATCH):
        found = await services.directory.users.registrations_of_across_tenants(user_ids[start : start + _LOOK_UP_BATCH])
        existing |= {user_id for user_id, (tenant_id, _) in found.items() if call.tenant_id in {None, tenant_id}}
    return [user_id for user_id in user_ids if user_id in existing]


async def _apply_to_each(services: Services, call: Call, user_ids: Sequence[str], operation: Operation) -> None:
    """Run the operation for every user, several at a time.

    Raises WebhookTransactionFailed if any was vetoed. Any other error stops the run and is raised.
    """
    progress = _Progress(iter(user_ids), [], [])
    await asyncio.gather(*(_work(services, call, operation, progress) for _ in range(_CONCURRENCY)))
    if progress.failures:
        raise progress.failures[0]
    if vetoed := progress.vetoed:
        names = ", ".join(sorted(vetoed)[:_MAXIMUM_NAMES]) + (" and others" if len(vetoed) > _MAXIMUM_NAMES else "")
        message = (
            f"A webhook vetoed the change of {len(vetoed)} of {len(user_ids)} users: {names}. The others are done."
        )
        raise WebhookTransactionFailed(message)


async def _work(services: Services, call: Call, operation: Operation, progress: _Progress) -> None:
    for user_id in progress.remaining:
        try:
            await operation(services, call, user_id)
        except WebhookTransactionFailed:
            progress.vetoed.append(user_id)
        except NotFound:
            """Another request deleted the user in the meantime."""
        except Exception as error:  # noqa: BLE001 (raised by the caller when all workers have stopped)
            progress.failures.append(error)
        if progress.failures:
            return
