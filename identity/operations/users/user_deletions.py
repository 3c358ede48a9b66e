"""Many users at once: deactivated, or removed for good, each as if it were the only one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from identity.call import Call, Document
from identity.errors import Invalid, NotFound, WebhookTransactionFailed
from identity.operations.objects import index_search
from identity.operations.users import users
from identity.services import Services

REQUEST: Final = "api/user-delete.request.json"
_AT_A_TIME = 8
_LOOKED_UP = 500
_NAMED = 10
"""How many users a message names."""

Deed = Callable[[Services, Call, str], Awaitable[object]]


async def delete(services: Services, call: Call, request: Document) -> Document:
    """Deactivate or remove the users that a request names or finds, at most so many; answers who they are.

    Users do not depend on each other: one whom a webhook keeps from going does not keep the others. Raises Invalid,
    and WebhookTransactionFailed after all the others are gone.
    """
    wanted = services.schemas[REQUEST].read(request)
    user_ids = await _chosen(services, call, wanted)
    if not wanted["dryRun"]:
        await _each(services, call, user_ids, users.delete if wanted["hardDelete"] else users.deactivate)
    found = {name: wanted[name] for name in ("dryRun", "hardDelete")}
    return {**found, "total": len(user_ids), "userIds": user_ids}


async def _chosen(services: Services, call: Call, wanted: Document) -> list[str]:
    """The ids of the users that are meant: `userIds` win over `query`, and that over `queryString`."""
    if named := wanted.get("userIds"):
        return await _existing(services, call, named[: wanted["limit"]])
    if "query" in wanted or "queryString" in wanted:
        criteria: Document = {name: wanted[name] for name in ("query", "queryString") if name in wanted}
        return await index_search.ids(services.users, call, criteria, wanted["limit"])
    message = "You must specify the [userIds], or the [queryString]."
    raise Invalid.field("missing", "userIds", message)


async def _existing(services: Services, call: Call, user_ids: Sequence[str]) -> list[str]:
    found: dict[str, object] = {}
    for at in range(0, len(user_ids), _LOOKED_UP):
        there = await services.users.registrations_of_across_tenants(user_ids[at : at + _LOOKED_UP])
        found |= {one: None for one, (tenant_id, _) in there.items() if call.tenant_id in {None, tenant_id}}
    return [one for one in user_ids if one in found]


async def _each(services: Services, call: Call, user_ids: Sequence[str], deed: Deed) -> None:
    """Do it to all of them, some at a time. Raises WebhookTransactionFailed when any was kept, and what ended it."""
    rest, kept, failures = iter(user_ids), list[str](), list[Exception]()

    async def work() -> None:
        for user_id in rest:
            try:
                await deed(services, call, user_id)
            except WebhookTransactionFailed:
                kept.append(user_id)
            except NotFound:
                """Somebody else removed the user meanwhile, which is just as well."""
            except Exception as error:  # noqa: BLE001 (raised below, when the others have come to a stop)
                failures.append(error)
            if failures:
                return

    await asyncio.gather(*(work() for _ in range(_AT_A_TIME)))
    if failures:
        raise failures[0]
    if kept:
        names = ", ".join(sorted(kept)[:_NAMED]) + (" and others" if len(kept) > _NAMED else "")
        message = f"A webhook kept {len(kept)} of {len(user_ids)} users as they were: {names}. The others are done."
        raise WebhookTransactionFailed(message)
