"""Lists and limits of webhooks, changes by other processes, and events of disabled features."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests import internals
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, checking_client
from tests.receiver import answers, receiving, until

HOOK = {"url": "https://example.com/hook", "connectTimeout": 1000, "readTimeout": 2000}


@pytest.mark.requirement("contract-webhooks-2", "webhooks-2-19")
async def test_webhooks_are_listed_newest_first(build, clock):
    async with (
        build(clock=clock) as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        assert (await api.get("/api/webhook")).json() == {"webhooks": []}
        made = []
        for _ in range(3):
            made.append((await api.post("/api/webhook", json={"webhook": HOOK})).json()["webhook"]["id"])
            clock.advance(seconds=1)
        listed = (await api.get("/api/webhook")).json()
        assert listed.keys() == {"webhooks"}
        assert [webhook["id"] for webhook in listed["webhooks"]] == made[::-1]
        found = (await api.get("/api/webhook/search")).json()
        assert [webhook["id"] for webhook in found["webhooks"]] == made[::-1]
        assert found["total"] == 3


@pytest.mark.requirement("contract-webhooks-9", "core-2-13", "design-config-9", "webhooks-6-7")
async def test_event_of_disabled_feature_is_not_licensed(build):
    async with (
        build(license__features="{threatDetection: false}") as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        for name, status in (("user.login.suspicious", 400), ("user.password.breach", 200), ("user.create", 200)):
            answer = await api.post("/api/webhook", json={"webhook": {**HOOK, "eventsEnabled": {name: True}}})
            assert answer.status_code == status, name
            if status == 400:
                assert [error["code"] for error in answer.json()["generalErrors"]] == ["[NotLicensed]"]
        off = {"webhook": {**HOOK, "eventsEnabled": {"user.login.suspicious": False}}}
        assert (await api.post("/api/webhook", json=off)).status_code == 200


@pytest.mark.requirement("webhooks-2-5")
async def test_url_may_be_long_and_shared(api):
    """As long as servers take one; the published API has no limit."""
    url = "https://example.com/".ljust(8192, "x")
    made = [(await api.post("/api/webhook", json={"webhook": {**HOOK, "url": url}})).json() for _ in range(2)]
    assert [one["webhook"]["url"] for one in made] == [url, url]
    refused = await api.post("/api/webhook", json={"webhook": {**HOOK, "url": url + "x"}})
    (error,) = refused.json()["fieldErrors"]["webhook.url"]
    assert error["code"] == "[invalid]webhook.url"
    assert "longer than 8192 characters" in error["message"]


@pytest.mark.requirement("webhooks-4-11")
async def test_sorting_by_name_sorts_by_description(api):
    """The published default, `name ASC`, names a field that webhooks do not have."""
    mark = new_id()
    for letter in "bca":
        await api.post(
            "/api/webhook", json={"webhook": {**HOOK, "description": letter, "url": f"https://example.com/{mark}"}}
        )
    for order, expected in [("name ASC", "abc"), ("name DESC", "cba"), ("name", "abc")]:
        search = {"search": {"url": mark, "orderBy": order}}
        found = (await api.post("/api/webhook/search", json=search)).json()["webhooks"]
        assert "".join(webhook["description"] for webhook in found) == expected


@pytest.mark.requirement("webhooks-2-15")
async def test_change_is_seen_by_other_processes(build, tmp_path):
    """A webhook, its status and the key that it is to sign with: from the next event on."""
    database = f"test_{new_id()[:8]}"
    shared = {"database": database, "data_dir": tmp_path}
    headers = {"Authorization": SUPER_KEY}
    async with (
        build(**shared) as one,
        build(**shared, role="web") as other,
        receiving(answers(403)) as receiver,
        checking_client(one.base_url, headers=headers) as here,
        checking_client(other.base_url, headers=headers) as there,
    ):
        events = {"group.create": {"enabled": True, "transactionType": "AbsoluteMajority"}}
        change = {"tenant": {"eventConfiguration": {"events": events}}}
        await here.patch(f"/api/tenant/{DEFAULT_TENANT}", json=change)
        hook = {**HOOK, "url": receiver.url, "global": True, "eventsEnabled": {"group.create": True}}
        path = f"/api/webhook/{(await here.post('/api/webhook', json={'webhook': hook})).json()['webhook']['id']}"

        async def created() -> int:
            return (await there.post("/api/group", json={"group": {"name": new_id()}})).status_code

        async def is_signed() -> bool:
            return await created() == 504 and "x-fusionauth-signature-jwt" in receiver.requests[-1].headers

        async def is_free() -> bool:
            return await created() == 200

        async def is_refused() -> bool:
            return await created() == 504

        await until(is_refused)
        key = (await here.post("/api/key/generate", json={"key": {"name": new_id(), "algorithm": "ES256"}})).json()
        signing = {"signatureConfiguration": {"enabled": True, "signingKeyId": key["key"]["id"]}}
        assert (await here.patch(path, json={"webhook": signing})).status_code == 200
        await until(is_signed)
        assert (await here.put(f"{path}/status", json={"status": "Disabled"})).status_code == 200
        await until(is_free)
        assert (await here.put(f"{path}/status", json={"status": "Active"})).status_code == 200
        await until(is_refused)
        await internals.database(one).drop()
