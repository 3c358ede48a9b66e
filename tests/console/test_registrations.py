"""Registrations of a user: created and changed with the fields of the application's form."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.console.administrator import Browser, Page
from tests.console.test_admin_forms import make

ROLES, USERNAME = "registration.roles", "registration.username"
SEATS, PLAN, CODE = (f"registration.data.{name}" for name in ("seats", "plan", "code"))


@pytest.fixture
async def user(every_tenant: httpx.AsyncClient) -> dict[str, Any]:
    """A user of a tenant of its own, which has few applications."""
    tenant = (await every_tenant.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    body = {"user": {"username": new_id(), "password": "a long password"}}
    headers = {"X-FusionAuth-TenantId": tenant["id"]}
    return dict((await every_tenant.post("/api/user", json=body, headers=headers)).json()["user"])


async def application(api: httpx.AsyncClient, user: dict[str, Any], **members: Any) -> dict[str, Any]:
    body = {"application": {"name": new_id(), "roles": [{"name": "editor"}, {"name": "author"}], **members}}
    answer = await api.post("/api/application", json=body, headers={"X-FusionAuth-TenantId": user["tenantId"]})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["application"])


@pytest.fixture
async def with_form(every_tenant: httpx.AsyncClient, user: dict[str, Any]) -> dict[str, Any]:
    """An application whose registrations have fields of their own."""
    api, mark = every_tenant, new_id()[:8]
    named = {field["key"]: field["id"] for field in (await api.get("/api/form/field")).json()["fields"]}
    seats = {"name": f"Seats {mark}", "key": SEATS, "control": "number", "type": "number", "required": True}
    plan = {"name": f"Plan {mark}", "key": PLAN, "control": "select", "options": ["free", "gold"]}
    code = {"name": f"Code {mark}", "key": CODE, "validator": {"enabled": True, "expression": "[A-Z]{3}"}}
    custom = [(await make(api, "/api/form/field", "field", field))["id"] for field in (seats, plan, code)]
    steps = [{"fields": [named[ROLES]]}, {"fields": custom}]
    form = await make(api, "/api/form", "form", {"name": mark, "type": "adminRegistration", "steps": steps})
    return await application(api, user, formConfiguration={"adminRegistrationFormId": form["id"]})


async def stored(api: httpx.AsyncClient, user: dict[str, Any], application_id: str) -> dict[str, Any]:
    answer = await api.get(f"/api/user/registration/{user['id']}/{application_id}")
    return dict(answer.json().get("registration", {})) if answer.content else {}


def page_of(user: dict[str, Any], application_id: str = "") -> str:
    return f"/admin/users/{user['id']}/registration" + (f"?applicationId={application_id}" if application_id else "")


def shown_fields(answer: httpx.Response) -> set[str]:
    tags = (given.get("name", "") for tag, given in Page(answer).tags if tag in {"input", "select", "textarea"})
    return {name for name in tags if name.startswith("registration.")}


async def test_user_is_registered_and_the_registration_changed(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, user: dict[str, Any]
) -> None:
    browser, api = roles["user-manager"], every_tenant
    made = await application(api, user)
    tab = f"/admin/users/{user['id']}/tab/registrations"
    assert page_of(user) in Page(await browser.open(tab)).links
    chooser = await browser.open(page_of(user))
    assert f'value="{made["id"]}"' in chooser.text
    shown = await browser.open(page_of(user, made["id"]))
    assert shown_fields(shown) >= {USERNAME, ROLES, "registration.data"}
    created = await browser.submit(shown, "", **{ROLES: ["editor"], USERNAME: "ada"})
    assert created.status_code == 303, Page(created).text
    assert created.headers["Location"].startswith(tab)
    registration = await stored(api, user, made["id"])
    assert (registration["roles"], registration["username"]) == (["editor"], "ada")
    assert f'value="{made["id"]}"' not in (await browser.open(page_of(user))).text
    assert page_of(user, made["id"]) in Page(await browser.open(tab)).links
    for chosen in (["author"], None):
        shown = await browser.open(page_of(user, made["id"]))
        changed = await browser.submit(shown, "", **{ROLES: chosen})
        assert changed.status_code == 303, Page(changed).text
        registration = await stored(api, user, made["id"])
        assert (registration["roles"], registration["username"]) == (chosen or [], "ada")


async def test_form_of_the_application_decides_the_fields(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, user: dict[str, Any], with_form: dict[str, Any]
) -> None:
    browser, path = roles["user-manager"], page_of(user, with_form["id"])
    shown = await browser.open(path)
    assert shown_fields(shown) == {ROLES, SEATS, PLAN, CODE}
    assert "Step 2" in Page(shown).text
    created = await browser.submit(shown, "", **{ROLES: ["author"], SEATS: "12", PLAN: "gold", CODE: "ABC"})
    assert created.status_code == 303, Page(created).text
    registration = await stored(every_tenant, user, with_form["id"])
    assert registration["data"] == {"seats": 12, "plan": "gold", "code": "ABC"}
    changed = await browser.submit(await browser.open(path), "", **{SEATS: "13", PLAN: None})
    assert changed.status_code == 303, Page(changed).text
    registration = await stored(every_tenant, user, with_form["id"])
    assert (registration["data"], registration["roles"]) == ({"seats": 13, "code": "ABC"}, ["author"])


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, SEATS),
        ({SEATS: "many"}, SEATS),
        ({SEATS: "1", PLAN: "silver"}, PLAN),
        ({SEATS: "1", CODE: "abc"}, CODE),
        ({SEATS: "1", ROLES: ["owner"]}, ROLES),
    ],
)
async def test_value_that_the_form_does_not_allow_is_refused_at_its_field(
    roles: dict[str, Browser],
    every_tenant: httpx.AsyncClient,
    user: dict[str, Any],
    with_form: dict[str, Any],
    fields: dict[str, Any],
    wrong: str,
) -> None:
    browser = roles["user-manager"]
    shown = await browser.open(page_of(user, with_form["id"]))
    answer = await browser.submit(shown, "", **fields)
    assert answer.status_code == 400
    assert f'id="{wrong.replace(".", "-")}-wrong"' in answer.text
    assert await stored(every_tenant, user, with_form["id"]) == {}


async def test_role_that_only_reads_cannot_register(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, user: dict[str, Any]
) -> None:
    made = await application(every_tenant, user)
    shown = await roles["auditor"].open(page_of(user, made["id"]))
    answer = await roles["auditor"].submit(shown, "", **{ROLES: ["editor"]})
    assert (answer.status_code, "not permit" in answer.text) == (400, True)
    assert await stored(every_tenant, user, made["id"]) == {}
    assert (await roles["admin"].http.post(page_of(user, made["id"]), data={ROLES: "editor"})).status_code == 403
    assert await stored(every_tenant, user, made["id"]) == {}


@pytest.mark.parametrize("application_id", ["2d2b7d5c-3b0f-4f0d-9d0a-0a4f6d1f2c11", "nonsense"])
async def test_application_that_does_not_exist_is_refused(
    roles: dict[str, Browser], user: dict[str, Any], application_id: str
) -> None:
    answer = await roles["admin"].open(page_of(user, application_id))
    assert answer.status_code == 404
