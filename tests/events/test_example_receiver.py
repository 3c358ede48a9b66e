"""The example receiver prints events, and accepts only signatures of the service."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from identity.ids import new_id
from tests import plain_http
from tests.conftest import ROOT
from tests.receiver import receiving

EVENTS = {"user.create.complete": True}
EVENT_SETTINGS = {"events": {"user.create.complete": {"enabled": True, "transactionType": "None"}}}


@asynccontextmanager
async def running(issuer: str, *options: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The running example, as a separate process, and its address."""
    arguments = [ROOT / "examples" / "webhook" / "receiver.py", "--port", "0", "--issuer", issuer, *options]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        yield process, (await line(process)).removeprefix("listening on ")
    finally:
        process.terminate()
        await process.communicate()


@pytest.fixture
async def receiver(service):
    async with running(service.base_url) as found:
        yield found


def plain() -> httpx.AsyncClient:
    """A client other than the service."""
    return plain_http.client()


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


ALGORITHMS = [{"algorithm": "RS256", "length": 2048}, {"algorithm": "ES384"}, {"algorithm": "Ed25519"}]


@pytest.mark.requirement("webhooks-own-10")
@pytest.mark.parametrize("wanted", ALGORITHMS, ids=str)
async def test_a_signed_event_is_verified(service, api, tenant, tenant_api, wanted):
    made = await api.post("/api/key/generate", json={"key": {"name": new_id(), **wanted}})
    key_id = made.json()["key"]["id"]
    async with running(service.base_url, "--signed") as (process, url):
        await registered(api, tenant, url, signatureConfiguration={"enabled": True, "signingKeyId": key_id})
        await make_user(tenant_api, tenant)
        printed = (await line(process)).split()
    assert (printed[0], printed[2]) == ("user.create.complete", "signed")


async def captured(api: httpx.AsyncClient, **settings: object) -> tuple[bytes, dict[str, str]]:
    """A delivery as sent by a webhook with these settings and a shared secret."""
    async with receiving() as wire:
        webhook = {"url": wire.url, "connectTimeout": 5000, "readTimeout": 5000, **settings}
        made = (await api.post("/api/webhook", json={"webhook": webhook})).json()["webhook"]
        secret = (await api.post(f"/api/webhook/{made['id']}/secret", json={})).json()["secret"]
        await api.post(f"/api/webhook/{made['id']}/test", json={})
        request = wire.requests[0]
    wanted = {"webhook-id", "webhook-timestamp", "webhook-signature", "x-fusionauth-signature-jwt"}
    headers = {name: value for name, value in request.headers.items() if name in wanted}
    return request.body, {**headers, "secret": secret}


@pytest.mark.requirement("webhooks-own-10")
async def test_a_shared_secret_is_asked_for_and_verified(service, api):
    body, headers = await captured(api)
    secret = headers.pop("secret")
    mine, theirs = headers["webhook-signature"], f"v1,{base64.b64encode(bytes(32)).decode()}"
    old = str(int(headers["webhook-timestamp"]) - 400)
    async with running(service.base_url, "--secret", secret) as (process, url), plain() as client:
        for change, altered, status in [
            ({}, b"", 200),
            ({"webhook-signature": f"{theirs} {mine}"}, b"", 200),
            ({"webhook-signature": theirs}, b"", 401),
            ({"webhook-signature": "v1a,x v2,y v1"}, b"", 401),
            ({"webhook-signature": ""}, b"", 401),
            ({"webhook-id": new_id()}, b"", 401),
            ({"webhook-timestamp": old}, b"", 401),
            ({"webhook-timestamp": "now"}, b"", 401),
            ({}, b" ", 401),
        ]:
            answer = await client.post(url, content=body + altered, headers={**headers, **change})
            assert answer.status_code == status, (change, altered)
        assert (await client.post(url, content=body)).status_code == 401
        assert (await line(process)).endswith("signed")
        assert (await line(process)).endswith("signed (seen before, nothing done)")


@pytest.mark.requirement("webhooks-own-10")
async def test_replayed_delivery_is_rejected_after_minutes(service, api, clock):
    clock.advance(seconds=-400)
    body, headers = await captured(api)
    async with running(service.base_url, "--secret", headers.pop("secret")) as (_, url), plain() as client:
        assert (await client.post(url, content=body, headers=headers)).status_code == 401


@pytest.mark.requirement("webhooks-own-10")
async def test_the_secret_of_an_hmac_key_verifies_both_kinds_of_signature(service, api):
    secret = f"the secret of an HMAC key of the suite {new_id()}"
    wanted = {"name": new_id(), "type": "HMAC", "algorithm": "HS256", "secret": secret}
    key_id = (await api.post("/api/key/import", json={"key": wanted})).json()["key"]["id"]
    body, headers = await captured(api, signatureConfiguration={"enabled": True, "signingKeyId": key_id})
    del headers["secret"]
    shown = f"whsec_{base64.b64encode(secret.encode()).decode()}"
    other = f"whsec_{base64.b64encode(b'another secret that is as long as that').decode()}"
    for options, expected in [(("--secret", shown), 200), (("--secret", other), 401), ((), 401)]:
        async with running(service.base_url, *options) as (_, url), plain() as client:
            assert (await client.post(url, content=body, headers=headers)).status_code == expected, options


@pytest.mark.requirement("webhooks-own-10")
async def test_an_ed25519_signature_is_verified_with_the_published_keys(service, api):
    made = await api.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "Ed25519"}})
    signing = {"enabled": True, "signingKeyId": made.json()["key"]["id"]}
    body, headers = await captured(api, signatureConfiguration=signing)
    del headers["secret"]
    token = headers.pop("x-fusionauth-signature-jwt")
    forged = {"webhook-signature": f"v1a,{base64.b64encode(bytes(64)).decode()}"}
    async with running(service.base_url, "--signed") as (_, url), plain() as client:
        for change, status in [
            ({}, 200),
            (forged, 401),
            ({"x-fusionauth-signature-jwt": token[:-8] + "AAAAAAAA"}, 401),
        ]:
            assert (await client.post(url, content=body, headers={**headers, **change})).status_code == status, change


async def test_an_event_without_a_signature_is_refused_where_one_is_asked_for(service):
    event = {"event": {"id": new_id(), "type": "user.create"}}
    async with running(service.base_url, "--signed") as (_, url), plain() as client:
        assert (await client.post(url, json=event)).status_code == 401
        # A signature that cannot be verified does not count.
        assert (await client.post(url, json=event, headers={"webhook-signature": "v1,eA=="})).status_code == 401


async def test_without_the_key_set_the_receiver_requests_a_retry(receiver, api):
    made = await api.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})
    signing = {"enabled": True, "signingKeyId": made.json()["key"]["id"]}
    body, headers = await captured(api, signatureConfiguration=signing)
    del headers["secret"]
    async with running("http://127.0.0.1:9") as (_, url), plain() as client:
        assert (await client.post(url, content=body, headers=headers)).status_code == 503


async def test_invalid_event_is_rejected(receiver):
    async with plain() as client:
        for body in (b"", b"{", b"[]", b'{"event": {"id": "x"}}', b'{"event": 5}'):
            assert (await client.post(receiver[1], content=body)).status_code == 400, body


@pytest.mark.requirement("webhooks-own-10")
async def test_repeated_event_is_recognized(receiver):
    process, url = receiver
    event = {"event": {"id": new_id(), "type": "user.create"}}
    async with plain() as client:
        for _ in range(2):
            assert (await client.post(url, json=event)).status_code == 200
    assert "seen before" not in await line(process)
    assert "seen before" in await line(process)


@pytest.mark.parametrize("signature", ["nonsense", "e30.e30.e30", "eyJhbGciOiJub25lIn0.e30."])
async def test_a_forged_signature_is_refused(receiver, signature):
    _, url = receiver
    headers = {"X-FusionAuth-Signature-JWT": signature}
    async with plain() as client:
        assert (await client.post(url, json={"event": {"id": "x"}}, headers=headers)).status_code == 401
