"""Actions on users: created, modified, cancelled, listed and expired; their effects and notifications."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests import doors
from tests.conftest import NOBODY

Document = dict[str, Any]

INDEFINITE = 9223372036854775807
HOUR = 3_600_000


def errors(answer: Any) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {e["code"] for found in answer.json()["fieldErrors"].values() for e in found}


class Scene:
    """A tenant with a moderator and a user."""

    def __init__(self, service: Any, api: Any, tenant: Document) -> None:
        self.service, self.api, self.tenant = service, api, tenant

    async def begin(self) -> None:
        self.moderator = await self.make_user()
        self.user = await self.make_user(preferredLanguages=["de"])

    @property
    def now(self) -> int:
        return int(doors.now(self.service))

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

    async def take(self, definition: Document, **members: Any) -> Document:
        answer = await self.api.post("/api/user/action", json=self.request(definition, **members))
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["action"])

    async def ban(self, **members: Any) -> Document:
        definition = await self.definition(temporal=True, preventLogin=True)
        return await self.take(definition, **{"expiry": self.now + HOUR, **members})

    async def listed(self, **query: Any) -> list[str]:
        answer = await self.api.get("/api/user/action", params={"userId": self.user["id"], **query})
        assert answer.status_code == 200, answer.text
        return [action["id"] for action in answer.json()["actions"]]


@pytest.fixture
async def scene(service, tenant_api, tenant) -> Scene:
    found = Scene(service, tenant_api, tenant)
    await found.begin()
    return found


@pytest.mark.requirement("users-11-1")
async def test_action_is_stored_with_localized_names(scene: Scene) -> None:
    options = [{"name": "soft", "localizedNames": {"de": "sanft"}}, {"name": "hard"}]
    definition = await scene.definition(localizedNames={"de": "Verwarnung"}, options=options)
    reason = await scene.reason(localizedTexts={"de": "Benehmen"})
    taken = await scene.take(definition, option="soft", reasonId=reason["id"], comment="First time")
    assert taken.pop("insertInstant") <= scene.now
    assert taken == {
        "id": taken["id"],
        "actioneeUserId": scene.user["id"],
        "actionerUserId": scene.moderator["id"],
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
    shown = (await scene.api.get(f"/api/user/action/{taken['id']}")).json()["action"]
    assert {**taken, "insertInstant": shown["insertInstant"]} == shown


@pytest.mark.requirement("users-11-3")
async def test_change_appends_previous_values_to_history(scene: Scene) -> None:
    other = await scene.make_user()
    definition = await scene.definition(temporal=True)
    expiry = scene.now + HOUR
    taken = await scene.take(definition, expiry=expiry, comment="First time", notifyUser=True)
    assert (taken["expiry"], taken["emailUserOnEnd"], taken["notifyUserOnEnd"]) == (expiry, False, False)
    path = f"/api/user/action/{taken['id']}"
    change = {"action": {"actionerUserId": other["id"], "expiry": INDEFINITE}}
    changed = (await scene.api.put(path, json=change)).json()["action"]
    assert changed["expiry"] == INDEFINITE
    assert changed["actionerUserId"] == other["id"]
    assert "comment" not in changed
    first = {
        "actionerUserId": scene.moderator["id"],
        "comment": "First time",
        "createInstant": taken["insertInstant"],
        "expiry": expiry,
    }
    assert changed["history"] == {"historyItems": [first]}
    body = {"action": {"actionerUserId": scene.moderator["id"], "comment": "Enough"}}
    answer = await scene.api.request("DELETE", path, json=body)
    cancelled = answer.json()["action"]
    assert cancelled["expiry"] <= scene.now
    assert cancelled["comment"] == "Enough"
    second = cancelled["history"]["historyItems"][1]
    assert (second["actionerUserId"], second["expiry"]) == (other["id"], INDEFINITE)
    assert cancelled["history"]["historyItems"][0] == first
    assert (await scene.api.get(path)).json() == {"action": cancelled}


@pytest.mark.requirement("users-11-2")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"userActionId": None}, "[missing]action.userActionId"),
        ({"userActionId": NOBODY}, "[invalid]action.userActionId"),
        ({"actioneeUserId": None}, "[missing]action.actioneeUserId"),
        ({"actioneeUserId": NOBODY}, "[invalid]action.actioneeUserId"),
        ({"actionerUserId": None}, "[missing]action.actionerUserId"),
        ({"actionerUserId": NOBODY}, "[invalid]action.actionerUserId"),
        ({"expiry": None}, "[missing]action.expiry"),
        ({"expiry": 1}, "[invalid]action.expiry"),
        ({"option": "none of them"}, "[invalid]action.option"),
        ({"reasonId": NOBODY}, "[invalid]action.reasonId"),
        ({"applicationIds": [NOBODY]}, "[invalid]action.applicationIds[0]"),
        ({"comment": "x" * 10_001}, "[tooLong]action.comment"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_invalid_requests_create_no_action(scene: Scene, change, code) -> None:
    definition = await scene.definition(temporal=True)
    request = scene.request(definition, **{"expiry": INDEFINITE, **change})
    assert errors(await scene.api.post("/api/user/action", json=request)) == {code}
    assert await scene.listed() == []


@pytest.mark.requirement("users-11-2")
async def test_inactive_action_cannot_be_applied(scene: Scene) -> None:
    definition = await scene.definition()
    assert (await scene.api.delete(f"/api/user-action/{definition['id']}")).status_code == 200
    answer = await scene.api.post("/api/user/action", json=scene.request(definition))
    assert errors(answer) == {"[invalid]action.userActionId"}


@pytest.mark.requirement("users-11-2")
async def test_all_errors_of_action_are_reported_together(scene: Scene) -> None:
    answer = await scene.api.post("/api/user/action", json={"action": {"reasonId": new_id()}})
    assert errors(answer) == {
        "[missing]action.actioneeUserId",
        "[missing]action.actionerUserId",
        "[missing]action.userActionId",
        "[invalid]action.reasonId",
    }
    assert errors(await scene.api.post("/api/user/action", json={})) == {"[missing]action"}


@pytest.mark.requirement("users-11-4")
async def test_permanent_and_expired_actions_cannot_be_changed(scene: Scene) -> None:
    once = await scene.take(await scene.definition())
    over = await scene.take(await scene.definition(temporal=True), expiry=INDEFINITE)
    by = {"action": {"actionerUserId": scene.moderator["id"]}}
    assert (await scene.api.request("DELETE", f"/api/user/action/{over['id']}", json=by)).status_code == 200
    for action in (once, over):
        path = f"/api/user/action/{action['id']}"
        for method in ("PUT", "DELETE"):
            assert errors(await scene.api.request(method, path, json=by)) == {"[invalid]actionId"}
    live = await scene.take(await scene.definition(temporal=True), expiry=INDEFINITE)
    path = f"/api/user/action/{live['id']}"
    assert errors(await scene.api.put(path, json={"action": {"expiry": 1}})) == {
        "[missing]action.actionerUserId",
        "[invalid]action.expiry",
    }
    assert errors(await scene.api.request("DELETE", path, json={"action": {"actionerUserId": new_id()}})) == {
        "[invalid]action.actionerUserId"
    }
    assert (await scene.api.get(f"/api/user/action/{new_id()}")).status_code == 404
    assert (await scene.api.put(f"/api/user/action/{new_id()}", json=by)).status_code == 404
    assert (await scene.api.request("DELETE", f"/api/user/action/{new_id()}", json=by)).status_code == 404


@pytest.mark.requirement("users-11-5")
async def test_actions_are_listed_newest_first_and_filtered_by_state(scene: Scene, clock) -> None:
    taken = []
    for members in ({}, {"temporal": True}, {"temporal": True, "preventLogin": True}, {"temporal": True}):
        clock.advance(seconds=1)
        expiry = {"expiry": scene.now + HOUR} if members else {}
        taken.append((await scene.take(await scene.definition(**members), **expiry))["id"])
    once, lasting, ban, gone = taken
    by = {"action": {"actionerUserId": scene.moderator["id"]}}
    await scene.api.request("DELETE", f"/api/user/action/{gone}", json=by)
    assert await scene.listed() == [gone, ban, lasting, once]
    assert await scene.listed(active="true") == [ban, lasting]
    assert await scene.listed(active="false") == [gone, once]
    assert await scene.listed(preventingLogin="true") == [ban]
    clock.advance(seconds=4000)
    assert await scene.listed(active="true") == []
    assert await scene.listed(preventingLogin="true") == []
    assert await scene.listed(active="false") == [gone, ban, lasting, once]


@pytest.mark.requirement("users-11-5")
async def test_list_requires_user_and_at_most_one_filter(scene: Scene) -> None:
    path = "/api/user/action"
    assert errors(await scene.api.get(path)) == {"[missing]userId"}
    assert errors(await scene.api.get(path, params={"userId": "nobody"})) == {"[couldNotConvert]userId"}
    both = {"userId": scene.user["id"], "active": "true", "preventingLogin": "true"}
    assert errors(await scene.api.get(path, params=both)) == {"[notAllowed]preventingLogin"}
    assert (await scene.api.get(path, params={"userId": new_id()})).status_code == 404


@pytest.mark.requirement("users-11-21")
async def test_comments_are_stored_with_author(scene: Scene, clock) -> None:
    made = []
    for text in ("Called. <b>Angry</b>", "Called again"):
        clock.advance(seconds=1)
        body = {"comment": text, "commenterId": scene.moderator["id"], "userId": scene.user["id"]}
        answer = await scene.api.post("/api/user/comment", json={"userComment": body})
        assert answer.status_code == 200, answer.text
        comment = answer.json()["userComment"]
        assert {name: comment[name] for name in body} == body
        made.insert(0, comment)
    path = f"/api/user/comment/{scene.user['id']}"
    assert (await scene.api.get(path)).json() == {"userComments": made}
    assert (await scene.api.get(f"/api/user/comment/{scene.moderator['id']}")).json() == {"userComments": []}
    assert (await scene.api.get(f"/api/user/comment/{new_id()}")).status_code == 404
    search = {"search": {"comment": "*again", "userId": scene.user["id"]}}
    found = (await scene.api.post("/api/user/comment/search", json=search)).json()
    assert found == {"total": 1, "userComments": made[:1]}
    query = {"commenterId": scene.moderator["id"], "orderBy": "insertInstant ASC", "numberOfResults": 1}
    found = (await scene.api.get("/api/user/comment/search", params=query)).json()
    assert found == {"total": 2, "userComments": made[1:]}


@pytest.mark.requirement("users-11-21")
async def test_comment_requires_text_author_and_user(scene: Scene) -> None:
    path = "/api/user/comment"
    assert errors(await scene.api.post(path, json={"userComment": {}})) == {
        "[blank]userComment.comment",
        "[missing]userComment.commenterId",
        "[missing]userComment.userId",
    }
    body = {"comment": "c", "commenterId": new_id(), "userId": scene.user["id"]}
    assert errors(await scene.api.post(path, json={"userComment": body})) == {"[invalid]userComment.commenterId"}
    body = {"comment": "c", "commenterId": scene.moderator["id"], "userId": new_id()}
    assert errors(await scene.api.post(path, json={"userComment": body})) == {"[invalid]userComment.userId"}
