"""What a theme changes about the hosted pages: texts, language and stylesheet, and nothing of their safety."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from identity.domain.clients.scopes import PROVIDED
from identity.domain.configuration import page_texts
from identity.domain.configuration.published_messages import PUBLISHED
from identity.ids import new_id
from identity.web.hosted.page_theme import _locales
from tests import relying_party, two_factor
from tests.conftest import UNKNOWN_ID
from tests.hosted.signing_up import offer
from tests.hosted.steps import log_in, mailing, post
from tests.hosted.test_account import enter
from tests.oauth2.devices import DEVICE_GRANT
from tests.oauth2.test_lambdas import hook
from tests.relying_party import page

SHEET = "h1 { color: rebeccapurple } /* ä */"
NASTY = '<script>alert("1")</script>{0}'


async def make_theme(api, **members: Any) -> str:
    answer = await api.post("/api/theme", json={"theme": {"name": f"Theme {new_id()}", **members}})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["theme"]["id"])


@pytest.fixture
def themed(api, rp):
    """Gives the tenant of the relying party a theme."""

    async def set_theme(**members: Any) -> str:
        theme_id = await make_theme(api, **members)
        await rp.patch(f"/api/tenant/{rp.tenant['id']}", {"tenant": {"themeId": theme_id}})
        return theme_id

    return set_theme


@pytest.mark.requirement("core-18-lambdas-17")
async def test_theme_translates_the_errors_of_a_login_lambda(rp, browser, themed) -> None:
    await hook(
        rp,
        "loginValidationId",
        "result.errors.generalErrors = [{code: '[Unpaid]', message: 'Past due'},"
        " {code: '[Other]', message: 'As it is'}]",
    )
    await themed(defaultMessages="[Unpaid]=Please pay your bill")
    shown = await rp.submit(browser, await rp.authorize(browser))
    assert "Please pay your bill As it is" in page(shown).text
    assert "Past due" not in shown.text


def sheets(answer) -> list[str]:
    return re.findall(r'<link rel="stylesheet" href="([^"]+)">', answer.text)


@pytest.mark.requirement("core-18-templates-26")
async def test_stylesheet_of_the_theme_comes_after_our_own(rp, browser, themed, api) -> None:
    assert len(sheets(await rp.authorize(browser))) == 1
    theme_id = await themed(stylesheet=SHEET)
    shown = await rp.authorize(browser)
    (_, own) = sheets(shown)
    assert own.startswith(f"/theme/{theme_id}/style-")
    sheet = await browser.get(own)
    assert (sheet.status_code, sheet.text) == (200, SHEET)
    assert sheet.headers["Content-Type"] == "text/css; charset=utf-8"
    assert "immutable" in sheet.headers["Cache-Control"]
    assert sheet.headers["X-Content-Type-Options"] == "nosniff"
    assert "style-src 'self'" in shown.headers["Content-Security-Policy"]
    assert "unsafe" not in shown.headers["Content-Security-Policy"]
    await api.patch(f"/api/theme/{theme_id}", json={"theme": {"stylesheet": "h1 {}"}})
    assert sheets(await rp.authorize(browser))[1] != own
    assert (await browser.get(own)).status_code == 404


@pytest.mark.requirement("core-18-templates-26")
@pytest.mark.parametrize("path", [f"/theme/{UNKNOWN_ID}/style-0.css", "/theme/x/style-0.css"])
async def test_no_other_stylesheet_is_served(browser, path) -> None:
    assert (await browser.get(path)).status_code == 404


async def test_a_theme_without_a_stylesheet_adds_none(rp, browser, themed) -> None:
    theme_id = await themed(stylesheet=" ")
    assert len(sheets(await rp.authorize(browser))) == 1
    assert (await browser.get(f"/theme/{theme_id}/style-0.css")).status_code == 404


@pytest.mark.requirement("core-18-templates-26")
async def test_application_s_theme_wins_over_the_tenant_s(rp, browser, themed, api) -> None:
    await themed(defaultMessages="login.heading=Of the tenant")
    assert "Of the tenant" in page(await rp.authorize(browser)).text
    own = await make_theme(api, defaultMessages="login.heading=Of the application")
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"themeId": own}})
    assert "Of the application" in page(await rp.authorize(browser)).text


@pytest.mark.requirement("core-18-templates-27")
async def test_texts_of_the_login_page_and_of_its_errors_can_be_changed(rp, browser, themed) -> None:
    await themed(
        defaultMessages="login.title={0}!\nlogin.lead=für {0}, bitte\nlogin.submit=Los\n[InvalidLogin]=Falsch\n"
        "login.password=Kennwort\nlogin.loginId=Wer\nlogin.rememberDevice=Merken\n"
    )
    shown = await rp.authorize(browser)
    found = re.search(r'<p class="lead">für <strong>(.+)</strong>, bitte</p>', shown.text)
    assert found is not None
    assert f"<title>{found[1]}!</title>" in shown.text
    for text in ("Los</button>", "Kennwort</label>", "Wer</label>", "Merken</label>", "<h1>Sign in</h1>"):
        assert text in shown.text
    assert "Falsch" in (await rp.submit(browser, shown, password="wrong")).text


@pytest.mark.requirement("core-18-templates-27")
async def test_attack_19_texts_of_a_theme_are_texts(rp, browser, themed) -> None:
    entries = "".join(f"{key}={NASTY}\n" for key in page_texts.TEXTS)
    await themed(defaultMessages=entries)
    shown = await rp.authorize(browser)
    for answer in (shown, await rp.submit(browser, shown, password="wrong")):
        assert "<script>" not in answer.text
        assert "&lt;script&gt;" in answer.text


@pytest.mark.requirement("core-18-templates-27")
@pytest.mark.parametrize(
    ("headers", "parameters", "language"),
    [
        ({}, {}, "en"),
        ({"Accept-Language": "de-CH,de;q=0.9,en;q=0.8"}, {}, "de"),
        ({"Accept-Language": "en,de;q=0.9"}, {}, "en"),
        ({"Accept-Language": "de;q=0.1,fr_CA;q=0.5"}, {}, "fr"),
        ({"Accept-Language": "de"}, {"locale": "fr"}, "fr"),
        ({"Accept-Language": "x;q=nonsense,*"}, {"locale": "sv"}, "en"),
    ],
)
async def test_page_speaks_the_language_that_is_asked_for(rp, browser, themed, headers, parameters, language) -> None:
    heading = {"en": "Hello", "de": "Guten Tag", "fr": "Bonjour"}
    localized = {name: f"login.heading={text}" for name, text in heading.items() if name != "en"}
    await themed(defaultMessages="login.heading=Hello", localizedMessages=localized)
    shown = await browser.get("/oauth2/authorize", params=rp.query(**parameters), headers=headers)
    assert f'<html lang="{language}">' in shown.text
    assert f"<h1>{heading[language]}</h1>" in shown.text


@pytest.mark.requirement("core-18-templates-26")
async def test_every_page_of_the_tenant_looks_like_its_theme(rp, browser, themed, api) -> None:
    await themed(stylesheet=SHEET)
    await relying_party.make(rp.api, tenant=rp.tenant, logoutURL="https://sibling.example.com/out")
    shown = await rp.authorize(browser)
    await rp.submit(browser, shown)
    named = {"tenantId": rp.tenant["id"]}
    for answer in (
        shown,
        await rp.authorize(browser, prompt="none", response_mode="form_post"),
        await browser.get("/oauth2/logout", params=named, headers={"Sec-Fetch-Site": "cross-site"}),
        await browser.get("/oauth2/logout", params={"client_id": rp.client_id}),
    ):
        assert answer.status_code == 200
        assert len(sheets(answer)) == 2, answer.text


def test_every_text_that_a_template_shows_exists() -> None:
    folder = Path(page_texts.__file__).parents[2] / "web" / "hosted" / "templates"
    shown = set()
    for file in folder.glob("*.html"):
        shown |= set(re.findall(r'texts(?:\[|\.fill\()"([^"]+)"', file.read_text()))
    assert len(shown) > 20
    assert shown <= page_texts.TEXTS.keys()
    scopes = {f"{{scope-message}}{name}" for name in PROVIDED}
    rooms = Path(page_texts.__file__).parents[2]
    files = [file for end in ("py", "html") for file in rooms.rglob(f"*.{end}") if file.name != "page_texts.py"]
    said = " ".join(file.read_text() for file in files)
    # Some keys are put together from a stem and what was found: `deviceApproval.` and the name of a member.
    stems = {key: re.sub(r"(?<=[.\]])\w+$", "", key) for key in page_texts.TEXTS}
    unsaid = {key for key in page_texts.TEXTS.keys() - scopes if key not in said and f'"{stems[key]}' not in said}
    # Pages that only say something have a title, a heading and a text each, under the one name that is passed.
    unsaid -= {key for key in unsaid if f'"{stems[key][:-1]}"' in said}
    # The codes of field errors are put together too: of what is wrong, and the field.
    codes = (re.fullmatch(r"\[(\w+)\][\w.]*?(\w+)", key) for key in unsaid)
    assert unsaid == {code[0] for code in codes if code and f'"{code[1]}"' in said and code[2] in said}


def test_locales_are_read_by_their_weight() -> None:
    assert _locales("a;q=0.1,b, c;q=0.5,d;q=0,e;q=x") == ("b", "c", "a")
    assert _locales("") == ()


async def test_simple_theme_shows_its_images_and_colors(rp, browser, themed, api) -> None:
    png = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 9).decode()
    variables = {"logoImageURL": png, "favicons": [{"href": png}], "primaryButtonColor": "#005500"}
    theme_id = await themed(type="simple", variables={**variables, "footerDisplay": False})
    shown = await rp.authorize(browser)
    (_, own) = sheets(shown)
    assert "--accent: #005500" in (await browser.get(own)).text
    logo = re.search(rf'<img class="logo" src="(/theme/{theme_id}/logo-[^"]+)"', shown.text)
    assert logo is not None
    image = await browser.get(logo[1])
    assert image.headers["Content-Type"] == "image/png"
    assert image.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert f'<link rel="icon" href="/theme/{theme_id}/favicon-' in shown.text
    assert "<footer>" not in shown.text
    assert (await browser.get(f"/theme/{theme_id}/logo-other.png")).status_code == 404


async def test_theme_answers_with_what_is_not_shown(api) -> None:
    variables = {"fontColor": "#eeeeee", "logoImageURL": "https://example.com/logo.png"}
    theme = {"name": f"Theme {new_id()}", "type": "simple", "variables": variables, "templates": {"index": "[#ftl]"}}
    answer = await api.post("/api/theme", json={"theme": theme})
    notices = answer.json()["theme"]["notices"]
    for text in ("[index] is not rendered", "[theme.variables.logoImageURL] is not shown", "contrast of fontColor"):
        assert any(text in notice for notice in notices), text
    wrong = {**theme, "name": new_id(), "variables": {"fontColor": "red; }"}}
    refused = await api.post("/api/theme", json={"theme": wrong})
    assert list(refused.json()["fieldErrors"]) == ["theme.variables.fontColor"]


SHOWN_MESSAGES = {
    "/account": ["account", "edit-profile", "change-password", "two-factor-authentication", "logout", "email"],
    "/account/edit": ["edit-profile", "update", "go-back", "email"],
    "/account/password": ["change-password", "current-password", "passwordConfirm", "password-length-constraint"],
    "/account/two-factor": ["two-factor-authentication", "no-two-factor-methods-configured", "add-two-factor"],
    "/oauth2/authorize": ["login", "loginId", "password", "remember-device", "submit", "forgot-your-password"],
    "/oauth2/device": ["device-form-title", "device-title", "userCode", "submit"],
    "/oauth2/register": ["register", "return-to-login", "password", "email"],
    "/password/forgot": ["forgot-password-title", "forgot-password", "submit", "return-to-login"],
}
"""Page -> published keys whose texts it shows."""
FORGOT_TEMPLATE = "forgotPasswordEmailTemplateId"


@pytest.mark.requirement("core-18-templates-30")
@pytest.mark.parametrize("path", SHOWN_MESSAGES)
async def test_page_shows_the_published_messages_of_the_theme(rp, browser, themed, path) -> None:
    await themed(defaultMessages="".join(f"{key}=~{key}~ {{0}}\n" for key in PUBLISHED))
    await offer(rp)
    device = {"enabledGrants": ["authorization_code", DEVICE_GRANT], "deviceVerificationURL": "https://app.example.com"}
    await rp.configure(**device)
    async with mailing(rp, FORGOT_TEMPLATE, "A link"):
        if path.startswith("/account"):
            shown = await enter(rp, browser, path)
        else:
            shown = await browser.get(path, params=rp.query())
    assert shown.status_code == 200, shown.text
    missing = [key for key in SHOWN_MESSAGES[path] if f"~{key}~" not in shown.text]
    assert missing == [], shown.text


async def test_published_messages_of_errors_are_shown(rp, browser, themed) -> None:
    await themed(defaultMessages="[InvalidLogin]=Wrong\n[blank]loginId=Who?\npassword-length-constraint=%s to %s")
    shown = await rp.authorize(browser)
    assert "Wrong" in (await rp.submit(browser, shown, password="wrong")).text
    async with mailing(rp, FORGOT_TEMPLATE, "A link"):
        forgot = await browser.get("/password/forgot", params=rp.query())
        assert "Who?" in (await post(browser, forgot, loginId=" ")).text
    assert "8 to 256" in (await enter(rp, browser, "/account/password")).text


async def test_published_messages_of_the_two_factor_page_are_shown_with_the_days_of_trust(rp, browser, themed) -> None:
    body = {"user": {"twoFactor": {"methods": [two_factor.authenticator()], "recoveryCodes": []}}}
    await rp.patch(f"/api/user/{rp.user['id']}", body)
    await rp.configure_tenant(externalIdentifierConfiguration={"twoFactorTrustIdTimeToLiveInSeconds": 1_296_000})
    await themed(defaultMessages="two-factor-challenge=Challenge\ntrust-computer=Trust it %s days\nverify=Check")
    shown = await log_in(rp, browser)
    for text in ("<h1>Challenge</h1>", "Trust it 15 days</label>", "Check</button>"):
        assert text in shown.text
