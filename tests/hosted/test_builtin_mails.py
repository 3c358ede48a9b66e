"""The built-in mails in a real SMTP server, and how a mail client shows them."""

from __future__ import annotations

import base64
import os
import re
import urllib.parse
from pathlib import Path

import pytest

from tests.hosted.signing_up import press
from tests.mailbox import receiving
from tests.relying_party import page, response

NEW_PASSWORD = "another horse battery"


@pytest.fixture
async def mailbox(rp):
    """A mail server for a tenant that names no templates."""
    async with receiving() as box:
        await rp.configure_tenant(emailConfiguration=box.configuration())
        yield box


async def request_mail(rp, browser) -> None:
    shown = await browser.get("/password/forgot", params=rp.query())
    sent = await press(browser, shown, loginId=rp.login_id)
    assert sent.status_code == 302


async def test_forgotten_password_needs_a_mail_server_and_no_template(rp, browser) -> None:
    shown = await browser.get("/password/forgot", params=rp.query())
    assert "not available here" in page(shown).text
    async with receiving() as box:
        await rp.configure_tenant(emailConfiguration=box.configuration())
        await request_mail(rp, browser)
        (mail,) = await box.wait_for(1)
        link = re.search(r"https?://\S+", mail.part("plain"))
        assert link is not None
        assert urllib.parse.urlsplit(link[0]).path.startswith("/password/change/")
        changed = await press(browser, await browser.get(link[0]), password=NEW_PASSWORD, passwordConfirm=NEW_PASSWORD)
        assert changed.status_code == 302
        answer = await rp.submit(browser, await rp.authorize(browser), password=NEW_PASSWORD)
        assert "code" in response(answer)


async def test_link_never_leads_to_the_host_that_a_request_names(rp, browser, mailbox, api) -> None:
    evil = {"Host": "evil.example.com"}
    shown = await browser.get("/password/forgot", params=rp.query(), headers=evil)
    fields = {**page(shown).forms[0]["fields"], "loginId": rp.login_id}
    assert (await browser.post("/password/forgot", data=fields, headers=evil)).status_code == 302
    await rp.configure_tenant(baseURL="https://id.example.com")
    assert (await browser.post("/password/forgot", data=fields, headers=evil)).status_code == 302
    for mail in await mailbox.wait_for(1):
        assert "https://id.example.com/password/change/" in mail.part("plain")
        assert "evil.example.com" not in mail.part("plain") + mail.part("html")


async def test_mail_is_in_the_language_of_the_user(rp, browser, mailbox) -> None:
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"preferredLanguages": ["ar"]}})
    await request_mail(rp, browser)
    (mail,) = await mailbox.wait_for(1)
    assert '<html lang="ar" dir="rtl">' in mail.part("html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_mail_is_readable_in_a_client(rp, browser, mailbox, chromium, scheme) -> None:
    await request_mail(rp, browser)
    (mail,) = await mailbox.wait_for(1)
    await chromium.look(360, scheme)
    encoded = base64.b64encode(mail.part("html").encode()).decode()
    await chromium.go(f"data:text/html;charset=utf-8;base64,{encoded}")
    assert await chromium.run("return document.documentElement.scrollWidth") <= 360
    assert "Choose a new password" in await chromium.text()
    if folder := os.environ.get("SCREENSHOTS"):
        await chromium.screenshot(Path(folder) / f"mail-{scheme}-360.png")


async def enable_passwordless(rp, **settings) -> None:
    settings = {"enabled": True, **settings}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"passwordlessConfiguration": settings}})


async def test_login_link_needs_a_mail_server_and_no_template(rp, browser, mailbox) -> None:
    await enable_passwordless(rp)
    shown = await browser.get("/oauth2/passwordless", params=rp.query())
    assert (await press(browser, shown, loginId=rp.login_id)).status_code == 200
    (mail,) = await mailbox.wait_for(1)
    link = re.search(r"https?://\S+", mail.part("plain"))
    assert link is not None
    assert "Your sign-in link" in mail.part("html")
    assert "verificationOneTimeCode" not in mail.part("html")
    answer = await press(browser, await browser.get(link[0]))
    assert "code" in response(answer)


async def test_login_code_is_mailed_without_a_template(rp, browser, mailbox) -> None:
    await enable_passwordless(rp, emailLoginStrategy="FormField")
    shown = await browser.get("/oauth2/passwordless", params=rp.query())
    entering = await press(browser, shown, loginId=rp.login_id)
    (mail,) = await mailbox.wait_for(1)
    code = re.search(r"Your code: (\S+)", mail.part("plain"))
    assert code is not None
    assert "http" not in mail.part("plain")
    assert "code" in response(await press(browser, entering, oneTimeCode=code[1]))


async def test_link_is_not_offered_without_a_mail_server(rp, browser) -> None:
    await enable_passwordless(rp)
    assert (await browser.get("/oauth2/passwordless", params=rp.query())).status_code == 400
