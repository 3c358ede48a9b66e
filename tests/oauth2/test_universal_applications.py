"""Universal applications: the three ways to name the tenant."""

from __future__ import annotations

import httpx
import pytest

from tests import relying_party
from tests.relying_party import PASSWORD, RelyingParty


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """A relying party whose application is universal."""
    made = await relying_party.make(api, enabledGrants=["authorization_code", "refresh_token", "password"])
    universal = {"universalConfiguration": {"universal": True}}
    await made.patch(f"/api/application/{made.client_id}", {"application": universal})
    return made


def refused(answer: httpx.Response, reason: str) -> None:
    assert answer.status_code == 400
    assert (answer.json()["error"], answer.json()["error_reason"]) == ("invalid_request", reason)


async def test_universal_applications_are_found_by_a_search(rp):
    inside = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    for universal, expected in ((True, 1), (False, 0)):
        search = {"name": rp.application["name"], "universal": universal}
        answer = await rp.api.post("/api/application/search", json={"search": search}, headers=inside)
        assert answer.json()["total"] == expected


@pytest.mark.requirement("oauth-0.3-6", "reason-missing_tenant_id")
async def test_request_without_tenant_is_refused(rp, http, browser):
    json = {"Accept": "application/json"}
    refused(await browser.get("/oauth2/authorize", params=rp.query(), headers=json), "missing_tenant_id")
    refused(await rp.exchange(http, "code"), "missing_tenant_id")
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": "token"}
    for path in ("introspect", "revoke"):
        refused(await http.post(f"/oauth2/{path}", data=form), "missing_tenant_id")
    assert (await rp.authorize(browser, tenantId=rp.tenant["id"])).status_code == 200
    for way in ({"tenantId": rp.tenant["id"]}, {}):
        path, headers = ("", {}) if way else (f"/{rp.tenant['id']}", {})
        answer = await browser.get(f"{path}/oauth2/authorize", params={**rp.query(), **way}, headers=headers)
        assert answer.status_code == 200
    named = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await browser.get("/oauth2/authorize", params=rp.query(), headers=named)).status_code == 200


@pytest.mark.requirement("oauth-0.3-6")
async def test_tokens_identify_their_tenant(rp, http):
    form = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": "openid"}
    token = (await rp.token(http, **form, tenantId=rp.tenant["id"])).json()["access_token"]
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
    assert answer.json()["sub"] == rp.user["id"]
    asked = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token, "tenantId": rp.tenant["id"]}
    assert (await http.post("/oauth2/introspect", data=asked)).json()["active"] is True


@pytest.mark.requirement("oauth-0.3-6")
async def test_token_of_another_tenant_is_rejected(rp, http, tenant):
    refused(await rp.exchange(http, "code", tenantId=tenant["id"]), "invalid_tenant_id")
