"""Webhooks at blocked addresses are refused when saved and when called."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests import internals
from tests.api.test_webhooks import webhook_body
from tests.conftest import SUPER_KEY, checking_client
from tests.outbound.test_http_attacks import listening
from tests.receiver import receiving
from tests.receiver import until as is_so
from tests.webhooks import event_log_messages, has_attempts, make_user, make_webhook, until

ONLY = "127.0.0.2/32"


@pytest.mark.requirement("webhooks-15.3-40")
async def test_allowed_networks_open_only_named_addresses(build):
    async with (
        build(webhooks__allowed_networks=f'["{ONLY}"]') as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
        receiving() as other,
        listening("127.0.0.2", other.port) as listener,
    ):
        inside = ("127.0.0.1", "127.0.0.3", "localhost", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254")
        for host in inside:
            answer = await api.post("/api/webhook", json=webhook_body(url=f"http://{host}:{other.port}/hook"))
            (error,) = answer.json()["fieldErrors"]["webhook.url"]
            assert (answer.status_code, error["code"]) == (400, "[invalid]webhook.url"), host
            assert "is not public" in error["message"], host
            assert "webhooks.allowed_networks" in error["message"], host
        # The same address in another notation is refused although it may be called: see addresses.py.
        for host in ("2130706434", "0x7f000002", "0177.0.0.2", "127.2", "127.0.0.2."):
            answer = await api.post("/api/webhook", json=webhook_body(url=f"http://{host}:{other.port}/hook"))
            assert answer.json()["fieldErrors"].keys() == {"webhook.url"}, host
        for host in ("127.0.0.2", "[::ffff:127.0.0.2]"):
            made = await api.post("/api/webhook", json=webhook_body(url=f"http://{host}:{other.port}/hook"))
            assert made.status_code == 200, made.text
        made = await api.post("/api/webhook", json=webhook_body(url=f"http://127.0.0.2:{other.port}/hook"))
        tried_out = await api.post(f"/api/webhook/{made.json()['webhook']['id']}/test", json={})
        assert tried_out.json()["webhookAttemptLog"]["attemptResult"] == "Success"
        assert (len(listener.requests), other.connections) == (1, 0)


async def move(service: Any, webhook: dict[str, Any], url: str) -> None:
    """Let a webhook have a URL that could be saved before the operator narrowed the networks."""
    stored = await internals.store(service, "webhooks").get(None, webhook["id"])
    await internals.store(service, "webhooks").replace(None, {**stored, "url": url}, stored["lastUpdateInstant"])


async def enable(api: httpx.AsyncClient, tenant_id: str) -> None:
    change = {"tenant": {"eventConfiguration": {"events": {"user.create.complete": {"enabled": True}}}}}
    assert (await api.patch(f"/api/tenant/{tenant_id}", json=change)).status_code == 200


@pytest.mark.requirement("webhooks-15.3-40")
@pytest.mark.parametrize("url", ["http://10.1.2.3/hook", "http://169.254.169.254/latest/", "http://127.0.0.1:6379/"])
async def test_blocked_webhook_is_logged_without_flooding(service, api, tenant, tenant_api, url):
    """Five events: each attempt says why in the log of events, and one row of the event log speaks for all."""
    await enable(tenant_api, tenant["id"])
    async with receiving() as receiver:
        webhook = await make_webhook(api, tenant, receiver.url)
        await make_webhook(api, tenant, receiver.url)
        await move(service, webhook, url)
        for user_id in [await make_user(tenant_api) for _ in range(5)]:
            (log,) = await until(api, user_id, has_attempts(2))
            by_id = {attempt["webhookId"]: attempt for attempt in log["attempts"]}
            said = by_id.pop(webhook["id"])["webhookCallResponse"]
            assert (said["statusCode"], said["url"]) == (-1, url)
            assert said["exception"].startswith("blocked: The URL may not be called: ")
            assert ("allowed_networks" in said["exception"]) == (":6379" not in url)
            assert [attempt["attemptResult"] for attempt in by_id.values()] == ["Success"]
    await is_so(lambda: event_log_messages(service, webhook))
    (row,) = await event_log_messages(service, webhook)
    assert "blocked: The URL may not be called" in row
    assert "/latest/" not in row


async def test_blocked_transactional_webhook_vetoes_without_details(service, api, tenant, tenant_api):
    events = {"user.create": {"enabled": True, "transactionType": "AbsoluteMajority"}}
    change = {"tenant": {"eventConfiguration": {"events": events}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=change)).status_code == 200
    webhook = await make_webhook(api, tenant, "https://example.com/", eventsEnabled={"user.create": True})
    await move(service, webhook, "http://10.1.2.3/hook")
    answer = await tenant_api.post("/api/user", json={"user": {"username": "someone", "password": "password"}})
    assert answer.status_code == 504
    assert "10.1.2.3" not in answer.text
    (row,) = await event_log_messages(service, webhook)
    assert "stopped a change: blocked: " in row


OPENID = {"type": "OpenIDConnect", "name": "guarded", "oauth2": {"client_id": "a", "client_secret": "b"}}


@pytest.mark.requirement("audit-c1-guard")
@pytest.mark.parametrize(
    ("path", "body", "field", "setting"),
    [
        ("/api/webhook", webhook_body(url="https://10.0.0.1/"), "webhook.url", "webhooks"),
        (
            "/api/messenger",
            {"messenger": {**webhook_body(url="https://10.0.0.1/")["webhook"], "type": "Generic", "name": "guarded"}},
            "messenger.url",
            "webhooks",
        ),
        (
            "/api/identity-provider",
            {"identityProvider": {**OPENID, "oauth2": {**OPENID["oauth2"], "issuer": "https://10.0.0.1/"}}},
            "identityProvider.oauth2.issuer",
            "identity_providers",
        ),
        (
            "/api/application",
            {"application": {"name": "guarded", "oauthConfiguration": {"jwksURI": "https://10.0.0.1/keys"}}},
            "application.oauthConfiguration.jwksURI",
            "client_keys",
        ),
    ],
)
async def test_refusal_names_applicable_setting(api, path, body, field, setting):
    answer = await api.post(path, json=body)
    (error,) = answer.json()["fieldErrors"][field]
    assert f"(private); {setting}.allowed_networks can let it through" in error["message"]
