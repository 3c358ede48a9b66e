"""The consent page as users see it: in the words of themes and applications, by keyboard, narrow, dark."""

from __future__ import annotations

import urllib.parse

import pytest

from tests import relying_party
from tests.conftest import DEFAULT_TENANT
from tests.hosted.test_browser import ENTER, MEASURE, TAB, fill_in, wait_for_text
from tests.hosted.test_themes import make_theme
from tests.oauth2.consenting import ask, choices
from tests.relying_party import page

CALENDAR = {
    "name": "calendar:read",
    "defaultConsentMessage": "Read your calendar",
    "defaultConsentDetail": "Every appointment, also private ones.",
}
SCOPE = "openid email phone profile calendar:read"


async def add_scope(party, **scope) -> None:
    headers = {"X-FusionAuth-TenantId": party.tenant["id"]}
    path = f"/api/application/{party.client_id}/scope"
    assert (await party.api.post(path, json={"scope": scope}, headers=headers)).status_code == 200


@pytest.fixture
async def rp(api):
    """A third party's application, with a scope of its own."""
    party = await relying_party.make(api, relationship="ThirdParty", unknownScopePolicy="Allow")
    await add_scope(party, **CALENDAR)
    return party


@pytest.mark.requirement("oauth-1.9-20")
async def test_scope_text_comes_from_application_tenant_theme_or_name(rp, browser, api):
    application, tenant = rp.client_id, rp.tenant["id"]
    await add_scope(rp, name="plain")
    asked = "openid email calendar:read plain unheard-of"

    async def text(messages: str = "", localized: str = "", **changes: str) -> str:
        theme = {"defaultMessages": messages, "localizedMessages": {"de": localized} if localized else {}}
        theme_id = await make_theme(api, **theme)
        await rp.patch(f"/api/tenant/{tenant}", {"tenant": {"themeId": theme_id}})
        return page(await ask(rp, browser, scope=asked, **changes)).text

    found = await text()
    for words in ("See your email address", "Read your calendar", "also private ones", "plain", "unheard-of"):
        assert words in found
    lines = [
        "{scope-message}calendar\\:read=by theme",
        f"[{{tenant}}{tenant}]{{scope-message}}calendar\\:read=by tenant",
        f"[{{application}}{application}]{{scope-message}}calendar\\:read=by application",
    ]
    for count, words in enumerate(("by theme", "by tenant", "by application"), start=1):
        found = await text("\n".join(lines[:count]))
        assert words in found
        assert "Read your calendar" not in found
        assert "also private ones" in found
    found = await text("{scope-detail}calendar\\:read=Details by theme\n{scope-detail}plain=Much <more>")
    assert "Details by theme" in found
    assert "also private ones" not in found
    assert "Much <more>" in found
    found = await text("", "{scope-message}email=Ihre Adresse\nconsent.allow=Erlauben", locale="de")
    assert "Ihre Adresse" in found
    assert "Erlauben" in found


@pytest.mark.requirement("core-18-templates-30")
async def test_published_messages_of_the_theme_are_shown(rp, browser, api):
    messages = "consent-required=Agree?\nconsent-required-intro=%s asks for\nallow=Yes\ncancel=No\nlogged-in-as=You: %s"
    theme_id = await make_theme(api, defaultMessages=messages)
    await rp.patch(f"/api/tenant/{rp.tenant['id']}", {"tenant": {"themeId": theme_id}})
    await add_scope(rp, name="needed", required=True)
    shown = page(await ask(rp, browser, scope="openid email needed")).text
    for words in ("Agree?", f"{rp.application['name']} asks for", "Yes", "No", f"You: {rp.login_id}"):
        assert words in shown


@pytest.mark.requirement("oauth-1.9-20")
async def test_text_of_another_application_or_tenant_is_not_shown(rp, browser, api):
    other = relying_party.new_id()
    messages = "\n".join(f"[{{{kind}}}{other}]{{scope-message}}email=not here" for kind in ("application", "tenant"))
    theme_id = await make_theme(api, defaultMessages=messages)
    await rp.patch(f"/api/tenant/{rp.tenant['id']}", {"tenant": {"themeId": theme_id}})
    assert "not here" not in (await ask(rp, browser)).text


@pytest.mark.requirement("oauth-1.9-17")
async def test_page_says_who_asks_for_what_and_where_the_answer_goes(rp, browser):
    shown = await ask(rp, browser, scope=SCOPE)
    found = page(shown).text
    for words in (rp.application["name"], rp.login_id, "app.example.com", "Allow", "Cancel"):
        assert words in found
    assert choices(shown) == dict.fromkeys(SCOPE.split()[1:], False)


async def at_page(chromium, service, api) -> relying_party.RelyingParty:
    """Come to the consent page in a real browser."""
    home = f"{service.base_url}/"
    tenant = {"id": DEFAULT_TENANT, "issuer": service.base_url}
    party = await relying_party.make(
        api,
        tenant=tenant,
        relationship="ThirdParty",
        authorizedRedirectURLs=[home],
        providedScopePolicy={"email": {"required": True}},
    )
    await add_scope(party, **CALENDAR)
    query = party.query(scope=SCOPE, redirect_uri=home)
    await chromium.go(f"{service.base_url}/oauth2/authorize?{urllib.parse.urlencode(query)}")
    await fill_in(chromium, party.login_id)
    await chromium.click("button[type=submit]")
    await wait_for_text(chromium, "requests access")
    return party


@pytest.mark.requirement("oauth-1.9-27")
async def test_answer_needs_no_mouse(chromium, service, api, http):
    party = await at_page(chromium, service, api)
    await chromium.run("document.querySelector('#scope-1').focus()")
    await chromium.press(" " + TAB + TAB + " " + TAB + ENTER)
    await wait_for_text(chromium, "Identity service")
    (code,) = urllib.parse.parse_qs(urllib.parse.urlsplit(await chromium.url()).query)["code"]
    answer = await party.exchange(http, code, redirect_uri=f"{service.base_url}/")
    assert answer.json()["scope"] == "openid email phone calendar:read"


async def test_second_button_cancels(chromium, service, api):
    await at_page(chromium, service, api)
    await chromium.click("button.second")
    await wait_for_text(chromium, "Identity service")
    assert "error_reason=consent_canceled" in await chromium.url()


@pytest.mark.requirement("oauth-1.9-27")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 320)])
async def test_page_fits_and_can_be_read(chromium, service, api, scheme, width):
    await at_page(chromium, service, api)
    await chromium.look(width, scheme)
    assert await chromium.run("return document.documentElement.scrollWidth") <= width
    measured = await chromium.run(MEASURE)
    assert len(measured) >= 8
    for element, contrast in measured:
        assert contrast >= 4.5, element
    assert min(await chromium.run("return [...document.querySelectorAll('button')].map((e) => e.offsetHeight)")) >= 44
    boxes = "[...document.querySelectorAll('input[type=checkbox]')]"
    assert await chromium.run(f"return {boxes}.map((e) => e.labels.length)") == [1, 1, 1]
    described = f"return {boxes}.map((e) => document.getElementById(e.getAttribute('aria-describedby'))?.innerText)"
    assert await chromium.run(described) == [None, None, "Every appointment, also private ones."]
