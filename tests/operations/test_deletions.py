"""Deletions under concurrent changes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from identity import app
from identity.call import Call
from identity.errors import Conflict
from identity.ids import new_id
from identity.operations.configuration import applications, tenants
from identity.store import mongo
from tests import internals
from tests.conftest import SUPER_KEY, Build, checking_client
from tests.receiver import until


def call_of(service: app.Service) -> Call:
    return internals.call(service)


async def test_update_that_read_before_does_not_bring_a_deleted_tenant_back(
    service: app.Service, tenant: dict[str, Any]
) -> None:
    services = service.services
    call = call_of(service)
    stored = await services.configuration.tenants.get(None, tenant["id"])
    await tenants.delete(services, call, tenant["id"])
    with pytest.raises(Conflict):
        await services.configuration.tenants.replace(None, {**stored, "name": "Back"}, stored["lastUpdateInstant"])
    await tenants.finish_deletions(services)
    assert await services.configuration.tenants.find(None, tenant["id"]) is None


async def make_user(api, tenant_id: str, application_id: str) -> str:
    body = {
        "user": {"username": f"u{new_id()}", "password": "password"},
        "registration": {"applicationId": application_id},
    }
    answer = await api.post("/api/user/registration", json=body, headers={"X-FusionAuth-TenantId": tenant_id})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["user"]["id"])


@pytest.mark.requirement("core-8-delete")
async def test_many_users_go_in_steps_and_a_deletion_that_ended_early_goes_on(
    service, tenant_api, tenant, monkeypatch
) -> None:
    services = service.services
    monkeypatch.setattr(mongo, "CHUNK", 2)
    body = {"application": {"name": new_id()}}
    application = (await tenant_api.post("/api/application", json=body)).json()["application"]
    for _ in range(5):
        await make_user(tenant_api, tenant["id"], application["id"])
    await tenants.delete(services, call_of(service), tenant["id"])
    deleting, steps = mongo.delete_many, []

    async def dies_in_the_second_step(*arguments: Any) -> int:
        if arguments[0].name == "users":
            steps.append(arguments)
        if len(steps) == 2:
            raise ConnectionError
        return await deleting(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(mongo, "delete_many", dies_in_the_second_step)
        with pytest.raises(ConnectionError):
            await tenants.finish_deletion(services, tenant["id"])
    assert await services.directory.users.count(tenant["id"]) == 3
    left = await services.configuration.tenants.get(None, tenant["id"])
    assert left["state"] == "PendingDelete"
    await tenants.finish_deletions(services)
    assert await services.directory.users.count(tenant["id"]) == 0
    assert await services.configuration.applications.count(tenant["id"]) == 0
    assert await services.configuration.tenants.find(None, tenant["id"]) is None
    await tenants.finish_deletion(services, tenant["id"])


@pytest.mark.requirement("core-8-delete-async", "core-8-members")
async def test_deletion_that_was_accepted_goes_on_after_a_restart(build: Build) -> None:
    """Another process resumes it."""
    data_dir = Path(tempfile.mkdtemp(prefix="identity-test-"))
    database = f"test_{new_id()[:13].replace('-', '')}"
    async with build(role="web", data_dir=data_dir, database=database) as first:
        headers = {"Authorization": SUPER_KEY}
        async with checking_client(first.base_url, headers=headers) as api:
            made = (await api.post("/api/tenant", json={"tenant": {"name": "Gone"}})).json()["tenant"]
            assert (await api.delete(f"/api/tenant/{made['id']}", params={"async": "true"})).status_code == 202
            again = await api.delete(f"/api/tenant/{made['id']}", params={"async": "true"})
            assert again.status_code == 202
            shown = (await api.get(f"/api/tenant/{made['id']}")).json()["tenant"]
            assert shown["state"] == "PendingDelete"
    async with build(data_dir=data_dir, database=database) as second:

        async def is_gone() -> bool:
            return await internals.store(second, "tenants").find(None, made["id"]) is None

        await until(is_gone)
        await internals.database(second).drop()
    shutil.rmtree(data_dir, ignore_errors=True)


@pytest.mark.requirement("core-9-hard-delete")
async def test_application_whose_deletion_ended_early_is_no_client_and_is_deleted_again(
    service, tenant_api, http, tenant, monkeypatch
) -> None:
    services = service.services
    body = {"application": {"name": new_id(), "oauthConfiguration": {"authorizedRedirectURLs": ["https://a.example"]}}}
    application = (await tenant_api.post("/api/application", json=body)).json()["application"]
    users = [await make_user(tenant_api, tenant["id"], application["id"]) for _ in range(3)]
    inside = call_of(service).within(tenant["id"])

    async def fails(*_arguments: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(services.directory.users, "remove_registrations", fails)
        with pytest.raises(ConnectionError):
            await applications.delete(services, inside, application["id"])
    path = f"/api/application/{application['id']}"
    assert (await tenant_api.get(path)).json()["application"]["state"] == "Inactive"
    asked = {"client_id": application["id"], "redirect_uri": "https://a.example", "response_type": "code"}
    answer = await http.get("/oauth2/authorize", params=asked)
    assert answer.status_code == 400
    monkeypatch.setattr(mongo, "CHUNK", 2)
    assert (await tenant_api.delete(path, params={"hardDelete": "true"})).status_code == 200
    assert (await tenant_api.get(path)).status_code == 404
    for user_id in users:
        assert (await tenant_api.get(f"/api/user/{user_id}")).json()["user"]["registrations"] == []


@pytest.mark.requirement("core-8-default-tenant", "core-9-administrators")
async def test_administrators_application_stays(api) -> None:
    path = "/api/application/3c219e58-ed0e-4b18-ad48-f4f92793ae32"
    answer = await api.delete(path, params={"hardDelete": "true"})
    assert answer.status_code == 400
    assert "[inUse]applicationId" in answer.text
    assert (await api.get(path)).json()["application"]["active"] is True
