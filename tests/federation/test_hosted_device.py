"""Device approval by a user who logs in at an identity provider."""

from __future__ import annotations

import pytest

from tests.federation.hosted import departure
from tests.oauth2.devices import DEVICE_GRANT, URL, Device
from tests.relying_party import claims, page


@pytest.mark.requirement("oauth-3-9")
async def test_provider_login_continues_with_the_device_approval(hosted) -> None:
    rp, browser = hosted.rp, hosted.browser
    await rp.configure(
        enabledGrants=[DEVICE_GRANT], deviceVerificationURL=URL, clientAuthenticationPolicy="NotRequired"
    )
    device = await Device.begin(rp, hosted.scenario.public, scope="openid")
    shown = await browser.get("/oauth2/device", params={"client_id": rp.client_id})
    form = page(shown).forms[0]
    onward = await browser.post(form["action"], data={**form["fields"], "interactive_user_code": device.user_code})
    left = departure(await browser.get(f"{onward.headers['Location']}&idp_hint={hosted.provider_id}"))
    assert left.url.startswith(hosted.fake.issuer)
    back = await hosted.come_back(left)
    assert back.headers["Location"].startswith("/oauth2/device?")
    question = await browser.get(back.headers["Location"])
    assert "Connect this device?" in page(question).text
    assert (await device.poll()).json()["error"] == "authorization_pending"
    form = page(question).forms[0]
    last = await browser.post(form["action"], data={**form["fields"], "action": "allow"})
    assert "/oauth2/device-complete?" in last.headers["Location"]
    token = claims((await device.tokens())["access_token"])
    assert token["authenticationType"] == "OPENID_CONNECT"
