"""The pages of a second factor: codes, messages, choices, trust, what a session knows of it, and no way around."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import urllib.parse

import pytest

from identity.domain.two_factor import qr_codes
from identity.ids import new_id
from tests import internals, relying_party, two_factor
from tests.conftest import checking_client
from tests.hosted.steps import follow, log_in, make_template, path, post, says, send
from tests.mailbox import receiving
from tests.receiver import answers
from tests.receiver import receiving as subscriber
from tests.relying_party import claims, page, response
from tests.veto import unchanged
from tests.webhooks import subscribe

TRUST = "fusionauth.trust"


@pytest.fixture
async def rp(api):
    """An application whose user has an authenticator app."""
    party = await relying_party.make(api, authenticationMethodsEnabled=True)
    await add_methods(party, two_factor.authenticator())
    return party


async def add_methods(rp, *methods: dict, codes: tuple[str, ...] = ()) -> None:
    body = {"user": {"twoFactor": {"methods": list(methods), "recoveryCodes": list(codes)}}}
    await rp.patch(f"/api/user/{rp.user['id']}", body)


async def policy(rp, login_policy: str, **members: object) -> None:
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": login_policy, **members})


@pytest.mark.requirement("oauth-1.8-18", "oauth-1.9-7")
async def test_code_completes_the_login_and_tokens_tell_of_it(rp, browser, clock, http):
    shown = await log_in(rp, browser)
    assert path(shown) == "/oauth2/two-factor"
    assert says(shown, "from your authenticator app")
    assert 'autocomplete="one-time-code"' in shown.text
    assert 'inputmode="numeric"' in shown.text
    assert shown.headers["Cache-Control"] == "no-store"
    assert "fusionauth.sso" not in browser.cookies
    wrong = await send(browser, shown, code=two_factor.wrong_code(clock.now()))
    assert says(wrong, "This code is incorrect")
    answer = await send(browser, wrong, code=two_factor.code(clock.now()))
    token = (await rp.exchange(http, response(answer)["code"])).json()["id_token"]
    assert claims(token)["amr"] == ["pwd", "otp", "mfa"]
    again = await rp.exchange(http, await rp.code(browser))
    assert claims(again.json()["id_token"])["amr"] == ["pwd", "otp", "mfa"]


@pytest.mark.requirement("oauth-1.9-7")
async def test_recovery_code_will_do(rp, browser):
    await add_methods(rp, two_factor.authenticator(), codes=("ABCDE-FGHIJ", "KLMNO-PQRST"))
    shown = await log_in(rp, browser)
    assert "code" in response(await send(browser, shown, code="abcde fghij"))
    async with checking_client(str(browser.base_url)) as other:
        assert says(await send(other, await log_in(rp, other), code="ABCDE-FGHIJ"), "This code is incorrect")


@pytest.mark.requirement("attack-46")
async def test_attack_46_five_wrong_codes_lead_back_to_the_login(rp, browser, clock):
    shown = await log_in(rp, browser)
    for _ in range(5):
        assert says(await send(browser, shown, code=two_factor.wrong_code(clock.now())), "This code is incorrect")
    over = await send(browser, shown, code=two_factor.code(clock.now()))
    assert says(over, "Two-factor authentication took too long, or too many codes were incorrect.")
    assert page(over).forms[0]["action"] == "/oauth2/authorize"
    assert (await browser.get(str(shown.request.url))).status_code == 400
    assert "fusionauth.sso" not in browser.cookies


@pytest.mark.requirement("oauth-1.9-7")
async def test_challenge_that_is_over_leads_back_to_the_login(rp, browser, service):
    shown = await log_in(rp, browser)
    await internals.store(service, "one_time_tokens").revoke_all(rp.tenant["id"], "two-factor", rp.user["id"])
    over = await browser.get(str(shown.request.url))
    assert says(over, "Two-factor authentication took too long")
    assert page(over).forms[0]["fields"]["state"] == "the-state"


@pytest.mark.requirement("attack-46")
async def test_attack_46_page_belongs_to_one_browser_and_no_step_can_be_left_out(rp, browser, clock, service, api):
    shown = await log_in(rp, browser)
    url, code = str(shown.request.url), two_factor.code(clock.now())
    async with checking_client(service.base_url) as other:
        assert (await other.get(url)).status_code == 400
        assert (
            await other.post("/oauth2/two-factor", data={**page(shown).forms[0]["fields"], "code": code})
        ).status_code == 400
    for skipped in ("/oauth2/two-factor-enable", "/oauth2/two-factor-enable-complete", "/oauth2/consent"):
        assert (await browser.get(url.replace("/oauth2/two-factor", skipped))).status_code == 400, skipped
    forged = page(shown).forms[0]["fields"]
    assert (await browser.post("/oauth2/two-factor-enable-complete", data=forged)).status_code == 400
    sibling = await relying_party.make(api, tenant=rp.tenant)
    assert (await browser.get(url.replace(rp.client_id, sibling.client_id))).status_code == 400
    assert "code" in response(await send(browser, shown, code=code))
    assert (await browser.get(url)).status_code == 400


async def test_login_of_another_user_than_requested_is_returned_to_the_application(rp, browser, clock):
    about = json.dumps({"id_token": {"sub": {"value": new_id()}}})
    shown = await log_in(rp, browser, claims=about)
    error = response(await send(browser, shown, code=two_factor.code(clock.now())))
    assert (error["error"], error["state"]) == ("login_required", "the-state")
    assert "fusionauth.sso" not in browser.cookies


async def test_request_that_is_no_longer_allowed_is_returned_to_the_application(rp, browser, clock):
    shown = await log_in(rp, browser)
    await rp.configure(enabledGrants=["refresh_token"])
    error = response(await send(browser, shown, code=two_factor.code(clock.now())))
    assert error["error"] == "unauthorized_client"


@pytest.mark.requirement("attack-42")
async def test_attack_42_form_of_another_site_is_refused_and_nothing_is_lost(rp, browser, clock):
    shown = await log_in(rp, browser)
    code = two_factor.code(clock.now())
    refused = await post(browser, shown, code=code, csrf_token="guessed")
    assert refused.status_code == 403
    assert says(refused, "try again")
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    filled = {**page(shown).forms[0]["fields"], "code": code}
    assert (await browser.post("/oauth2/two-factor", data=filled, headers=elsewhere)).status_code == 403
    assert "code" in response(await send(browser, shown, code=code))


async def test_of_all_who_send_one_code_at_once_one_is_logged_in(rp, browser, clock):
    shown = await log_in(rp, browser)
    code = two_factor.code(clock.now())
    found = await asyncio.gather(*(post(browser, shown, code=code) for _ in range(5)))
    assert sum("code=" in answer.headers.get("Location", "") for answer in found) == 1


@pytest.mark.requirement("oauth-1.9-7")
async def test_one_method_by_mail_is_sent_at_once_and_again_when_asked_for(rp, browser):
    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        await add_methods(rp, {"method": "email", "email": "ada@example.com"})
        shown = await log_in(rp, browser)
        assert says(shown, "a***@example.com")
        assert says(shown, "We have sent you a code.")
        first = await two_factor.mailed_code(box)
        again = await send(browser, shown, action="resend")
        second = await two_factor.mailed_code(box, 2)
        assert says(await send(browser, again, code=first), "This code is incorrect") or first == second
        assert "code" in response(await send(browser, again, code=second))
        assert [mail.recipients for mail in box.mails] == [["ada@example.com"]] * 2


async def test_message_limit_and_missing_template_are_shown(rp, browser):
    await add_methods(rp, {"method": "email", "email": "ada@example.com"})
    assert says(await log_in(rp, browser), "We could not send a code with this method.")
    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        limit = {"sendTwoFactor": {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}}
        await rp.configure_tenant(rateLimitConfiguration=limit)
        shown = await log_in(rp, browser)
        assert says(await send(browser, shown, action="resend"), "Too many attempts.")


@pytest.mark.requirement("oauth-1.9-7")
async def test_of_several_methods_one_is_chosen_and_may_be_changed(rp, browser, clock):
    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        email = {"method": "email", "email": "ada@example.com", "id": "MAIL"}
        await add_methods(rp, two_factor.authenticator(id="AUTH", name="My phone"), email)
        shown = await log_in(rp, browser)
        assert path(shown) == "/oauth2/two-factor-methods"
        assert says(shown, "My phone")
        assert says(shown, "a***@example.com")
        assert path(await browser.get(str(shown.request.url).replace("-methods", ""))) == "/oauth2/two-factor-methods"
        assert not box.mails
        nothing = await post(browser, shown, methodId="OTHER")
        assert says(nothing, "Please choose a method.")
        assert (await post(browser, shown, methodId="MAIL", csrf_token="guessed")).status_code == 403
        app = await send(browser, shown, methodId="AUTH")
        assert says(app, "from your authenticator app")
        assert says(app, "Use another method")
        mailed = await send(browser, shown, methodId="MAIL")
        assert says(mailed, "We have sent you a code.")
        code = await two_factor.mailed_code(box)
        assert "code" in response(await send(browser, mailed, code=code))


@pytest.mark.requirement("oauth-1.8-9", "oauth-1.9-9")
async def test_trusted_browser_is_not_asked_again_and_says_nothing_of_a_second_factor(rp, browser, clock, http):
    shown = await log_in(rp, browser)
    answer = await send(browser, shown, code=two_factor.code(clock.now()), trustComputer="true")
    cookie = next(line for line in answer.headers.get_list("Set-Cookie") if line.startswith(TRUST))
    assert "HttpOnly" in cookie
    assert "Max-Age=2592000" in cookie
    browser.cookies.delete("fusionauth.sso")
    tokens = await rp.tokens(http, browser)
    assert claims(tokens["id_token"])["amr"] == ["pwd"]
    assert "code" in response(await rp.authorize(browser))
    multi_factor = {"loginPolicy": "Enabled", "trustPolicy": "None"}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"multiFactorConfiguration": multi_factor}})
    silent = response(await rp.authorize(browser, prompt="none"))
    assert silent["error_reason"] == "multi_factor_challenge_required"
    assert path(await rp.authorize(browser)) == "/oauth2/two-factor"


@pytest.mark.requirement("oauth-1.9-9")
async def test_browser_is_not_trusted_unless_the_login_goes_on(rp, browser, clock, api):
    shown = await log_in(rp, browser)
    assert TRUST not in browser.cookies
    await post(browser, shown, code=two_factor.wrong_code(clock.now()), trustComputer="true")
    assert TRUST not in browser.cookies
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200
    locked = await post(browser, shown, code=two_factor.code(clock.now()), trustComputer="true")
    assert says(locked, "This account is locked.")
    assert TRUST not in browser.cookies


@pytest.mark.requirement("attack-41", "oauth-1.9-13")
async def test_attack_41_session_from_before_is_stepped_up_under_a_new_secret(rp, browser, clock, http):
    await policy(rp, "Disabled")
    tokens = await rp.tokens(http, browser)
    before = browser.cookies["fusionauth.sso"]
    await policy(rp, "Enabled")
    assert response(await rp.authorize(browser, prompt="none"))["error_reason"] == "multi_factor_challenge_required"
    shown = await follow(browser, await rp.authorize(browser))
    assert path(shown) == "/oauth2/two-factor"
    answer = await send(browser, shown, code=two_factor.code(clock.now()))
    assert browser.cookies["fusionauth.sso"] != before
    raised = claims((await rp.exchange(http, response(answer)["code"])).json()["id_token"])
    first = claims(tokens["id_token"])
    assert raised["amr"] == ["pwd", "otp", "mfa"]
    assert (raised["auth_time"], raised["sid"]) == (first["auth_time"], first["sid"])
    async with checking_client(str(browser.base_url)) as thief:
        thief.cookies.set("fusionauth.sso", before)
        assert (await rp.authorize(thief)).status_code == 200


@pytest.mark.requirement("oauth-1.9-14", "webhooks-8-16")
async def test_veto_at_the_end_leaves_code_and_login_as_they_were(rp, browser, clock, api, service):
    shown = await log_in(rp, browser)
    kind = "user.login.success"
    async with subscriber(answers(500)) as receiver:
        await subscribe(api, rp.tenant, receiver.url, [kind], "AbsoluteMajority")
        code = two_factor.code(clock.now())
        async with unchanged(service, rp.tenant["id"]):
            assert says(await post(browser, shown, code=code), "rejected by a required check")
        assert "fusionauth.sso" not in browser.cookies
    await rp.configure_tenant(eventConfiguration={"events": {kind: {"enabled": False}}})
    assert "code" in response(await send(browser, shown, code=code))


@pytest.mark.requirement("event-user.login.success-7", "event-user.two-factor.challenge-2", "oauth-1.9-14")
async def test_events_come_when_the_login_is_complete_and_not_before(rp, browser, clock, api):
    kinds = ("user.login.success", "user.two-factor.challenge", "user.two-factor.success")
    async with subscriber() as receiver:
        await subscribe(api, rp.tenant, receiver.url, kinds)
        shown = await log_in(rp, browser)
        await receiver.wait_for(1)
        assert [one.event["type"] for one in receiver.requests] == ["user.two-factor.challenge"]
        await send(browser, shown, code=two_factor.code(clock.now()))
        await receiver.wait_for(3)
        assert {one.event["type"] for one in receiver.requests} == set(kinds)


@pytest.fixture
async def newcomer(api):
    """An application whose tenant wants a second factor of everybody, and a user who has none."""
    party = await relying_party.make(api, authenticationMethodsEnabled=True)
    await policy(party, "Required")
    return party


def shown_secret(shown) -> str:
    return str(page(shown).forms[0]["fields"]["secretBase32Encoded"])


def shown_code(secret: str, clock, steps: int = 0) -> str:
    padded = secret + "=" * (-len(secret) % 8)
    return two_factor.code(clock.now(), secret=base64.b64encode(base64.b32decode(padded)).decode(), steps=steps)


@pytest.mark.requirement("oauth-1.9-8")
async def test_who_has_no_method_and_needs_one_sets_it_up_on_the_way(newcomer, browser, clock, http, api):
    rp = newcomer
    shown = await log_in(rp, browser)
    assert path(shown) == "/oauth2/two-factor-enable"
    secret = shown_secret(shown)
    assert " ".join(secret[i : i + 4] for i in range(0, len(secret), 4)) in page(shown).text
    wrong = await post(browser, shown, code="000000" if shown_code(secret, clock) != "000000" else "000001")
    assert says(wrong, "This code is incorrect")
    assert shown_secret(wrong) == secret
    codes = await post(browser, wrong, code=shown_code(secret, clock))
    assert says(codes, "Save these recovery codes in a safe place.")
    recovery = re.findall(r"<code>([A-Z2-9]{5}-[A-Z2-9]{5})</code>", codes.text)
    assert len(recovery) == 10
    assert "fusionauth.sso" not in browser.cookies
    fields = page(codes).forms[0]["fields"]
    again = await browser.get("/oauth2/two-factor-enable-complete", params=fields)
    assert again.status_code == 200
    assert recovery[0] not in again.text
    assert (await post(browser, again, csrf_token="guessed")).status_code == 403
    assert (await browser.get(str(shown.request.url))).status_code == 400
    answer = await send(browser, again)
    token = (await rp.exchange(http, response(answer)["code"])).json()["id_token"]
    assert claims(token)["amr"] == ["pwd", "otp", "mfa"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    stored = (await api.get(f"/api/user/{rp.user['id']}", headers=headers)).json()["user"]
    assert [method["method"] for method in stored["twoFactor"]["methods"]] == ["authenticator"]
    async with checking_client(str(browser.base_url)) as other:
        assert "code" in response(await send(other, await log_in(rp, other), code=recovery[3]))


@pytest.mark.requirement("oauth-1.9-8")
async def test_qr_code_is_that_of_the_key(newcomer, browser):
    rp = newcomer
    shown = await log_in(rp, browser)
    name = urllib.parse.quote(rp.tenant["name"], safe="")
    account = urllib.parse.quote(rp.login_id, safe="")
    query = f"secret={shown_secret(shown)}&issuer={name}&algorithm=SHA1&digits=6&period=30"
    path_, side = qr_codes.svg_path(f"otpauth://totp/{name}:{account}?{query}")
    assert f'd="{path_}"' in shown.text
    assert f'viewBox="0 0 {side} {side}"' in shown.text
    assert 'role="img"' in shown.text
    assert "unsafe" not in shown.headers["Content-Security-Policy"]


@pytest.mark.requirement("oauth-1.9-8")
async def test_codes_by_mail_can_be_set_up_where_the_tenant_has_them(newcomer, browser):
    rp = newcomer
    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        shown = await log_in(rp, browser)
        (link,) = re.findall(r'href="(/oauth2/two-factor-enable\?[^"]+)"', shown.text)
        by_mail = await browser.get(link.replace("&amp;", "&"))
        assert not box.mails
        sent = await post(browser, by_mail, action="send")
        assert says(sent, "We have sent you a code.")
        codes = await post(browser, sent, code=await two_factor.mailed_code(box))
        assert says(codes, "Save these recovery codes")
        assert box.mails[0].recipients == [rp.login_id]
        assert "code" in response(await send(browser, codes))


@pytest.mark.requirement("attack-42")
async def test_attack_42_setting_up_takes_a_form_of_this_browser(newcomer, browser, clock):
    shown = await log_in(newcomer, browser)
    code = shown_code(shown_secret(shown), clock)
    assert (await post(browser, shown, code=code, csrf_token="guessed")).status_code == 403
    nonsense = await post(browser, shown, code=code, secretBase32Encoded="!!!")
    assert says(nonsense, "This code is incorrect")
    assert shown_secret(nonsense) not in {"!!!", shown_secret(shown)}
    fields = page(shown).forms[0]["fields"]
    assert (await browser.post("/oauth2/two-factor-enable-complete", data=fields)).status_code == 400


async def test_where_no_method_is_left_to_set_up_the_login_page_says_so(newcomer, browser):
    await policy(newcomer, "Required", authenticator={"enabled": False})
    assert says(await log_in(newcomer, browser), "requires two-factor authentication")


async def test_missing_address_for_the_only_method_is_shown_on_login_page(newcomer, browser, api):
    rp = newcomer
    async with receiving() as box:
        await two_factor.enable_email(rp, box)
        await policy(rp, "Required", authenticator={"enabled": False})
        body = {"user": {"username": f"u{new_id()}", "password": relying_party.PASSWORD}}
        made = await api.post("/api/user", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})
        stopped = await rp.submit(browser, await rp.authorize(browser), loginId=made.json()["user"]["username"])
        assert says(await follow(browser, stopped), "requires two-factor authentication")


async def test_disabled_policy_requires_no_second_factor(rp, browser):
    await policy(rp, "Disabled")
    assert "code" in response(await log_in(rp, browser))


@pytest.mark.requirement("oauth-1.9-6")
async def test_second_step_comes_before_the_verification_and_both_are_needed(rp, browser, clock, api):
    template_id = await make_template(api, "${verificationId}")
    gated = {"verifyEmail": True, "unverified": {"behavior": "Gated"}, "verificationEmailTemplateId": template_id}
    await rp.configure_tenant(emailConfiguration=gated)
    body = {
        "user": {
            "email": f"{new_id()}@example.com",
            "password": relying_party.PASSWORD,
            "twoFactor": {"methods": [two_factor.authenticator()]},
        }
    }
    made = await api.post("/api/user", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})
    assert made.status_code == 200, made.text
    rp.user = made.json()["user"]
    shown = await log_in(rp, browser)
    assert path(shown) == "/oauth2/two-factor"
    gate = await send(browser, shown, code=two_factor.code(clock.now()))
    assert path(gate) == "/email/verification-required"
    assert "fusionauth.sso" not in browser.cookies
    assert (await post(browser, shown, code=two_factor.code(clock.now(), steps=1))).status_code == 400
    key = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.post("/api/user/verify-email", json={"userId": rp.user["id"]}, headers=key)).status_code == 200
    assert "code" in response(await send(browser, gate))


async def test_a_form_that_is_sent_again_while_it_is_answered_does_not_end_the_login(
    service, rp, browser, clock, monkeypatch
):
    """Between the use of the challenge and that of the login intent, the second request finds no challenge."""
    shown = await log_in(rp, browser)
    code = two_factor.code(clock.now())
    users, repeated = internals.store(service, "users"), []
    note = users.record_second_factor

    async def note_after_a_repetition(*arguments):
        if not repeated:
            repeated.append(None)
            repeated[0] = await post(browser, shown, code=code)
        await note(*arguments)

    monkeypatch.setattr(users, "record_second_factor", note_after_a_repetition)
    answer = await post(browser, shown, code=code)
    assert "code" in response(answer)
    assert "code=" not in repeated[0].headers.get("Location", "")
