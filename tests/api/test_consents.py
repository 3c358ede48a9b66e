"""Consents, which are shared by all tenants."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.conftest import checking_client

Document = dict[str, Any]

MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


def consent_body(**members: Any) -> Document:
    return {"consent": {"name": f"Consent {new_id()}", "defaultMinimumAgeForSelfConsent": 13, **members}}


async def make(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/consent", json=consent_body(**members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["consent"])


@pytest.mark.requirement("core-18-groups-20")
async def test_defaults_are_filled_in(api) -> None:
    made = await make(api)
    assert made.pop("name").startswith("Consent ")
    assert made.pop("insertInstant") == made.pop("lastUpdateInstant")
    assert made.pop("id")
    assert made == {
        "countryMinimumAgeForSelfConsent": {},
        "data": {},
        "defaultMinimumAgeForSelfConsent": 13,
        "emailPlus": {"enabled": False, "maximumTimeToSendEmailInHours": 48, "minimumTimeToSendEmailInHours": 24},
        "multipleValuesAllowed": False,
        "values": [],
    }


@pytest.mark.requirement("core-18-groups-20")
async def test_full_cycle(api) -> None:
    members: Document = {
        "countryMinimumAgeForSelfConsent": {"US": 13, "de_DE": 16},
        "data": {"a": {"b": [1]}},
        "emailPlus": {"enabled": False, "maximumTimeToSendEmailInHours": 3, "minimumTimeToSendEmailInHours": 2},
        "multipleValuesAllowed": True,
        "values": ["Newsletter", " Offers ", "Offers"],
    }
    object_id = new_id()
    body = consent_body(**members)
    made = (await api.post(f"/api/consent/{object_id}", json=body)).json()["consent"]
    assert made == {
        **members,
        "id": object_id,
        "insertInstant": made["insertInstant"],
        "lastUpdateInstant": made["insertInstant"],
        "name": body["consent"]["name"],
        "defaultMinimumAgeForSelfConsent": 13,
        "values": ["Newsletter", "Offers"],
    }
    path = f"/api/consent/{object_id}"
    assert (await api.get(path)).json() == {"consent": made}
    assert made in (await api.get("/api/consent")).json()["consents"]
    name = made["name"]
    patched = await api.patch(path, json={"consent": {"values": ["Calls"], "data": {"a": None, "c": 1}}})
    assert patched.json()["consent"]["values"] == ["Newsletter", "Offers", "Calls"]
    assert patched.json()["consent"]["data"] == {"c": 1}
    merged = await api.patch(path, json={"consent": {"values": ["Calls"]}}, headers=MERGE_PATCH)
    assert merged.json()["consent"]["values"] == ["Calls"]
    operations = [{"op": "replace", "path": "/consent/values/0", "value": "Letters"}]
    edited = await api.patch(path, json=operations, headers=JSON_PATCH)
    assert edited.json()["consent"]["values"] == ["Letters"]
    replaced = (await api.put(path, json={"consent": {"name": name, "defaultMinimumAgeForSelfConsent": 0}})).json()
    assert replaced["consent"]["defaultMinimumAgeForSelfConsent"] == 0
    assert replaced["consent"]["values"] == []
    assert replaced["consent"]["countryMinimumAgeForSelfConsent"] == {}
    assert (await api.delete(path)).status_code == 200
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert (await api.request(method, path, json=consent_body())).status_code == 404


@pytest.mark.requirement("core-18-groups-20")
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"name": None, "defaultMinimumAgeForSelfConsent": None},
         {"[blank]consent.name", "[missing]consent.defaultMinimumAgeForSelfConsent"}),
        ({"name": " "}, {"[blank]consent.name"}),
        ({"name": "x" * 192}, {"[tooLong]consent.name"}),
        ({"name": [1]}, {"[invalidJSON]"}),
        ({"defaultMinimumAgeForSelfConsent": -1}, {"[invalid]consent.defaultMinimumAgeForSelfConsent"}),
        ({"defaultMinimumAgeForSelfConsent": 151}, {"[invalid]consent.defaultMinimumAgeForSelfConsent"}),
        ({"defaultMinimumAgeForSelfConsent": "13 years"}, {"[invalidJSON]"}),
        ({"countryMinimumAgeForSelfConsent": {"Utopia!": 1}}, {"[invalid]consent.countryMinimumAgeForSelfConsent"}),
        ({"countryMinimumAgeForSelfConsent": {"US": -1}}, {"[invalid]consent.countryMinimumAgeForSelfConsent.US"}),
        ({"values": [""]}, {"[blank]consent.values[0]"}),
        ({"values": ["x" * 256]}, {"[tooLong]consent.values[0]"}),
        ({"consentEmailTemplateId": "x"}, {"[couldNotConvert]consent.consentEmailTemplateId"}),
        ({"emailPlus": {"enabled": True}}, {"[missing]consent.emailPlus.emailTemplateId"}),
        ({"emailPlus": {"maximumTimeToSendEmailInHours": 1}},
         {"[invalid]consent.emailPlus.maximumTimeToSendEmailInHours"}),
        ({"emailPlus": {"minimumTimeToSendEmailInHours": 0}},
         {"[invalid]consent.emailPlus.minimumTimeToSendEmailInHours"}),
    ],
)  # fmt: skip
async def test_invalid_members(api, members, expected) -> None:
    assert codes(await api.post("/api/consent", json=consent_body(**members))) == expected


@pytest.mark.requirement("core-18-groups-21")
async def test_messages_require_existing_templates_and_protect_them(api) -> None:
    template = {"name": new_id(), "defaultSubject": "x", "defaultHtmlTemplate": "x", "defaultTextTemplate": "x"}
    template_id = (await api.post("/api/email/template", json={"emailTemplate": template})).json()["emailTemplate"][
        "id"
    ]
    unknown = {"consentEmailTemplateId": new_id(), "emailPlus": {"enabled": True, "emailTemplateId": new_id()}}
    assert codes(await api.post("/api/consent", json=consent_body(**unknown))) == {
        "[invalid]consent.consentEmailTemplateId",
        "[invalid]consent.emailPlus.emailTemplateId",
    }
    email_plus = {"enabled": True, "emailTemplateId": template_id}
    made = await make(api, consentEmailTemplateId=template_id, emailPlus=email_plus)
    assert made["consentEmailTemplateId"] == made["emailPlus"]["emailTemplateId"] == template_id
    assert codes(await api.delete(f"/api/email/template/{template_id}")) == {"[inUse]emailTemplateId"}
    await api.delete(f"/api/consent/{made['id']}")
    assert (await api.delete(f"/api/email/template/{template_id}")).status_code == 200


@pytest.mark.requirement("core-18-groups-20")
async def test_id_and_name_are_unique(api) -> None:
    made = await make(api)
    assert codes(await api.post("/api/consent", json=consent_body(name=made["name"]))) == {"[duplicate]consent.name"}
    assert codes(await api.post(f"/api/consent/{made['id']}", json=consent_body())) == {"[duplicate]consentId"}
    other = await make(api)
    taken = consent_body(name=made["name"])
    assert codes(await api.put(f"/api/consent/{other['id']}", json=taken)) == {"[duplicate]consent.name"}
    assert (await api.get(f"/api/consent/{other['id']}")).json()["consent"] == other


@pytest.mark.requirement("core-18-groups-22")
async def test_search(api) -> None:
    mark = new_id()
    made = [await make(api, name=f"{mark} {letter}") for letter in "ba"]
    answer = (await api.get("/api/consent/search", params={"name": f"{mark}*"})).json()
    assert answer == {"total": 2, "consents": made[::-1]}
    by_age = {"search": {"name": mark.upper(), "orderBy": "insertInstant ASC, id", "numberOfResults": 1}}
    assert (await api.post("/api/consent/search", json=by_age)).json() == {"total": 2, "consents": made[:1]}
    refused = await api.post("/api/consent/search", json={"search": {"orderBy": "values"}})
    assert codes(refused) == {"[invalid]search.orderBy"}


@pytest.mark.requirement("core-18-groups-23")
async def test_tenant_key_reads_but_does_not_change_consents(service, api, manager, tenant) -> None:
    """They are shared: a tenant's key that changed one would change it for all tenants."""
    made = await make(api)
    key = await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})
    headers = {"Authorization": key.json()["apiKey"]["key"]}
    path = f"/api/consent/{made['id']}"
    async with checking_client(service.base_url, headers=headers) as scoped:
        assert (await scoped.get(path)).json() == {"consent": made}
        assert made in (await scoped.get("/api/consent")).json()["consents"]
        assert (await scoped.post("/api/consent", json=consent_body())).status_code == 401
        for method in ("PUT", "PATCH", "DELETE"):
            assert (await scoped.request(method, path, json=consent_body())).status_code == 401
        assert (await scoped.get("/api/consent/search")).status_code == 401
    assert (await api.get(path)).json() == {"consent": made}
