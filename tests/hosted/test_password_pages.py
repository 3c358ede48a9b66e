"""The pages of forgotten and changed passwords: they do not reveal accounts, and no step can be skipped."""

from __future__ import annotations

import asyncio
import re

import pytest

from identity.ids import new_id
from identity.operations.limits import failed_login_limits
from tests import internals, relying_party
from tests.conftest import checking_client
from tests.hosted.signing_up import alike, press
from tests.password_reset import NEW_PASSWORD, PasswordReset, id_in, password_reset
from tests.receiver import receiving
from tests.relying_party import PASSWORD, page, response
from tests.subscriber import Subscriber
from tests.two_factor import authenticator, code, wrong_code


@pytest.fixture
async def scenario(service, api):
    async with password_reset(service, api) as found:
        yield found


async def with_factor(scenario: PasswordReset, **members: object) -> None:
    """Give the party's user an authenticator app."""
    factor = {"methods": [authenticator()], "recoveryCodes": ["ABCDE-FGHIJ"]}
    await scenario.rp.patch(f"/api/user/{scenario.rp.user['id']}", {"user": {"twoFactor": factor, **members}})


async def request_mail(scenario: PasswordReset, browser, login_id: str, **query: str):
    shown = await browser.get("/password/forgot", params={"client_id": scenario.rp.client_id, **query})
    assert shown.status_code == 200
    return await press(browser, shown, loginId=login_id)


async def choose(browser, shown, password: str = NEW_PASSWORD, again: str | None = None):
    return await press(browser, shown, password=password, passwordConfirm=password if again is None else again)


async def opened(scenario: PasswordReset, browser, **query: str):
    """The page of an id that was not mailed."""
    path = f"/password/change/{await scenario.change_id()}"
    shown = await browser.get(path, params={"client_id": scenario.rp.client_id, **query})
    assert shown.status_code == 200
    return shown


async def is_password(scenario: PasswordReset, password: str) -> bool:
    """Whether this is the user's password, whatever a login with it comes to."""
    return (await scenario.log_in(password)).status_code in {200, 242}


@pytest.mark.requirement("self-service-11")
async def test_who_forgot_the_password_gets_a_link_to_choose_another_one(scenario, browser):
    shown = await scenario.rp.authorize(browser)
    to_page = re.search(r'href="(/password/forgot\?[^"]+)"', shown.text)
    assert to_page is not None
    form = await browser.get(to_page[1].replace("&amp;", "&"))
    sent = await press(browser, form, loginId=scenario.rp.login_id)
    assert sent.status_code == 302
    assert sent.headers["Location"].startswith("/password/sent?")
    assert "we have sent you an email" in page(await browser.get(sent.headers["Location"])).text
    (mail,) = await scenario.mailbox.wait_for(1)
    assert mail.recipients == [scenario.rp.login_id]
    link = f"/password/change/{id_in(mail.part('plain'))}"
    for _ in range(3):
        shown = await browser.get(link, params=scenario.rp.query())
        assert shown.status_code == 200
    assert (shown.headers["Referrer-Policy"], shown.headers["Cache-Control"]) == ("no-referrer", "no-store")
    assert len(re.findall(r'autocomplete="new-password"', shown.text)) == 2
    assert "At least 8 characters" in page(shown).text
    done = await choose(browser, shown)
    assert done.status_code == 302
    assert done.headers["Location"].startswith("/password/complete?")
    assert not await is_password(scenario, PASSWORD)
    assert await is_password(scenario, NEW_PASSWORD)
    answer = await browser.get(done.headers["Location"])
    back = re.search(r'class="button" href="(/oauth2/authorize\?[^"]+)"', answer.text)
    assert back is not None
    login = await browser.get(back[1].replace("&amp;", "&"))
    assert "code" in response(await scenario.rp.submit(browser, login, password=NEW_PASSWORD))
    over = await browser.get(link)
    assert "no longer valid" in page(over).text
    assert "no longer valid" in page(await choose(browser, shown, "another password still")).text
    assert await is_password(scenario, NEW_PASSWORD)


@pytest.mark.requirement("attack-44", "self-service-11")
async def test_attack_44_forgot_page_says_the_same_of_everybody(service, scenario, browser):
    locked = await scenario.user()
    await scenario.key.delete(f"/api/user/{locked['id']}")
    nowhere = await scenario.rp.api.post(
        "/api/user", json={"user": {"username": f"u{new_id()}", "password": PASSWORD}},
        headers={"X-FusionAuth-TenantId": scenario.tenant_id},
    )  # fmt: skip
    await request_mail(scenario, browser, "warm@example.com")
    found = [
        alike(await request_mail(scenario, browser, login_id))
        for login_id in (
            scenario.rp.login_id, f"{new_id()}@example.com", locked["email"], nowhere.json()["user"]["username"], "x y",
        )
    ]  # fmt: skip
    assert len({str(one) for one in found}) == 1
    assert found[0][0] == 302
    await internals.store(service, "background_work").finish()
    mails = await scenario.mailbox.wait_for(1)
    assert [mail.recipients for mail in mails] == [[scenario.rp.login_id]]


async def test_attack_44_tenant_limit_is_the_same_for_unknown_and_known_users(scenario, browser):
    limit = {"forgotPassword": {"enabled": True, "limit": 1, "timePeriodInSeconds": 600}}
    await scenario.rp.configure_tenant(rateLimitConfiguration=limit)
    for login_id in (scenario.rp.login_id, f"{new_id()}@example.com"):
        assert (await request_mail(scenario, browser, login_id)).status_code == 302
        answer = await request_mail(scenario, browser, login_id)
        assert answer.status_code == 200
        assert "Too many attempts" in page(answer).text


@pytest.mark.requirement("self-service-11")
async def test_state_of_the_login_stands_in_the_mail(scenario, browser):
    template = {"defaultTextTemplate": "/password/change/${changePasswordId} ${state.redirect_uri} ${state.scope}"}
    made = await scenario.rp.api.get(f"/api/tenant/{scenario.tenant_id}")
    template_id = made.json()["tenant"]["emailConfiguration"]["forgotPasswordEmailTemplateId"]
    await scenario.rp.patch(f"/api/email/template/{template_id}", {"emailTemplate": template})
    asked = scenario.rp.query(nonce="n-1")
    await request_mail(scenario, browser, scenario.rp.login_id, **asked)
    (mail,) = await scenario.mailbox.wait_for(1)
    assert mail.part("plain").strip().endswith(f"{asked['redirect_uri']} {asked['scope']}")


@pytest.mark.requirement("self-service-11")
async def test_page_says_so_where_no_such_mails_are_sent(rp, browser):
    shown = await rp.authorize(browser)
    assert "/password/forgot" not in shown.text
    answer = await browser.get("/password/forgot", params={"client_id": rp.client_id})
    assert "Password reset emails are not available" in page(answer).text
    assert not page(answer).forms
    token = page(shown).forms[0]["fields"]["csrf_token"]
    form = {"client_id": rp.client_id, "csrf_token": token, "loginId": rp.login_id}
    assert (await browser.post("/password/forgot", data=form)).status_code == 400
    over = await browser.get(f"/password/change/{new_id()}", params={"client_id": rp.client_id})
    assert "no longer valid" in page(over).text
    assert "/password/forgot" not in over.text


async def test_form_of_the_forgot_page_is_judged(scenario, browser):
    shown = await browser.get("/password/forgot", params={"client_id": scenario.rp.client_id, "login_hint": "me"})
    assert page(shown).forms[0]["fields"]["loginId"] == "me"
    assert "Please enter" in page(await press(browser, shown, loginId=" ")).text
    assert (await press(browser, shown, loginId="me", csrf_token="x")).status_code == 403
    assert (await browser.get("/password/forgot", params={"client_id": new_id()})).status_code == 400
    assert (await browser.get("/password/sent", params={"tenantId": new_id()})).status_code == 400
    assert (await browser.get("/password/forgot")).status_code == 200


@pytest.mark.requirement("self-service-12")
async def test_password_rules_and_mismatches_are_shown_and_change_nothing(scenario, browser):
    past = {"rememberPreviousPasswords": {"enabled": True, "count": 2}}
    await scenario.rp.configure_tenant(passwordValidationRules={"requireNumber": True, **past})
    shown = await opened(scenario, browser)
    assert "A digit" in page(shown).text
    for password, again, found in (
        ("another horse 1", "another horse 2", "The two passwords do not match."),
        ("short1", None, "This password is too short."),
        (NEW_PASSWORD, None, "Please use a digit."),
        ("", None, "Please choose a password."),
    ):
        answer = await choose(browser, shown, password, again)
        assert answer.status_code == 200
        assert found in page(answer).text
        assert 'role="alert"' in answer.text
    assert await is_password(scenario, PASSWORD)
    assert (await choose(browser, shown, "another horse 1")).status_code == 302


@pytest.mark.requirement("self-service-12")
async def test_link_to_set_a_first_password_leads_to_the_same_form(scenario, browser):
    body = {"user": {"email": f"{new_id()}@example.com"}, "sendSetPasswordEmail": True}
    made = await scenario.key.post("/api/user", json=body)
    assert made.status_code == 200, made.text
    (mail,) = await scenario.mailbox.wait_for(1)
    shown = await browser.get(f"/password/change/{id_in(mail.part('plain'))}")
    assert "Choose your password" in page(shown).text
    done = await choose(browser, shown)
    assert (done.status_code, done.headers["Location"]) == (302, "/password/complete")
    answer = await scenario.log_in(NEW_PASSWORD, loginId=body["user"]["email"])
    assert answer.status_code in {200, 202}


@pytest.mark.requirement("event-user.password.reset.start-2", "self-service-12")
async def test_change_by_page_raises_the_events_of_a_change_by_the_api(scenario, browser, api):
    kinds = ["user.password.reset.success", "user.password.update"]
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, scenario.tenant_id)
        await subscriber.subscribe([*kinds, "user.password.reset.start", "user.password.reset.send"])
        await request_mail(scenario, browser, scenario.rp.login_id)
        await subscriber.received("user.password.reset.start", "user.password.reset.send")
        (mail,) = await scenario.mailbox.wait_for(1)
        shown = await browser.get(f"/password/change/{id_in(mail.part('plain'))}")
        await choose(browser, shown)
        events = await subscriber.received(*kinds)
    assert {event["user"]["id"] for event in events} == {scenario.rp.user["id"]}


async def test_change_ends_the_sessions_of_before(scenario, browser):
    await scenario.rp.log_in(browser)
    await choose(browser, await opened(scenario, browser))
    assert (await scenario.rp.authorize(browser)).status_code == 200


@pytest.mark.requirement("attack-46", "self-service-12")
async def test_attack_46_second_factor_comes_before_the_form_and_cannot_be_left_out(service, scenario, browser, clock):
    await with_factor(scenario)
    shown = await opened(scenario, browser)
    assert page(shown).forms[0]["fields"].keys() >= {"code", "csrf_token"}
    assert "password" not in page(shown).forms[0]["fields"]
    skipped = await choose(browser, shown)
    assert "This code is incorrect" in page(skipped).text
    assert "incorrect" in page(await press(browser, shown, code=wrong_code(clock.now()))).text
    assert await is_password(scenario, PASSWORD)
    form = await press(browser, shown, code=code(clock.now()))
    assert "password" in page(form).forms[0]["fields"]
    path = shown.request.url.path
    async with checking_client(service.base_url) as other:
        asked = await other.get(path)
        assert "password" not in page(asked).forms[0]["fields"]
        assert "password" not in page(await choose(other, asked)).forms[0]["fields"]
    other_link = f"/password/change/{await scenario.change_id()}"
    assert "password" not in page(await browser.get(other_link)).forms[0]["fields"]
    assert "password" in page(await browser.get(path)).forms[0]["fields"]
    assert (await choose(browser, form)).status_code == 302
    assert await is_password(scenario, NEW_PASSWORD)


@pytest.mark.requirement("attack-46")
async def test_attack_46_challenge_of_the_page_is_of_no_use_elsewhere(scenario, browser, clock):
    await with_factor(scenario)
    shown = await opened(scenario, browser)
    hidden = set(page(shown).forms[0]["fields"].values()) | set(shown.request.url.path.split("/"))
    for value in hidden:
        body = {"twoFactorId": value, "code": code(clock.now())}
        answer = await scenario.anonymous.post("/api/two-factor/login", json=body)
        assert answer.status_code in {400, 404}, answer.text


@pytest.mark.requirement("attack-48")
async def test_attack_48_codes_are_tried_five_times_for_a_challenge(scenario, browser, clock):
    await with_factor(scenario)
    shown = await opened(scenario, browser)
    for _ in range(5):
        answer = await press(browser, shown, code=wrong_code(clock.now()))
        assert "incorrect" in page(answer).text
    answer = await press(browser, shown, code=code(clock.now()))
    assert "too many codes were incorrect" in page(answer).text
    assert "password" not in page(answer).forms[0]["fields"]


async def test_recovery_code_stands_in_for_the_authenticator(scenario, browser):
    await with_factor(scenario)
    shown = await opened(scenario, browser)
    form = await press(browser, shown, code="abcde-fghij")
    assert (await choose(browser, form)).status_code == 302


@pytest.mark.requirement("self-service-12")
async def test_code_is_sent_where_the_user_has_such_a_method(scenario, browser):
    text = "Code ${code}"
    made = {"defaultTextTemplate": text, "defaultHtmlTemplate": text, "defaultSubject": "Code", "name": new_id()}
    template = (await scenario.rp.api.post("/api/email/template", json={"emailTemplate": made})).json()["emailTemplate"]
    await scenario.rp.configure_tenant(
        multiFactorConfiguration={"email": {"enabled": True, "templateId": template["id"]}}
    )
    method = {"method": "email", "email": "second@example.com"}
    await scenario.rp.patch(
        f"/api/user/{scenario.rp.user['id']}", {"user": {"twoFactor": {"methods": [method], "recoveryCodes": []}}}
    )
    shown = await opened(scenario, browser)
    assert "Send a code to s***@example.com" in page(shown).text
    button = re.search(r'name="methodId" value="([^"]+)"', shown.text)
    assert button is not None
    sent = await press(browser, shown, 1, methodId=button[1])
    assert "We have sent you a code" in page(sent).text
    (mail,) = await scenario.mailbox.wait_for(1)
    assert mail.recipients == ["second@example.com"]
    form = await press(browser, sent, code=mail.part("plain").split()[1])
    assert (await choose(browser, form)).status_code == 302
    assert (
        "could not send a code" in page(await press(browser, await opened(scenario, browser), 1, methodId="none")).text
    )


@pytest.mark.requirement("attack-46")
async def test_attack_46_id_of_another_tenant_is_none(scenario, browser, api):
    other = await relying_party.make(api)
    path = f"/password/change/{await scenario.change_id()}"
    for named in ({"tenantId": other.tenant["id"]}, {"client_id": other.client_id}):
        assert "no longer valid" in page(await browser.get(path, params=named)).text
    shown = await browser.get(path)
    moved = await press(
        browser, shown, tenantId=other.tenant["id"], password=NEW_PASSWORD, passwordConfirm=NEW_PASSWORD
    )
    assert "no longer valid" in page(moved).text
    assert await is_password(scenario, PASSWORD)


@pytest.mark.requirement("attack-46")
async def test_attack_46_of_16_who_send_the_form_at_once_one_changes_the_password(scenario, browser):
    shown = await opened(scenario, browser)
    words = [f"{NEW_PASSWORD} {number}" for number in range(16)]
    done = await asyncio.gather(*(choose(browser, shown, word) for word in words))
    assert sorted(answer.status_code for answer in done) == [200] * 15 + [302]
    winner = next(word for word, answer in zip(words, done, strict=True) if answer.status_code == 302)
    assert await is_password(scenario, winner)


async def test_attack_42_form_that_this_browser_was_not_shown_changes_nothing(service, scenario, browser):
    shown = await opened(scenario, browser)
    answer = await press(browser, shown, password=NEW_PASSWORD, passwordConfirm=NEW_PASSWORD, csrf_token="x")
    assert answer.status_code == 403
    async with checking_client(service.base_url) as other:
        assert (await choose(other, shown)).status_code == 403
    assert await is_password(scenario, PASSWORD)


@pytest.mark.requirement("attack-47")
async def test_attack_47_nothing_of_a_page_or_mail_comes_from_the_host_of_the_request(scenario, browser):
    evil = {"Host": "evil.example.com", "X-Forwarded-Host": "evil.example.com", "Forwarded": "host=evil.example.com"}
    shown = await browser.get("/password/forgot", params={"client_id": scenario.rp.client_id})
    form = page(shown).forms[0]
    data = {**form["fields"], "loginId": scenario.rp.login_id}
    sent = await browser.post(form["action"], data=data, headers=evil)
    assert sent.headers["Location"].startswith("/password/sent?")
    (mail,) = await scenario.mailbox.wait_for(1)
    assert "evil" not in mail.raw.decode()
    for path in ("/password/forgot", "/password/sent", "/email/verify/x", "/password/change/x", "/password/complete"):
        answer = await browser.get(path, params=scenario.rp.query(), headers=evil)
        assert "evil" not in answer.text + str(answer.headers)


async def test_attack_46_ids_that_are_none_are_tried_only_so_often(scenario, browser, monkeypatch):
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 2)
    at = {"client_id": scenario.rp.client_id}
    for _ in range(2):
        assert "no longer valid" in page(await browser.get(f"/password/change/{new_id()}", params=at)).text
    good = f"/password/change/{await scenario.change_id()}"
    assert (await browser.get(good, params=at)).status_code == 503
