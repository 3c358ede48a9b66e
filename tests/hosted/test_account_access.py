"""The account pages that show and revoke access: sessions, devices, applications, linked logins; data and deletion."""

from __future__ import annotations

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.conftest import checking_client
from tests.hosted.signing_up import found, press
from tests.hosted.test_account import enter
from tests.relying_party import PASSWORD, page


async def make_refresh_token(rp, browser, http) -> str:
    """The refresh token of a device that was named at its login."""
    fields = {"scope": "openid offline_access", "metaData.device.name": "Ada's phone"}
    return str((await rp.tokens(http, browser, **fields))["refresh_token"])


def buttons(shown: httpx.Response) -> list[dict[str, str]]:
    """The fields of each form of a page."""
    return [form["fields"] for form in page(shown).forms]


@pytest.mark.requirement("self-service-25")
async def test_other_browser_is_listed_and_signed_out(rp, browser, service):
    async with checking_client(service.base_url) as phone:
        await enter(rp, phone)
        shown = await enter(rp, browser, "/account/sessions")
        text = page(shown).text
        assert text.count("This browser") == text.count("Another browser") == 1
        assert [set(fields) >= {"sessionId", "session", "csrf_token"} for fields in buttons(shown)] == [True, True]
        answer = await press(browser, shown, 1)
        assert "Signed out." in page(await browser.get(answer.headers["Location"])).text
        place = {"client_id": rp.client_id, "tenantId": rp.tenant["id"]}
        assert (await phone.get("/account", params=place)).status_code == 302
        assert (await browser.get("/account", params=place)).status_code == 200


async def test_device_is_listed_by_its_name_and_its_access_ends(rp, browser, http):
    await rp.configure(generateRefreshTokens=True, enabledGrants=["authorization_code", "refresh_token"])
    token = await make_refresh_token(rp, browser, http)
    shown = await enter(rp, browser, "/account/sessions")
    assert "Ada's phone" in page(shown).text
    (number,) = [index for index, fields in enumerate(buttons(shown)) if "deviceId" in fields]
    await press(browser, shown, number)
    assert (await rp.refresh(http, token)).status_code == 400
    assert "Ada's phone" not in page(await enter(rp, browser, "/account/sessions")).text


async def test_application_is_listed_and_its_access_ends(rp, browser, http):
    await rp.configure(generateRefreshTokens=True, enabledGrants=["authorization_code", "refresh_token"])
    token = await make_refresh_token(rp, browser, http)
    shown = await enter(rp, browser, "/account/applications")
    assert rp.application["name"] in page(shown).text
    answer = await press(browser, shown)
    assert "Access has been revoked." in page(await browser.get(answer.headers["Location"])).text
    assert (await rp.refresh(http, token)).status_code == 400
    assert "No application has access" in page(await enter(rp, browser, "/account/applications")).text


@pytest.mark.parametrize("is_same_tenant", [True, False], ids=["same tenant", "other tenant"])
async def test_nothing_of_another_user_is_revoked(rp, browser, http, service, api, is_same_tenant):
    await rp.configure(generateRefreshTokens=True, enabledGrants=["authorization_code", "refresh_token"])
    async with checking_client(service.base_url) as victim:
        token = await make_refresh_token(rp, victim, http)
        session = buttons(await enter(rp, victim, "/account/sessions"))[0]["sessionId"]
        device = buttons(await enter(rp, victim, "/account/sessions"))[1]["deviceId"]
        other = rp if is_same_tenant else await relying_party.make(api)
        user = await relying_party.make_user(api, other.tenant["id"], other.client_id)
        attacker = relying_party.RelyingParty(other.tenant, other.application, user, api)
        shown = await enter(attacker, browser, "/account/sessions")
        answer = await press(browser, shown, sessionId=session, deviceId=device)
        assert answer.status_code == 302
        place = {"client_id": rp.client_id, "tenantId": rp.tenant["id"]}
        assert (await victim.get("/account", params=place)).status_code == 200
        assert (await rp.refresh(http, token)).status_code == 200


async def test_forged_form_revokes_nothing(rp, browser):
    shown = await enter(rp, browser, "/account/sessions")
    for fields in ({"csrf_token": "guessed"}, {"session": "another login"}):
        assert (await press(browser, shown, **fields)).status_code in {200, 403}
    assert "This browser" in page(await enter(rp, browser, "/account/sessions")).text


@pytest.fixture
async def link(rp, api):
    """An account at a provider that is linked to the user."""
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    wanted = {"type": "ExternalJWT", "name": f"Provider {new_id()}"}
    provider = (await api.post("/api/identity-provider", json={"identityProvider": wanted})).json()["identityProvider"]
    body = {
        "identityProviderId": provider["id"],
        "identityProviderUserId": new_id(),
        "userId": rp.user["id"],
        "displayName": "ada@provider",
    }
    answer = await api.post("/api/identity-provider/link", json={"identityProviderLink": body}, headers=headers)
    assert answer.status_code == 200, answer.text
    return {**body, "name": wanted["name"]}


@pytest.mark.requirement("self-service-25")
async def test_linked_login_is_listed_and_removed(rp, browser, link):
    shown = await enter(rp, browser, "/account/links")
    assert link["name"] in page(shown).text
    assert "ada@provider" in page(shown).text
    await press(browser, shown)
    assert "No other account is linked." in page(await enter(rp, browser, "/account/links")).text


@pytest.mark.requirement("self-service-26")
async def test_data_are_downloaded_as_json_without_credentials(rp, browser, http, link):
    await rp.configure(generateRefreshTokens=True, enabledGrants=["authorization_code", "refresh_token"])
    token = await make_refresh_token(rp, browser, http)
    shown = await enter(rp, browser, "/account/data")
    file = await press(browser, shown)
    assert file.headers["Content-Type"] == "application/json"
    assert file.headers["Content-Disposition"] == 'attachment; filename="account.json"'
    data = file.json()
    assert data["user"]["email"] == rp.login_id
    assert [one["displayName"] for one in data["identityProviderLinks"]] == ["ada@provider"]
    assert [one["metaData"]["device"]["name"] for one in data["devices"]] == ["Ada's phone"]
    assert data["logins"]
    for secret in (token, PASSWORD, '"password"', '"salt"', '"token"', '"private"'):
        assert secret not in file.text


@pytest.mark.requirement("personal-3")
async def test_downloaded_data_do_not_contain_what_administrators_wrote(rp, browser, key):
    user_id, words = rp.user["id"], "a remark of an administrator"
    comment = {"userId": user_id, "commenterId": user_id, "comment": words}
    assert (await key.post("/api/user/comment", json={"userComment": comment})).status_code == 200
    row = {"insertUser": "boss@example.com", "message": f"Checked {user_id}", "reason": words, "newValue": words}
    assert (await key.post("/api/system/audit-log", json={"auditLog": row})).status_code == 200
    others = {**row, "message": f"Checked {rp.login_id}, who had the address before"}
    assert (await key.post("/api/system/audit-log", json={"auditLog": others})).status_code == 200
    file = await press(browser, await enter(rp, browser, "/account/data"))
    assert [found["message"] for found in file.json()["auditLogs"]] == [row["message"]]
    assert words not in file.text
    assert "boss@example.com" not in file.text


@pytest.mark.requirement("personal-3")
async def test_data_are_downloaded_five_times_an_hour(rp, browser):
    shown = await enter(rp, browser, "/account/data")
    for _ in range(5):
        assert (await press(browser, shown)).headers["Content-Type"] == "application/json"
    refused = await press(browser, shown)
    assert refused.headers["Content-Type"].startswith("text/html")
    assert (await browser.get("/account", params={"client_id": rp.client_id})).status_code == 200


@pytest.mark.requirement("self-service-27")
async def test_account_is_deleted_only_where_the_tenant_allows_it_and_after_the_password(rp, browser):
    place = {"client_id": rp.client_id, "tenantId": rp.tenant["id"]}
    await enter(rp, browser)
    assert (await browser.get("/account/delete", params=place)).status_code == 404
    await rp.configure_tenant(userDeletePolicy={"selfService": {"enabled": True}})
    assert "/account/delete?" in (await browser.get("/account", params=place)).text
    shown = await enter(rp, browser, "/account/delete")
    refused = await press(browser, shown, currentPassword="wrong")
    assert "Incorrect current password." in page(refused).text
    assert await found(rp, email=rp.login_id) is not None
    deleted = await press(browser, shown, currentPassword=PASSWORD)
    assert "Your account has been deleted" in page(deleted).text
    assert await found(rp, email=rp.login_id) is None
    assert (await browser.get("/account", params=place)).status_code == 302
