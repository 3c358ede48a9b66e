"""Actions on users: created, modified, cancelled, listed and expired; their effects and notifications."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests import internals
from tests.conftest import UNKNOWN_ID

Document = dict[str, Any]

INDEFINITE = 9223372036854775807
HOUR = 3_600_000


def errors(answer: Any) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {e["code"] for found in answer.json()["fieldErrors"].values() for e in found}


class Scenario:
    """A tenant with a moderator and a user."""

    def __init__(self, service: Any, api: Any, tenant: Document) -> None:
        self.service, self.api, self.tenant = service, api, tenant

    async def begin(self) -> None:
        self.moderator = await self.make_user()
        self.user = await self.make_user(preferredLanguages=["de"])

    @property
    def now(self) -> int:
        return int(internals.now(self.service))

    async def make_user(self, **members: Any) -> Document:
        body = {"user": {"username": new_id(), "email": f"{new_id()}@example.com", "password": "password", **members}}
        answer = await self.api.post("/api/user", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["user"])

    async def definition(self, **members: Any) -> Document:
        answer = await self.api.post("/api/user-action", json={"userAction": {"name": new_id(), **members}})
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["userAction"])

    async def reason(self, **members: Any) -> Document:
        body = {"userActionReason": {"code": new_id()[:8], "text": f"Misconduct {new_id()}", **members}}
        answer = await self.api.post("/api/user-action-reason", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["userActionReason"])

    def request(self, definition: Document, **members: Any) -> Document:
        who = {"actioneeUserId": self.user["id"], "actionerUserId": self.moderator["id"]}
        return {"action": {"userActionId": definition["id"], **who, **members}}

    async def take_action(self, definition: Document, **members: Any) -> Document:
        answer = await self.api.post("/api/user/action", json=self.request(definition, **members))
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["action"])

    async def ban(self, **members: Any) -> Document:
        definition = await self.definition(temporal=True, preventLogin=True)
        return await self.take_action(definition, **{"expiry": self.now + HOUR, **members})

    async def listed(self, **query: Any) -> list[str]:
        answer = await self.api.get("/api/user/action", params={"userId": self.user["id"], **query})
        assert answer.status_code == 200, answer.text
        return [action["id"] for action in answer.json()["actions"]]


@pytest.fixture
async def scenario(service, tenant_api, tenant) -> Scenario:
    found = Scenario(service, tenant_api, tenant)
    await found.begin()
    return found


@pytest.mark.requirement("users-11-1")
async def test_action_is_stored_with_localized_names(scenario: Scenario) -> None:
    options = [{"name": "soft", "localizedNames": {"de": "sanft"}}, {"name": "hard"}]
    definition = await scenario.definition(localizedNames={"de": "Verwarnung"}, options=options)
    reason = await scenario.reason(localizedTexts={"de": "Benehmen"})
    taken = await scenario.take_action(definition, option="soft", reasonId=reason["id"], comment="First time")
    assert taken.pop("insertInstant") <= scenario.now
    assert taken == {
        "id": taken["id"],
        "actioneeUserId": scenario.user["id"],
        "actionerUserId": scenario.moderator["id"],
        "applicationIds": [],
        "comment": "First time",
        "endEventSent": False,
        "history": {"historyItems": []},
        "localizedName": "Verwarnung",
        "localizedOption": "sanft",
        "localizedReason": "Benehmen",
        "name": definition["name"],
        "option": "soft",
        "reason": reason["text"],
        "reasonCode": reason["code"],
        "userActionId": definition["id"],
    }
    shown = (await scenario.api.get(f"/api/user/action/{taken['id']}")).json()["action"]
    assert {**taken, "insertInstant": shown["insertInstant"]} == shown


@pytest.mark.requirement("users-11-3")
async def test_change_appends_previous_values_to_history(scenario: Scenario) -> None:
    other = await scenario.make_user()
    definition = await scenario.definition(temporal=True)
    expiry = scenario.now + HOUR
    taken = await scenario.take_action(definition, expiry=expiry, comment="First time", notifyUser=True)
    assert (taken["expiry"], taken["emailUserOnEnd"], taken["notifyUserOnEnd"]) == (expiry, False, False)
    path = f"/api/user/action/{taken['id']}"
    change = {"action": {"actionerUserId": other["id"], "expiry": INDEFINITE}}
    changed = (await scenario.api.put(path, json=change)).json()["action"]
    assert changed["expiry"] == INDEFINITE
    assert changed["actionerUserId"] == other["id"]
    assert "comment" not in changed
    first = {
        "actionerUserId": scenario.moderator["id"],
        "comment": "First time",
        "createInstant": taken["insertInstant"],
        "expiry": expiry,
    }
    assert changed["history"] == {"historyItems": [first]}
    body = {"action": {"actionerUserId": scenario.moderator["id"], "comment": "Enough"}}
    answer = await scenario.api.request("DELETE", path, json=body)
    cancelled = answer.json()["action"]
    assert cancelled["expiry"] <= scenario.now
    assert cancelled["comment"] == "Enough"
    second = cancelled["history"]["historyItems"][1]
    assert (second["actionerUserId"], second["expiry"]) == (other["id"], INDEFINITE)
    assert cancelled["history"]["historyItems"][0] == first
    assert (await scenario.api.get(path)).json() == {"action": cancelled}


@pytest.mark.requirement("users-11-2")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"userActionId": None}, "[missing]action.userActionId"),
        ({"userActionId": UNKNOWN_ID}, "[invalid]action.userActionId"),
        ({"actioneeUserId": None}, "[missing]action.actioneeUserId"),
        ({"actioneeUserId": UNKNOWN_ID}, "[invalid]action.actioneeUserId"),
        ({"actionerUserId": None}, "[missing]action.actionerUserId"),
        ({"actionerUserId": UNKNOWN_ID}, "[invalid]action.actionerUserId"),
        ({"expiry": None}, "[missing]action.expiry"),
        ({"expiry": 1}, "[invalid]action.expiry"),
        ({"option": "none of them"}, "[invalid]action.option"),
        ({"reasonId": UNKNOWN_ID}, "[invalid]action.reasonId"),
        ({"applicationIds": [UNKNOWN_ID]}, "[invalid]action.applicationIds[0]"),
        ({"comment": "x" * 10_001}, "[tooLong]action.comment"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_invalid_requests_create_no_action(scenario: Scenario, change, code) -> None:
    definition = await scenario.definition(temporal=True)
    request = scenario.request(definition, **{"expiry": INDEFINITE, **change})
    assert errors(await scenario.api.post("/api/user/action", json=request)) == {code}
    assert await scenario.listed() == []


@pytest.mark.requirement("users-11-2")
async def test_inactive_action_cannot_be_applied(scenario: Scenario) -> None:
    definition = await scenario.definition()
    assert (await scenario.api.delete(f"/api/user-action/{definition['id']}")).status_code == 200
    answer = await scenario.api.post("/api/user/action", json=scenario.request(definition))
    assert errors(answer) == {"[invalid]action.userActionId"}


@pytest.mark.requirement("users-11-2")
async def test_all_errors_of_action_are_reported_together(scenario: Scenario) -> None:
    answer = await scenario.api.post("/api/user/action", json={"action": {"reasonId": new_id()}})
    assert errors(answer) == {
        "[missing]action.actioneeUserId",
        "[missing]action.actionerUserId",
        "[missing]action.userActionId",
        "[invalid]action.reasonId",
    }
    assert errors(await scenario.api.post("/api/user/action", json={})) == {"[missing]action"}


@pytest.mark.requirement("users-11-4")
async def test_permanent_and_expired_actions_cannot_be_changed(scenario: Scenario) -> None:
    once = await scenario.take_action(await scenario.definition())
    over = await scenario.take_action(await scenario.definition(temporal=True), expiry=INDEFINITE)
    by = {"action": {"actionerUserId": scenario.moderator["id"]}}
    assert (await scenario.api.request("DELETE", f"/api/user/action/{over['id']}", json=by)).status_code == 200
    for action in (once, over):
        path = f"/api/user/action/{action['id']}"
        for method in ("PUT", "DELETE"):
            assert errors(await scenario.api.request(method, path, json=by)) == {"[invalid]actionId"}
    live = await scenario.take_action(await scenario.definition(temporal=True), expiry=INDEFINITE)
    path = f"/api/user/action/{live['id']}"
    assert errors(await scenario.api.put(path, json={"action": {"expiry": 1}})) == {
        "[missing]action.actionerUserId",
        "[invalid]action.expiry",
    }
    assert errors(await scenario.api.request("DELETE", path, json={"action": {"actionerUserId": new_id()}})) == {
        "[invalid]action.actionerUserId"
    }
    assert (await scenario.api.get(f"/api/user/action/{new_id()}")).status_code == 404
    assert (await scenario.api.put(f"/api/user/action/{new_id()}", json=by)).status_code == 404
    assert (await scenario.api.request("DELETE", f"/api/user/action/{new_id()}", json=by)).status_code == 404


@pytest.mark.requirement("users-11-5")
async def test_actions_are_listed_newest_first_and_filtered_by_state(scenario: Scenario, clock) -> None:
    taken = []
    for members in ({}, {"temporal": True}, {"temporal": True, "preventLogin": True}, {"temporal": True}):
        clock.advance(seconds=1)
        expiry = {"expiry": scenario.now + HOUR} if members else {}
        taken.append((await scenario.take_action(await scenario.definition(**members), **expiry))["id"])
    once, lasting, ban, gone = taken
    by = {"action": {"actionerUserId": scenario.moderator["id"]}}
    await scenario.api.request("DELETE", f"/api/user/action/{gone}", json=by)
    assert await scenario.listed() == [gone, ban, lasting, once]
    assert await scenario.listed(active="true") == [ban, lasting]
    assert await scenario.listed(active="false") == [gone, once]
    assert await scenario.listed(preventingLogin="true") == [ban]
    clock.advance(seconds=4000)
    assert await scenario.listed(active="true") == []
    assert await scenario.listed(preventingLogin="true") == []
    assert await scenario.listed(active="false") == [gone, ban, lasting, once]


@pytest.mark.requirement("users-11-5")
async def test_list_requires_user_and_at_most_one_filter(scenario: Scenario) -> None:
    path = "/api/user/action"
    assert errors(await scenario.api.get(path)) == {"[missing]userId"}
    assert errors(await scenario.api.get(path, params={"userId": "unknown"})) == {"[couldNotConvert]userId"}
    both = {"userId": scenario.user["id"], "active": "true", "preventingLogin": "true"}
    assert errors(await scenario.api.get(path, params=both)) == {"[notAllowed]preventingLogin"}
    assert (await scenario.api.get(path, params={"userId": new_id()})).status_code == 404


@pytest.mark.requirement("users-11-21")
async def test_comments_are_stored_with_author(scenario: Scenario, clock) -> None:
    made = []
    for text in ("Called. <b>Angry</b>", "Called again"):
        clock.advance(seconds=1)
        body = {"comment": text, "commenterId": scenario.moderator["id"], "userId": scenario.user["id"]}
        answer = await scenario.api.post("/api/user/comment", json={"userComment": body})
        assert answer.status_code == 200, answer.text
        comment = answer.json()["userComment"]
        assert {name: comment[name] for name in body} == body
        made.insert(0, comment)
    path = f"/api/user/comment/{scenario.user['id']}"
    assert (await scenario.api.get(path)).json() == {"userComments": made}
    assert (await scenario.api.get(f"/api/user/comment/{scenario.moderator['id']}")).json() == {"userComments": []}
    assert (await scenario.api.get(f"/api/user/comment/{new_id()}")).status_code == 404
    search = {"search": {"comment": "*again", "userId": scenario.user["id"]}}
    found = (await scenario.api.post("/api/user/comment/search", json=search)).json()
    assert found == {"total": 1, "userComments": made[:1]}
    query = {"commenterId": scenario.moderator["id"], "orderBy": "insertInstant ASC", "numberOfResults": 1}
    found = (await scenario.api.get("/api/user/comment/search", params=query)).json()
    assert found == {"total": 2, "userComments": made[1:]}


@pytest.mark.requirement("users-11-21")
async def test_comment_requires_text_author_and_user(scenario: Scenario) -> None:
    path = "/api/user/comment"
    assert errors(await scenario.api.post(path, json={"userComment": {}})) == {
        "[blank]userComment.comment",
        "[missing]userComment.commenterId",
        "[missing]userComment.userId",
    }
    body = {"comment": "c", "commenterId": new_id(), "userId": scenario.user["id"]}
    assert errors(await scenario.api.post(path, json={"userComment": body})) == {"[invalid]userComment.commenterId"}
    body = {"comment": "c", "commenterId": scenario.moderator["id"], "userId": new_id()}
    assert errors(await scenario.api.post(path, json={"userComment": body})) == {"[invalid]userComment.userId"}
