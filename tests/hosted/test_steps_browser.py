"""The steps of a login in a real browser: they fit, can be read, and need neither script nor mouse nor knowledge."""

from __future__ import annotations

import base64
import os
import urllib.parse
from pathlib import Path

import pytest

from tests import relying_party, two_factor
from tests.hosted.steps import mailing, newest
from tests.hosted.test_browser import ENTER, MEASURE, fill_in, wait_for_text
from tests.hosted.test_passwordless import LINK
from tests.mailbox import receiving
from tests.receiver import until

NEW = "another correct horse battery"


@pytest.fixture
async def rp(api, service):
    return await relying_party.make(api, authorizedRedirectURLs=[f"{service.base_url}/"])


async def open_login(chromium, service, rp) -> None:
    query = rp.query(redirect_uri=f"{service.base_url}/")
    await chromium.go(f"{service.base_url}/oauth2/authorize?{urllib.parse.urlencode(query)}")


async def log_in(chromium, service, rp, password: str = relying_party.PASSWORD) -> None:
    await open_login(chromium, service, rp)
    await fill_in(chromium, rp.login_id, password)
    await chromium.click("button[type=submit]")


async def is_back(chromium) -> None:
    """Wait until the browser is at the application, with a code."""

    async def has_code() -> bool:
        return "code=" in await chromium.url() and "/oauth2/" not in await chromium.url()

    await until(has_code)


async def require_no_overflow(chromium, name: str) -> None:
    """The page fits narrow windows and wide ones, light and dark, and everything on it can be read."""
    for width, scheme in ((320, "dark"), (1200, "light")):
        await chromium.look(width, scheme)
        assert await chromium.run("return document.documentElement.scrollWidth") <= width, name
        for element, contrast in await chromium.run(MEASURE):
            assert contrast >= 4.5, (name, element)
        heights = await chromium.run("return [...document.querySelectorAll('button')].map((e) => e.offsetHeight)")
        assert min(heights, default=44) >= 44, name
        unlabelled = "[...document.querySelectorAll('input:not([type=hidden])')].filter((e) => !e.labels.length)"
        assert await chromium.run(f"return {unlabelled}.length") == 0, name
        if "SCREENSHOTS" in os.environ:
            await chromium.screenshot(Path(os.environ["SCREENSHOTS"]) / f"{name}-{width}.png")


@pytest.mark.requirement("oauth-1.9-7")
async def test_second_factor_is_set_up_and_asked_for_on_pages_that_fit(chromium, service, rp, clock):
    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": "Required"})
        await log_in(chromium, service, rp)
        await wait_for_text(chromium, "Set up two-factor authentication")
        await require_no_overflow(chromium, "enable")
        shown = str(await chromium.run("return document.querySelector('.secret').innerText")).replace(" ", "")
        secret = base64.b64encode(base64.b32decode(shown)).decode()
        await chromium.type("#code", two_factor.code(clock.now(), secret=secret) + ENTER)
        await wait_for_text(chromium, "Save these recovery codes in a safe place.")
        await require_no_overflow(chromium, "recovery")
        await chromium.click("button[type=submit]")
        await is_back(chromium)
        await chromium.forget()
        await log_in(chromium, service, rp)
        await wait_for_text(chromium, "from your authenticator app")
        await chromium.type("#code", two_factor.wrong_code(clock.now()) + ENTER)
        await wait_for_text(chromium, "This code is incorrect")
        await require_no_overflow(chromium, "challenge")
        state = "const f = document.activeElement; return [f.id, f.getAttribute('aria-invalid'), f.inputMode]"
        assert await chromium.run(state) == ["code", "true", "numeric"]
        await chromium.type("#code", two_factor.code(clock.now(), secret=secret, steps=1) + ENTER)
        await is_back(chromium)


async def test_of_several_methods_one_is_chosen_on_a_page_that_fits(chromium, service, rp):
    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        methods = [two_factor.authenticator(name="My phone"), {"method": "email", "email": "ada@example.com"}]
        await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": methods}}})
        await log_in(chromium, service, rp)
        await wait_for_text(chromium, "How do you want to verify that it is you?")
        await require_no_overflow(chromium, "methods")
        await chromium.click("#method-2")
        await chromium.click("button[type=submit]")
        await wait_for_text(chromium, "a***@example.com")
        await require_no_overflow(chromium, "mailed")
        await chromium.type("#code", await two_factor.mailed_code(box) + ENTER)
        await is_back(chromium)


async def test_link_of_a_mail_logs_the_browser_in_that_asked_for_it(chromium, service, rp):
    on = {"passwordlessConfiguration": {"enabled": True}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": on})
    async with mailing(rp, "passwordlessEmailTemplateId", LINK) as box:
        await open_login(chromium, service, rp)
        await require_no_overflow(chromium, "login")
        await chromium.click("a[href^='/oauth2/passwordless']")
        await wait_for_text(chromium, "Sign in without a password")
        await require_no_overflow(chromium, "passwordless")
        await chromium.type("#loginId", rp.login_id + ENTER)
        await wait_for_text(chromium, "Check your messages")
        await require_no_overflow(chromium, "sent")
        link = service.base_url + await newest(box)
        await chromium.forget()
        await chromium.go(link)
        await wait_for_text(chromium, "Is this you?")
        await require_no_overflow(chromium, "confirm")
        await open_login(chromium, service, rp)
        await chromium.click("a[href^='/oauth2/passwordless']")
        await chromium.type("#loginId", rp.login_id + ENTER)
        await wait_for_text(chromium, "Check your messages")
        await chromium.go(service.base_url + await newest(box, 2))
        await is_back(chromium)


async def test_password_that_has_to_be_changed_is_changed_on_the_way(chromium, service, rp):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"passwordChangeRequired": True}})
    await log_in(chromium, service, rp)
    await chromium.find("#passwordConfirm")
    await require_no_overflow(chromium, "change")
    await chromium.type("#password", NEW)
    await chromium.type("#passwordConfirm", NEW + ENTER)
    await is_back(chromium)


async def test_address_that_has_to_be_verified_is_verified_on_the_way(chromium, service, rp, api):
    gated = {"behavior": "Gated", "allowEmailChangeWhenGated": True}
    settings = {"verifyEmail": True, "unverified": gated, "verificationStrategy": "FormField"}
    async with mailing(rp, "verificationEmailTemplateId", "${verificationOneTimeCode}", **settings) as box:
        body = {"user": {"email": rp.login_id.replace("@", "+new@"), "password": relying_party.PASSWORD}}
        made = await api.post("/api/user", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})
        rp.user = made.json()["user"]
        await log_in(chromium, service, rp)
        await wait_for_text(chromium, "Verify your email address")
        await chromium.click("summary")
        await require_no_overflow(chromium, "verify")
        await chromium.type("#oneTimeCode", await newest(box) + ENTER)
        await is_back(chromium)
