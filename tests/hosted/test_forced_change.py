"""A login whose password has to be changed first: led to the form and back, and nowhere around it."""

from __future__ import annotations

import pytest

from tests import relying_party, two_factor
from tests.conftest import checking_client
from tests.hosted.steps import follow, log_in, path, post, says, send
from tests.relying_party import PASSWORD, page, response

NEW = "another correct horse battery"


@pytest.fixture
async def rp(api):
    party = await relying_party.make(api)
    await party.patch(f"/api/user/{party.user['id']}", {"user": {"passwordChangeRequired": True}})
    return party


@pytest.mark.requirement("oauth-1.9-11")
async def test_login_goes_on_with_the_new_password(rp, browser):
    shown = await log_in(rp, browser)
    assert path(shown).startswith("/password/change/")
    assert shown.status_code == 200
    assert shown.headers["Referrer-Policy"] == "no-referrer"
    assert shown.headers["Cache-Control"] == "no-store"
    assert "fusionauth.sso" not in browser.cookies
    short = await send(browser, shown, password="x", passwordConfirm="x")
    assert says(short, "This password is too short.")
    answer = await send(browser, short, password=NEW, passwordConfirm=NEW)
    assert response(answer)["state"] == "the-state"
    assert "code" in response(await rp.authorize(browser))
    async with checking_client(str(browser.base_url)) as other:
        assert says(await log_in(rp, other), "Incorrect email, username or password")
        fresh = await rp.submit(other, await rp.authorize(other), password=NEW)
        assert "code" in response(fresh)


@pytest.mark.requirement("attack-46")
async def test_attack_46_change_belongs_to_its_browser_and_is_needed(rp, browser, service):
    shown = await log_in(rp, browser)
    url = str(shown.request.url)
    async with checking_client(service.base_url) as other:
        fields = {**page(shown).forms[0]["fields"], "password": NEW, "passwordConfirm": NEW}
        refused = await other.post(path(shown), data=fields)
        assert refused.status_code == 400, refused.status_code
        assert "fusionauth.sso" not in other.cookies
    for skipped in ("/email/verification-required", "/oauth2/two-factor-enable-complete", "/oauth2/consent"):
        assert (await browser.get(f"{skipped}?{url.partition('?')[2]}")).status_code == 400, skipped
    assert "code" in response(await send(browser, shown, password=NEW, passwordConfirm=NEW))
    assert "fusionauth.sso" in browser.cookies
    late = await post(browser, shown, password=PASSWORD, passwordConfirm=PASSWORD)
    assert says(late, "It has expired or was already used.")


@pytest.mark.requirement("oauth-1.9-6")
async def test_expired_password_is_changed_after_the_second_factor_which_is_not_asked_for_twice(
    rp, browser, clock, api
):
    await rp.patch(
        f"/api/user/{rp.user['id']}",
        {"user": {"passwordChangeRequired": False, "twoFactor": {"methods": [two_factor.authenticator()]}}},
    )
    rules = {"validateOnLogin": True, "minLength": 25}
    await rp.configure_tenant(passwordValidationRules=rules)
    asked = await log_in(rp, browser)
    assert path(asked) == "/oauth2/two-factor"
    shown = await send(browser, asked, code=two_factor.code(clock.now()))
    assert path(shown).startswith("/password/change/")
    answer = await send(browser, shown, password=NEW, passwordConfirm=NEW)
    assert "code" in response(answer)


@pytest.mark.requirement("oauth-1.9-11")
async def test_session_does_not_stand_for_the_password(rp, browser):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"passwordChangeRequired": False}})
    await rp.log_in(browser)
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    silent = response(await rp.authorize(browser, prompt="none"))
    assert silent["error_reason"] == "change_password_administrative"
    asked = await follow(browser, await rp.authorize(browser))
    assert path(asked) == "/oauth2/authorize"
    assert says(asked, "You must change your password before you can sign in")
    shown = await follow(browser, await rp.submit(browser, asked))
    assert path(shown).startswith("/password/change/")


@pytest.mark.requirement("oauth-1.9-11")
async def test_form_without_login_changes_password_without_login(rp, browser):
    shown = await log_in(rp, browser)
    other = await browser.get(path(shown))
    assert other.status_code == 200
    changed = await post(browser, other, password=NEW, passwordConfirm=NEW)
    assert path(changed) == "/password/complete"
    assert "fusionauth.sso" not in browser.cookies
