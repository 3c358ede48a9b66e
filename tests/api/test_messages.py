"""Messengers and message templates: the full cycle, validation, previews, and protection from deletion."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests import internals
from tests.conftest import SUPER_KEY, UNKNOWN_ID, checking_client

Document = dict[str, Any]

TEMPLATE = {"defaultTemplate": "Your code is ${code}", "type": "SMS"}
GENERIC = {"connectTimeout": 1000, "readTimeout": 2000, "type": "Generic", "url": "https://sms.example.com/messages"}


def errors(answer: Any) -> dict[str, str]:
    """Code to message."""
    assert answer.status_code == 400, answer.text
    return {e["code"]: e["message"] for found in answer.json()["fieldErrors"].values() for e in found}


async def made(api, path: str, name: str, **members: Any) -> Document:
    answer = await api.post(path, json={name: {"name": new_id(), **members}})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()[name])


@pytest.mark.requirement("messages-1")
async def test_full_cycle_of_a_messenger(api) -> None:
    members = {
        "data": {"a": 1},
        "debug": True,
        "headers": {"X-Which": "one"},
        "httpAuthenticationPassword": "secret",
        "httpAuthenticationUsername": "someone",
        "transport": "sms",
    }
    messenger = await made(api, "/api/messenger", "messenger", **GENERIC, **members)
    assert {name: messenger[name] for name in members} == members
    assert messenger["messageTypes"] == ["SMS"]
    path = f"/api/messenger/{messenger['id']}"
    assert (await api.get(path)).json() == {"messenger": messenger}
    assert messenger in (await api.get("/api/messenger")).json()["messengers"]
    patched = (await api.patch(path, json={"messenger": {"debug": False}})).json()["messenger"]
    assert (patched["debug"], patched["httpAuthenticationPassword"]) == (False, "secret")
    replaced = (await api.put(path, json={"messenger": {"name": messenger["name"], **GENERIC}})).json()["messenger"]
    assert replaced["headers"] == {}
    assert "httpAuthenticationUsername" not in replaced
    assert (await api.delete(path)).status_code == 200
    assert (await api.get(path)).status_code == 404


@pytest.mark.requirement("messages-1", "messages-2")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"type": "Kafka"}, "[invalid]messenger.type"),
        ({"type": None}, "[missing]messenger.type"),
        ({"name": " "}, "[blank]messenger.name"),
        ({"url": None}, "[blank]messenger.url"),
        ({"url": "https://192.168.0.1/"}, "[invalid]messenger.url"),
        ({"url": "file:///etc/passwd"}, "[invalid]messenger.url"),
        ({"connectTimeout": 0}, "[invalid]messenger.connectTimeout"),
        ({"readTimeout": None}, "[missing]messenger.readTimeout"),
        ({"headers": {"Host": "elsewhere"}}, "[invalid]messenger.headers"),
        ({"headers": {"A": "b\r\nc: d"}}, "[invalid]messenger.headers"),
        ({"sslCertificate": "no certificate"}, "[invalid]messenger.sslCertificate"),
        ({"sslCertificateId": UNKNOWN_ID}, "[invalid]messenger.sslCertificateId"),
        ({"sslCertificate": UNKNOWN_ID}, "[invalid]messenger.sslCertificateId"),
        ({"messageTypes": ["Voice"]}, "[invalid]messenger.messageTypes[0]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_invalid_messenger_is_refused(api, change, code) -> None:
    answer = await api.post("/api/messenger", json={"messenger": {"name": new_id(), **GENERIC, **change}})
    assert errors(answer).keys() == {code}


@pytest.mark.requirement("audit-a8-messengers")
async def test_plaintext_headers_are_sealed_at_start(build, tmp_path) -> None:
    plain = {"X-Api-Key": "the-key", "X.With.Stops": "another-key"}
    database = f"test_{new_id()[:8]}"
    headers = {"Authorization": SUPER_KEY}

    async def raw(service: Any) -> Document:
        return dict(await internals.database(service).collection("messengers").find_one({}))

    async with build(data_dir=tmp_path, database=database) as service:
        async with checking_client(service.base_url, headers=headers) as api:
            messenger = await made(api, "/api/messenger", "messenger", **GENERIC, headers=plain)
        sealed = await raw(service)
        assert all(value.startswith("sealed:1:") for value in sealed["headers"].values())
        collection = internals.database(service).collection("messengers")
        await collection.replace_one({"_id": messenger["id"]}, {**sealed, "headers": plain})
        await internals.database(service).collection("instance").delete_one({"_id": "schema"})  # as 0.1.0 left it
    async with build(data_dir=tmp_path, database=database) as service:
        try:
            migrated = await raw(service)
            async with checking_client(service.base_url, headers=headers) as api:
                answer = await api.get(f"/api/messenger/{messenger['id']}")
        finally:
            await internals.database(service).drop()
    assert all(value.startswith("sealed:1:") for value in migrated["headers"].values())
    assert migrated["lastUpdateInstant"] == sealed["lastUpdateInstant"]
    assert answer.json() == {"messenger": messenger}


@pytest.mark.requirement("messages-1")
async def test_messenger_names_are_unique(api) -> None:
    messenger = await made(api, "/api/messenger", "messenger", **GENERIC)
    answer = await api.post("/api/messenger", json={"messenger": {"name": messenger["name"], **GENERIC}})
    assert errors(answer).keys() == {"[duplicate]messenger.name"}


@pytest.mark.requirement("messages-5")
async def test_key_used_by_messenger_cannot_be_deleted(api) -> None:
    body = {"name": new_id(), "algorithm": "ES256"}
    key = (await api.post("/api/key/generate", json={"key": body})).json()["key"]
    messenger = await made(api, "/api/messenger", "messenger", **GENERIC, sslCertificate=key["id"])
    assert messenger["sslCertificateId"] == key["id"]
    assert "sslCertificate" not in messenger
    assert errors(await api.delete(f"/api/key/{key['id']}")).keys() == {"[inUse]keyId"}


@pytest.mark.requirement("messages-3")
async def test_full_cycle_of_a_message_template(api) -> None:
    localized = {"de": "Ihr Code ist ${code}"}
    template = await made(api, "/api/message/template", "messageTemplate", **TEMPLATE, localizedTemplates=localized)
    assert (template["localizedTemplates"], template["data"]) == (localized, {})
    path = f"/api/message/template/{template['id']}"
    assert (await api.get(path)).json() == {"messageTemplate": template}
    assert template in (await api.get("/api/message/template")).json()["messageTemplates"]
    patched = await api.patch(path, json={"messageTemplate": {"defaultTemplate": "Code: ${code}"}})
    assert patched.json()["messageTemplate"]["localizedTemplates"] == localized
    replaced = await api.put(path, json={"messageTemplate": {"name": template["name"], **TEMPLATE}})
    assert replaced.json()["messageTemplate"]["localizedTemplates"] == {}
    assert (await api.delete(path)).status_code == 200
    assert (await api.get(path)).status_code == 404


@pytest.mark.requirement("messages-3")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"type": "Email"}, "[invalid]messageTemplate.type"),
        ({"type": None}, "[missing]messageTemplate.type"),
        ({"defaultTemplate": " "}, "[blank]messageTemplate.defaultTemplate"),
        ({"defaultTemplate": "${code"}, "[invalid]messageTemplate.defaultTemplate"),
        ({"localizedTemplates": {"de": "[#if"}}, "[invalid]messageTemplate.localizedTemplates.de"),
        ({"name": ""}, "[blank]messageTemplate.name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_invalid_message_template_is_refused(api, change, code) -> None:
    body = {"messageTemplate": {"name": new_id(), **TEMPLATE, **change}}
    assert errors(await api.post("/api/message/template", json=body)).keys() == {code}


@pytest.mark.requirement("messages-3")
async def test_preview_renders_variant_of_locale_and_reports_errors(api) -> None:
    template = {"defaultTemplate": "${user.firstName}: ${code}", "localizedTemplates": {"de": "Code: ${code}"}}
    path = "/api/message/template/preview"
    shown = (await api.post(path, json={"messageTemplate": template})).json()
    message = {"phoneNumber": "+44 20 7946 0000", "textMessage": "Ada: ${code}"}
    assert shown == {"message": message, "previewMessage": "Ada: ${code}"}
    shown = (await api.post(path, json={"messageTemplate": template, "locale": "de_AT"})).json()
    assert shown["message"]["textMessage"] == "Code: ${code}"
    shown = (await api.post(path, json={"messageTemplate": {"defaultTemplate": "${code"}})).json()
    assert "textMessage" not in shown["message"]
    (found,) = shown["errors"]["fieldErrors"]["messageTemplate.defaultTemplate"]
    assert found["code"] == "[invalid]messageTemplate.defaultTemplate"


@pytest.mark.requirement("messages-5")
async def test_messenger_and_template_of_tenant_must_exist_and_cannot_be_deleted(api, tenant_api, tenant) -> None:
    path = f"/api/tenant/{tenant['id']}"
    sms = {"enabled": True, "messengerId": new_id(), "templateId": new_id()}
    answer = await api.patch(path, json={"tenant": {"multiFactorConfiguration": {"sms": sms}}})
    assert errors(answer).keys() == {
        "[invalid]tenant.multiFactorConfiguration.sms.messengerId",
        "[invalid]tenant.multiFactorConfiguration.sms.templateId",
    }
    template = await made(api, "/api/message/template", "messageTemplate", **TEMPLATE)
    messenger = await made(api, "/api/messenger", "messenger", **GENERIC)
    sms |= {"messengerId": messenger["id"], "templateId": template["id"]}
    answer = await api.patch(path, json={"tenant": {"multiFactorConfiguration": {"sms": sms}}})
    assert answer.status_code == 200, answer.text
    assert errors(await api.delete(f"/api/messenger/{messenger['id']}")).keys() == {"[inUse]messengerId"}
    assert errors(await api.delete(f"/api/message/template/{template['id']}")).keys() == {"[inUse]messageTemplateId"}
    body = {"name": new_id(), "multiFactorConfiguration": {"sms": {"templateId": new_id()}}}
    answer = await tenant_api.post("/api/application", json={"application": body})
    assert errors(answer).keys() == {"[invalid]application.multiFactorConfiguration.sms.templateId"}
