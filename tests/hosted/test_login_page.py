"""What the login page remembers and says; and the page for users who are not registered."""

from __future__ import annotations

import re
import urllib.parse

import pytest

from tests import relying_party
from tests.hosted.test_themes import make_theme
from tests.receiver import answers, receiving
from tests.relying_party import page, response
from tests.webhooks import subscribe

LOCALE, REMEMBER = "fusionauth.locale", "fusionauth.remember-device"
OWN = "https://shop.example.com"


def set_cookie(answer, name: str) -> str | None:
    found = [line for line in answer.headers.get_list("Set-Cookie") if line.startswith(f"{name}=")]
    assert len(found) < 2
    return found[0] if found else None


def is_ticked(shown) -> bool:
    field = re.search(r"<input id=\"rememberDevice\"[^>]*>", shown.text)
    assert field is not None
    return "checked" in field[0]


@pytest.fixture
async def translated(rp, api):
    """Gives the tenant a theme in two languages."""
    messages = {"de": "login.submit=Anmelden", "fr": "login.submit=Connexion"}
    theme_id = await make_theme(api, defaultMessages="login.submit=Go", localizedMessages=messages)
    await rp.patch(f"/api/tenant/{rp.tenant['id']}", {"tenant": {"themeId": theme_id}})


@pytest.mark.requirement("contract-authorize-locale", "oauth-1.8-9")
@pytest.mark.usefixtures("translated")
async def test_language_of_a_request_is_remembered_for_those_that_name_none(rp, browser):
    shown = await rp.authorize(browser, locale="de")
    assert "Anmelden" in shown.text
    cookie = set_cookie(shown, LOCALE)
    assert cookie is not None
    assert cookie.startswith("fusionauth.locale=de;")
    assert "Max-Age=31536000" in cookie
    assert "HttpOnly" in cookie
    again = await rp.authorize(browser)
    assert "Anmelden" in again.text
    assert set_cookie(again, LOCALE) is None
    preferring = await browser.get("/oauth2/authorize", params=rp.query(), headers={"Accept-Language": "fr"})
    assert "Anmelden" in preferring.text
    assert "Connexion" in (await rp.authorize(browser, locale="fr")).text
    assert "Connexion" in (await rp.authorize(browser)).text


@pytest.mark.requirement("oauth-1.1-9")
@pytest.mark.usefixtures("translated")
async def test_ui_locales_count_where_locale_is_absent_the_first_supported_one_first(rp, browser):
    assert "Anmelden" in (await rp.authorize(browser, ui_locales="sv de fr")).text
    assert "Connexion" in (await rp.authorize(browser, ui_locales="de", locale="fr")).text


@pytest.mark.requirement("contract-authorize-locale")
@pytest.mark.usefixtures("translated")
async def test_nonsense_is_not_remembered_as_a_language(rp, browser):
    for name in ("x" * 100, "<script>", "de; Path=/", "12"):
        shown = await rp.authorize(browser, locale=name)
        assert shown.status_code == 200
        assert set_cookie(shown, LOCALE) is None, name


@pytest.mark.requirement("oauth-1.8-9")
async def test_last_choice_of_the_checkbox_is_remembered(rp, browser):
    shown = await rp.authorize(browser)
    assert not is_ticked(shown)
    wrong = await rp.submit(browser, shown, rememberDevice="true", password="wrong")
    assert is_ticked(wrong)
    assert set_cookie(wrong, REMEMBER) is None
    answer = await rp.submit(browser, wrong, rememberDevice="true")
    cookie = set_cookie(answer, REMEMBER)
    assert cookie is not None
    assert "Max-Age=31536000" in cookie
    assert is_ticked(await rp.authorize(browser, prompt="login"))
    await rp.submit(browser, await rp.authorize(browser, prompt="login"))
    assert not is_ticked(await rp.authorize(browser, prompt="login"))


@pytest.mark.requirement("attack-14", "oauth-0.4-2")
async def test_attack_14_page_cannot_be_framed_not_even_by_origins_of_the_application(rp, browser):
    await rp.configure(authorizedOriginURLs=[OWN])
    for headers in ({"Origin": OWN}, {"Referer": f"{OWN}/cart"}):
        shown = await browser.get("/oauth2/authorize", params=rp.query(), headers=headers)
        assert shown.status_code == 200
        assert "frame-ancestors 'none'" in shown.headers["Content-Security-Policy"]
        assert shown.headers["X-Frame-Options"] == "DENY"


@pytest.mark.requirement("oauth-1.9-17")
async def test_unregistered_user_sees_error_and_another_user_can_log_in(rp, browser, api):
    await rp.configure(requireRegistration=True)
    registered = rp.user
    rp.user = await relying_party.make_user(api, rp.tenant["id"])
    answer = await rp.submit(browser, await rp.authorize(browser))
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/oauth2/authorized-not-registered?")
    assert "fusionauth.sso" not in browser.cookies
    result = await browser.get(answer.headers["Location"])
    assert "not registered" in page(result).text
    assert rp.application["name"] in page(result).text
    assert rp.login_id not in result.text
    rp.user = registered
    again = await browser.get(link(result))
    assert response(await rp.submit(browser, again))["state"] == "the-state"


@pytest.mark.requirement("oauth-1.9-17")
async def test_session_of_unregistered_user_does_not_block_other_users(rp, browser, api):
    sibling = await relying_party.make(api, tenant=rp.tenant)
    await sibling.log_in(browser)
    await rp.configure(requireRegistration=True)
    answer = await rp.authorize(browser)
    assert answer.headers["Location"].startswith("/oauth2/authorized-not-registered?")
    again = await browser.get(link(await browser.get(answer.headers["Location"])))
    assert again.status_code == 200
    assert "code" in response(await rp.submit(browser, again))


def link(result) -> str:
    """Where the page sends another user."""
    found = re.search(r'class="button" href="([^"]+)"', result.text)
    assert found is not None
    return found[1].replace("&amp;", "&")


async def test_page_of_the_unregistered_needs_a_client_and_offers_no_way_without_a_request(rp, browser):
    assert (await browser.get("/oauth2/authorized-not-registered")).status_code == 400
    bare = await browser.get("/oauth2/authorized-not-registered", params={"client_id": rp.client_id})
    assert bare.status_code == 200
    assert 'class="button"' not in bare.text
    answer = await browser.get(
        f"/{rp.tenant['id']}/oauth2/authorized-not-registered",
        params=rp.query(redirect_uri="https://evil.example.com/"),
    )
    parts = urllib.parse.urlsplit(link(answer))
    assert (parts.netloc, parts.path) == ("", f"/{rp.tenant['id']}/oauth2/authorize")
    assert (await browser.get(link(answer))).status_code == 400


@pytest.mark.requirement("oauth-1.9-29")
async def test_failures_are_shown_with_published_messages(rp, browser, api):
    keys = (
        *("[InvalidLogin]", "[UserLockedException]", "[UserExpiredException]", "[RateLimitedException]"),
        *("[WebhookTransactionException]", "[InvalidOrMissingCSRFToken]"),
    )
    words = {key: f"words {number}." for number, key in enumerate(keys)}
    theme_id = await make_theme(api, defaultMessages="\n".join(f"{key}={text}" for key, text in words.items()))
    await rp.patch(f"/api/tenant/{rp.tenant['id']}", {"tenant": {"themeId": theme_id}})
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    path = f"/api/user/{rp.user['id']}"

    async def require_message(key: str, status: int = 200, **fields: str) -> None:
        shown = await rp.submit(browser, await rp.authorize(browser), **fields)
        assert (shown.status_code, words[key] in page(shown).text) == (status, True), key
        assert "fusionauth.sso" not in browser.cookies

    await require_message("[InvalidLogin]", password="wrong")
    await require_message("[InvalidOrMissingCSRFToken]", 403, csrf_token="forged")
    await rp.patch(path, {"user": {"expiry": 1}})
    await require_message("[UserExpiredException]")
    await rp.patch(path, {"user": {"expiry": None}})
    assert (await api.delete(path, headers=headers)).status_code == 200
    await require_message("[UserLockedException]")
    assert (await api.put(path, params={"reactivate": "true"}, headers=headers)).status_code == 200
    async with receiving(answers(500)) as receiver:
        await subscribe(api, rp.tenant, receiver.url, ["user.login.success"], "AbsoluteMajority")
        await require_message("[WebhookTransactionException]")
    limit = {"failedLogin": {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}}
    await rp.configure_tenant(rateLimitConfiguration=limit)
    await rp.submit(browser, await rp.authorize(browser), password="wrong")
    await require_message("[RateLimitedException]", password="wrong")
