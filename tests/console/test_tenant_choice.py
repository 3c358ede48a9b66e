"""The choice of the tenant of a new object: a list, or the id where there are too many tenants."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.conftest import UNKNOWN_ID
from tests.console.administrator import Browser, Page

CHOICE = "console.tenantId"
_LISTED = 200
"""The most tenants that a form lists."""


@pytest.fixture
async def tenant_id(every_tenant: httpx.AsyncClient) -> str:
    """A tenant among more than a form lists."""
    total = (await every_tenant.get("/api/tenant/search", params={"numberOfResults": 1})).json()["total"]
    for _ in range(0, _LISTED - total, 8):
        await asyncio.gather(*(relying_party.make_tenant(every_tenant) for _ in range(8)))
    return str((await relying_party.make_tenant(every_tenant))["id"])


def kind_of(answer: httpx.Response, name: str) -> str:
    [tag] = [tag for tag, given in Page(answer).tags if given.get("name") == name]
    return tag


async def test_object_is_created_in_the_tenant_with_the_entered_id(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, tenant_id: str
) -> None:
    admin = roles["admin"]
    shown = await admin.open("/admin/groups/new")
    assert kind_of(shown, CHOICE) == "input"
    for wrong in ("", "no id", UNKNOWN_ID):
        refused = await admin.submit(shown, "", **{"group.name": "Team", CHOICE: wrong})
        assert refused.status_code == 400, wrong
        assert "tenant" in Page(refused).text
    created = await admin.submit(refused, "", **{CHOICE: tenant_id})
    assert created.status_code == 303, Page(created).text
    group_id = str((await admin.follow(created)).url.path).rpartition("/")[2]
    assert (await every_tenant.get(f"/api/group/{group_id}")).json()["group"]["tenantId"] == tenant_id


async def test_import_and_explanation_take_the_id_of_a_tenant(
    roles: dict[str, Browser], every_tenant: httpx.AsyncClient, tenant_id: str
) -> None:
    admin = roles["admin"]
    assert kind_of(await admin.open("/admin/users/import"), CHOICE) == "input"
    webhook = {"url": f"https://{new_id()}.example.com", "connectTimeout": 1000, "readTimeout": 1000, "global": True}
    made = await every_tenant.post(
        "/api/webhook", json={"webhook": {**webhook, "eventsEnabled": {"user.create": True}}}
    )
    path = f"/admin/webhooks/{made.json()['webhook']['id']}/why"
    shown = await admin.open(f"{path}?event=user.create&tenantId={tenant_id}")
    assert kind_of(shown, "tenantId") == "input"
    assert tenant_id in shown.text
    await every_tenant.delete(f"/api/webhook/{made.json()['webhook']['id']}")
