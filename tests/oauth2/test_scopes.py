"""Custom and provided scopes over HTTP, at every grant."""

from __future__ import annotations

import pytest

from tests import relying_party
from tests.relying_party import PASSWORD, claims, response

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
GRANTS = ["authorization_code", "refresh_token", "implicit", "password", DEVICE]
UNKNOWN = ("invalid_scope", "unknown_scope")


@pytest.fixture
async def rp(api):
    """An application with every grant."""
    return await relying_party.make(api, enabledGrants=GRANTS, deviceVerificationURL="https://app.example.com/device")


async def define(rp, name: str, **members) -> str:
    """The path of a new scope."""
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    path = f"/api/application/{rp.client_id}/scope"
    answer = await rp.api.post(path, json={"scope": {"name": name, **members}}, headers=headers)
    assert answer.status_code == 200, answer.text
    return f"{path}/{answer.json()['scope']['id']}"


async def password_grant(rp, http, scope: str):
    form = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": scope}
    return await rp.token(http, **form)


def error_of(answer) -> tuple[str, str]:
    found = response(answer) if answer.status_code == 302 else answer.json()
    return found["error"], found["error_reason"]


@pytest.mark.requirement("oauth-1.9-18")
async def test_custom_scopes_work_with_every_grant(rp, browser, http):
    await define(rp, "orders:read")
    await define(rp, "must", required=True)
    scope = "openid offline_access orders:read must"
    tokens = await rp.tokens(http, browser, scope=scope)
    assert tokens["scope"] == scope
    assert claims(tokens["access_token"])["scope"] == scope
    refreshed = (await rp.refresh(http, tokens["refresh_token"], scope="orders:read")).json()
    assert claims(refreshed["access_token"])["scope"] == "orders:read"
    assert (await password_grant(rp, http, "orders:read")).json()["scope"] == "orders:read"
    implicit = response(await rp.authorize(browser, response_type="token", scope="orders:read must"))
    assert (implicit["scope"], claims(implicit["access_token"])["scope"]) == ("orders:read must", "orders:read must")
    device = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id, "scope": "orders:read"})
    assert device.status_code == 200


async def test_scope_of_one_application_is_unknown_to_another(rp, browser, api):
    await define(rp, "orders:read")
    sibling = await relying_party.make(api, tenant=rp.tenant)
    assert error_of(await sibling.authorize(browser, scope="openid orders:read")) == UNKNOWN


async def test_deleted_scope_is_unknown_and_revokes_its_refresh_tokens(rp, browser, http, api):
    path = await define(rp, "orders:read")
    tokens = await rp.tokens(http, browser, scope="openid offline_access orders:read")
    assert (await api.delete(path, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})).status_code == 200
    assert error_of(await rp.authorize(browser, scope="openid orders:read")) == UNKNOWN
    assert error_of(await rp.refresh(http, tokens["refresh_token"])) == UNKNOWN
    assert error_of(await rp.refresh(http, tokens["refresh_token"])) == ("invalid_grant", "refresh_token_not_found")


@pytest.mark.requirement("oauth-1.9-18")
async def test_disabled_scope_is_unknown_everywhere(rp, browser, http):
    tokens = await rp.tokens(http, browser, scope="openid offline_access phone")
    await rp.configure(providedScopePolicy={"phone": {"enabled": False}})
    device = {"client_id": rp.client_id, "scope": "phone"}
    for answer in (
        await rp.authorize(browser, scope="openid phone"),
        await rp.authorize(browser, response_type="token", scope="phone"),
        await password_grant(rp, http, "openid phone"),
        await http.post("/oauth2/device_authorize", data=device),
    ):
        assert error_of(answer) == UNKNOWN
    await rp.configure(unknownScopePolicy="Remove")
    kept = (await rp.refresh(http, tokens["refresh_token"])).json()
    assert claims(kept["access_token"])["scope"] == "openid offline_access"
    bearer = {"Authorization": f"Bearer {(await password_grant(rp, http, 'openid phone')).json()['access_token']}"}
    assert "phone_number" not in (await http.get("/oauth2/userinfo", headers=bearer)).json()
    await rp.configure(unknownScopePolicy="Reject")
    assert error_of(await rp.refresh(http, tokens["refresh_token"])) == UNKNOWN


async def test_built_in_scopes_cannot_be_defined(rp, browser, http, api):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    for name in ("openid", "offline_access", "email", "idp-link:x", "source-entity:x", "target-entity:x", "a b", 'a"b'):
        answer = await api.post(
            f"/api/application/{rp.client_id}/scope", json={"scope": {"name": name}}, headers=headers
        )
        assert answer.status_code == 400, name
        assert "scope.name" in answer.json()["fieldErrors"], name
    assert (await rp.tokens(http, browser, scope="openid offline_access"))["scope"] == "openid offline_access"


async def test_claims_policy_is_strict_or_compatible(rp, browser, http):
    scope = "openid email"
    strict = await rp.tokens(http, browser, scope=scope)
    assert "email" not in claims(strict["access_token"])
    assert claims(strict["id_token"])["email"] == rp.login_id
    without = await rp.tokens(http, browser, scope="openid")
    assert not {claims(without[name]).get("email") for name in ("access_token", "id_token")} - {None}
    await rp.configure(scopeHandlingPolicy="Compatibility")
    loose = await rp.tokens(http, browser, scope="openid")
    assert {claims(loose[name])["email"] for name in ("access_token", "id_token")} == {rp.login_id}
