"""Access lists of applications and tenants: whom the hosted pages are shown to."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests import relying_party
from tests.relying_party import response

OUTSIDE, INSIDE = "198.51.100.7", "203.0.113.5"


@pytest.fixture
async def list_id(api) -> str:
    """A list that allows one network."""
    entries = [
        {"action": "Block", "startIPAddress": "*"},
        {"action": "Allow", "startIPAddress": "203.0.113.0", "endIPAddress": "203.0.113.255"},
    ]
    body = {"ipAccessControlList": {"name": new_id(), "entries": entries}}
    return (await api.post("/api/ip-acl", json=body)).json()["ipAccessControlList"]["id"]


async def configure(rp, kind: str, list_id: str | None) -> None:
    path = {"application": f"/api/application/{rp.client_id}", "tenant": f"/api/tenant/{rp.tenant['id']}"}[kind]
    await rp.patch(path, {kind: {"accessControlConfiguration": {"uiIPAccessControlListId": list_id}}})


async def authorize_from(rp, browser, address: str, **changes: str):
    return await browser.get(
        "/oauth2/authorize", params=rp.query(**changes), headers={"X-Forwarded-For": address, "Accept": "text/html"}
    )


@pytest.mark.requirement("core-6-6", "core-8-accessControlConfiguration")
@pytest.mark.parametrize("kind", ["application", "tenant"])
async def test_list_keeps_addresses_from_the_pages(rp, browser, list_id, kind):
    await configure(rp, kind, list_id)
    refused = await authorize_from(rp, browser, OUTSIDE)
    assert refused.status_code == 403
    assert "not allowed" in relying_party.page(refused).text
    assert (await authorize_from(rp, browser, INSIDE)).status_code == 200
    await configure(rp, kind, None)
    assert (await authorize_from(rp, browser, OUTSIDE)).status_code == 200


async def test_list_of_the_application_decides_where_both_have_one(rp, browser, list_id, api):
    everybody = {"name": new_id(), "entries": [{"action": "Allow", "startIPAddress": "*"}]}
    open_list = (await api.post("/api/ip-acl", json={"ipAccessControlList": everybody})).json()["ipAccessControlList"]
    await configure(rp, "tenant", list_id)
    await configure(rp, "application", open_list["id"])
    assert (await authorize_from(rp, browser, OUTSIDE)).status_code == 200


@pytest.mark.requirement("core-6-6")
async def test_neither_login_nor_session_gets_past_the_list(rp, browser, list_id):
    shown = await rp.authorize(browser)
    await configure(rp, "application", list_id)
    assert (await rp.submit(browser, shown)).status_code == 403
    await configure(rp, "application", None)
    assert "code" in response(await rp.submit(browser, shown))
    await configure(rp, "application", list_id)
    refused = await authorize_from(rp, browser, OUTSIDE, prompt="none")
    assert (refused.status_code, "Location" in refused.headers) == (403, False)
