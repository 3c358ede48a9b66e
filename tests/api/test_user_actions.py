"""User actions and their reasons as definitions; applying them is tested in test_actions."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id

Document = dict[str, Any]

TEMPLATES = ("cancelEmailTemplateId", "endEmailTemplateId", "modifyEmailTemplateId", "startEmailTemplateId")
LOCK_OUT = {"temporal": True, "preventLogin": True}


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


def action_body(**members: Any) -> Document:
    return {"userAction": {"name": f"Action {new_id()}", **members}}


async def make(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/user-action", json=action_body(**members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["userAction"])


async def listed(api: httpx.AsyncClient, **query: str) -> list[Document]:
    return list((await api.get("/api/user-action", params=query)).json()["userActions"])


@pytest.mark.requirement("core-18-groups-25")
async def test_defaults_are_filled_in(api) -> None:
    made = await make(api, active=False, id=new_id())
    assert made.pop("name").startswith("Action ")
    assert made.pop("insertInstant") == made.pop("lastUpdateInstant")
    assert made.pop("id")
    assert made == {
        "active": True,
        "includeEmailInEventJSON": False,
        "localizedNames": {},
        "options": [],
        "preventLogin": False,
        "sendEndEvent": True,
        "temporal": False,
        "transactionType": "None",
        "userEmailingEnabled": False,
        "userNotificationsEnabled": False,
    }


@pytest.mark.requirement("core-18-groups-25")
async def test_full_cycle(api) -> None:
    action_id = new_id()
    members: Document = {
        "includeEmailInEventJSON": True,
        "localizedNames": {"de": "Sperre", "es_MX": "Bloqueo"},
        "options": [{"name": "Short", "localizedNames": {"de": "Kurz"}}, {"name": "Long"}],
        "preventLogin": True,
        "sendEndEvent": False,
        "temporal": True,
        "transactionType": "SuperMajority",
        "userNotificationsEnabled": True,
    }
    body = action_body(**members)
    made = (await api.post(f"/api/user-action/{action_id}", json=body)).json()["userAction"]
    assert made == {
        **members,
        "active": True,
        "id": action_id,
        "insertInstant": made["insertInstant"],
        "lastUpdateInstant": made["insertInstant"],
        "name": body["userAction"]["name"],
        "options": [{"name": "Short", "localizedNames": {"de": "Kurz"}}, {"name": "Long", "localizedNames": {}}],
        "userEmailingEnabled": False,
    }
    path = f"/api/user-action/{action_id}"
    assert (await api.get(path)).json() == {"userAction": made}
    assert made in await listed(api)
    patch = {"userAction": {"options": [{"name": "Medium"}], "localizedNames": {"de": None}}}
    patched = (await api.patch(path, json=patch)).json()["userAction"]
    assert [option["name"] for option in patched["options"]] == ["Short", "Long", "Medium"]
    assert patched["localizedNames"] == {"es_MX": "Bloqueo"}
    replaced = (await api.put(path, json={"userAction": {"name": "  Renamed " + action_id}})).json()["userAction"]
    assert replaced["name"] == f"Renamed {action_id}"
    assert replaced["options"] == []
    assert replaced["temporal"] is replaced["preventLogin"] is False
    assert replaced["lastUpdateInstant"] > made["lastUpdateInstant"]
    assert replaced["insertInstant"] == made["insertInstant"]


@pytest.mark.requirement("core-18-groups-27")
async def test_deactivated_action_is_listed_separately(api) -> None:
    made = await make(api)
    path = f"/api/user-action/{made['id']}"
    for _ in range(2):
        assert (await api.delete(path)).status_code == 200
        found = (await api.get(path)).json()["userAction"]
        assert found["active"] is False
        assert found["name"] == made["name"]
    assert made["id"] not in {one["id"] for one in await listed(api)}
    assert made["id"] in {one["id"] for one in await listed(api, inactive="TRUE")}
    assert codes(await api.post("/api/user-action", json=action_body(name=made["name"]))) == {
        "[duplicate]userAction.name"
    }
    changed = await api.put(path, json={"userAction": {"name": made["name"], "active": True}})
    assert changed.json()["userAction"]["active"] is False
    again = (await api.put(path, params={"reactivate": "true"})).json()["userAction"]
    assert again["active"] is True
    assert made["id"] in {one["id"] for one in await listed(api, inactive="false")}
    assert made["id"] not in {one["id"] for one in await listed(api, inactive="true")}
    assert (await api.delete(path, params={"hardDelete": "true"})).status_code == 200
    assert (await api.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("method", "query"), [("GET", ""), ("PUT", ""), ("PUT", "?reactivate=true"), ("PATCH", ""), ("DELETE", ""),
                          ("DELETE", "?hardDelete=true")]
)  # fmt: skip
async def test_unknown_action_is_404(api, method, query) -> None:
    assert (await api.request(method, f"/api/user-action/{new_id()}{query}", json=action_body())).status_code == 404


@pytest.mark.requirement("core-18-groups-25")
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"name": None}, {"[blank]userAction.name"}),
        ({"name": "x" * 192}, {"[tooLong]userAction.name"}),
        ({"preventLogin": True}, {"[invalid]userAction.preventLogin"}),
        ({"transactionType": "All"}, {"[invalid]userAction.transactionType"}),
        ({"temporal": 1}, {"[invalidJSON]"}),
        ({"temporal": True, "userEmailingEnabled": True}, {f"[missing]userAction.{name}" for name in TEMPLATES}),
        ({"startEmailTemplateId": "x"}, {"[couldNotConvert]userAction.startEmailTemplateId"}),
        ({"localizedNames": {"!": "x"}}, {"[invalid]userAction.localizedNames"}),
        ({"localizedNames": {"de": ""}}, {"[blank]userAction.localizedNames.de"}),
        ({"options": [{}]}, {"[blank]userAction.options[0].name"}),
        ({"options": [{"name": "a"}, {"name": " a"}]}, {"[duplicate]userAction.options[1].name"}),
        ({"options": [{"name": "a", "localizedNames": {"!": "x"}}]},
         {"[invalid]userAction.options[0].localizedNames"}),
    ],
)  # fmt: skip
async def test_invalid_members(api, members, expected) -> None:
    assert codes(await api.post("/api/user-action", json=action_body(**members))) == expected


@pytest.mark.requirement("core-18-groups-26")
async def test_messages_require_existing_templates_and_protect_them(api) -> None:
    template = {"name": new_id(), "defaultSubject": "x", "defaultHtmlTemplate": "x", "defaultTextTemplate": "x"}
    template_id = (await api.post("/api/email/template", json={"emailTemplate": template})).json()["emailTemplate"][
        "id"
    ]
    mailing = {"temporal": True, "userEmailingEnabled": True}
    unknown = action_body(**mailing, **dict.fromkeys(TEMPLATES, new_id()))
    assert codes(await api.post("/api/user-action", json=unknown)) == {f"[invalid]userAction.{n}" for n in TEMPLATES}
    made = await make(api, **mailing, **dict.fromkeys(TEMPLATES, template_id))
    assert {made[name] for name in TEMPLATES} == {template_id}
    assert codes(await api.delete(f"/api/email/template/{template_id}")) == {"[inUse]emailTemplateId"}
    await api.delete(f"/api/user-action/{made['id']}", params={"hardDelete": "true"})
    assert (await api.delete(f"/api/email/template/{template_id}")).status_code == 200
    assert (await make(api, userEmailingEnabled=True))["userEmailingEnabled"] is True, "one that is over at once"


async def test_id_in_path_is_required_and_unique(api) -> None:
    made = await make(api)
    assert codes(await api.post(f"/api/user-action/{made['id']}", json=action_body())) == {"[duplicate]userActionId"}
    for method in ("PUT", "PATCH", "DELETE"):
        assert codes(await api.request(method, "/api/user-action", json=action_body())) == {"[missing]userActionId"}
    assert codes(await api.get("/api/user-action/x")) == {"[couldNotConvert]userActionId"}
    assert codes(await api.post("/api/user-action", json={})) == {"[missing]userAction"}


# What a tenant locks users out by


def locking(action_id: str | None) -> Document:
    return {"tenant": {"failedAuthenticationConfiguration": {"userActionId": action_id}}}


@pytest.mark.requirement("core-18-groups-28", "core-8-failedAuthenticationConfiguration")
@pytest.mark.parametrize("members", [{}, {"temporal": True}, None])
async def test_lockout_action_must_be_temporal_and_prevent_login(api, tenant, members) -> None:
    action_id = new_id() if members is None else (await make(api, **members))["id"]
    refused = await api.patch(f"/api/tenant/{tenant['id']}", json=locking(action_id))
    assert codes(refused) == {"[invalid]tenant.failedAuthenticationConfiguration.userActionId"}
    found = (await api.get(f"/api/tenant/{tenant['id']}")).json()["tenant"]
    assert "userActionId" not in found["failedAuthenticationConfiguration"]


@pytest.mark.requirement("core-18-groups-28")
async def test_deactivated_action_does_not_lock(api, tenant) -> None:
    made = await make(api, **LOCK_OUT)
    await api.delete(f"/api/user-action/{made['id']}")
    refused = await api.patch(f"/api/tenant/{tenant['id']}", json=locking(made["id"]))
    assert codes(refused) == {"[invalid]tenant.failedAuthenticationConfiguration.userActionId"}


@pytest.mark.requirement("core-18-groups-28", "core-8-failedAuthenticationConfiguration")
async def test_lockout_action_cannot_be_changed(api, tenant) -> None:
    made = await make(api, **LOCK_OUT)
    path = f"/api/user-action/{made['id']}"
    named = await api.patch(f"/api/tenant/{tenant['id']}", json=locking(made["id"]))
    assert named.json()["tenant"]["failedAuthenticationConfiguration"]["userActionId"] == made["id"]
    for query in ({}, {"hardDelete": "true"}):
        assert codes(await api.delete(path, params=query)) == {"[inUse]userActionId"}
    no_lock: Document = {"userAction": {"preventLogin": False}}
    assert codes(await api.patch(path, json=no_lock)) == {"[inUse]userAction.preventLogin"}
    no_time: Document = {"userAction": {"name": made["name"]}}
    assert codes(await api.put(path, json=no_time)) == {"[inUse]userAction.temporal"}
    assert (await api.get(path)).json() == {"userAction": made}
    renamed = await api.patch(path, json={"userAction": {"name": f"{made['name']}!"}})
    assert renamed.json()["userAction"]["name"] == f"{made['name']}!"
    await api.patch(f"/api/tenant/{tenant['id']}", json=locking(None))
    assert (await api.patch(path, json=no_lock)).json()["userAction"]["preventLogin"] is False
    assert (await api.delete(path, params={"hardDelete": "true"})).status_code == 200


# Reasons


def reason(**members: Any) -> Document:
    mark = new_id()
    return {"userActionReason": {"code": f"C {mark}", "text": f"Text {mark}", **members}}


async def make_reason(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/user-action-reason", json=reason(**members))
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["userActionReason"])


@pytest.mark.requirement("core-18-groups-29")
async def test_full_cycle_of_a_reason(api) -> None:
    made = await make_reason(api, localizedTexts={"de": "Darum", "fr_CA": "Parce que"})
    assert made.keys() == {"code", "id", "insertInstant", "lastUpdateInstant", "localizedTexts", "text"}
    assert made["localizedTexts"] == {"de": "Darum", "fr_CA": "Parce que"}
    path = f"/api/user-action-reason/{made['id']}"
    assert (await api.get(path)).json() == {"userActionReason": made}
    assert made in (await api.get("/api/user-action-reason")).json()["userActionReasons"]
    patched = await api.patch(path, json={"userActionReason": {"localizedTexts": {"de": "Deshalb"}}})
    assert patched.json()["userActionReason"]["localizedTexts"] == {"de": "Deshalb", "fr_CA": "Parce que"}
    replaced = (await api.put(path, json=reason())).json()["userActionReason"]
    assert replaced["localizedTexts"] == {}
    assert replaced["code"] != made["code"]
    assert (await api.delete(path)).status_code == 200
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert (await api.request(method, path, json=reason())).status_code == 404


@pytest.mark.requirement("core-18-groups-29")
async def test_code_and_text_of_a_reason_are_required_and_unique(api) -> None:
    path = "/api/user-action-reason"
    made = await make_reason(api)
    assert codes(await api.post(path, json={"userActionReason": {}})) == {
        "[blank]userActionReason.code",
        "[blank]userActionReason.text",
    }
    assert codes(await api.post(path, json=reason(code=made["code"]))) == {"[duplicate]userActionReason.code"}
    assert codes(await api.post(path, json=reason(text=made["text"]))) == {"[duplicate]userActionReason.text"}
    assert codes(await api.post(f"{path}/{made['id']}", json=reason())) == {"[duplicate]userActionReasonId"}
    too_long = reason(code="x" * 192, text="y" * 192)
    assert codes(await api.post(path, json=too_long)) == {
        "[tooLong]userActionReason.code",
        "[tooLong]userActionReason.text",
    }
    assert codes(await api.post(path, json=reason(localizedTexts={"!": "x"}))) == {
        "[invalid]userActionReason.localizedTexts"
    }


async def test_actions_and_reasons_have_no_search(api) -> None:
    """`search` is parsed as an invalid id."""
    assert codes(await api.get("/api/user-action/search")) == {"[couldNotConvert]userActionId"}
    assert codes(await api.get("/api/user-action-reason/search")) == {"[couldNotConvert]userActionReasonId"}
