"""Text messages: requests to messengers, retries, and event log entries."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from identity import trace_context
from identity.call import ApiKeyCaller, Call, Origin
from identity.ids import TenantId, new_id
from identity.operations.messaging import text_messages
from tests import certificates, internals
from tests.receiver import answers, in_turn, receiving, until

Document = dict[str, Any]


class Sender:
    """A tenant that sends text messages."""

    def __init__(self, service: Any, api: Any, tenant_id: str) -> None:
        self.service, self.api = service, api
        self.tenant_id = TenantId(tenant_id)
        self._hurried: set[tuple[str, int]] = set()

    async def messenger(self, url: str, **members: Any) -> str:
        body = {"name": new_id(), "type": "Generic", "url": url, "connectTimeout": 5000, "readTimeout": 5000, **members}
        answer = await self.api.post("/api/messenger", json={"messenger": body})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["messenger"]["id"])

    async def template(self, text: str, **localized: str) -> str:
        body = {"name": new_id(), "type": "SMS", "defaultTemplate": text, "localizedTemplates": localized}
        answer = await self.api.post("/api/message/template", json={"messageTemplate": body})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["messageTemplate"]["id"])

    async def send(self, messenger_id: str, template_id: str, to: Document | str, **more: Any) -> bool:
        by_itself = internals.call(self.service, self.tenant_id, "192.0.2.1")
        call = more.pop("call", by_itself)
        data = {"code": "314159"}
        return await internals.run(
            self.service, text_messages.send_sms, call, self.tenant_id, messenger_id, template_id, to, data, **more
        )

    async def advance_to_next_attempt(self, clock: Any, is_done: Callable[[], bool]) -> bool:
        """Let the next attempt be made at once, as long as that is wanted; what waits for it lies sealed."""
        for row in await _rows(self):
            assert "314159" not in str(row)
            assert "+14155550101" not in str(row)
            attempt = (row["_id"], row["attempts"])
            if attempt in self._hurried:
                continue
            # Once for each attempt, longer than any pause, shorter than a lease: none that is under way is made twice.
            self._hurried.add(attempt)
            clock.advance(seconds=140)
            internals.store(self.service, "text_messages")._wake()
        return is_done()

    async def logs(self, about: str, kind: str = "Error") -> list[str]:
        rows = (
            internals.database(self.service).collection("event_logs").find({"message": {"$regex": about}}).sort("_id")
        )
        return [row["message"] async for row in rows if row["type"] == kind]


@pytest.fixture
def sender(service, api, tenant) -> Sender:
    return Sender(service, api, tenant["id"])


async def user_of(tenant_api: Any, service: Any, **members: Any) -> Document:
    body = {"user": {"username": new_id(), "password": "password", **members}}
    made = (await tenant_api.post("/api/user", json=body)).json()["user"]
    return await internals.store(service, "users").get(made["tenantId"], made["id"])


@pytest.mark.requirement("messages-6")
async def test_messenger_receives_authenticated_json(sender, service, tenant_api) -> None:
    user = await user_of(tenant_api, service, mobilePhone="+14155550100", firstName="Ada", preferredLanguages=["de"])
    template = await sender.template("Code: ${code}", de="${user.firstName}, Ihr Code: ${code}")
    async with receiving() as receiver:
        basic = {"httpAuthenticationUsername": "we", "httpAuthenticationPassword": "secret"}
        headers = {"X-Which": "one", "Content-Type": "text/plain"}
        messenger = await sender.messenger(receiver.url, headers=headers, **basic)
        assert await sender.send(messenger, template, user)
        (request,) = await receiver.wait_for(1)
    assert json.loads(request.body) == {"phoneNumber": "+14155550100", "textMessage": "Ada, Ihr Code: 314159"}
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == "Basic d2U6c2VjcmV0"
    assert request.headers["x-which"] == "one"
    await until(lambda: _is_empty(sender))
    assert await sender.logs(messenger, "Debug") == []


@pytest.mark.requirement("webhooks-15.2-17")
async def test_messenger_request_has_via_and_trace_headers(sender, clock) -> None:
    trace = trace_context.read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
    origin = Origin("192.0.2.1", "", "", "", trace, ("0123456789abcdef",))
    with_key = Call(sender.tenant_id, ApiKeyCaller({"id": new_id()}), clock.now(), origin)
    template = await sender.template("Code: ${code}")
    async with receiving(in_turn(answers(500), answers(200))) as receiver:
        messenger = await sender.messenger(receiver.url)
        assert await sender.send(messenger, template, "+14155550101", call=with_key)
        await until(lambda: sender.advance_to_next_attempt(clock, lambda: len(receiver.requests) == 2))
        await until(lambda: _is_empty(sender))
    for request in receiver.requests:
        assert request.headers["webhook-via"] == f"0123456789abcdef, {internals.service_id(sender.service)}"
        assert request.headers["traceparent"] == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        assert request.headers["tracestate"] == "a=b"


@pytest.mark.requirement("webhooks-15.2-17")
async def test_attack_63_messenger_url_of_the_service_is_rejected(sender, service, clock) -> None:
    template = await sender.template("Code: ${code}")
    messenger = await sender.messenger(f"http://127.0.0.1:{service.port}/api/passwordless/start")
    assert await sender.send(messenger, template, "+14155550101")

    async def is_told() -> bool:
        return bool(await sender.logs(messenger))

    await until(is_told)
    (row,) = await sender.logs(messenger)
    assert row.endswith("has not taken it: status 508. It will be tried again.")
    await internals.store(sender.service, "text_messages").delete_all(sender.tenant_id)


@pytest.mark.requirement("messages-7")
async def test_message_is_retried_and_stored_encrypted(sender, clock) -> None:
    template = await sender.template("Code: ${code}")
    async with receiving(in_turn(answers(500), answers(429), answers(200))) as receiver:
        messenger = await sender.messenger(receiver.url, debug=True)
        assert await sender.send(messenger, template, "+14155550101")
        await until(lambda: sender.advance_to_next_attempt(clock, lambda: len(receiver.requests) == 3))
        requests = await receiver.wait_for(3)
        await until(lambda: _is_empty(sender))
    assert {request.body for request in requests} == {requests[0].body}
    assert len({request.headers["idempotency-key"] for request in requests}) == 1
    (failed, *_) = await sender.logs(messenger)
    assert failed.endswith("has not taken it: status 500. It will be tried again.")
    (taken,) = await sender.logs(messenger, "Debug")
    assert taken.endswith(f"attempt 3: {receiver.url} has taken it.")
    assert "314159" not in failed + taken


@pytest.mark.requirement("messages-7")
async def test_message_is_given_up_after_the_schedule_and_logged(sender, clock) -> None:
    template = await sender.template("Code: ${code}")
    async with receiving(answers(503)) as receiver:
        messenger = await sender.messenger(receiver.url)
        assert await sender.send(messenger, template, "+14155550101")
        await until(lambda: sender.advance_to_next_attempt(clock, lambda: len(receiver.requests) == 7))
        await until(lambda: _is_empty(sender))
    last = (await sender.logs(messenger))[-1]
    assert last.endswith(f"attempt 7: {receiver.url} has not taken it: status 503. It is given up.")


@pytest.mark.requirement("messages-6")
async def test_phone_number_of_the_method_takes_precedence(sender, service, tenant_api) -> None:
    user = await user_of(tenant_api, service, mobilePhone="+14155550100")
    template = await sender.template("Code: ${code}")
    async with receiving() as receiver:
        messenger = await sender.messenger(receiver.url)
        assert await sender.send(messenger, template, user, phone_number="+14155550199")
        (request,) = await receiver.wait_for(1)
    assert json.loads(request.body)["phoneNumber"] == "+14155550199"


@pytest.mark.requirement("messages-7")
async def test_message_that_cannot_be_rendered_is_logged_and_not_sent(sender, service, tenant_api) -> None:
    user = await user_of(tenant_api, service)
    template = await sender.template("Code: ${code}")
    unknown = await sender.template("${nothing.at.all}")
    async with receiving() as receiver:
        messenger = await sender.messenger(receiver.url)
        assert not await sender.send(messenger, template, user)
        assert not await sender.send(messenger, unknown, "+14155550100")
        assert not await sender.send(messenger, new_id(), "+14155550100")
        absent = new_id()
        assert not await sender.send(absent, template, "+14155550100")
        assert receiver.requests == []
    phone, broken, missing = await sender.logs(messenger)
    assert phone.endswith("could not be sent: The user has no phone number.")
    assert unknown in broken
    assert missing.endswith("There is no such message template.")
    (gone,) = await sender.logs(absent)
    assert gone.endswith("There is no such messenger.")


@pytest.mark.requirement("messages-6")
async def test_messenger_uses_mutual_tls(sender, api) -> None:
    server = certificates.make("messenger", certificates.authority())
    body = {"name": new_id(), "algorithm": "ES256"}
    key = (await api.post("/api/key/generate", json={"key": body})).json()["key"]
    context = certificates.server_context(server)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=key["certificate"])
    template = await sender.template("Code: ${code}")
    async with receiving(tls=context) as receiver:
        messenger = await sender.messenger(
            receiver.url, sslCertificate=certificates.authority().pem, sslCertificateId=key["id"]
        )
        assert await sender.send(messenger, template, "+14155550100")
        (request,) = await receiver.wait_for(1)
    assert json.loads(request.body)["textMessage"] == "Code: 314159"


@pytest.mark.requirement("messages-6")
async def test_forbidden_address_is_not_called_at_delivery(sender) -> None:
    template = await sender.template("Code: ${code}")
    messenger = await sender.messenger("https://sms.example.com/")
    where = {"_id": messenger}
    await (
        internals.database(sender.service)
        .collection("messengers")
        .update_one(where, {"$set": {"url": "http://10.0.0.1/"}})
    )
    internals.store(sender.service, "messengers").invalidate(messenger)
    assert await sender.send(messenger, template, "+14155550100")
    await until(lambda: _was_tried(sender, 1))
    (failed,) = await sender.logs(messenger)
    assert "blocked" in failed


@pytest.mark.requirement("messages-7")
async def test_messages_of_another_tenant_are_not_removed_with_a_tenant(sender, service, tenant_api) -> None:
    template = await sender.template("Code: ${code}")
    async with receiving(answers(500)) as receiver:
        messenger = await sender.messenger(receiver.url)
        assert await sender.send(messenger, template, "+14155550100")
        await until(lambda: _was_tried(sender, 1))
        queue = internals.store(service, "text_messages")
        await queue.delete_all(TenantId(new_id()))
        assert await queue.count(sender.tenant_id) == 1
        await queue.delete_all(sender.tenant_id)
        assert await queue.count(sender.tenant_id) == 0


async def _rows(sender: Sender) -> list[Document]:
    found = (
        internals.database(sender.service)
        .collection("text_messages")
        .find({"tenantId": sender.tenant_id, "lease": None})
    )
    return [row async for row in found]


async def _was_tried(sender: Sender, times: int) -> bool:
    return [row["attempts"] for row in await _rows(sender)] == [times]


async def _is_empty(sender: Sender) -> bool:
    return await internals.store(sender.service, "text_messages").count(sender.tenant_id) == 0
