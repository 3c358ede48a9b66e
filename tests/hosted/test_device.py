"""The pages on which a user connects a device: a link, a session or a forged form alone connects none."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any

import httpx
import pytest

from identity.operations.authorization import device_authorization, device_grants
from tests import relying_party, two_factor
from tests.conftest import checking_client
from tests.hosted.test_pages import ELSEWHERE, NASTY, directives
from tests.oauth2.devices import DEVICE_GRANT, Device, device_client
from tests.relying_party import RelyingParty, claims, page, response

SHOWN = {"metaData.device.name": "Kitchen TV", "metaData.device.type": "TV"}


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """An application with devices, and without the code grant."""
    return await device_client(api, enabledGrants=[DEVICE_GRANT, "password"])


async def open_page(rp: RelyingParty, browser: httpx.AsyncClient, **query: str) -> httpx.Response:
    return await browser.get("/oauth2/device", params={"client_id": rp.client_id, **query})


async def send(browser: httpx.AsyncClient, shown: httpx.Response, **fields: str) -> httpx.Response:
    """Send the form of a page."""
    form = page(shown).forms[0]
    return await browser.post(form["action"], data={**form["fields"], **fields})


async def follow(browser: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    """Go where redirects lead, as long as they lead to us."""
    while answer.status_code == 302:
        answer = await browser.get(answer.headers["Location"])
    return answer


async def enter(browser: httpx.AsyncClient, rp: RelyingParty, user_code: str) -> httpx.Response:
    """The page after the right code: the login page, or with a session the one that asks."""
    shown = await open_page(rp, browser)
    return await follow(browser, await send(browser, shown, interactive_user_code=user_code))


async def approval_page(browser: httpx.AsyncClient, rp: RelyingParty, device: Device) -> httpx.Response:
    """The page that asks about a device."""
    answer = await enter(browser, rp, device.user_code)
    if "loginId" in answer.text:
        answer = await follow(browser, await rp.submit(browser, answer))
    assert "Connect this device?" in answer.text, answer.text
    return answer


async def error_of(device: Device) -> str:
    return str((await device.poll()).json()["error"])


@pytest.mark.requirement("contract-device-6", "error-authorization_pending", "oauth-3-6")
async def test_user_enters_the_code_logs_in_is_asked_and_the_device_gets_its_tokens(rp, browser, http):
    device = await Device.begin(rp, http, scope="openid offline_access email", **SHOWN)
    code_page = await open_page(rp, browser)
    assert code_page.status_code == 200
    form = page(code_page).forms[0]
    assert form["fields"]["interactive_user_code"] == ""
    written = f" {device.user_code[:3].lower()}-{device.user_code[3:]} "
    login_page = await follow(browser, await send(browser, code_page, interactive_user_code=written))
    assert rp.application["name"] in page(login_page).text
    assert await error_of(device) == "authorization_pending"
    question = await follow(browser, await rp.submit(browser, login_page))
    text = page(question).text
    found = (
        rp.application["name"],
        device.user_code,
        "Kitchen TV",
        "127.0.0.1",
        rp.login_id,
        "email address",
        "Stay signed in",
    )
    for each in found:
        assert each in text, each
    last = await send(browser, question, action="allow")
    assert last.status_code == 302
    assert urllib.parse.urlsplit(last.headers["Location"]).path == "/oauth2/device-complete"
    assert "Your device is connected" in page(await follow(browser, last)).text
    tokens = await device_tokens(device, rp)
    token = claims(tokens["access_token"])
    assert (token["sub"], token["authenticationType"]) == (rp.user["id"], "PASSWORD")
    assert tokens["scope"] == "openid offline_access email"
    # The device is no part of the browser's session: a logout there does not sign it out.
    assert token["sid"] == claims(tokens["id_token"])["sid"] == tokens["refresh_token_id"]


async def device_tokens(device: Device, rp: RelyingParty) -> dict[str, Any]:
    answer = await device.poll()
    assert answer.status_code == 200, answer.text
    assert answer.json()["userId"] == rp.user["id"]
    return dict(answer.json())


@pytest.mark.requirement("attack-49", "contract-device-6", "oauth-3-7")
async def test_attack_49_session_is_named_and_asked_all_the_same(rp, browser, http):
    first, second = [await Device.begin(rp, http, scope="openid") for _ in range(2)]
    await send(browser, await approval_page(browser, rp, first), action="allow")
    code_page = await open_page(rp, browser)
    assert rp.login_id in page(code_page).text
    assert "/oauth2/logout?" in code_page.text
    question = await follow(browser, await send(browser, code_page, interactive_user_code=second.user_code))
    assert "Connect this device?" in page(question).text
    assert rp.login_id in page(question).text
    assert "/oauth2/logout?" in question.text
    assert await error_of(second) == "authorization_pending"
    await send(browser, question, action="allow")
    token = claims((await device_tokens(second, rp))["access_token"])
    assert token["authenticationType"] == "PING"


@pytest.mark.requirement("attack-49", "oauth-3-7")
async def test_attack_49_complete_link_fills_the_code_in_and_nothing_more(rp, browser, http, service):
    await rp.configure(deviceVerificationURL=f"{service.base_url}/oauth2/device?client_id={rp.client_id}")
    device = await Device.begin(rp, http)
    await send(browser, await approval_page(browser, rp, await Device.begin(rp, http)), action="allow")
    shown = await browser.get(device.given["verification_uri_complete"])
    assert page(shown).forms[0]["fields"]["interactive_user_code"] == device.user_code
    assert await error_of(device) == "authorization_pending"
    question = await follow(browser, await send(browser, shown))
    assert await error_of(device) == "slow_down"
    await send(browser, question, action="allow")
    await device_tokens(device, rp)


@pytest.mark.requirement("error-access_denied", "oauth-2.2-31")
async def test_denied_device_receives_access_denied(rp, browser, http):
    device = await Device.begin(rp, http)
    last = await follow(browser, await send(browser, await approval_page(browser, rp, device), action="cancel"))
    assert "not connected" in page(last).text
    refused = (await device.poll()).json()
    assert (refused["error"], refused["error_reason"]) == ("access_denied", "consent_canceled")
    again = await enter(browser, rp, device.user_code)
    assert "incorrect" in page(again).text


@pytest.mark.parametrize("typed", ["XXXXXX", "", "BC*DF", NASTY])
async def test_wrong_code_is_asked_for_again(rp, browser, typed):
    again = await send(browser, await open_page(rp, browser), interactive_user_code=typed)
    assert again.status_code == 200
    assert "incorrect" in page(again).text
    assert page(again).forms[0]["fields"]["interactive_user_code"] == typed
    assert "<script>" not in again.text


async def test_expired_code_is_reported(rp, browser, http, clock):
    device, late = [await Device.begin(rp, http) for _ in range(2)]
    question = await approval_page(browser, rp, late)
    clock.advance(seconds=300)
    again = await enter(browser, rp, device.user_code)
    assert "has expired" in page(again).text
    last = await follow(browser, await send(browser, question, action="allow"))
    assert "not connected" in page(last).text
    assert await error_of(late) == "expired_token"


async def test_code_of_another_application_is_none_here(rp, browser, http, api):
    sibling = await device_client(api, tenant=rp.tenant)
    device = await Device.begin(sibling, http)
    assert "incorrect" in page(await enter(browser, rp, device.user_code)).text


@pytest.mark.requirement("attack-49", "contract-errors-8")
async def test_attack_49_guesses_of_a_browser_are_counted(rp, http, service):
    device = await Device.begin(rp, http)
    async with checking_client(service.base_url, headers={"X-Forwarded-For": "198.51.100.7"}) as guesser:
        shown = await open_page(rp, guesser)
        for _ in range(device_grants.SESSION_FAILURES):
            assert "incorrect" in page(await send(guesser, shown, interactive_user_code="XXXXXX")).text
        limited = await send(guesser, shown, interactive_user_code=device.user_code)
        assert "Too many attempts" in page(limited).text
    async with checking_client(service.base_url, headers={"X-Forwarded-For": "198.51.100.8"}) as other:
        await approval_page(other, rp, device)


@pytest.mark.requirement("attack-49")
async def test_attack_42_forms_that_were_not_shown_to_this_browser_are_refused(rp, browser, http):
    device = await Device.begin(rp, http)
    question = await approval_page(browser, rp, device)
    code_page = await open_page(rp, browser)
    for shown, fields in ((code_page, {"interactive_user_code": device.user_code}), (question, {"action": "allow"})):
        form = page(shown).forms[0]
        filled = {**form["fields"], **fields}
        for changes, headers in (({"csrf_token": "guessed"}, {}), ({"csrf_token": ""}, {}), ({}, ELSEWHERE)):
            answer = await browser.post(form["action"], data={**filled, **changes}, headers=headers)
            assert answer.status_code == 403
            assert "sent from another site" in page(answer).text
    assert await error_of(device) == "authorization_pending"
    await send(browser, question, action="allow")
    await device_tokens(device, rp)


async def test_page_of_one_browser_is_of_no_use_in_another(rp, browser, http, service):
    device = await Device.begin(rp, http)
    question = await approval_page(browser, rp, device)
    async with checking_client(service.base_url) as thief:
        token = page(await open_page(rp, thief)).forms[0]["fields"]["csrf_token"]
        form = page(question).forms[0]
        answer = await thief.post(form["action"], data={**form["fields"], "csrf_token": token, "action": "allow"})
        assert answer.status_code == 400
    assert await error_of(device) == "authorization_pending"


@pytest.mark.requirement("attack-49")
async def test_answer_is_about_the_device_that_was_shown(rp, browser, http, monkeypatch, clock):
    monkeypatch.setattr(device_authorization, "generate_user_code", lambda _generator: "BCDFGH")
    question = await approval_page(browser, rp, await Device.begin(rp, http))
    clock.advance(seconds=301)
    other = await Device.begin(rp, http)
    last = await follow(browser, await send(browser, question, action="allow"))
    assert "not connected" in page(last).text
    assert await error_of(other) == "authorization_pending"


async def test_of_racing_answers_one_counts(rp, browser, http):
    device = await Device.begin(rp, http)
    question = await approval_page(browser, rp, device)
    answers = await asyncio.gather(*(send(browser, question, action="allow") for _ in range(16)))
    assert sorted(answer.status_code for answer in answers) == [302] + [400] * 15
    await device_tokens(device, rp)


async def test_who_signed_out_meanwhile_logs_in_again(rp, browser, http):
    device = await Device.begin(rp, http)
    question = await approval_page(browser, rp, device)
    cookie = browser.cookies["fusionauth.li"]
    await browser.get("/oauth2/logout", params={"client_id": rp.client_id})
    browser.cookies.set("fusionauth.li", cookie, domain="localhost.local", path="/")
    answer = await send(browser, question, action="allow")
    assert "loginId" in answer.text
    assert await error_of(device) == "authorization_pending"
    await send(browser, await follow(browser, await rp.submit(browser, answer)), action="allow")
    await device_tokens(device, rp)


async def test_tenant_without_sessions_connects_devices_too(rp, browser, http):
    await rp.configure_tenant(httpSessionMaxInactiveInterval=0)
    device = await Device.begin(rp, http)
    await send(browser, await approval_page(browser, rp, device), action="allow")
    await device_tokens(device, rp)


@pytest.mark.parametrize("setting", [
    {"proofKeyForCodeExchangePolicy": "Required"},
    {"requirePushedAuthorizationRequests": True},
    {"authorizedOriginURLs": ["https://app.example.com"]},
    {"profile": "strict", "enabledGrants": [DEVICE_GRANT]},
    {"requireSignedRequestObject": True, "clientAuthenticationMethods": ["none", "client_secret_jwt"]},
])  # fmt: skip
async def test_what_an_application_asks_of_requests_for_codes_is_not_asked_of_our_page(rp, browser, http, setting):
    await (rp.configure_strict if "profile" in setting else rp.configure)(**setting)
    device = await Device.begin(rp, http)
    await send(browser, await approval_page(browser, rp, device), action="allow")
    await device_tokens(device, rp)


@pytest.mark.requirement("oauth-3-11")
async def test_gates_of_a_login_hold_for_a_device(rp, browser, http, api):
    await rp.configure(requireRegistration=True)
    rp.user = await relying_party.make_user(api, rp.tenant["id"])
    device = await Device.begin(rp, http)
    answer = await follow(browser, await rp.submit(browser, await enter(browser, rp, device.user_code)))
    assert "not registered" in page(answer).text
    assert await error_of(device) == "authorization_pending"


async def test_second_factor_comes_before_the_question_about_the_device(rp, browser, http, clock):
    methods = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
    await rp.patch(f"/api/user/{rp.user['id']}", methods)
    device = await Device.begin(rp, http)
    shown = await follow(browser, await rp.submit(browser, await enter(browser, rp, device.user_code)))
    assert "from your authenticator app" in page(shown).text
    assert await error_of(device) == "authorization_pending"
    question = await follow(browser, await send(browser, shown, code=two_factor.code(clock.now())))
    assert "Connect this device?" in question.text
    await send(browser, question, action="allow")
    assert "access_token" in await device_tokens(device, rp)


@pytest.mark.requirement("oauth-3-8")
async def test_third_party_gets_what_the_page_showed(rp, browser, http):
    await rp.configure(relationship="ThirdParty")
    device = await Device.begin(rp, http, scope="openid email")
    question = await approval_page(browser, rp, device)
    assert "email address" in page(question).text
    await send(browser, question, action="allow")
    assert (await device_tokens(device, rp))["scope"] == "openid email"


async def test_pages_need_a_client_with_devices(rp, browser, api):
    plain = await relying_party.make(api)
    for query, reason in (
        ({"client_id": ""}, "missing_client_id"),
        ({"client_id": "x"}, "invalid_client_id"),
        ({"client_id": plain.client_id}, "grant_type_disabled"),
        ({"client_id": rp.client_id, "intent": "x"}, "unknown"),
    ):
        answer = await browser.get("/oauth2/device", params=query, headers={"Accept": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["error_reason"] == reason


async def test_page_of_our_own_is_no_redirect_uri_of_others(rp, browser, http, service):
    """It ends a request with a user_code, and no other; nor does it take what other clients would get."""
    end = f"{service.base_url}/oauth2/device-complete?client_id={rp.client_id}&tenantId={rp.tenant['id']}"
    device = await Device.begin(rp, http)
    for changes in ({"redirect_uri": end}, {"redirect_uri": f"{end}&x=1", "user_code": device.user_code}):
        answer = await rp.authorize(browser, **changes)
        assert answer.status_code == 400
    implicit = await rp.authorize(
        browser, redirect_uri=end, user_code=device.user_code, response_type="token", scope=""
    )
    assert "error=unauthorized_client" in implicit.headers["Location"]


async def test_tenant_may_stand_in_the_path(rp, browser, http):
    device = await Device.begin(rp, http)
    prefix = f"/{rp.tenant['id']}/oauth2"
    shown = await browser.get(f"{prefix}/device", params={"client_id": rp.client_id})
    login_page = await follow(browser, await send(browser, shown, interactive_user_code=device.user_code))
    answer = await rp.submit(browser, login_page)
    assert answer.headers["Location"].startswith(f"{prefix}/device?")
    last = await follow(browser, await send(browser, await follow(browser, answer), action="allow"))
    assert "connected" in page(last).text
    await device_tokens(device, rp)


@pytest.mark.requirement("oauth-3-7")
async def test_attack_14_pages_of_a_device_can_neither_be_framed_nor_run_anything(rp, browser, http):
    device = await Device.begin(rp, http, **{"metaData.device.name": NASTY})
    question = await approval_page(browser, rp, device)
    last = await follow(browser, await send(browser, question, action="allow"))
    for answer in (await open_page(rp, browser, user_code=NASTY), question, last):
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
        policy = directives(answer)
        assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
        assert policy["form-action"] == "'self'"
        assert answer.text.count("<script") == 1


@pytest.mark.requirement("oauth-3-7")
async def test_texts_follow_the_theme_and_the_language(rp, browser, http, api):
    texts = "device.heading=Gerät verbinden\ndeviceApproval.heading=Dieses Gerät?\ndeviceComplete.heading=Fertig\n"
    theme = {"name": rp.client_id, "defaultMessages": "device.submit=Go\n", "localizedMessages": {"de": texts}}
    made = (await api.post("/api/theme", json={"theme": theme})).json()["theme"]
    await rp.configure_tenant(themeId=made["id"])
    device = await Device.begin(rp, http)
    shown = await open_page(rp, browser, locale="de")
    assert "Gerät verbinden" in page(shown).text
    login_page = await follow(browser, await send(browser, shown, interactive_user_code=device.user_code))
    question = await follow(browser, await rp.submit(browser, login_page))
    assert "Dieses Gerät?" in page(question).text
    assert "Fertig" in page(await follow(browser, await send(browser, question, action="allow"))).text


# Through the application's own page


@pytest.mark.requirement("contract-authorize-user_code", "oauth-3-6")
async def test_login_of_the_application_approves_a_device_when_its_code_is_redeemed(rp, browser, http, api):
    rp = await device_client(api)
    device = await Device.begin(rp, http, scope="openid email")
    shown = await rp.authorize(browser, user_code=device.user_code, scope="openid")
    question = await follow(browser, await rp.submit(browser, shown))
    assert "app.example.com" in page(question).text
    assert "https://app.example.com" in directives(question)["form-action"]
    answer = response(await send(browser, question, action="allow"))
    assert answer["state"] == "the-state"
    assert await error_of(device) == "authorization_pending"
    assert (await rp.exchange(http, answer["code"])).status_code == 200
    assert (await device_tokens(device, rp))["scope"] == "openid email"
    assert (await rp.exchange(http, answer["code"])).json()["error_reason"] == "auth_code_not_found"


@pytest.mark.requirement("contract-authorize-user_code", "oauth-3-6")
async def test_implicit_answer_approves_a_device_at_once(api, browser, http):
    grants = ["implicit", DEVICE_GRANT]
    rp = await device_client(api, enabledGrants=grants)
    device = await Device.begin(rp, http)
    query = {"response_type": "token", "scope": None, "user_code": device.user_code}
    question = await follow(browser, await rp.submit(browser, await rp.authorize(browser, **query)))
    assert "access_token" in response(await send(browser, question, action="allow"))
    await device_tokens(device, rp)


async def test_refusal_goes_to_the_application_and_to_the_device(api, browser, http):
    rp = await device_client(api)
    device = await Device.begin(rp, http)
    shown = await rp.authorize(browser, user_code=device.user_code)
    question = await follow(browser, await rp.submit(browser, shown))
    answer = response(await send(browser, question, action="cancel"))
    assert (answer["error"], answer["error_reason"]) == ("access_denied", "consent_canceled")
    assert await error_of(device) == "access_denied"


async def test_code_that_is_redeemed_too_late_gives_nothing(api, browser, http, clock):
    rp = await device_client(api)
    device = await Device.begin(rp, http)
    shown = await rp.authorize(browser, user_code=device.user_code)
    question = await follow(browser, await rp.submit(browser, shown))
    code = response(await send(browser, question, action="allow"))["code"]
    clock.advance(seconds=300)
    refused = (await rp.exchange(http, code)).json()
    assert (refused["error"], refused["error_reason"]) == ("invalid_request", "user_code_expired")


@pytest.mark.requirement("contract-authorize-user_code", "oauth-1.2-row-19")
async def test_row_19_user_code_is_judged_before_anybody_logs_in(api, browser, http, clock):
    rp = await device_client(api)
    device = await Device.begin(rp, http)
    unknown = response(await rp.authorize(browser, user_code="XXXXXX"))
    assert (unknown["error"], unknown["error_reason"]) == ("invalid_request", "invalid_user_code")
    silent = response(await rp.authorize(browser, user_code=device.user_code, prompt="none"))
    assert silent["error"] == "login_required"
    shown = await rp.authorize(browser, user_code=device.user_code)
    clock.advance(seconds=300)
    late = response(await rp.submit(browser, shown))
    assert (late["error"], late["error_reason"]) == ("invalid_request", "user_code_expired")
    assert "fusionauth.sso" not in browser.cookies


@pytest.mark.requirement("attack-49", "oauth-1.2-row-19")
async def test_attack_49_silent_request_approves_nothing(api, browser, http):
    rp = await device_client(api)
    await rp.log_in(browser)
    device = await Device.begin(rp, http)
    silent = response(await rp.authorize(browser, user_code=device.user_code, prompt="none"))
    assert (silent["error"], silent["error_reason"]) == ("consent_required", "consent_required")
    assert await error_of(device) == "authorization_pending"


@pytest.mark.requirement("oauth-3-8")
async def test_scope_that_was_declined_on_the_way_stays_declined(api, browser, http):
    rp = await device_client(api, relationship="ThirdParty")
    device = await Device.begin(rp, http, scope="openid")
    shown = await rp.authorize(browser, user_code=device.user_code, scope="openid email")
    consent = await follow(browser, await rp.submit(browser, shown))
    assert "requests access" in page(consent).text
    question = await follow(browser, await send(browser, consent, action="allow"))
    assert "Connect this device?" in page(question).text
    code = response(await send(browser, question, action="allow"))["code"]
    assert (await rp.exchange(http, code)).json()["scope"] == "openid"
