"""/api/user/consent: who may consent, notifications, and deletion with the user."""

from __future__ import annotations

import datetime
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from identity.operations.users import user_consents
from tests import internals, mailbox
from tests.conftest import EMAIL_TEMPLATE, SUPER_KEY, UNKNOWN_ID, checking_client
from tests.receiver import until

Document = dict[str, Any]
CHEAP = {"encryptionScheme": "salted-hmac-sha256", "factor": 1, "password": "a password of the tests"}


def birth_date(years: int) -> str:
    today = datetime.datetime.now(datetime.UTC).date()
    return today.replace(year=today.year - years, day=min(today.day, 28)).isoformat()


async def make_user(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/user", json={"user": {"email": f"{new_id()}@example.com", **CHEAP, **members}})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["user"])


async def make_consent(api: httpx.AsyncClient, **members: Any) -> Document:
    wanted = {"name": f"Consent {new_id()}", "defaultMinimumAgeForSelfConsent": 13, **members}
    answer = await api.post("/api/consent", json={"consent": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["consent"])


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {entry["code"] for entries in answer.json()["fieldErrors"].values() for entry in entries}


async def give_consent(api: httpx.AsyncClient, consent: Document, user: Document, **members: Any) -> httpx.Response:
    wanted = {"consentId": consent["id"], "userId": user["id"], "giverUserId": user["id"], **members}
    return await api.post("/api/user/consent", json={"userConsent": wanted})


@pytest.mark.requirement("core-18-groups-24", "users-2.1-11")
async def test_full_cycle_of_user_consent(tenant_api) -> None:
    consent = await make_consent(tenant_api, values=["a", "b"], multipleValuesAllowed=True)
    user = await make_user(tenant_api, birthDate=birth_date(13))
    object_id = new_id()
    wanted = {"consentId": consent["id"], "userId": user["id"], "giverUserId": user["id"], "values": ["a"]}
    answer = await tenant_api.post(f"/api/user/consent/{object_id}", json={"userConsent": {**wanted, "data": {"x": 1}}})
    assert answer.status_code == 200, answer.text
    made = answer.json()["userConsent"]
    assert {name: made[name] for name in (*wanted, "id", "status", "data")} == {
        **wanted, "id": object_id, "status": "Active", "data": {"x": 1},
    }  # fmt: skip
    assert made["consent"]["name"] == consent["name"]
    path = f"/api/user/consent/{object_id}"
    assert (await tenant_api.get(path)).json()["userConsent"] == made
    listed = (await tenant_api.get("/api/user/consent", params={"userId": user["id"]})).json()["userConsents"]
    assert listed == [made]

    changed = await tenant_api.put(path, json={"userConsent": {"values": ["a", "b"], "userId": UNKNOWN_ID}})
    assert changed.json()["userConsent"]["values"] == ["a", "b"]
    assert changed.json()["userConsent"]["userId"] == user["id"], "whose consent it is stays"
    assert (await tenant_api.delete(path)).status_code == 200
    assert (await tenant_api.delete(path)).status_code == 200, "it is revoked already"
    assert (await tenant_api.get(path)).json()["userConsent"]["status"] == "Revoked"
    again = await tenant_api.patch(path, json={"userConsent": {"status": "Active"}})
    assert again.json()["userConsent"]["status"] == "Active"
    assert again.json()["userConsent"]["values"] == ["a", "b"]


async def test_repeated_consent_requires_revocation(tenant_api) -> None:
    consent, user = await make_consent(tenant_api, defaultMinimumAgeForSelfConsent=0), await make_user(tenant_api)
    first = (await give_consent(tenant_api, consent, user)).json()["userConsent"]
    assert codes(await give_consent(tenant_api, consent, user)) == {"[duplicate]userConsent.consentId"}
    await tenant_api.delete(f"/api/user/consent/{first['id']}")
    assert (await give_consent(tenant_api, consent, user)).status_code == 200
    back = await tenant_api.patch(f"/api/user/consent/{first['id']}", json={"userConsent": {"status": "Active"}})
    assert codes(back) == {"[duplicate]userConsent.consentId"}


@pytest.mark.requirement("users-2.1-11")
@pytest.mark.parametrize(
    ("members", "is_enough"),
    [
        ({}, False),
        ({"birthDate": birth_date(12)}, False),
        ({"birthDate": birth_date(13)}, True),
        ({"birthDate": birth_date(15), "preferredLanguages": ["de_DE"]}, False),
        ({"birthDate": birth_date(16), "preferredLanguages": ["de_DE"]}, True),
        ({"birthDate": birth_date(10), "preferredLanguages": ["fr", "en_GB"]}, True),
        ({"birthDate": birth_date(9), "preferredLanguages": ["es-MX"]}, False),
        ({"birthDate": birth_date(11), "preferredLanguages": ["es-MX"]}, True),
    ],
)
async def test_age_of_self_consent_follows_country_or_default(tenant_api, members, is_enough) -> None:
    ages = {"DE": 16, "gb": 10, "es_MX": 11}
    consent = await make_consent(tenant_api, countryMinimumAgeForSelfConsent=ages)
    user = await make_user(tenant_api, **members)
    answer = await give_consent(tenant_api, consent, user)
    if is_enough:
        assert answer.status_code == 200, answer.text
    else:
        assert codes(answer) == {"[tooYoung]userConsent.giverUserId"}
        parent = await make_user(tenant_api)
        assert (await give_consent(tenant_api, consent, user, giverUserId=parent["id"])).status_code == 200


@pytest.mark.requirement("users-2.1-11")
async def test_values_must_be_listed_and_multiple_values_allowed(tenant_api) -> None:
    user = await make_user(tenant_api)
    one = await make_consent(tenant_api, defaultMinimumAgeForSelfConsent=0, values=["a", "b"])
    invalid = {"[invalid]userConsent.values"}
    assert codes(await give_consent(tenant_api, one, user, values=["c"])) == invalid
    assert codes(await give_consent(tenant_api, one, user, values=["a", "b"])) == invalid
    made = (await give_consent(tenant_api, one, user, values=["a"])).json()["userConsent"]
    path = f"/api/user/consent/{made['id']}"
    assert codes(await tenant_api.patch(path, json={"userConsent": {"values": ["b", "c"]}})) == invalid
    assert codes(await tenant_api.put(path, json={"userConsent": {"values": ["a", "b"]}})) == invalid
    assert (await tenant_api.get(path)).json()["userConsent"]["values"] == ["a"]


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"consentId": None}, "[missing]userConsent.consentId"),
        ({"consentId": UNKNOWN_ID}, "[invalid]userConsent.consentId"),
        ({"consentId": "x"}, "[couldNotConvert]userConsent.consentId"),
        ({"userId": None}, "[missing]userConsent.userId"),
        ({"userId": UNKNOWN_ID}, "[invalid]userConsent.userId"),
        ({"giverUserId": None}, "[missing]userConsent.giverUserId"),
        ({"giverUserId": UNKNOWN_ID}, "[invalid]userConsent.giverUserId"),
        ({"status": "Perhaps"}, "[invalid]userConsent.status"),
    ],
)
async def test_invalid_members(tenant_api, members, code) -> None:
    consent, user = await make_consent(tenant_api, defaultMinimumAgeForSelfConsent=0), await make_user(tenant_api)
    assert code in codes(await give_consent(tenant_api, consent, user, **members))
    listed = await tenant_api.get("/api/user/consent", params={"userId": user["id"]})
    assert listed.json() == {"userConsents": []}


async def test_unknown_objects_are_404(tenant_api) -> None:
    path = f"/api/user/consent/{UNKNOWN_ID}"
    assert (await tenant_api.get(path)).status_code == 404
    assert (await tenant_api.delete(path)).status_code == 404
    assert (await tenant_api.put(path, json={"userConsent": {}})).status_code == 404
    assert (await tenant_api.get("/api/user/consent", params={"userId": UNKNOWN_ID})).status_code == 404
    assert codes(await tenant_api.get("/api/user/consent")) == {"[missing]userId"}
    assert codes(await tenant_api.get("/api/user/consent", params={"userId": "x"})) == {"[couldNotConvert]userId"}


@pytest.mark.requirement("users-2.1-11")
async def test_another_tenant_can_neither_read_nor_change(service: app.Service, api, tenant_api) -> None:
    consent, user = await make_consent(api, defaultMinimumAgeForSelfConsent=0), await make_user(tenant_api)
    made = (await give_consent(tenant_api, consent, user)).json()["userConsent"]
    path = f"/api/user/consent/{made['id']}"
    assert (await api.get(path)).status_code == 404
    assert (await api.delete(path)).status_code == 404
    assert (await api.patch(path, json={"userConsent": {"status": "Revoked"}})).status_code == 404
    assert (await api.get("/api/user/consent", params={"userId": user["id"]})).status_code == 404
    theirs = await make_user(api)
    assert codes(await give_consent(tenant_api, consent, theirs)) == {
        "[invalid]userConsent.userId", "[invalid]userConsent.giverUserId",
    }  # fmt: skip
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        assert (await everywhere.get(path)).json()["userConsent"]["status"] == "Active"
        assert (await give_consent(everywhere, consent, theirs)).status_code == 200, "the user tells the tenant"


@pytest.mark.requirement("users-2.1-11")
async def test_user_consents_are_deleted_with_user_and_consent(tenant_api) -> None:
    one, other = [await make_consent(tenant_api, defaultMinimumAgeForSelfConsent=0) for _ in range(2)]
    user, staying = await make_user(tenant_api), await make_user(tenant_api)
    gone = [(await give_consent(tenant_api, consent, user)).json()["userConsent"]["id"] for consent in (one, other)]
    kept, removed = [
        (await give_consent(tenant_api, consent, staying, giverUserId=user["id"])).json()["userConsent"]["id"]
        for consent in (one, other)
    ]
    assert (await tenant_api.delete(f"/api/user/{user['id']}", params={"hardDelete": "true"})).status_code == 200
    assert [(await tenant_api.get(f"/api/user/consent/{one}")).status_code for one in gone] == [404, 404]
    assert (await tenant_api.get(f"/api/user/consent/{kept}")).status_code == 200, "it was given for another user"
    assert (await tenant_api.delete(f"/api/consent/{other['id']}")).status_code == 200
    assert (await tenant_api.get(f"/api/user/consent/{removed}")).status_code == 404


async def _has_no_mails(service: Any, tenant_id: str) -> bool:
    return bool(await internals.store(service, "mails").count(tenant_id) == 0)


@pytest.mark.requirement("core-18-groups-24", "users-2.1-11")
async def test_giver_is_mailed_immediately_and_reminded_unless_revoked(service, tenant_api, clock) -> None:
    plus = {"enabled": True, "emailTemplateId": EMAIL_TEMPLATE}
    plus |= {"minimumTimeToSendEmailInHours": 1, "maximumTimeToSendEmailInHours": 2}
    members = {"consentEmailTemplateId": EMAIL_TEMPLATE, "emailPlus": plus}
    consent = await make_consent(tenant_api, defaultMinimumAgeForSelfConsent=13, **members)
    parent, one, other = [await make_user(tenant_api) for _ in range(3)]
    async with mailbox.receiving() as box:
        tenant = {"emailConfiguration": box.configuration()}
        tenant_id = tenant_api.headers["X-FusionAuth-TenantId"]
        assert (await tenant_api.patch(f"/api/tenant/{tenant_id}", json={"tenant": tenant})).status_code == 200
        made = [
            (await give_consent(tenant_api, consent, child, giverUserId=parent["id"])).json()["userConsent"]["id"]
            for child in (one, other)
        ]
        mails = await box.wait_for(2)
        assert {recipient for mail in mails for recipient in mail.recipients} == {parent["email"]}
        # A mail whose lease expires before its delivery is recorded would be sent again.
        await until(lambda: _has_no_mails(service, tenant_id))
        await internals.run(service, user_consents.send_second_mails)
        assert (await tenant_api.delete(f"/api/user/consent/{made[0]}")).status_code == 200
        clock.advance(seconds=2 * 3600 + 1)
        await internals.run(service, user_consents.send_second_mails)
        await internals.run(service, user_consents.send_second_mails)
        await box.wait_for(3)
        due = internals.store(service, "user_consents")
        assert await due.count_across_tenants({"private.secondMailInstant": {"$exists": True}}) == 0
        assert len(box.mails) == 3, "one of them was revoked, and the other is told once"
