"""identity doctor: what it finds in a running instance, and identity check-config with mail servers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from identity.cli import exit_codes
from identity.operations import status
from identity.store import outages
from tests import internals, webhooks
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, checking_client
from tests.console import administrator
from tests.operator.processes import run
from tests.ports import free_port


@pytest.mark.requirement("ship-16")
async def test_every_part_of_a_working_instance_is_examined(identity):
    done = await identity("doctor", "--json")
    findings = {finding["check"]: finding for finding in done.json}
    assert {"health", "clock", "version", "mongodb", "redis", "issuers", "keys", "webhooks"} <= findings.keys()
    assert {findings[name]["level"] for name in ("health", "clock", "version", "mongodb", "redis")} <= {"ok", "warning"}
    assert "mongodb" in (await identity("doctor")).out


@pytest.mark.requirement("operate-13", "ship-16")
async def test_redis_that_refuses_writes_is_found_with_its_reason(identity, monkeypatch):
    async def refused(_services: object) -> Exception:
        return outages.RedisRefusal("for a test", "MISCONF")

    monkeypatch.setattr(status, "_redis_failure", refused)
    done = await identity("doctor", "--json")
    assert done.code == exit_codes.FAILURE
    findings = {finding["check"]: finding for finding in json.loads(done.out[done.out.index("[\n") :])}
    assert findings["health"]["text"] == "/api/health responds with 503: Redis refuses writes (MISCONF)."
    assert findings["redis"]["text"] == "refuses writes: MISCONF: the server cannot write to its disk"


@pytest.mark.requirement("ship-16")
async def test_disabled_webhook_is_found_with_its_remedy(identity, api, tenant):
    webhook = await webhooks.make_webhook(api, tenant, f"http://127.0.0.1:{free_port()}/")
    await api.put(f"/api/webhook/{webhook['id']}/status", json={"status": "Disabled"})
    found = [one for one in (await identity("doctor", "--json")).json if webhook["url"] in one["text"]]
    assert [(one["level"], one["check"]) for one in found] == [("warning", "webhooks")]
    assert "Disabled" in found[0]["text"]
    assert found[0]["remedy"]


@pytest.mark.requirement("ship-16")
async def test_shared_issuer_is_a_warning(identity, api, tenant):
    other = (await api.post("/api/tenant", json={"tenant": {"name": f"Other {tenant['id']}"}})).json()["tenant"]
    issuer = f"https://shared-{tenant['id']}.example.com"
    for one in (tenant, other):
        answer = await api.patch(f"/api/tenant/{one['id']}", json={"tenant": {"issuer": issuer}})
        assert answer.status_code == 200
    found = [one for one in (await identity("doctor", "--json")).json if issuer in one["text"]]
    assert [(one["level"], one["check"]) for one in found if "is the issuer of" in one["text"]] == [
        ("warning", "issuers")
    ]
    for one in (tenant, other):
        await api.delete(f"/api/tenant/{one['id']}")


@pytest.mark.requirement("console-25", "ship-16")
async def test_tenant_administrator_without_a_tenant_is_found(identity, api):
    user = await administrator.make(api, "tenant-admin", data={})
    found = [one for one in (await identity("doctor", "--json")).json if user["id"] in one["text"]]
    assert [(one["level"], one["check"]) for one in found] == [("warning", "administrators")]
    await api.delete(f"/api/user/{user['id']}", params={"hardDelete": "true"})


@pytest.mark.requirement("ship-16")
async def test_missing_service_and_missing_permission_are_faults(identity, service):
    gone = await identity("doctor", "--json", IDENTITY_URL="http://127.0.0.1:9")
    assert gone.code == exit_codes.FAILURE
    assert "does not answer" in gone.out
    wrong = await identity("doctor", IDENTITY_API_KEY="wrong", IDENTITY_URL=service.base_url)
    assert wrong.code == exit_codes.FAILURE
    assert "401" in wrong.out


@pytest.mark.requirement("ship-15")
async def test_check_config_names_mail_servers_that_cannot_be_used(api, service, tenant):
    settings = service.services.config
    login = {"username": "mailer", "password": "hunter2-of-the-mailer"}
    email = {"host": "127.0.0.1", "port": free_port(), "security": "TLS", **login}
    answer = await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": {"emailConfiguration": email}})
    assert answer.status_code == 200, answer.text
    stores = {
        "mongodb__uri": settings.mongodb.uri, "mongodb__database": settings.mongodb.database,
        "redis__url": settings.redis.url, "kickstart__file": "null", "email__allowed_networks": "[127.0.0.0/8]",
        "console_email__host": "127.0.0.1", "console_email__port": str(free_port()),
    }  # fmt: skip
    done = await asyncio.to_thread(run, Path(settings.data_dir), "check-config", "--json", **stores)
    assert done.returncode == 0, done.stderr
    (of_console,) = [one for one in json.loads(done.stdout)["warnings"] if "of the console cannot be used" in one]
    assert "correct console_email" in of_console
    (warning,) = [one for one in json.loads(done.stdout)["warnings"] if tenant["name"] in one]
    assert f"the mail server 127.0.0.1:{email['port']} of the tenant {tenant['name']} cannot be used" in warning
    assert "correct emailConfiguration" in warning
    assert "hunter2" not in done.stdout
    none = {"tenant": {"emailConfiguration": {"host": "localhost", "username": None}}}
    await api.patch(f"/api/tenant/{tenant['id']}", json=none)


@pytest.mark.requirement("start-2")
async def test_lost_master_key_is_reported_while_the_process_runs(service, api, identity):
    file = internals.config(service).master_key_file
    lost = file.with_name("lost.key")
    file.rename(lost)
    try:
        status = (await api.get("/api/status")).json()
        findings = (await identity("doctor")).out
    finally:
        lost.rename(file)
    assert f"{file} does not exist" in status["masterKey"]
    assert "The master key file" in findings
    assert (await api.get("/api/status")).json().keys() == {"version", "mongodb", "redis"}


@pytest.mark.requirement("start-10")
async def test_issuer_and_base_url_are_compared_with_the_address(build, identity):
    async with build(server__base_url="https://login.example.com") as restored:
        own = {"IDENTITY_URL": f"http://0.0.0.0:{restored.port}", "IDENTITY_API_KEY": MANAGER_KEY}
        async with checking_client(f"http://127.0.0.1:{restored.port}", headers={"Authorization": MANAGER_KEY}) as api:
            issuer = {"tenant": {"issuer": "https://old.example.com"}}
            assert (await api.patch(f"/api/tenant/{DEFAULT_TENANT}", json=issuer)).status_code == 200
        findings = (await identity("doctor", "--json", **own)).out
    assert "the service calls itself https://login.example.com, and answers at http://" in findings
    assert "is https://old.example.com, and the service answers at https://login.example.com" in findings
