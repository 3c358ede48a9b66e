"""Lists of webhooks, and webhooks for events whose feature an operator switched off."""

from __future__ import annotations

from tests.conftest import SUPER_KEY, checking_client

HOOK = {"url": "https://example.com/hook", "connectTimeout": 1000, "readTimeout": 2000}


async def test_all_webhooks_come_newest_first(build, clock):
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


async def test_event_of_a_feature_that_is_off_is_not_licensed(build):
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
