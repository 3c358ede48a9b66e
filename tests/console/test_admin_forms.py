"""The administrators' form of a tenant decides which fields the screens of its users have."""

from __future__ import annotations

from typing import Any

import httpx

from identity.ids import new_id
from tests.console.administrator import Browser, Page

EMAIL = "user.email"


async def make(api: httpx.AsyncClient, path: str, name: str, document: dict[str, Any]) -> dict[str, Any]:
    answer = await api.post(path, json={name: document})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()[name])


async def test_user_has_the_fields_of_the_form_of_the_tenant(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient
) -> None:
    api, mark = every_tenant, new_id()[:8]
    named = {field["key"]: field["id"] for field in (await api.get("/api/form/field")).json()["fields"]}
    plan = {"name": f"Plan {mark}", "key": "user.data.plan", "control": "select", "options": ["free", "gold"]}
    seats = {"name": f"Seats {mark}", "key": "user.data.contract.seats", "control": "number", "type": "number"}
    odd = {"name": f"Odd {mark}", "key": "user.data.odd['x']"}
    custom = [(await make(api, "/api/form/field", "field", field))["id"] for field in (plan, seats, odd)]
    steps = [{"fields": [named[EMAIL]]}, {"fields": custom}]
    form = await make(api, "/api/form", "form", {"name": mark, "type": "adminUser", "steps": steps})
    tenant = {"name": mark, "formConfiguration": {"adminUserFormId": form["id"]}}
    headers = {"X-FusionAuth-TenantId": (await make(api, "/api/tenant", "tenant", tenant))["id"]}
    body = {"user": {"email": f"{mark}@example.com", "password": "a long password", "data": {"kept": 1}}}
    user_id = (await api.post("/api/user", json=body, headers=headers)).json()["user"]["id"]
    path = f"/admin/users/{user_id}/edit"
    shown = await roles["user-manager"].open(path)
    fields = {name for name in Page(shown).form("")["fields"] if name.startswith("user.")}
    assert fields == {EMAIL, "user.data.plan", "user.data.contract.seats"}
    assert f"Seats {mark}" in Page(shown).text
    changes = {"user.data.plan": "gold", "user.data.contract.seats": "12"}
    assert (await roles["user-manager"].submit(shown, "", **changes)).status_code == 303
    stored = (await api.get(f"/api/user/{user_id}")).json()["user"]
    assert stored["data"] == {"contract": {"seats": 12}, "kept": 1, "plan": "gold"}
    new = Page(await roles["user-manager"].open("/admin/users/new"))
    assert "user.data.plan" not in new.form("")["fields"]
