"""A quiesced process: it answers, and sends nothing until an operator releases the instance."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import ApplicationId, TenantId, UserId, new_id
from identity.operations.lambdas import lambdas
from identity.operations.status import is_quiesced
from identity.store.work_queues import LogoutNotice, Mail, TextMessage
from tests import internals, mailbox, webhooks
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, Build, checking_client
from tests.console import administrator
from tests.mailbox import Mailbox
from tests.operator.processes import run, serving
from tests.receiver import Receiver, receiving, until

TENANT = TenantId(DEFAULT_TENANT)


@dataclasses.dataclass
class Pending:
    """Whatever a process sends of its own accord, queued for receivers that accept everything."""

    service: app.Service
    api: httpx.AsyncClient
    receiver: Receiver
    mails: Mailbox

    async def queue(self) -> None:
        """Queue an event, a mail, a text message and a logout token."""
        tenant = {"emailConfiguration": self.mails.configuration()}
        await self._send("PATCH", f"/api/tenant/{TENANT}", tenant=tenant)
        await webhooks.subscribe(self.api, {"id": TENANT}, f"{self.receiver.url}?event", ["user.create.complete"])
        messenger = {
            "name": "SMS",
            "type": "Generic",
            "url": f"{self.receiver.url}?text",
            "connectTimeout": 1000,
            "readTimeout": 1000,
        }
        messenger_id = (await self._send("POST", "/api/messenger", messenger=messenger))["messenger"]["id"]
        oauth = {"backChannelLogoutURL": f"{self.receiver.url}?logout"}
        application = (
            await self._send("POST", "/api/application", application={"name": "App", "oauthConfiguration": oauth})
        )["application"]
        await webhooks.make_user(self.api)
        now = internals.now(self.service)
        mail = Mail(new_id(), TENANT, "from@example.com", ("to@example.com",), b"Subject: Hello\r\n\r\nHello\r\n")
        notice = LogoutNotice(TENANT, ApplicationId(application["id"]), UserId(new_id()), new_id())
        await internals.store(self.service, "mails").add([mail], now)
        await internals.store(self.service, "text_messages").add(
            [TextMessage(new_id(), TENANT, messenger_id, "+14155550101", "text")], now
        )
        await internals.store(self.service, "logout_notices").add([notice], now)

    async def _send(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.api.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def sent(self) -> set[str]:
        """What was sent so far."""
        return {request.path.partition("?")[2] for request in self.receiver.requests} | {
            "mail" for _ in self.mails.mails
        }


@pytest.fixture
async def pending(build: Build):
    """The pending work of a service that runs quiesced."""
    async with (
        receiving() as receiver,
        mailbox.receiving() as mails,
        build(server__quiesced="true") as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        work = Pending(service, api, receiver, mails)
        await work.queue()
        yield work


@pytest.mark.requirement("start-4")
async def test_quiesced_process_sends_nothing_until_it_is_released(pending: Pending) -> None:
    # The workers of another service on the same machine have sent such work within this time.
    await asyncio.sleep(1.5)
    assert pending.sent() == set()
    status = (await pending.api.get("/api/status")).json()
    assert status["quiesced"] is True
    health = await pending.api.get("/api/health")
    assert (health.status_code, health.headers["X-Quiesced"]) == (200, "true")
    metrics = (await pending.api.get("/api/prometheus/metrics")).text
    assert "identity_quiesced 1.0" in metrics

    await app.release(internals.config(pending.service))
    await until(lambda: pending.sent() == {"event", "text", "logout", "mail"})
    assert "quiesced" not in (await pending.api.get("/api/status")).json()
    assert "X-Quiesced" not in (await pending.api.get("/api/health")).headers
    assert "identity_quiesced 0.0" in (await pending.api.get("/api/prometheus/metrics")).text


@pytest.mark.requirement("start-5")
async def test_change_that_a_webhook_approves_is_refused_while_quiesced(pending: Pending) -> None:
    await webhooks.subscribe(pending.api, {"id": TENANT}, f"{pending.receiver.url}?approval", ["group.create"], "Any")
    refused = await pending.api.post("/api/group", json={"group": {"name": "Not yet"}})
    assert refused.status_code == 504
    assert "quiesced" in refused.json()["generalErrors"][0]["message"]
    assert not (await pending.api.get("/api/group")).json().get("groups")
    webhook = (await pending.api.get("/api/webhook")).json()["webhooks"][0]
    tested = await pending.api.post(f"/api/webhook/{webhook['id']}/test", json={"eventType": "test"})
    assert tested.status_code == 503
    assert pending.sent() == set()

    await app.release(internals.config(pending.service))
    await until(lambda: not internals.run(pending.service, is_quiesced))
    assert (await pending.api.post("/api/group", json={"group": {"name": "Now"}})).status_code == 200


@pytest.mark.requirement("start-4")
async def test_lambdas_send_no_requests(pending: Pending) -> None:
    source = "function populate(it) { try { fetch(it.url) } catch (error) { it.error = error.message } }"
    body = {"lambda": {"name": "Fetch", "type": "JWTPopulate", "body": source}}
    made = (await pending.api.post("/api/lambda", json=body)).json()["lambda"]
    call, given = internals.call(pending.service, TENANT), {"url": pending.receiver.url}
    (it,) = await internals.run(pending.service, lambdas.invoke, call, made["id"], "JWTPopulate", given)
    assert "quiesced" in it["error"]
    assert pending.sent() == set()


@pytest.mark.requirement("start-4")
async def test_console_says_that_the_process_is_quiesced(pending: Pending) -> None:
    user = await administrator.make(pending.api, "admin")
    async with checking_client(pending.service.base_url) as http:
        shown = await administrator.Browser(http).sign_in(user["email"])
    assert "This process is quiesced" in administrator.Page(shown).text


@pytest.mark.requirement("start-4")
def test_command_releases_a_running_process(stores, configured, tmp_path) -> None:
    settings = {
        "mongodb__uri": stores.mongodb_uri, "mongodb__database": f"test_{new_id()[:13].replace('-', '')}",
        "redis__url": stores.redis_url, "kickstart__file": "null",
    }  # fmt: skip
    refused = run(tmp_path, "release", **settings)
    assert (refused.returncode, "has no instance (mongodb.database)" in refused.stderr) == (1, True)
    with serving(tmp_path, "run", "--quiesced", **settings) as process:
        process.wait_for(lambda: "Stop with" in process.text())
        assert "Quiesced" in process.text()
        assert httpx.get(f"{process.url}/api/health").headers["X-Quiesced"] == "true"
        released = run(tmp_path, "release", **settings)
        assert (released.returncode, released.stdout.split(":")[0]) == (0, "Released"), released.stderr
        process.wait_for(lambda: "X-Quiesced" not in httpx.get(f"{process.url}/api/health").headers)
    with serving(tmp_path, **settings) as process:
        assert "X-Quiesced" not in httpx.get(f"{process.url}/api/health").headers
