"""Trust between the service and receivers: certificates, addresses, and vetoes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from cryptography import x509

from identity.ids import new_id
from identity.operations.webhooks import webhook_deliveries
from tests import certificates, internals
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client
from tests.receiver import Receiver, answers, receiving
from tests.webhooks import make_webhook, put_status, until

HOOK = {"connectTimeout": 2000, "readTimeout": 2000}


# Certificates


@pytest.fixture(scope="module")
async def trusting(build: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """A service whose system trust store has only the authority of the tests."""
    file = tmp_path_factory.mktemp("trust") / "authorities.pem"
    file.write_text(certificates.authority().pem)
    with pytest.MonkeyPatch.context() as machine:
        machine.setenv("SSL_CERT_FILE", str(file))
        async with build() as service, checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api:
            yield api


async def has_attempts(api: httpx.AsyncClient, receiver: Receiver, **members: Any) -> str:
    """The result of a test delivery of a webhook with these members."""
    answer = await api.post("/api/webhook", json={"webhook": {"url": receiver.url, **HOOK, **members}})
    assert answer.status_code == 200, answer.text
    path = f"/api/webhook/{answer.json()['webhook']['id']}/test"
    attempt = (await api.post(path, json={})).json()["webhookAttemptLog"]
    return str(attempt["webhookCallResponse"].get("exception", attempt["attemptResult"]))


@pytest.mark.requirement("webhooks-15.3-31", "webhooks-9-12")
async def test_key_certificate_authenticates_webhook_client(trusting):
    authority = certificates.authority()
    client = certificates.make("client of the authority", authority, address=None)
    wanted = {"type": "EC", "algorithm": "ES256", "certificate": client.pem, "privateKey": client.key_pem}
    imported = (await trusting.post("/api/key/import", json={"key": {"name": new_id(), **wanted}})).json()["key"]
    generated = {"name": new_id(), "algorithm": "ES256"}
    other = (await trusting.post("/api/key/generate", json={"key": generated})).json()["key"]
    context = certificates.server_context(certificates.make("server", authority), client_authority=authority)
    async with receiving(tls=context) as receiver:
        assert await has_attempts(trusting, receiver, sslCertificateKeyId=imported["id"]) == "Success"
        (request,) = receiver.requests
        assert request.peer_certificate is not None
        assert ("commonName", "client of the authority") in [part for (part,) in request.peer_certificate["subject"]]
        for members in ({}, {"sslCertificateKeyId": other["id"]}):
            assert await has_attempts(trusting, receiver, **members) != "Success"
        assert len(receiver.requests) == 1


@pytest.mark.requirement("webhooks-9-12")
async def test_generated_key_has_exportable_certificate(trusting):
    key = (await trusting.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})).json()
    context = certificates.server_context(certificates.make("server", certificates.authority()))
    context.verify_mode = certificates.ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=key["key"]["certificate"])
    async with receiving(tls=context) as receiver:
        assert await has_attempts(trusting, receiver, sslCertificateKeyId=key["key"]["id"]) == "Success"
        peer = receiver.requests[0].peer_certificate
    assert peer is not None
    certificate = x509.load_pem_x509_certificate(key["key"]["certificate"].encode())
    assert int(peer["serialNumber"], 16) == certificate.serial_number


@pytest.mark.requirement("webhooks-9-13")
async def test_deprecated_certificate_replaces_system_trust_store(trusting):
    alone = certificates.make("alone")
    known = certificates.server_context(certificates.make("server", certificates.authority()))
    async with receiving(tls=certificates.server_context(alone)) as own, receiving(tls=known) as usual:
        assert await has_attempts(trusting, own, sslCertificate=alone.pem) == "Success"
        assert (await has_attempts(trusting, own)).startswith("tls: ")
        assert await has_attempts(trusting, usual) == "Success"
        assert (await has_attempts(trusting, usual, sslCertificate=alone.pem)).startswith("tls: ")
        assert (len(own.requests), len(usual.requests)) == (1, 1)


@pytest.mark.requirement("webhooks-9-11")
@pytest.mark.parametrize("days", [(-3, -1), (1, 3)], ids=["expired", "not yet valid"])
async def test_receiver_certificate_outside_validity_period_is_rejected(trusting, days):
    context = certificates.server_context(certificates.make("server", certificates.authority(), days=days))
    async with receiving(tls=context) as receiver:
        assert (await has_attempts(trusting, receiver)).startswith("tls: ")
        assert receiver.requests == []


# Addresses


@pytest.mark.requirement("attack-57", "webhooks-9-14")
async def test_attack_57_blocked_address_is_refused_on_save_and_on_call_and_logged(build):
    """The webhook was saved while its network was allowed; now it is not."""
    async with (
        build(webhooks__allowed_networks="[]") as service,
        receiving() as receiver,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        hook = {"url": receiver.url, **HOOK, "global": True, "eventsEnabled": {"user.create.complete": True}}
        refused = await api.post("/api/webhook", json={"webhook": hook})
        (error,) = refused.json()["fieldErrors"]["webhook.url"]
        remedy = "the address 127.0.0.1 is not public (loopback); webhooks.allowed_networks can let it through."
        assert error == {"code": "[invalid]webhook.url", "message": f"The URL cannot be used: {remedy}"}
        assert (await api.get("/api/webhook")).json() == {"webhooks": []}

        made = await api.post("/api/webhook", json={"webhook": {**hook, "url": "https://example.com/"}})
        webhook_id = made.json()["webhook"]["id"]
        stored = await internals.store(service, "webhooks").get(None, webhook_id)
        await internals.store(service, "webhooks").replace(
            None, {**stored, "url": receiver.url}, stored["lastUpdateInstant"]
        )
        enabled = {"tenant": {"eventConfiguration": {"events": {"user.create.complete": {"enabled": True}}}}}
        assert (await api.patch(f"/api/tenant/{DEFAULT_TENANT}", json=enabled)).status_code == 200
        user = {"user": {"username": new_id(), "password": "password"}}
        user_id = (await api.post("/api/user", json=user)).json()["user"]["id"]
        (log,) = await until(api, user_id, lambda found: bool(found) and bool(found[0]["attempts"]))
        (attempt,) = log["attempts"]
        assert attempt["webhookCallResponse"]["exception"] == f"blocked: The URL may not be called: {remedy}"
        assert attempt["data"]["nextAttemptInstant"] > attempt["endInstant"]
        search = {"search": {"message": webhook_id, "type": "Error"}}
        while not (rows := (await api.post("/api/system/event-log/search", json=search)).json()["eventLogs"]):
            await asyncio.sleep(0.05)
        assert remedy in rows[0]["message"]
        assert receiver.connections == 0


# Vetoes


async def decided(tenant_api: httpx.AsyncClient, tenant: dict[str, Any]) -> int:
    """The status of a change that webhooks have to agree to."""
    enabled = {"user.create": {"enabled": True, "transactionType": "AbsoluteMajority"}}
    change = {"tenant": {"eventConfiguration": {"events": enabled}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=change)).status_code == 200
    user = {"user": {"username": new_id(), "password": "password"}}
    return (await tenant_api.post("/api/user", json=user)).status_code


@pytest.mark.requirement("webhooks-8-2", "webhooks-8-4")
@pytest.mark.parametrize(("status", "expected"), [("Active", 504), ("Paused", 504), ("Disabled", 200)])
async def test_paused_webhook_still_vetoes_and_disabled_one_does_not(api, tenant_api, tenant, status, expected):
    async with receiving(answers(403)) as receiver:
        webhook = await make_webhook(api, tenant, receiver.url, eventsEnabled={"user.create": True})
        await put_status(api, webhook, status)
        assert await decided(tenant_api, tenant) == expected
        assert len(receiver.requests) == (expected == 504)


@pytest.mark.requirement("webhooks-8-4")
async def test_rate_limit_and_ordering_do_not_bypass_veto(api, tenant_api, tenant):
    async with receiving(answers(403)) as receiver:
        limit = {"limit": 1, "periodInSeconds": 3600}
        await make_webhook(
            api, tenant, receiver.url, eventsEnabled={"user.create": True}, rateLimit=limit, ordered=True
        )
        assert [await decided(tenant_api, tenant) for _ in range(3)] == [504, 504, 504]
        assert len(receiver.requests) == 3


@pytest.mark.requirement("webhooks-8-4")
async def test_veto_does_not_count_towards_disabling(service, api, tenant_api, tenant, clock):
    """Otherwise repeated vetoes would disable the webhook and its veto."""
    async with receiving(answers(410)) as receiver:
        webhook = await make_webhook(api, tenant, receiver.url, eventsEnabled={"user.create": True})
        assert await decided(tenant_api, tenant) == 504
        clock.advance(seconds=500_000)
        assert await decided(tenant_api, tenant) == 504
        shown = (await api.get(f"/api/webhook/{webhook['id']}")).json()["webhook"]
        assert "status" not in shown
        rows = internals.database(service).collection("webhook_health")
        assert await rows.find_one({"_id": webhook["id"]}) is None
        recover = webhook_deliveries.RECOVERY_DAYS * 86_400_000
        start = {"startInstant": internals.now(service) - recover + 60_000}
        assert (await api.post(f"/api/webhook/{webhook['id']}/recover", json=start)).json() == {"deliveries": 0}
