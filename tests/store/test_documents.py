"""The cache of documents and transactions: what was read before a commit is not remembered after it."""

from __future__ import annotations

from identity.ids import new_id


async def test_document_read_during_a_transaction_is_forgotten_when_it_commits(service, tenant) -> None:
    """Deterministic form of a race: a reader caches the old version after the write and before the commit."""
    tenants, database = service.services.tenants, service.services.database
    name = f"Renamed {new_id()}"

    async def write(session) -> None:
        stored = await tenants.find(None, tenant["id"], session)
        changed = {**stored, "name": name, "lastUpdateInstant": stored["lastUpdateInstant"] + 1}
        await tenants.replace(None, changed, stored["lastUpdateInstant"], session)
        assert (await tenants.cached(None, tenant["id"]))["name"] == tenant["name"]

    await database.in_transaction(write)
    assert (await tenants.cached(None, tenant["id"]))["name"] == name
