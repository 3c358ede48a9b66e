"""References are protected, also under concurrent changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from identity import app
from identity.call import Call
from identity.domain.objects.resource_definition import Resource
from identity.errors import Invalid
from identity.ids import new_id
from identity.operations.configuration import applications
from identity.operations.objects import references
from identity.services import Services
from tests import internals
from tests.receiver import until

Document = dict[str, Any]


def call_of(service: app.Service) -> Call:
    return internals.call(service)


async def make_key(api) -> str:
    answer = await api.post("/api/key/generate", json={"key": {"name": f"Key {new_id()}", "algorithm": "ES256"}})
    return str(answer.json()["key"]["id"])


async def hold_and_write(services: Services, document: Document, write: Any) -> None:
    """Write an application in the transaction that holds what it refers to."""
    checks = references.checks(services, applications.RESOURCE, document, None, services.clock.now())
    await services.runtime.database.execute([*checks, write])


async def make_list(api) -> str:
    body = {"ipAccessControlList": {"name": new_id(), "entries": [{"startIPAddress": "*", "action": "Allow"}]}}
    return str((await api.post("/api/ip-acl", json=body)).json()["ipAccessControlList"]["id"])


@pytest.mark.requirement("core-7-delete")
async def test_concurrent_deletion_and_reference_exclude_each_other(api, tenant_api) -> None:
    """Forty keys, each of which is deleted and given to a new application at the same moment."""

    async def race(key_id: str) -> None:
        body = {"application": {"name": new_id(), "jwtConfiguration": {"accessTokenKeyId": key_id}}}
        made, deleted = await asyncio.gather(
            tenant_api.post("/api/application", json=body), api.delete(f"/api/key/{key_id}")
        )
        exists = (await api.get(f"/api/key/{key_id}")).status_code == 200
        assert (made.status_code, deleted.status_code) == ((200, 400) if exists else (400, 200))
        codes = str((deleted if exists else made).json())
        assert "[inUse]keyId" in codes or "[invalid]application.jwtConfiguration.accessTokenKeyId" in codes

    await asyncio.gather(*map(race, [await make_key(api) for _ in range(40)]))


async def test_concurrent_references_to_one_object_succeed(api, tenant_api) -> None:
    key_id = await make_key(api)

    async def make() -> int:
        body = {"application": {"name": new_id(), "jwtConfiguration": {"accessTokenKeyId": key_id}}}
        return (await tenant_api.post("/api/application", json=body)).status_code

    assert await asyncio.gather(*(make() for _ in range(48))) == [200] * 48
    assert "[inUse]keyId" in (await api.delete(f"/api/key/{key_id}")).text


async def test_reference_to_an_object_deleted_meanwhile_is_rejected(service, api, tenant) -> None:
    key_id = await make_key(api)
    document = {"id": new_id(), "tenantId": tenant["id"], "jwtConfiguration": {"idTokenKeyId": key_id}}
    assert (await api.delete(f"/api/key/{key_id}")).status_code == 200
    with pytest.raises(Invalid) as refused:
        await internals.run(service, hold_and_write, document, _never)
    assert str(refused.value) == "[invalid]application.jwtConfiguration.idTokenKeyId"


async def test_deletion_waits_for_a_referencing_transaction(service, api, tenant) -> None:
    """The write of the holder is not visible yet when the other looks for it."""
    services: Services = service.services
    key_id = await make_key(api)
    document = {"id": new_id(), "tenantId": tenant["id"], "jwtConfiguration": {"accessTokenKeyId": key_id}}
    held, go_on = asyncio.Event(), asyncio.Event()

    async def slow_insert(session: Any) -> None:
        await services.configuration.applications.insert(
            tenant["id"], {**document, "name": new_id(), "lastUpdateInstant": 1}, session
        )
        held.set()
        await go_on.wait()

    writing = asyncio.create_task(hold_and_write(services, document, slow_insert))
    await held.wait()
    deleting = asyncio.create_task(api.delete(f"/api/key/{key_id}"))
    await asyncio.wait({deleting}, timeout=0.05)
    go_on.set()
    await writing
    assert "[inUse]keyId" in (await deleting).text
    await services.configuration.applications.delete(tenant["id"], document["id"])


async def test_reference_to_a_key_does_not_invalidate_its_cache(service, api, tenant_api) -> None:
    services: Services = service.services
    key_id, other = await make_key(api), await make_key(api)

    async def refer() -> None:
        body = {"application": {"name": new_id(), "jwtConfiguration": {"accessTokenKeyId": key_id}}}
        assert (await tenant_api.post("/api/application", json=body)).status_code == 200

    await refer()  # the first time makes the member

    async def has_heard(name: str) -> None:
        """Change streams are ordered: after this change all earlier ones have arrived."""
        stored = await services.configuration.keys.get(None, other)
        await services.runtime.database.collection("keys").update_one({"_id": other}, {"$set": {"name": name}})
        assert stored["name"] != name

        async def is_known() -> bool:
            known = await services.configuration.keys.find_cached(None, other)
            return known is not None and known["name"] == name

        await until(is_known)

    await services.configuration.keys.find_cached(None, other)
    await has_heard(new_id())
    before = await services.configuration.keys.find_cached(None, key_id)
    await refer()
    await has_heard(new_id())
    assert await services.configuration.keys.find_cached(None, key_id) is before


async def test_references_are_found_in_members_and_lists_until_they_expire(service, monkeypatch) -> None:
    services: Services = service.services
    rows = (
        references.Reference("tenants", ("a.one", "many"), "keys"),
        references.Reference("tenants", ("private.past.id",), "keys", until="end"),
    )
    monkeypatch.setattr(references, "TABLE", rows)
    resource = Resource("key", "", "", "keys", "", "Key", tenant_scoped=False)
    one, listed, past, free = (new_id() for _ in range(4))
    document = {
        "id": new_id(),
        "a": {"one": one},
        "many": [listed, new_id()],
        "private": {"past": [{"id": past, "end": 1000}, {"id": new_id(), "end": 9000}]},
    }
    await services.configuration.tenants.insert(None, {**document, "name": new_id()})
    try:

        async def refused(key_id: str, now: Any) -> bool:
            try:
                await references.require_unreferenced(services, resource, key_id, now)
            except Invalid as error:
                return str(error) == "[inUse]keyId"
            return False

        assert await refused(one, 0)
        assert await refused(listed, 0)
        assert await refused(past, 999)
        assert not await refused(past, 1000)
        assert not await refused(free, 0)
    finally:
        await services.configuration.tenants.delete(None, document["id"])


@pytest.mark.requirement("core-8-emailConfiguration", "core-9-emailConfiguration")
async def test_reference_lookups_use_an_index(service) -> None:
    """For every row of the table: with many documents a walk through all of them would hold the deletion up."""
    for row in references.TABLE:
        where = references._referring_to(row, new_id(), internals.now(service))
        plan = await internals.database(service).motor.command(
            {"explain": {"find": row.source, "filter": where}, "verbosity": "queryPlanner"}
        )
        assert "COLLSCAN" not in str(plan["queryPlanner"]["winningPlan"]), row
        assert "IXSCAN" in str(plan["queryPlanner"]["winningPlan"]), row


@pytest.mark.requirement("core-8-accessControlConfiguration", "core-9-accessControlConfiguration")
async def test_referenced_access_list_cannot_be_deleted(api, tenant) -> None:
    uses = [
        ("tenant", f"/api/tenant/{tenant['id']}", "PATCH"),
        ("application", "/api/application", "POST"),
    ]
    for wrapper, path, method in uses:
        list_id = await make_list(api)
        body = {wrapper: {"name": new_id(), "accessControlConfiguration": {"uiIPAccessControlListId": list_id}}}
        answer = await api.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        assert "[inUse]ipAccessControlListId" in (await api.delete(f"/api/ip-acl/{list_id}")).text
        cleared = {wrapper: {**body[wrapper], "accessControlConfiguration": {}}}
        await api.put(f"/api/{wrapper}/{answer.json()[wrapper]['id']}", json=cleared)
        assert (await api.delete(f"/api/ip-acl/{list_id}")).status_code == 200


async def _never(_session: Any) -> None:
    raise AssertionError("nothing may be written")
