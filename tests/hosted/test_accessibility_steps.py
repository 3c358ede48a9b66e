"""Pages of passwordless logins, passkeys and logout under axe-core, as a client without a browser receives them."""

from __future__ import annotations

import re
import shutil

import pytest

from tests import relying_party
from tests.hosted.signing_up import press
from tests.hosted.test_accessibility import Examiner, axe, examiner
from tests.hosted.test_account import enter
from tests.mailbox import receiving

__all__ = ["axe", "examiner"]

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="the pages are examined where npm is installed")


@pytest.mark.requirement("self-service-28")
@pytest.mark.parametrize("strategy", ["ClickableLink", "FormField"])
async def test_pages_of_a_passwordless_login(examiner: Examiner, rp, browser, http, strategy) -> None:
    settings = {"enabled": True, "emailLoginStrategy": strategy}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"passwordlessConfiguration": settings}})
    async with receiving() as box:
        await rp.configure_tenant(emailConfiguration=box.configuration())
        shown = await browser.get("/oauth2/passwordless", params=rp.query())
        await examiner.show(shown.text)
        await examiner.examine(f"passwordless-{strategy}")
        sent = await press(browser, shown, loginId=rp.login_id)
        await examiner.show(sent.text)
        await examiner.examine(f"passwordless-sent-{strategy}")
        (mail,) = await box.wait_for(1)
        if strategy == "ClickableLink":
            link = re.search(r"https?://\S+", mail.part("plain"))
            assert link is not None
            await examiner.show((await http.get(link[0])).text)
            await examiner.examine("passwordless-confirm")
    assert examiner.problems == []


@pytest.mark.requirement("self-service-28")
async def test_pages_of_passkeys_and_logout(examiner: Examiner, api, browser) -> None:
    rp = await relying_party.make(api)
    workflows = {"bootstrapWorkflow": {"enabled": True}, "reauthenticationWorkflow": {"enabled": True}}
    await rp.configure_tenant(webAuthnConfiguration={"enabled": True, **workflows})
    shown = await rp.authorize(browser)
    await examiner.show(shown.text)
    await examiner.examine("login-passkey")
    offered = await rp.submit(browser, shown)
    await examiner.show((await browser.get(offered.headers["Location"])).text)
    await examiner.examine("passkey-offer")
    for path in ("/account/webauthn", "/account/webauthn/add"):
        await examiner.show((await enter(rp, browser, path)).text)
        await examiner.examine(path.strip("/").replace("/", "-"))
    place = {"tenantId": rp.tenant["id"]}
    asked = await browser.get("/oauth2/logout", params=place, headers={"Sec-Fetch-Site": "cross-site"})
    assert asked.status_code == 200
    await examiner.show(asked.text)
    await examiner.examine("confirm-logout")
    done = await press(browser, asked)
    await examiner.show((await browser.get(done.headers["Location"])).text if done.is_redirect else done.text)
    await examiner.examine("logged-out")
    assert examiner.problems == []
