"""CAPTCHAs of the pages: what the browser may load, and which forms the service accepts."""

from __future__ import annotations

import asyncio
import urllib.parse

import httpx
import orjson
import pytest

from identity.domain.captcha import captchas
from identity.operations.captcha import verification
from tests.hosted.chromium import Chromium
from tests.hosted.signing_up import press
from tests.hosted.test_comfort_browser import becomes
from tests.mailbox import receiving as mail_receiving
from tests.receiver import Receiver, answers, hangs, receiving, resets
from tests.relying_party import PASSWORD, page, response

SCRIPT = b"""
const api = {
  execute: () => Promise.resolve("scored"),
  render: (box, options) => {
    const button = document.createElement("button");
    button.type = "button"; button.id = "robot"; button.textContent = "I am not a robot";
    button.addEventListener("click", () => options.callback("solved " + options.sitekey));
    box.append(button);
  },
};
window.grecaptcha = api; window.hcaptcha = api;
window[new URL(document.currentScript.src).searchParams.get("onload")]();
"""
SITE, SECRET = "the-site-key", "the-secret-key"
MISSING, INVALID = "Confirm that you are not a robot.", "We could not confirm that you are not a robot."
UNAVAILABLE = "The check that you are not a robot is not available right now."


class FakeProvider:
    """A provider that accepts each of its tokens once; `verdict` is added to its responses."""

    def __init__(self, receiver: Receiver, **verdict: object) -> None:
        self.receiver, self.verdict, self.used = receiver, verdict, set()
        receiver.behaviour = self.behave

    async def behave(self, request, writer) -> None:
        if request.method == "GET":
            await answers(200, SCRIPT, ["Content-Type: text/javascript"])(request, writer)
            return
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        token, is_known = form["response"], form["secret"] == SECRET
        body = {"success": is_known and token not in self.used, **self.verdict}
        if not is_known:
            body["error-codes"] = ["invalid-input-secret"]
        self.used.add(token)
        await answers(200, orjson.dumps(body))(request, writer)

    @property
    def verifications(self) -> list[dict[str, str]]:
        posts = [request for request in self.receiver.requests if request.method == "POST"]
        return [dict(urllib.parse.parse_qsl(request.body.decode())) for request in posts]


@pytest.fixture
async def provider(monkeypatch):
    async with receiving() as receiver:
        base = f"http://127.0.0.1:{receiver.port}"
        for method, real in captchas.PROVIDERS.items():
            fake = captchas.Provider(
                f"{base}/api.js", f"{base}/siteverify", {"script-src": (base,)}, real.sends_site_key
            )
            monkeypatch.setitem(captchas.PROVIDERS, method, fake)
        yield FakeProvider(receiver)


async def enable(rp, method: str = "GoogleRecaptchaV2", **changes: object) -> None:
    settings = {"enabled": True, "captchaMethod": method, "siteKey": SITE, "secretKey": SECRET, **changes}
    await rp.configure_tenant(captchaConfiguration=settings)


def says(shown: httpx.Response, text: str) -> bool:
    return text in page(shown).text


async def attempt(rp, browser, **fields: str) -> httpx.Response:
    return await rp.submit(browser, await rp.authorize(browser), **fields)


async def test_login_needs_a_token_that_the_provider_accepts_once(rp, browser, provider):
    await enable(rp)
    refused = await attempt(rp, browser)
    assert says(refused, MISSING)
    assert provider.verifications == []
    assert response(await attempt(rp, browser, captcha_token="first"))["code"]
    assert provider.verifications == [{"secret": SECRET, "response": "first"}]
    browser.cookies.clear()
    assert says(await attempt(rp, browser, captcha_token="first"), INVALID)


@pytest.mark.parametrize("method", ["HCaptcha", "HCaptchaEnterprise"])
async def test_hcaptcha_receives_the_site_key_as_well(rp, browser, provider, method):
    await enable(rp, method)
    provider.verdict["score"] = 0.1
    assert response(await attempt(rp, browser, captcha_token="t"))["code"]
    assert provider.verifications == [{"secret": SECRET, "response": "t", "sitekey": SITE}]


async def test_score_below_the_threshold_is_rejected_before_the_password_is_checked(rp, browser, provider):
    await enable(rp, "GoogleRecaptchaV3", threshold=0.7)
    provider.verdict["score"] = 0.6
    refused = await attempt(rp, browser, captcha_token="t", password="wrong")
    assert says(refused, INVALID)
    assert not says(refused, "Incorrect")
    provider.verdict["score"] = 0.7
    assert response(await attempt(rp, browser, captcha_token="u"))["code"]


@pytest.mark.parametrize(
    "behaviour",
    [resets, answers(500), answers(200, b"no json"), answers(200, b"[]"), answers(302, headers=["Location: /"])],
    ids=["reset", "500", "text", "array", "redirect"],
)
async def test_login_is_refused_while_the_provider_fails_and_the_event_log_says_why(
    rp, browser, provider, api, behaviour
):
    await enable(rp)
    provider.receiver.behaviour = behaviour
    assert says(await attempt(rp, browser, captcha_token="t"), UNAVAILABLE)
    rows = (await api.get("/api/system/event-log/search", params={"message": rp.tenant["id"]})).json()["eventLogs"]
    assert [row["type"] for row in rows] == ["Error"]
    assert "CAPTCHA" in rows[0]["message"]
    assert SECRET not in rows[0]["message"]


async def test_provider_that_never_responds_is_given_up(rp, browser, provider, monkeypatch):
    monkeypatch.setattr(verification, "TIMEOUT_MS", 50)
    await enable(rp)
    provider.receiver.behaviour = hangs
    assert says(await attempt(rp, browser, captcha_token="t"), UNAVAILABLE)


async def test_rejected_secret_is_reported_to_operators(rp, browser, provider, api):
    await enable(rp, secretKey="another")
    assert says(await attempt(rp, browser, captcha_token="t"), UNAVAILABLE)
    rows = (await api.get("/api/system/event-log/search", params={"message": rp.tenant["id"]})).json()["eventLogs"]
    assert "invalid-input-secret" in rows[0]["message"]


async def test_one_token_of_64_concurrent_logins_passes_once(rp, browser, provider):
    await enable(rp)
    shown = await rp.authorize(browser)
    forms = [rp.submit(browser, shown, captcha_token="once") for _ in range(64)]
    assert [answer.status_code for answer in await asyncio.gather(*forms)].count(302) == 1


async def test_registration_forgotten_password_and_passwordless_pages_need_a_token(rp, browser, provider):
    await enable(rp)
    await rp.patch(
        f"/api/application/{rp.client_id}",
        {
            "application": {
                "registrationConfiguration": {"enabled": True},
                "passwordlessConfiguration": {"enabled": True},
            }
        },
    )
    async with mail_receiving() as mailbox:
        await rp.configure_tenant(emailConfiguration=mailbox.configuration())
        for number, path in enumerate(("/oauth2/register", "/password/forgot", "/oauth2/passwordless")):
            shown = await browser.get(path, params=rp.query())
            login_id = rp.login_id if "register" not in path else f"new-{rp.client_id}@example.com"
            given = {"loginId": login_id, "user.email": login_id, "password": PASSWORD, "passwordConfirm": PASSWORD}
            fields = {name: value for name, value in given.items() if f'name="{name}"' in shown.text}
            assert fields
            assert says(await press(browser, shown, **fields), MISSING), path
            assert len(provider.verifications) == number
            passed = await press(browser, shown, **fields, captcha_token=path)
            assert not says(passed, MISSING)
            assert provider.verifications[-1]["response"] == path
            browser.cookies.delete("fusionauth.sso")


async def test_pages_allow_exactly_the_hosts_of_the_provider_and_only_if_enabled(rp, browser):
    plain = await rp.authorize(browser)
    assert "captcha" not in plain.text
    assert "google" not in plain.headers["Content-Security-Policy"]
    await enable(rp, siteKey='"><b>')
    shown = await rp.authorize(browser)
    policy = dict(part.split(" ", 1) for part in shown.headers["Content-Security-Policy"].split("; "))
    google = "https://www.google.com/recaptcha/"
    assert policy["script-src"] == f"'self' {google} https://www.gstatic.com/recaptcha/"
    assert policy["frame-src"] == f"{google} https://recaptcha.google.com/recaptcha/"
    assert policy["connect-src"] == google
    assert policy["style-src"] == "'self'"
    assert SECRET not in shown.text
    assert "<b>" not in shown.text
    await enable(rp, "HCaptcha")
    policy = dict(
        part.split(" ", 1) for part in (await rp.authorize(browser)).headers["Content-Security-Policy"].split("; ")
    )
    assert policy["script-src"] == "'self' https://hcaptcha.com https://*.hcaptcha.com"


async def test_captcha_cannot_be_enabled_without_its_keys(rp):
    url = f"/api/tenant/{rp.tenant['id']}"
    answer = await rp.api.patch(url, json={"tenant": {"captchaConfiguration": {"enabled": True, "siteKey": SITE}}})
    assert answer.status_code == 400
    assert list(answer.json()["fieldErrors"]) == ["tenant.captchaConfiguration.secretKey"]


async def open_login(chromium: Chromium, rp) -> None:
    await chromium.go(str(httpx.Request("GET", f"{rp.api.base_url}/oauth2/authorize", params=rp.query()).url))
    await chromium.type("#loginId", rp.login_id)
    await chromium.type("#password", PASSWORD)


@pytest.mark.parametrize("method", ["GoogleRecaptchaV2", "HCaptcha"])
async def test_user_solves_the_widget_and_logs_in(chromium, rp, provider, method):
    await enable(rp, method)
    await chromium.look(360, "dark")
    await open_login(chromium, rp)
    await chromium.find("#robot")
    await chromium.click("button[type=submit]")
    await becomes(chromium, f"return document.body.textContent.includes('{MISSING}')")
    assert provider.verifications == []
    await chromium.click("#robot")
    await chromium.click("button[type=submit]")
    await becomes(chromium, "return !location.pathname.startsWith('/oauth2/authorize')")
    assert provider.verifications[0]["response"] == f"solved {SITE}"


async def test_scored_captcha_needs_no_action_of_the_user(chromium, rp, provider):
    await enable(rp, "GoogleRecaptchaV3")
    provider.verdict["score"] = 0.9
    await open_login(chromium, rp)
    await becomes(chromium, "return window.grecaptcha")
    await chromium.click("button[type=submit]")
    await becomes(chromium, "return !location.pathname.startsWith('/oauth2/authorize')")
    assert provider.verifications == [{"secret": SECRET, "response": "scored"}]


async def test_user_reads_that_the_widget_did_not_load(chromium, rp, provider):
    provider.receiver.behaviour = answers(404)
    await enable(rp)
    await open_login(chromium, rp)
    await becomes(chromium, "return document.body.textContent.includes('did not load')")
