"""Actions that prevent login, at every kind of login and until they end."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from tests import internals, relying_party, two_factor
from tests.relying_party import PASSWORD, page

Document = dict[str, Any]
INDEFINITE = 9223372036854775807
REFUSED = "This sign-in was rejected."


async def ban(api: Any, user_id: str, **members: Any) -> Document:
    """A live action that prevents logins."""
    wanted = {"name": new_id(), "temporal": True, "preventLogin": True, "localizedNames": {"de": "Sperre"}}
    definition = (await api.post("/api/user-action", json={"userAction": wanted})).json()["userAction"]
    action = {"actioneeUserId": user_id, "actionerUserId": user_id, "userActionId": definition["id"]}
    # The tenant is found by the user.
    headers = {"X-FusionAuth-TenantId": ""}
    answer = await api.post(
        "/api/user/action", json={"action": {**action, "expiry": INDEFINITE, **members}}, headers=headers
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["action"])


async def cancel(api: Any, action: Document) -> None:
    by = {"action": {"actionerUserId": action["actioneeUserId"]}}
    headers = {"X-FusionAuth-TenantId": ""}
    answer = await api.request("DELETE", f"/api/user/action/{action['id']}", json=by, headers=headers)
    assert answer.status_code == 200, answer.text


async def log_in(rp: Any, api: Any, password: str = PASSWORD, **members: Any) -> Any:
    body = {"loginId": rp.login_id, "password": password, "applicationId": rp.client_id, **members}
    return await api.post("/api/login", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})


async def with_refresh_tokens(rp: Any, **policy: Any) -> None:
    settings = {"allowTokenRefresh": True, "generateRefreshTokens": True}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"loginConfiguration": settings}})
    if policy:
        await rp.configure_tenant(jwtConfiguration={"refreshTokenRevocationPolicy": policy})


@pytest.mark.requirement("core-3-7", "users-11-8", "users-5-13")
async def test_login_api_reports_the_preventing_action_with_the_correct_password(rp, api) -> None:
    reason = {"code": new_id()[:8], "text": f"Fraud {new_id()}"}
    reason = (await api.post("/api/user-action-reason", json={"userActionReason": reason})).json()["userActionReason"]
    action = await ban(api, rp.user["id"], reasonId=reason["id"])
    assert (await log_in(rp, api, "wrong")).status_code == 404
    answer = await log_in(rp, api)
    assert answer.status_code == 409
    assert answer.json() == {
        "actions": [
            {
                "actionId": action["id"],
                "actionerUserId": rp.user["id"],
                "expiry": INDEFINITE,
                "localizedName": action["name"],
                "localizedReason": reason["text"],
                "name": action["name"],
                "reason": reason["text"],
                "reasonCode": reason["code"],
            }
        ]
    }
    assert not answer.cookies
    await cancel(api, action)
    assert (await log_in(rp, api)).status_code == 200


@pytest.mark.requirement("users-11-9")
async def test_action_prevents_logins_until_it_expires(rp, api, clock, service) -> None:
    await ban(api, rp.user["id"], expiry=internals.now(service) + 60_000)
    assert (await log_in(rp, api)).status_code == 409
    clock.advance(seconds=61)
    assert (await log_in(rp, api)).status_code == 200


@pytest.mark.requirement("users-11-9")
async def test_action_prevents_logins_to_its_applications(rp, api, new_browser) -> None:
    other = await relying_party.make(api, tenant=rp.tenant)
    tokens = await rp.tokens(new_browser(), new_browser())
    others = await relying_party.make_user(api, rp.tenant["id"], other.client_id)
    await ban(api, rp.user["id"], applicationIds=[other.client_id])
    assert (await log_in(rp, api)).status_code == 200
    assert (await log_in(rp, api, applicationId=other.client_id)).status_code == 409
    assert (await rp.refresh(new_browser(), tokens["refresh_token"])).status_code == 200
    body = {"loginId": rp.login_id, "password": PASSWORD}
    tenant = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.post("/api/login", json=body, headers=tenant)).status_code == 200
    assert others["id"] != rp.user["id"]


@pytest.mark.requirement("users-11-8", "users-5-13")
async def test_ping_does_not_bypass_an_action(rp, api) -> None:
    action = await ban(api, rp.user["id"])
    answer = await api.put(
        f"/api/login/{rp.user['id']}/{rp.client_id}", headers={"X-FusionAuth-TenantId": rp.tenant["id"]}
    )
    assert answer.status_code == 409
    assert [one["actionId"] for one in answer.json()["actions"]] == [action["id"]]


@pytest.mark.requirement("oauth-2.2-10", "users-11-8")
async def test_password_grant_reports_a_prevented_login(rp, api, http) -> None:
    await rp.configure(enabledGrants=["password"])
    await ban(api, rp.user["id"])
    form = {"grant_type": "password", "username": rp.login_id, "redirect_uri": None}
    answer = await rp.token(http, **form, password=PASSWORD)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert answer.json()["error_reason"] == "login_prevented"
    answer = await rp.token(http, **form, password="wrong")
    assert answer.json()["error_reason"] == "invalid_user_credentials"


@pytest.mark.requirement("users-11-8")
async def test_login_page_reports_a_prevented_login_with_the_correct_password(rp, api, browser) -> None:
    await ban(api, rp.user["id"])
    shown = await rp.authorize(browser)
    wrong = await rp.submit(browser, shown, loginId=rp.login_id, password="wrong")
    assert REFUSED not in page(wrong).text
    answer = await rp.submit(browser, shown, loginId=rp.login_id, password=PASSWORD)
    assert answer.status_code == 200
    assert REFUSED in page(answer).text


@pytest.mark.requirement("users-11-8")
async def test_action_ends_sessions(rp, api, browser) -> None:
    await rp.code(browser)
    assert (await rp.authorize(browser)).status_code == 302
    action = await ban(api, rp.user["id"])
    answer = await rp.authorize(browser)
    assert answer.status_code == 200
    await cancel(api, action)
    assert (await rp.authorize(browser)).status_code == 200, "the session is over, and does not come back"


@pytest.mark.requirement("users-11-8")
async def test_code_issued_before_the_action_is_rejected(rp, api, browser, http) -> None:
    code = await rp.code(browser)
    await ban(api, rp.user["id"])
    answer = await rp.exchange(http, code)
    assert (answer.status_code, answer.json()["error_reason"]) == (400, "login_prevented")


@pytest.mark.requirement("users-11-10")
@pytest.mark.parametrize("ends", [True, False])
async def test_action_revokes_refresh_tokens_if_configured(rp, api, browser, http, ends) -> None:
    await with_refresh_tokens(rp, onLoginPrevented=ends)
    tokens = await rp.tokens(browser, http)
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    await ban(api, rp.user["id"])
    answer = await rp.refresh(http, tokens["refresh_token"])
    if ends:
        assert answer.json()["error_reason"] == "refresh_token_not_found"
        assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401
    else:
        assert answer.status_code == 200
        assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 200


@pytest.mark.requirement("users-11-9")
async def test_update_of_the_user_does_not_lift_the_action(rp, api) -> None:
    await ban(api, rp.user["id"])
    tenant = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"user": {"email": rp.login_id, "firstName": "Ada"}}
    answer = await api.put(f"/api/user/{rp.user['id']}", json=body, headers=tenant)
    assert answer.status_code == 200
    assert "private" not in answer.text
    assert "preventions" not in answer.text
    assert (await log_in(rp, api)).status_code == 409


@pytest.mark.requirement("attack-46")
@pytest.mark.parametrize("case", ["banned", "locked", "expired", "second factor"])
async def test_registration_returns_no_token_while_login_is_prevented(rp, api, clock, case) -> None:
    factor = {"methods": [two_factor.authenticator()]} if case == "second factor" else {}
    expiry = {"expiry": clock.now() - 1} if case == "expired" else {}
    user = await relying_party.make_user(api, rp.tenant["id"], twoFactor=factor, **expiry)
    if case == "banned":
        await ban(api, user["id"])
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    if case == "locked":
        await api.delete(f"/api/user/{user['id']}", headers=headers)
    body = {"registration": {"applicationId": rp.client_id}}
    answer = await api.post(f"/api/user/registration/{user['id']}", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"registration"}
