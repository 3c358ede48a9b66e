"""Kickstart: expressions, YAML and JSON, errors, and running once."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from identity import app
from identity.domain.objects.kickstart import Source
from identity.errors import StartupError
from identity.ids import new_id
from identity.store.data_dir import SECRETS_FILE
from identity.store.vault import ensure_master_keys
from identity.workers import kickstart
from tests import internals
from tests.conftest import Build, checking_client
from tests.receiver import receiving
from tests.subscriber import check_event

KEY = "the-first-key-of-a-kickstart-0123456789"
TENANT = "0b9d0a55-5a0e-4e0e-8a5c-0000000000aa"
Document = dict[str, Any]


def data_dir_with(folder: Path, **files: str) -> Path:
    """A data directory with a kickstart file and these files next to it; `__` in a name stands for the dot."""
    config = folder / "config"
    config.mkdir(parents=True)
    for name, text in files.items():
        (config / name.replace("__", ".")).write_text(text)
    return folder


def lasting(folder: Path) -> Document:
    """Settings of an instance that is built more than once: its database and master key stay."""
    ensure_master_keys(folder / "master.key")
    return {
        "database": f"test_{new_id()[:13].replace('-', '')}",
        "data_dir": folder / "data",
        "secrets__master_key_file": folder / "master.key",
    }


def client(service: app.Service, **headers: str) -> httpx.AsyncClient:
    return checking_client(service.base_url, headers={"Authorization": KEY, **headers})


async def one_application(service: app.Service, name: str) -> Document:
    async with client(service) as api:
        found = (await api.get("/api/application/search", params={"name": name})).json()["applications"]
    assert len(found) == 1
    return dict(found[0])


@pytest.mark.requirement("core-13-10", "core-13-11", "core-13-12", "core-13-13", "core-13-17", "core-13-9", "service-1")
async def test_every_expression_is_substituted(build: Build, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("KICKSTART_TEST", "from the environment")
    data_dir = data_dir_with(
        tmp_path / "one",
        note__txt='Two "lines"\nof #{who}',
        whole__json=json.dumps(
            {
                "method": "POST",
                "url": "/api/application/#{second}",
                "tenantId": "#{defaultTenantId}",
                "body": {"application": {"name": "Second", "data": "&{data.yaml}"}},
            }
        ),
        data__yaml="from: '#{who}'\nlist: [1, true, 2024-01-31]\n",
    )
    kickstart = f"""
variables:
  defaultTenantId: "{TENANT}"
  who: someone
  greeting: "hello #{{who}}"
  environment: "#{{ENV.KICKSTART_TEST}}"
  second: "#{{UUID()}}"
  secret: "#{{SECRET()}}"
  flag: true
apiKeys: [{{key: "{KEY}"}}]
requests:
  - method: POST
    url: /api/application
    tenantId: "#{{FUSIONAUTH_TENANT_ID}}"
    body:
      application:
        name: First
        data:
          greeting: "#{{greeting}}, #{{who}}"
          environment: "#{{environment}}"
          same: ["#{{second}}", "#{{second}}", "#{{secret}}", "#{{secret}}"]
          note: "@{{note.txt}}"
          escaped: '\\#{{who}} \\@{{note.txt}} \\&{{data.yaml}}'
          flag: "#{{flag}}"
          base: "#{{BASE_URL}}"
          predefined:
            - "#{{FUSIONAUTH_APPLICATION_ID}}"
            - "#{{FUSIONAUTH_DEFAULT_SIGNING_KEY_ID}}"
            - "#{{FUSIONAUTH_FORM[adminUser]_ID}}"
            - "#{{FUSIONAUTH_FORM[adminRegistration]_ID}}"
            - "#{{FUSIONAUTH_LAMBDA[OpenIDReconcile]_ID}}"
            - "#{{TENANT_MANAGER_ID}}"
  - "&{{whole.json}}"
announce: {{Secret: "#{{secret}}"}}
"""
    async with build(data_dir=data_dir, kickstart=kickstart) as service:
        data = (await one_application(service, "First"))["data"]
        second = await one_application(service, "Second")
        kept = (data_dir / SECRETS_FILE).read_text()
        assert (data_dir / SECRETS_FILE).stat().st_mode & 0o777 == 0o600
        signing_keys = await internals.store(service, "keys").find_all(None, {"privateKey": {"$exists": True}})
    assert data["greeting"] == "hello someone, someone"
    assert data["environment"] == "from the environment"
    assert data["same"][0] == data["same"][1] == second["id"]
    assert data["same"][2] == data["same"][3] == service.announcement["Secret"]
    assert len(data["same"][2]) >= 43
    assert kept == f"Secret: {data['same'][2]}\n"
    assert data["note"] == 'Two "lines"\nof someone'
    assert data["escaped"] == "#{who} @{note.txt} &{data.yaml}"
    assert data["flag"] == "true"
    assert data["base"] == service.base_url
    assert data["predefined"][0] == "3c219e58-ed0e-4b18-ad48-f4f92793ae32"
    assert data["predefined"][1] == signing_keys[0]["id"]
    assert len(set(data["predefined"])) == 6
    assert second["tenantId"] == TENANT
    assert second["data"] == {"from": "someone", "list": [1, True, "2024-01-31"]}


@pytest.mark.requirement("core-13-5", "core-13-6")
async def test_json_file_with_all_kinds_of_requests(build: Build) -> None:
    role, other = new_id(), new_id()
    kickstart = {
        "variables": {"application": new_id()},
        "license": "ignored",
        "licenseId": "ignored",
        "settings": {"connectTimeout": 1000, "readTimeout": 60000},
        "apiKeys": [
            {"key": KEY, "id": new_id(), "permissions": {"endpoints": {}}},
            {"key": "key-of-a-tenant-made-later-0123456789", "tenantId": other, "description": "scoped"},
        ],
        "requests": [
            {"method": "POST", "url": f"/api/tenant/{other}", "body": {"tenant": {"name": "Other"}}},
            {
                "method": "POST",
                "url": "/api/application/#{application}",
                "tenantId": other,
                "body": {"application": {"name": "One"}},
            },
            {"method": "PUT", "url": "/api/application/#{application}", "body": {"application": {"name": "Two"}}},
            {
                "method": "PATCH",
                "url": "/api/application/#{application}",
                "contentType": "application/json-patch+json",
                "body": [{"op": "add", "path": "/application/data/patched", "value": True}],
            },
            {
                "method": "POST",
                "url": f"/api/application/#{{application}}/role/{role}",
                "body": {"role": {"name": "reader"}},
            },
        ],
    }
    async with build(kickstart=json.dumps(kickstart)) as service:
        made = await one_application(service, "Two")
        assert made["tenantId"] == other
        assert made["data"] == {"patched": True}
        assert [entry["id"] for entry in made["roles"]] == [role]
        headers = {"Authorization": "key-of-a-tenant-made-later-0123456789"}
        async with checking_client(service.base_url, headers=headers) as scoped:
            assert [t["id"] for t in (await scoped.get("/api/tenant")).json()["tenants"]] == [other]


async def test_default_tenant_may_be_created_by_its_id(build: Build) -> None:
    body = {"tenant": {"id": "#{defaultTenantId}", "name": "Acme", "issuer": "acme.com"}}
    request = {"method": "POST", "url": "/api/tenant/#{defaultTenantId}", "tenantId": TENANT, "body": body}
    kickstart = {"variables": {"defaultTenantId": TENANT}, "apiKeys": [{"key": KEY}], "requests": [request]}
    async with build(kickstart=json.dumps(kickstart)) as service, client(service) as api:
        (tenant,) = (await api.get("/api/tenant")).json()["tenants"]
        assert (tenant["id"], tenant["name"], tenant["issuer"]) == (TENANT, "Acme", "acme.com")
        assert tenant["jwtConfiguration"]["accessTokenKeyId"]


@pytest.mark.requirement("core-13-2")
async def test_random_default_tenant_id_is_consistent(build: Build) -> None:
    kickstart = f"""
variables: {{defaultTenantId: "#{{UUID()}}"}}
apiKeys: [{{key: "{KEY}"}}]
requests:
  - {{method: PATCH, url: "/api/tenant/#{{defaultTenantId}}", body: {{tenant: {{issuer: "https://a.example.com"}}}}}}
"""
    async with build(kickstart=kickstart) as service, client(service) as api:
        tenants = (await api.get("/api/tenant")).json()["tenants"]
    assert [tenant["issuer"] for tenant in tenants] == ["https://a.example.com"]
    assert tenants[0]["id"] == internals.store(service, "default_tenant_id")


@pytest.mark.requirement("core-13-4")
async def test_invalid_file_changes_nothing_and_can_be_corrected(build: Build, tmp_path: Path) -> None:
    settings = lasting(tmp_path)
    for wrong in ("apiKeys: [", "apiKeys: [{key: '#{unknown}'}]"):
        with pytest.raises(StartupError):
            async with build(**settings, kickstart=wrong):
                pass
    right = f'apiKeys: [{{key: "{KEY}"}}]'
    async with build(**settings, kickstart=right) as service, client(service) as api:
        assert (await api.get("/api/tenant")).status_code == 200
        await internals.database(service).drop()


@pytest.mark.requirement("core-13-15", "service-3")
async def test_failing_request_stops_run_and_is_named(build: Build, tmp_path: Path) -> None:
    kickstart = f"""
apiKeys: [{{key: "{KEY}"}}]
requests:
  - method: POST
    url: /api/webhook
    body:
      webhook:
        {{url: "http://127.0.0.1:8999/", connectTimeout: 1, readTimeout: 1, global: true,
          eventsEnabled: {{kickstart.success: true}}}}
  - {{method: POST, url: /api/application, body: {{application: {{oauthConfiguration: {{debug: 5}}}}}}}}
  - {{method: POST, url: /api/application, body: {{application: {{name: Third}}}}}}
"""
    settings = {**lasting(tmp_path), "kickstart": kickstart}
    with pytest.raises(StartupError) as refused:
        async with build(**settings):
            pass
    message = str(refused.value)
    assert "request 2 (POST /api/application) was answered with 400" in message
    assert "[blank]application.name" in message
    assert "application.oauthConfiguration.debug" in message
    with structlog.testing.capture_logs() as logs:
        async with build(**settings) as service, client(service) as api:
            names = {one["name"] for one in (await api.get("/api/application")).json()["applications"]}
            emitted = await internals.database(service).collection("events").count_documents({})
            await internals.database(service).drop()
    assert [entry["log_level"] for entry in logs if "earlier kickstart failed" in entry["event"]] == ["warning"]
    assert names == {"FusionAuth"}
    assert emitted == 0


@pytest.mark.requirement("core-13-4")
async def test_refused_api_key_is_reported_without_value(build: Build) -> None:
    kickstart = f'apiKeys: [{{key: "{KEY}"}}, {{key: "{KEY}", description: again}}]'
    with pytest.raises(StartupError) as refused:
        async with build(kickstart=kickstart):
            pass
    assert "the API key [again] was refused: [duplicate]apiKey.key" in str(refused.value)
    assert KEY not in str(refused.value)


@pytest.mark.requirement("core-13-16", "event-kickstart.success", "service-22", "service-4")
async def test_success_emits_one_event(build: Build) -> None:
    async with receiving() as receiver:
        kickstart = f"""
apiKeys: [{{key: "{KEY}"}}]
requests:
  - method: POST
    url: /api/webhook
    body:
      webhook:
        {{url: "{receiver.url}", connectTimeout: 2000, readTimeout: 2000, global: true,
          eventsEnabled: {{kickstart.success: true}}}}
"""
        async with build(kickstart=kickstart) as service:
            (request,) = await receiver.wait_for(1)
            events = [event async for event in internals.database(service).collection("events").find({})]
            async with client(service) as api:
                webhooks = (await api.get("/api/webhook")).json()["webhooks"]
    assert len(webhooks) == len(events) == 1
    check_event(request.event)
    assert request.event["type"] == "kickstart.success"
    assert request.event.keys() == {"createInstant", "id", "instanceId", "type"}


@pytest.mark.requirement("core-13-1", "design-config-10")
async def test_kickstart_runs_once_on_new_instance_only(build: Build, tmp_path: Path) -> None:
    settings = lasting(tmp_path)
    async with build(**settings, kickstart=f'apiKeys: [{{key: "{KEY}"}}]'):
        pass
    for later in ("neither [ nor", f'apiKeys: [{{key: "{KEY}"}}, {{key: another}}]'):
        async with build(**settings, kickstart=later) as service, client(service) as api:
            assert (await api.get("/api/tenant")).status_code == 200
            assert await internals.store(service, "api_keys").count(None) == 1


async def test_concurrent_processes_run_kickstart_once(build: Build, configured: Any, tmp_path: Path) -> None:
    database = f"test_{new_id()[:13].replace('-', '')}"
    kickstart = f"""
apiKeys: [{{key: "{KEY}"}}]
requests: [{{method: POST, url: /api/application, body: {{application: {{name: Only once}}}}}}]
announce: {{Key: shown}}
"""
    config = configured(tmp_path / "one", database=database, kickstart=kickstart)
    services = await asyncio.gather(*(app.build(config) for _ in range(3)))
    try:
        await asyncio.gather(*(service.start() for service in services))
        assert sorted(bool(service.announcement) for service in services) == [False, False, True]
        for service in services:
            await one_application(service, "Only once")
            async with client(service) as api:
                assert len((await api.get("/api/tenant")).json()["tenants"]) == 1
    finally:
        await internals.database(services[0]).drop()
        for service in services:
            await service.stop()


@pytest.mark.requirement("start-1")
async def test_process_that_was_suspended_leaves_the_kickstart_to_the_next_one(build: Build) -> None:
    source = Source(
        f'{{"apiKeys": [{{"key": "{KEY}"}}], "requests": [{{"method": "POST", "url": "/api/x"}}]}}', str, {}
    )
    kept: list[Any] = []
    async with build(kickstart=None) as service, kickstart.claimed(service.services) as claim:
        assert claim is not None
        changed = {"$set": {"kickstart.owner": "another process"}}
        await internals.database(service).collection("instance").update_one({"_id": "instance"}, changed)
        with pytest.raises(StartupError, match="another one has taken the first start over"):
            await internals.run(service, kickstart.run, claim, source, service.base_url, service.base_url, kept.append)
        assert await internals.store(service, "instance").is_kickstart_unfinished()
    assert kept == [{}]


@pytest.mark.requirement("start-1")
async def test_commands_wait_for_the_completion_of_an_interrupted_kickstart(build: Build) -> None:
    async with build(kickstart=None) as service, kickstart.claimed(service.services):
        with pytest.raises(StartupError, match="first start of this instance has not been completed"):
            async with app.recovery(internals.config(service)):
                pass
