"""SSO sessions: prompt, max_age, cookies, hints, and login gates."""

from __future__ import annotations

import pytest

from tests import internals, relying_party
from tests.relying_party import PASSWORD, claims, response

COOKIE = "fusionauth.sso"


def set_cookie(answer, name: str = COOKIE) -> str:
    found = [line for line in answer.headers.get_list("Set-Cookie") if line.startswith(f"{name}=")]
    assert len(found) == 1, answer.headers
    return found[0]


@pytest.mark.requirement("certification-authorize-4", "oauth-1.8-5", "oauth-1.8-8")
async def test_login_creates_a_browser_session(rp, browser):
    answer = await rp.submit(browser, await rp.authorize(browser))
    cookie = set_cookie(answer)
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/" in cookie
    assert "Max-Age" not in cookie
    assert "Domain" not in cookie


@pytest.mark.requirement("certification-authorize-4", "oauth-1.8-5")
async def test_remembered_device_keeps_its_session(rp, browser):
    answer = await rp.submit(browser, await rp.authorize(browser), rememberDevice="true")
    assert "Max-Age=3600" in set_cookie(answer)
    assert "Max-Age=3600" in set_cookie(await rp.authorize(browser))


@pytest.mark.requirement("oauth-1.8-7")
async def test_tenant_may_disable_sso(rp, browser):
    await rp.configure_tenant(httpSessionMaxInactiveInterval=0)
    answer = await rp.submit(browser, await rp.authorize(browser))
    assert "code" in response(answer)
    assert not [line for line in answer.headers.get_list("Set-Cookie") if line.startswith(COOKIE)]
    assert (await rp.authorize(browser)).status_code == 200


@pytest.mark.requirement("certification-authorize-3", "oauth-1.1-1", "oauth-1.8-13")
async def test_prompt_login_shows_the_page_and_renews_auth_time(rp, browser, http, clock):
    first = claims((await rp.tokens(http, browser))["id_token"])
    clock.advance(seconds=10)
    shown = await rp.authorize(browser, prompt="login")
    assert shown.status_code == 200
    code = response(await rp.submit(browser, shown))["code"]
    second = claims((await rp.exchange(http, code)).json()["id_token"])
    assert second["auth_time"] >= first["auth_time"] + 10


@pytest.mark.requirement("attack-18")
async def test_abandoned_prompt_login_changes_nothing(rp, browser):
    await rp.log_in(browser)
    assert (await rp.authorize(browser, prompt="login")).status_code == 200
    assert (await rp.authorize(browser, prompt="none")).status_code == 302
    assert "code" in response(await rp.authorize(browser, prompt="none"))


@pytest.mark.requirement(
    "attack-18", "certification-authorize-3", "error-login_required", "oauth-1.1-1", "oauth-1.2-row-22", "oauth-1.8-14"
)
async def test_prompt_none_never_shows_a_page(rp, browser):
    assert response(await rp.authorize(browser, prompt="none"))["error"] == "login_required"
    posted = await browser.post("/oauth2/authorize", data=rp.query(prompt="none"))
    assert response(posted)["error"] == "login_required"
    shown = await rp.authorize(browser)
    answer = await rp.submit(browser, shown, prompt="none")
    assert response(answer)["error"] == "login_required"


@pytest.mark.requirement("oauth-1.8-12")
async def test_prompt_none_with_a_session_returns_a_code(rp, browser):
    await rp.log_in(browser)
    assert "code" in response(await rp.authorize(browser, prompt="none"))


@pytest.mark.requirement("certification-token-5", "oauth-1.8-13")
async def test_first_party_accepts_select_account_and_consent(rp, browser):
    await rp.log_in(browser)
    assert "code" in response(await rp.authorize(browser, prompt="select_account"))
    assert "code" in response(await rp.authorize(browser, prompt="consent"))


@pytest.mark.requirement("certification-authorize-5", "oauth-1.1-2")
async def test_max_age_requires_a_recent_login(rp, browser, clock):
    await rp.log_in(browser)
    clock.advance(seconds=30)
    assert (await rp.authorize(browser, max_age="10000")).status_code == 302
    assert (await rp.authorize(browser, max_age="29")).status_code == 200
    assert (await rp.authorize(browser, max_age="0")).status_code == 200
    assert response(await rp.authorize(browser, max_age="1", prompt="none"))["error"] == "login_required"


@pytest.mark.requirement("certification-authorize-6", "oauth-1.1-10")
async def test_id_token_hint_must_match_the_session(rp, browser, new_browser, http, api):
    tokens = await rp.tokens(http, browser)
    assert "code" in response(await rp.authorize(browser, id_token_hint=tokens["id_token"], prompt="none"))
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    others = await rp.tokens(http, new_browser())
    answer = await rp.authorize(browser, id_token_hint=others["id_token"], prompt="none")
    assert response(answer)["error"] == "login_required"


@pytest.mark.requirement("contract-authorize-login_hint")
async def test_login_hint_prefills_the_page(rp, browser):
    shown = await rp.authorize(browser, login_hint="me@example.com")
    assert relying_party.page(shown).forms[0]["fields"]["loginId"] == "me@example.com"


async def test_session_is_shared_within_a_tenant_only(rp, browser, api):
    await rp.log_in(browser)
    sibling = await relying_party.make(api, tenant=rp.tenant)
    assert "code" in response(await sibling.authorize(browser, prompt="none"))
    stranger = await relying_party.make(api)
    assert response(await stranger.authorize(browser, prompt="none"))["error"] == "login_required"


@pytest.mark.parametrize("change", ["deactivated", "deleted", "expired"])
async def test_session_of_a_deleted_user_is_invalid(rp, browser, api, change):
    await rp.log_in(browser)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    path = f"/api/user/{rp.user['id']}"
    if change == "expired":
        await rp.patch(path, {"user": {"expiry": 1}})
    else:
        query = {"hardDelete": "true"} if change == "deleted" else {}
        assert (await api.delete(path, headers=headers, params=query)).status_code == 200
    assert response(await rp.authorize(browser, prompt="none"))["error"] == "login_required"
    assert (await rp.authorize(browser)).status_code == 200


@pytest.mark.requirement("oauth-1.8-11", "oauth-1.8-16", "reason-change_password_administrative")
async def test_session_passes_the_gates_of_a_new_login(rp, browser):
    await rp.log_in(browser)
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    answer = response(await rp.authorize(browser, prompt="none"))
    if answer["error"] == "login_required":  # changing the user may well have ended the session
        return
    assert (answer["error"], answer["error_reason"]) == ("interaction_required", "change_password_administrative")


@pytest.mark.requirement("oauth-1.8-11", "oauth-1.8-16", "reason-registration_required")
async def test_registration_may_be_required(rp, browser, api):
    await rp.configure(requireRegistration=True)
    rp.user = await relying_party.make_user(api, rp.tenant["id"])
    answer = await rp.submit(browser, await rp.authorize(browser))
    assert answer.headers["Location"].startswith("/oauth2/authorized-not-registered?")
    assert response(await rp.authorize(browser, prompt="none"))["error"] == "login_required"
    sibling = await relying_party.make(api, tenant=rp.tenant)
    sibling.user = rp.user
    await sibling.log_in(browser)
    answer = response(await rp.authorize(browser, prompt="none"))
    assert (answer["error"], answer["error_reason"]) == ("interaction_required", "registration_required")


@pytest.mark.requirement("attack-41")
async def test_attack_41_session_id_changes_at_login(rp, browser):
    browser.cookies.set(COOKIE, "planted-by-attacker", domain="localhost.local", path="/")
    await rp.log_in(browser)
    first = browser.cookies[COOKIE]
    assert first != "planted-by-attacker"
    await rp.submit(browser, await rp.authorize(browser, prompt="login"))
    second = browser.cookies[COOKIE]
    assert second != first
    browser.cookies.set(COOKIE, first, domain="localhost.local", path="/")
    assert response(await rp.authorize(browser, prompt="none"))["error"] == "login_required"


async def test_logins_and_failures_send_events(rp, browser, service):
    user = await internals.store(service, "users").find(rp.tenant["id"], rp.user["id"])
    before = user.get("lastLoginInstant", 0)
    await rp.log_in(browser)
    user = await internals.store(service, "users").find(rp.tenant["id"], rp.user["id"])
    assert user["lastLoginInstant"] > before


@pytest.mark.requirement("oauth-1.9-4")
async def test_wrong_password_creates_no_session(rp, browser):
    shown = await rp.submit(browser, await rp.authorize(browser), password=PASSWORD + "x")
    assert shown.status_code == 200
    assert COOKIE not in browser.cookies
    assert relying_party.page(shown).forms[0]["fields"]["loginId"] == rp.login_id
    assert PASSWORD not in shown.text
    assert "code" in response(await rp.submit(browser, shown))
