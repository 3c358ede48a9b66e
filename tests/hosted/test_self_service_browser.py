"""Self-service in a real browser: registering, choosing another password by a mail's link, adding a second factor."""

from __future__ import annotations

import os
import urllib.parse
from pathlib import Path

import pytest

from tests import relying_party
from tests.hosted.signing_up import an_email, offer
from tests.hosted.test_account import base64_of
from tests.hosted.test_browser import ENTER, MEASURE, TAB, fill_in, wait_for_text
from tests.password_reset import NEW_PASSWORD, id_in, password_reset
from tests.relying_party import PASSWORD, RelyingParty
from tests.two_factor import code


async def picture(chromium, name: str) -> None:
    """Save a screenshot of the page."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        await chromium.screenshot(Path(folder) / f"{name}.png")


@pytest.fixture
async def example_party(chromium, example_url, api) -> RelyingParty:
    """The example application, which lets people register themselves."""
    await chromium.go(f"{example_url}/login")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(await chromium.url()).query)
    found = (await api.get(f"/api/application/{query['client_id'][0]}")).json()["application"]
    party = RelyingParty({"id": found["tenantId"]}, found, {}, api)
    required = {"enabled": True, "required": True}
    await offer(party, confirmPassword=True, firstName=required, lastName=required, birthDate={"enabled": True})
    return party


@pytest.mark.requirement("self-service-1")
@pytest.mark.usefixtures("example_party")
async def test_registration_ends_signed_in_at_the_application(chromium, example_url):
    await chromium.go(f"{example_url}/login")
    await picture(chromium, "login")
    await chromium.click('a[href*="/oauth2/register"]')
    await chromium.find('[id="user.email"]')
    await picture(chromium, "register")
    email = an_email()
    # The focus is where the first answer goes: no mouse is needed.
    # After a password comes the button that shows it.
    skip = TAB + TAB
    await chromium.find(".reveal")
    await chromium.press(email + TAB + PASSWORD + skip + "another one" + skip + "Grace" + TAB + "Hopper" + ENTER)
    await wait_for_text(chromium, "The two passwords do not match.")
    await picture(chromium, "register-wrong")
    focused = await chromium.run("const f = document.activeElement; return [f.id, f.getAttribute('aria-invalid')]")
    assert focused == ["passwordConfirm", "true"]
    kept = await chromium.run("return document.getElementById('user.firstName').value")
    assert kept == "Grace"
    contrasts = await chromium.run(MEASURE)
    assert [found for found in contrasts if found[1] < 4.5] == []
    await chromium.type('[id="user.password"]', PASSWORD)
    await chromium.type("#passwordConfirm", PASSWORD + ENTER)
    await wait_for_text(chromium, "Signed in")
    assert "Grace Hopper" in await chromium.text()


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark")])
async def test_registration_page_fits_and_can_be_read(chromium, example_party, service, width, scheme):
    await chromium.look(width, scheme)
    redirect_uri = example_party.application["oauthConfiguration"]["authorizedRedirectURLs"][0]
    query = {**example_party.query(), "redirect_uri": redirect_uri, **relying_party.PKCE}
    await chromium.go(f"{service.base_url}/oauth2/register?{urllib.parse.urlencode(query)}")
    await chromium.find('[id="user.email"]')
    await picture(chromium, "register-narrow")
    assert await chromium.run("return document.documentElement.scrollWidth") <= width
    assert [found for found in await chromium.run(MEASURE) if found[1] < 4.5] == []


async def test_forgotten_password_is_replaced_by_the_link_of_a_mail(chromium, service, api):
    async with password_reset(service, api) as place:
        rp, base = place.rp, service.base_url
        await chromium.go(f"{base}/oauth2/authorize?{urllib.parse.urlencode(rp.query())}")
        await chromium.click('a[href*="/password/forgot"]')
        await wait_for_text(chromium, "Forgot your password?")
        await picture(chromium, "forgot")
        await chromium.type("#loginId", rp.login_id + ENTER)
        await wait_for_text(chromium, "Check your email")
        await picture(chromium, "forgot-sent")
        (mail,) = await place.mailbox.wait_for(1)
        query = urllib.parse.urlencode(rp.query())
        await chromium.go(f"{base}/password/change/{id_in(mail.part('plain'))}?{query}")
        await wait_for_text(chromium, "Choose a new password")
        await picture(chromium, "change")
        await chromium.type("#password", NEW_PASSWORD)
        await chromium.type("#passwordConfirm", NEW_PASSWORD + ENTER)
        await wait_for_text(chromium, "Your password has been changed")
        await picture(chromium, "changed")
        await chromium.click("a.button")
        await chromium.find("#loginId")
        assert (await place.log_in(NEW_PASSWORD)).status_code == 200


@pytest.mark.requirement("self-service-19")
async def test_second_factor_is_added_on_the_account_page(chromium, service, rp, clock):
    place = urllib.parse.urlencode({"client_id": rp.client_id, "tenantId": rp.tenant["id"]})
    await chromium.go(f"{service.base_url}/account?{place}")
    await fill_in(chromium, rp.login_id, PASSWORD + ENTER)
    await wait_for_text(chromium, "Your account")
    await picture(chromium, "account")
    assert [found for found in await chromium.run(MEASURE) if found[1] < 4.5] == []
    await chromium.click('a[href*="/account/two-factor"]')
    await wait_for_text(chromium, "Two-factor authentication is not set up.")
    await chromium.click('a[href*="/account/two-factor/enable"]')
    await chromium.find("svg.qr")
    await picture(chromium, "account-enable")
    secret = await chromium.run("return document.querySelector('[name=secretBase32Encoded]').value")
    await chromium.type("#code", code(clock.now(), secret=base64_of(secret)) + ENTER)
    await chromium.find("ul.recovery")
    await picture(chromium, "account-codes")
    assert await chromium.run("return document.querySelectorAll('ul.recovery code').length") == 10
