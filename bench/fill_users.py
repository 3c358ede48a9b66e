"""`python -m bench.fill_users --uri URI --database NAME`: copy one stored user into many, to try a large instance.

The copies go straight into the collection, in the shape that the service stores. They differ in name, email and
instant. `--delete` removes them.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import itertools
import random
import uuid
from collections.abc import Iterator
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorCollection

from identity.domain.users.users import with_derived_members

_FIRST = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Katherine", "Leslie", "Radia")
_LAST = ("Allen", "Backus", "Cerf", "Dijkstra", "Floyd", "Goldberg", "Hopper", "Iverson", "Knuth", "Lamport", "Naur")
_MAIL = "filled.example.com"
_MINUTE = 60_000
_BATCH = 2000


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="bench.fill_users", description="Fill an instance with users.")
    parser.add_argument("--uri", required=True, help="MongoDB")
    parser.add_argument("--database", default="identity")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--delete", action="store_true", help="remove them instead")
    arguments = parser.parse_args()
    asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> None:
    client: AsyncIOMotorClient[dict[str, Any]] = AsyncIOMotorClient(arguments.uri)
    users = client[arguments.database]["users"]
    try:
        if arguments.delete:
            removed = await users.delete_many({"email": {"$regex": f"@{_MAIL}$"}})
            print(f"{removed.deleted_count:,} users removed")
            return
        await _fill(users, arguments.count)
    finally:
        client.close()


async def _fill(users: AsyncIOMotorCollection[dict[str, Any]], count: int) -> None:
    template = await users.find_one({"email": {"$exists": True}})
    if template is None:
        raise SystemExit("create a user with an email address first")
    documents = _copies(template, count)
    while batch := list(itertools.islice(documents, _BATCH)):
        await users.insert_many(batch, ordered=False)
    print(f"{await users.estimated_document_count():,} users")


def _copies(template: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Yield users like the template, one a minute into the past."""
    choose = random.Random(0)
    for number in range(count):
        first, last = choose.choice(_FIRST), choose.choice(_LAST)
        user = copy.deepcopy(template)
        instant = template["insertInstant"] - number * _MINUTE
        user |= {"_id": str(uuid.uuid4()), "firstName": first, "lastName": last, "fullName": f"{first} {last}"}
        user |= {"email": f"{first}.{last}.{number}@{_MAIL}".lower(), "identities": []}
        user |= {"insertInstant": instant, "lastUpdateInstant": instant}
        user["registrations"] = [{**each, "insertInstant": instant} for each in user["registrations"]]
        yield with_derived_members(user)


if __name__ == "__main__":
    main()
