"""The roles of a group are check boxes, by application."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page

ROLES = "roleIds"


async def application(api: httpx.AsyncClient, tenant_id: str, *roles: str) -> dict[str, Any]:
    body = {"application": {"name": f"Shop {new_id()}", "roles": [{"name": role} for role in roles]}}
    answer = await api.post("/api/application", json=body, headers={"X-FusionAuth-TenantId": tenant_id})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["application"])


@pytest.fixture
async def tenant_id(every_tenant: httpx.AsyncClient) -> str:
    """A tenant of its own, whose applications no other test makes."""
    return str((await every_tenant.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]["id"])


def offered(answer: httpx.Response) -> list[str]:
    return [given["value"] for tag, given in Page(answer).tags if tag == "input" and given.get("name") == ROLES]


async def granted(api: httpx.AsyncClient, group_id: str) -> set[str]:
    roles = (await api.get(f"/api/group/{group_id}")).json()["group"]["roles"]
    return {role["id"] for listed in roles.values() for role in listed}


async def test_roles_are_chosen_by_name_when_a_group_is_created_and_changed(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, tenant_id: str
) -> None:
    admin, api = roles["admin"], every_tenant
    shop, blog = await application(api, tenant_id, "buyer", "seller"), await application(api, tenant_id, "author")
    buyer, seller = (role["id"] for role in shop["roles"])
    author = blog["roles"][0]["id"]
    shown = await admin.open("/admin/groups/new")
    assert buyer not in shown.text
    shown = await admin.submit(shown, "", **{"console.tenantId": tenant_id, "console.edit": "tenant"})
    assert shown.status_code == 200
    assert set(offered(shown)) == {buyer, seller, author}
    for text in (shop["name"], blog["name"], "buyer", "seller", "author"):
        assert text in Page(shown).text
    created = await admin.submit(shown, "", **{"group.name": "Team", ROLES: [buyer, author]})
    assert created.status_code == 303, Page(created).text
    page = await admin.follow(created)
    assert f"{shop['name']}: buyer" in Page(page).text
    group_id = page.url.path.rpartition("/")[2]
    assert await granted(api, group_id) == {buyer, author}
    edited = await admin.open(f"{page.url.path}/edit")
    assert set(Page(edited).form("")["fields"][ROLES]) == {buyer, author}
    assert (await admin.submit(edited, "", **{"group.name": "Team two"})).status_code == 303
    assert await granted(api, group_id) == {buyer, author}
    assert (await admin.submit(edited, "", **{ROLES: [seller]})).status_code == 303
    assert await granted(api, group_id) == {seller}
    assert (await admin.submit(edited, "", **{ROLES: None})).status_code == 303
    assert await granted(api, group_id) == set()


async def test_roles_stay_when_the_json_of_a_group_is_stored(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, tenant_id: str
) -> None:
    role = (await application(every_tenant, tenant_id, "buyer"))["roles"][0]["id"]
    body = {"group": {"name": "Team"}, ROLES: [role]}
    answer = await every_tenant.post("/api/group", json=body, headers={"X-FusionAuth-TenantId": tenant_id})
    path = f"/admin/groups/{answer.json()['group']['id']}"
    shown = await roles["admin"].open(f"{path}/json")
    document = json.loads(Page(shown).form("")["fields"]["json"])
    saved = await roles["admin"].submit(shown, "", json=json.dumps({**document, "name": "Renamed"}))
    assert saved.status_code == 303, Page(saved).text
    group = (await every_tenant.get(f"/api/group/{document['id']}")).json()["group"]
    assert group["name"] == "Renamed"
    assert await granted(every_tenant, document["id"]) == {role}


async def test_role_of_another_tenant_is_refused_at_the_field(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, tenant_id: str
) -> None:
    role = (await application(every_tenant, tenant_id, "buyer"))["roles"][0]["id"]
    shown = await roles["admin"].open("/admin/groups/new")
    fields = {"console.tenantId": DEFAULT_TENANT, "group.name": new_id(), ROLES: [role]}
    answer = await roles["admin"].submit(shown, "", **fields)
    assert answer.status_code == 400
    assert f"There is no role [{role}]" in answer.text.partition('id="roleIds-wrong"')[2].partition("</p>")[0]
