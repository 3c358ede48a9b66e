"""The pages of a login that waits for a verification: by link, by code, with another address, and no way around."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import new_id
from tests import relying_party
from tests.conftest import checking_client
from tests.hosted.steps import follow, log_in, mailing, make_template, newest, path, post, says, send
from tests.mailbox import receiving
from tests.relying_party import page, response

GATED = {"verifyEmail": True, "unverified": {"behavior": "Gated", "allowEmailChangeWhenGated": True}}
TEXT = "${verificationId} ${verificationOneTimeCode}"
PAGE = "/email/verification-required"


@pytest.fixture
async def rp(api):
    party = await relying_party.make(api)
    await party.patch(f"/api/user/{party.user['id']}", {"user": {"email": f"{new_id()}@example.com"}})
    return party


async def unverified(rp, api):
    """Log in as a user whose address is not verified."""
    body = {"user": {"email": f"{new_id()}@example.com", "password": relying_party.PASSWORD}}
    made = await api.post("/api/user", json=body, headers={"X-FusionAuth-TenantId": rp.tenant["id"]})
    assert made.status_code == 200, made.text
    rp.user = made.json()["user"]


@pytest.fixture
async def linked(rp, api):
    """Mails with a link."""
    async with mailing(rp, "verificationEmailTemplateId", TEXT, **GATED) as box:
        await unverified(rp, api)
        yield box


@pytest.fixture
async def coded(rp, api):
    """Mails with a code."""
    async with mailing(rp, "verificationEmailTemplateId", TEXT, **GATED, verificationStrategy="FormField") as box:
        await unverified(rp, api)
        yield box


@pytest.mark.requirement("oauth-1.9-10")
async def test_code_of_the_mail_completes_the_login(rp, browser, coded, http):
    shown = await log_in(rp, browser, scope="openid email")
    assert path(shown) == PAGE
    assert shown.headers["Cache-Control"] == "no-store"
    assert shown.headers["Referrer-Policy"] == "no-referrer"
    assert says(shown, rp.login_id)
    assert 'autocomplete="one-time-code"' in shown.text
    assert "fusionauth.sso" not in browser.cookies
    _, code = (await newest(coded)).split()
    wrong = await send(browser, shown, oneTimeCode="WRONG")
    assert says(wrong, "This code is incorrect.")
    assert says(await send(browser, shown, oneTimeCode=" "), "This code is incorrect.")
    answer = await send(browser, wrong, oneTimeCode=code)
    token = (await rp.exchange(http, response(answer)["code"])).json()["access_token"]
    userinfo = (await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})).json()
    assert userinfo["email_verified"] is True
    assert response(await rp.authorize(browser))["code"]


@pytest.mark.requirement("attack-46")
async def test_attack_46_login_with_a_former_password_waits_no_longer(rp, browser, linked, api, clock):
    shown = await log_in(rp, browser)
    clock.advance(seconds=1)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"user": {"password": "another horse battery"}}
    assert (await api.patch(f"/api/user/{rp.user['id']}", json=body, headers=headers)).status_code == 200
    assert (
        await api.post("/api/user/verify-email", json={"userId": rp.user["id"]}, headers=headers)
    ).status_code == 200
    late = await send(browser, shown)
    assert 'name="password"' in late.text
    assert "fusionauth.sso" not in browser.cookies


@pytest.mark.requirement("oauth-1.9-10")
async def test_link_followed_anywhere_lets_the_login_go_on(rp, browser, linked, http):
    shown = await log_in(rp, browser)
    assert "oneTimeCode" not in shown.text
    early = await send(browser, shown)
    assert says(early, "The link has not been followed yet.")
    verification_id = await newest(linked)
    assert (await http.post("/api/user/verify-email", json={"verificationId": verification_id})).status_code == 200
    assert response(await send(browser, early))["state"] == "the-state"


async def test_page_that_is_looked_at_after_the_link_goes_on_by_itself(rp, browser, linked, http):
    shown = await log_in(rp, browser)
    verification_id = await newest(linked)
    await http.post("/api/user/verify-email", json={"verificationId": verification_id})
    answer = await browser.get(str(shown.request.url))
    assert response(answer)["state"] == "the-state"
    assert "fusionauth.sso" in browser.cookies
    assert (await browser.get(str(shown.request.url))).status_code == 400


@pytest.mark.requirement("oauth-1.9-10")
async def test_mail_is_sent_again_when_asked_for_and_not_at_each_login(rp, browser, coded):
    shown = await log_in(rp, browser)
    first = await newest(coded)
    await log_in(rp, browser)
    again = await send(browser, shown, action="resend")
    assert says(again, "We have sent another message.")
    second = await newest(coded, 2)
    assert len(coded.mails) == 2
    assert first != second
    assert says(await send(browser, again, oneTimeCode=first.split()[1]), "This code is incorrect.")
    assert "code" in response(await send(browser, again, oneTimeCode=second.split()[1]))


async def test_mail_limit_is_shown(rp, browser, coded):
    shown = await log_in(rp, browser)
    limit = {"sendEmailVerification": {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}}
    await rp.configure_tenant(rateLimitConfiguration=limit)
    assert says(await send(browser, shown, action="resend"), "We have sent another message.")
    assert says(await send(browser, shown, action="resend"), "Too many attempts.")


@pytest.mark.requirement("attack-46")
async def test_attack_46_five_wrong_codes_lead_back_to_the_login(rp, browser, coded):
    shown = await log_in(rp, browser)
    _, code = (await newest(coded)).split()
    for _ in range(5):
        assert says(await send(browser, shown, oneTimeCode="WRONG"), "This code is incorrect.")
    over = await send(browser, shown, oneTimeCode=code)
    assert says(over, "too many codes were incorrect")
    assert page(over).forms[0]["action"] == "/oauth2/authorize"
    assert (await post(browser, shown, oneTimeCode=code)).status_code == 400
    assert "fusionauth.sso" not in browser.cookies


@pytest.mark.requirement("audit-a1", "oauth-1.9-10")
async def test_another_address_can_be_given_and_is_the_one_to_verify(rp, browser, coded, api):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    shown = await log_in(rp, browser)
    before, changed = rp.login_id, f"{new_id()}@example.com"
    answer = await send(browser, shown, 1, action="change", email=changed)
    assert says(answer, changed)
    await coded.wait_for(3)
    verification = next(mail for mail in coded.mails if mail.recipients == [changed])
    # The present address receives the link that revokes the change.
    assert sorted(mail.recipients[0] for mail in coded.mails) == sorted([before, before, changed])
    kept = (await api.get(f"/api/user/{rp.user['id']}", headers=headers)).json()["user"]
    assert (kept["email"], kept["verified"]) == (before, False)
    _, code = verification.part("plain").split()
    assert "code" in response(await send(browser, answer, oneTimeCode=code))
    user = (await api.get(f"/api/user/{rp.user['id']}", headers=headers)).json()["user"]
    assert (user["email"], user["verified"]) == (changed, True)


@pytest.mark.requirement("attack-44")
async def test_attack_44_address_that_cannot_be_had_is_refused_whatever_the_reason(rp, browser, coded, api):
    other = await relying_party.make_user(api, rp.tenant["id"])
    shown = await log_in(rp, browser)
    for email in (other["email"], "nonsense", " "):
        refused = await send(browser, shown, 1, action="change", email=email)
        assert says(refused, "This email address cannot be used."), email
        assert says(refused, rp.login_id)
    assert len(coded.mails) == 1


async def test_address_stays_where_the_tenant_does_not_let_it_be_changed(rp, browser, coded):
    await rp.configure_tenant(emailConfiguration={"unverified": {"allowEmailChangeWhenGated": False}})
    shown = await log_in(rp, browser)
    assert len(page(shown).forms) == 1
    forced = await send(browser, shown, action="change", email=f"{new_id()}@example.com")
    assert says(forced, "This email address cannot be used.")
    assert says(forced, rp.login_id)


@pytest.mark.requirement("attack-46")
async def test_attack_46_page_belongs_to_one_browser_one_client_and_one_login(rp, browser, coded, service, api):
    shown = await log_in(rp, browser)
    url = str(shown.request.url)
    _, code = (await newest(coded)).split()
    async with checking_client(service.base_url) as other:
        assert (await other.get(url)).status_code == 400
        fields = page(shown).forms[0]["fields"]
        assert (await other.post(PAGE, data={**fields, "oneTimeCode": code})).status_code == 400
        assert "fusionauth.sso" not in other.cookies
    assert (await browser.get(url.replace(PAGE, "/registration/verification-required"))).status_code == 400
    assert (await browser.get(url.replace(PAGE, "/oauth2/consent"))).status_code == 400
    assert (await browser.get(PAGE)).status_code == 400
    sibling = await relying_party.make(api, tenant=rp.tenant)
    assert (await browser.get(url.replace(rp.client_id, sibling.client_id))).status_code == 400


@pytest.mark.requirement("attack-42")
async def test_attack_42_form_of_another_site_is_refused_and_nothing_is_lost(rp, browser, coded):
    shown = await log_in(rp, browser)
    _, code = (await newest(coded)).split()
    for fields in ({"csrf_token": "guessed"}, {"csrf_token": ""}):
        refused = await post(browser, shown, oneTimeCode=code, **fields)
        assert refused.status_code == 403
        assert says(refused, "try again")
    fields = page(shown).forms[0]["fields"]
    answer = await browser.post(PAGE, data={**fields, "oneTimeCode": code}, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert "code" in response(await send(browser, shown, oneTimeCode=code))


async def test_of_64_who_send_one_form_one_is_logged_in(rp, browser, linked, http):
    shown = await log_in(rp, browser)
    await http.post("/api/user/verify-email", json={"verificationId": await newest(linked)})
    answers = await asyncio.gather(*(post(browser, shown) for _ in range(64)))
    assert sum("code=" in answer.headers.get("Location", "") for answer in answers) == 1


@pytest.mark.requirement("oauth-1.9-13")
async def test_session_that_meets_the_gate_is_led_to_the_page_and_back(rp, browser, api):
    await unverified(rp, api)
    await rp.log_in(browser)
    async with mailing(rp, "verificationEmailTemplateId", TEXT, **GATED, verificationStrategy="FormField") as box:
        silent = response(await rp.authorize(browser, prompt="none"))
        assert silent["error_reason"] == "email_verification_required"
        assert not box.mails
        shown = await follow(browser, await rp.authorize(browser))
        assert path(shown) == PAGE
        _, code = (await newest(box)).split()
        assert "code" in response(await send(browser, shown, oneTimeCode=code))


@pytest.mark.requirement("audit-a1")
async def test_session_that_meets_the_gate_does_not_change_the_address(rp, browser, api):
    await unverified(rp, api)
    await rp.log_in(browser)
    async with mailing(rp, "verificationEmailTemplateId", TEXT, **GATED) as box:
        shown = await follow(browser, await rp.authorize(browser))
        assert path(shown) == PAGE
        assert len(page(shown).forms) == 1
        forced = await send(browser, shown, action="change", email=f"{new_id()}@example.com")
        assert says(forced, "This email address cannot be used.")
        assert len(await box.wait_for(1)) == 1


@pytest.mark.requirement("oauth-1.9-13")
async def test_session_that_ended_meanwhile_leads_to_the_login_page(rp, browser, api, http):
    await unverified(rp, api)
    await rp.log_in(browser)
    async with mailing(rp, "verificationEmailTemplateId", TEXT, **GATED) as box:
        shown = await follow(browser, await rp.authorize(browser))
        await http.post("/api/user/verify-email", json={"verificationId": await newest(box)})
        browser.cookies.delete("fusionauth.sso")
        assert page(await send(browser, shown)).forms[0]["action"] == "/oauth2/authorize"


async def test_user_who_is_locked_while_the_page_is_open_does_not_get_on(rp, browser, linked, api, http):
    shown = await log_in(rp, browser)
    await http.post("/api/user/verify-email", json={"verificationId": await newest(linked)})
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200
    locked = await send(browser, shown)
    assert says(locked, "This account is locked.")
    assert "fusionauth.sso" not in browser.cookies


@pytest.fixture
async def registered(api):
    """An application that wants verified registrations, by a code; and a user whose registration is not."""
    party = await relying_party.make(api)
    template_id = await make_template(api, TEXT)
    settings = {
        "verifyRegistration": True, "verificationEmailTemplateId": template_id,
        "verificationStrategy": "FormField", "unverified": {"behavior": "Gated"},
    }  # fmt: skip
    async with receiving() as box:
        await party.configure_tenant(emailConfiguration=box.configuration())
        await party.patch(f"/api/application/{party.client_id}", {"application": settings})
        body = {
            "user": {"email": f"{new_id()}@example.com", "password": relying_party.PASSWORD},
            "registration": {"applicationId": party.client_id},
        }
        headers = {"X-FusionAuth-TenantId": party.tenant["id"]}
        made = await api.post("/api/user/registration", json=body, headers=headers)
        assert made.status_code == 200, made.text
        party.user = made.json()["user"]
        yield party, box


@pytest.mark.requirement("oauth-1.9-10")
async def test_code_of_the_mail_verifies_a_registration_and_completes_the_login(registered, browser):
    rp, box = registered
    shown = await log_in(rp, browser)
    assert path(shown) == "/registration/verification-required"
    assert says(shown, "Verify your registration")
    assert "fusionauth.sso" not in browser.cookies
    _, code = (await newest(box)).split()
    assert says(await send(browser, shown, oneTimeCode="WRONG"), "This code is incorrect.")
    assert len(page(shown).forms) == 1
    email = f"{new_id()}@example.com"
    assert says(await send(browser, shown, action="change", email=email), "This email address cannot be used.")
    again = await send(browser, shown, action="resend")
    assert says(again, "We have sent another message.")
    _, second = (await newest(box, 2)).split()
    assert code == second or says(await send(browser, again, oneTimeCode=code), "This code is incorrect.")
    assert "code" in response(await send(browser, again, oneTimeCode=second))
    assert (await browser.get(str(shown.request.url))).status_code == 400


async def test_silent_request_says_that_the_registration_is_not_verified(registered, browser, api):
    rp, _ = registered
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"unverified": {"behavior": "Allow"}}})
    await rp.log_in(browser)
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"unverified": {"behavior": "Gated"}}})
    silent = response(await rp.authorize(browser, prompt="none"))
    assert silent["error_reason"] == "registration_verification_required"
