"""The example receiver prints what it gets, and believes no signature but the service's."""

from __future__ import annotations

import asyncio
import sys

import httpx
import pytest

from identity.ids import new_id
from tests.conftest import ROOT

EVENTS = {"user.create.complete": True}
EVENT_SETTINGS = {"events": {"user.create.complete": {"enabled": True, "transactionType": "None"}}}


@pytest.fixture
async def receiver(service):
    """The running example, as a process of its own, and its address."""
    arguments = [ROOT / "examples" / "webhook" / "receiver.py", "--port", "0", "--issuer", service.base_url]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    url = (await line(process)).removeprefix("listening on ")
    yield process, url
    process.terminate()
    await process.communicate()


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    return (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()


async def registered(api: httpx.AsyncClient, tenant: dict, url: str, **settings: object) -> None:
    webhook = {"url": url, "connectTimeout": 5000, "readTimeout": 5000, "tenantIds": [tenant["id"]], **settings}
    answer = await api.post("/api/webhook", json={"webhook": {**webhook, "eventsEnabled": EVENTS}})
    assert answer.status_code == 200, answer.text


async def make_user(tenant_api: httpx.AsyncClient, tenant: dict) -> None:
    changes = {"tenant": {"eventConfiguration": EVENT_SETTINGS}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=changes)).status_code == 200
    user = {"email": f"{new_id()}@example.com", "password": "a good password"}
    assert (await tenant_api.post("/api/user", json={"user": user})).status_code == 200


async def test_an_unsigned_event_is_printed(receiver, api, tenant, tenant_api):
    process, url = receiver
    await registered(api, tenant, url)
    await make_user(tenant_api, tenant)
    printed = (await line(process)).split()
    assert (printed[0], printed[2]) == ("user.create.complete", "unsigned")


@pytest.mark.parametrize("wanted", [{"algorithm": "RS256", "length": 2048}, {"algorithm": "ES384"}], ids=str)
async def test_a_signed_event_is_verified(receiver, api, tenant, tenant_api, wanted):
    process, url = receiver
    made = await api.post("/api/key/generate", json={"key": {"name": new_id(), **wanted}})
    key_id = made.json()["key"]["id"]
    await registered(api, tenant, url, signatureConfiguration={"enabled": True, "signingKeyId": key_id})
    await make_user(tenant_api, tenant)
    printed = (await line(process)).split()
    assert (printed[0], printed[2]) == ("user.create.complete", "signed")


async def test_a_repetition_is_told_as_such(receiver):
    process, url = receiver
    event = {"event": {"id": new_id(), "type": "user.create"}}
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(2):
            assert (await client.post(url, json=event)).status_code == 200
    assert "seen before" not in await line(process)
    assert "seen before" in await line(process)


@pytest.mark.parametrize("signature", ["nonsense", "e30.e30.e30", "eyJhbGciOiJub25lIn0.e30."])
async def test_a_forged_signature_is_refused(receiver, signature):
    _, url = receiver
    headers = {"X-FusionAuth-Signature-JWT": signature}
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.post(url, json={"event": {"id": "x"}}, headers=headers)).status_code == 401
