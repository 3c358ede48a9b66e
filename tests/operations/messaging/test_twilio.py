"""Messengers of the type Twilio: settings, secrets, and messages to a server like Twilio's Messages resource."""

from __future__ import annotations

import urllib.parse
from typing import Any

import orjson
import pytest

from identity.domain.objects.secret_masking import MASK
from identity.ids import TenantId, new_id
from identity.operations.messaging import text_messages
from identity.store.work_queues import TextMessage
from tests import internals
from tests.receiver import Behaviour, Received, answers, receiving, until

TOKEN = "the-auth-token-of-the-account"
TWILIO = {"type": "Twilio", "url": "https://api.twilio.com", "accountSID": "AC0123", "authToken": TOKEN}
AUTHORIZATION = "Basic QUMwMTIzOnRoZS1hdXRoLXRva2VuLW9mLXRoZS1hY2NvdW50"


class Messages:
    """Twilio's Messages resource: what it requires, and its errors."""

    def __init__(self) -> None:
        self.created: list[dict[str, str]] = []

    async def __call__(self, request: Received, writer: Any) -> None:
        await self._answer(request)(request, writer)

    def _answer(self, request: Received) -> Behaviour:
        if request.path != "/2010-04-01/Accounts/AC0123/Messages.json":
            return self._error(404, 20404)
        if request.headers.get("authorization") != AUTHORIZATION:
            return self._error(401, 20003)
        form = dict(urllib.parse.parse_qsl(request.body.decode(), strict_parsing=True))
        if request.headers["content-type"] != "application/x-www-form-urlencoded" or "Body" not in form:
            return self._error(400, 21602)
        if not form["To"].startswith("+"):
            return self._error(400, 21211, f"The 'To' number {form['To']} is not valid")
        self.created.append(form)
        return answers(201, orjson.dumps({"sid": "SM1", "status": "queued", "error_code": None, **form}))

    def _error(self, status: int, code: int, message: str = "no") -> Behaviour:
        body = {"code": code, "message": message, "more_info": f"https://www.twilio.com/docs/errors/{code}"}
        return answers(status, orjson.dumps({**body, "status": status}))


async def make(api: Any, **members: Any) -> dict[str, Any]:
    wanted = {"name": new_id(), **TWILIO, "fromPhoneNumber": "+15550001111", **members}
    answer = await api.post("/api/messenger", json={"messenger": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["messenger"])


async def send(service: Any, api: Any, tenant: dict[str, Any], messenger_id: str, number: str) -> None:
    body = {"name": new_id(), "type": "SMS", "defaultTemplate": "Code & more: ${code}"}
    template = (await api.post("/api/message/template", json={"messageTemplate": body})).json()["messageTemplate"]
    tenant_id = TenantId(tenant["id"])
    call = internals.call(service, tenant_id, "192.0.2.1")
    data = {"code": "314159"}
    assert await internals.run(
        service, text_messages.send_sms, call, tenant_id, messenger_id, template["id"], number, data
    )


@pytest.mark.requirement("messages-9")
@pytest.mark.parametrize(
    ("members", "path", "sender"),
    [
        ({}, "", {"From": "+15550001111"}),
        ({"messagingServiceSid": "MG1"}, "/2010-04-01/", {"MessagingServiceSid": "MG1"}),
    ],
    ids=["number", "service"],
)
async def test_message_resource_is_created(service, api, tenant, members, path, sender) -> None:
    messages = Messages()
    async with receiving(messages) as twilio:
        url = f"http://127.0.0.1:{twilio.port}{path}"
        messenger = await make(api, url=url, **members)
        await send(service, api, tenant, messenger["id"], "+14155550101")
        await twilio.wait_for(1)
        await until(lambda: bool(messages.created))
    assert messages.created == [{"To": "+14155550101", **sender, "Body": "Code & more: 314159"}]


@pytest.mark.requirement("messages-9")
async def test_error_of_twilio_is_logged_without_the_number(service, api, tenant) -> None:
    async with receiving(Messages()) as twilio:
        messenger = await make(api, url=f"http://127.0.0.1:{twilio.port}")
        message = TextMessage(new_id(), TenantId(tenant["id"]), messenger["id"], "14155550101", "text", None, ())
        failure = await internals.run(service, text_messages.deliver, message)
    assert failure is not None
    assert failure.reason == "status 400, Twilio error 21211"


@pytest.mark.requirement("messages-9")
async def test_settings_of_twilio(service, api) -> None:
    messenger = await make(api, messagingServiceSid="MG1", headers={"X": "y"}, connectTimeout=5)
    assert {name: messenger[name] for name in TWILIO} == TWILIO
    assert not messenger.keys() & {"headers", "connectTimeout"}
    stored = await internals.database(service).collection("messengers").find_one({"_id": messenger["id"]})
    assert stored["authToken"].startswith("sealed:1:")
    path = f"/api/messenger/{messenger['id']}"
    renamed = await api.put(path, json={"messenger": {**messenger, "authToken": MASK, "name": new_id()}})
    assert renamed.json()["messenger"]["authToken"] == TOKEN
    moved = await api.patch(path, json={"messenger": {"authToken": MASK, "url": "https://elsewhere.example.com"}})
    assert "authToken" not in moved.json()["messenger"]


@pytest.mark.requirement("messages-9")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"accountSID": None}, "[blank]messenger.accountSID"),
        ({"accountSID": "AC/../x"}, "[invalid]messenger.accountSID"),
        ({"fromPhoneNumber": None}, "[blank]messenger.fromPhoneNumber"),
        ({"url": None}, "[blank]messenger.url"),
        ({"url": "https://10.0.0.1"}, "[invalid]messenger.url"),
    ],
)
async def test_invalid_settings_are_refused(api, change, code) -> None:
    wanted = {"name": new_id(), **TWILIO, "fromPhoneNumber": "+15550001111", **change}
    answer = await api.post("/api/messenger", json={"messenger": wanted})
    assert answer.status_code == 400, answer.text
    assert {error["code"] for found in answer.json()["fieldErrors"].values() for error in found} == {code}
