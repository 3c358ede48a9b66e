"""Pages of passwordless logins: they do not reveal accounts, and a link logs in its user in the same browser only."""

from __future__ import annotations

import asyncio
import urllib.parse

import pytest

from identity.ids import new_id
from identity.operations.limits import message_limits
from tests import relying_party
from tests.conftest import checking_client
from tests.hosted.steps import follow, mailing, newest, path, post, says, send
from tests.relying_party import claims, page, response

LINK = "/oauth2/passwordless/${code}?[#list state as k, v]${k?url}=${v?url}&[/#list]"


@pytest.fixture
async def rp(api):
    party = await relying_party.make(api, authenticationMethodsEnabled=True)
    await party.patch(
        f"/api/application/{party.client_id}", {"application": {"passwordlessConfiguration": {"enabled": True}}}
    )
    return party


@pytest.fixture
async def mailbox(rp):
    async with mailing(rp, "passwordlessEmailTemplateId", LINK) as box:
        yield box


@pytest.fixture
async def typed(rp, api):
    """Codes to type in place of links."""
    strategy = {"emailLoginStrategy": "FormField"}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"passwordlessConfiguration": strategy}})
    async with mailing(rp, "passwordlessEmailTemplateId", "${oneTimeCode}") as box:
        yield box


async def request_mail(rp, browser, login_id: str | None = None, changes: dict | None = None, **fields: str):
    """Ask for a mail on the page."""
    shown = await browser.get("/oauth2/passwordless", params=rp.query(**(changes or {})))
    assert shown.status_code == 200, shown.text
    return await post(browser, shown, loginId=login_id or rp.login_id, **fields)


@pytest.mark.requirement("oauth-1.9-12")
async def test_login_page_leads_to_the_page_that_mails_a_link_which_logs_in(rp, browser, mailbox, http):
    shown = await rp.authorize(browser)
    (link,) = [word for word in shown.text.split('"') if word.startswith("/oauth2/passwordless?")]
    form = await browser.get(link.replace("&amp;", "&"))
    sent = await post(browser, form, loginId=rp.login_id, rememberDevice="true")
    assert sent.status_code == 200
    assert says(sent, "Check your messages")
    own = await browser.get(await newest(mailbox))
    assert says(own, "Signing you in.")
    assert "data-submit" in own.text
    answer = await post(browser, own)
    assert "Max-Age" in next(line for line in answer.headers.get_list("Set-Cookie") if "fusionauth.sso" in line)
    assert response(answer)["state"] == "the-state"
    token = (await rp.exchange(http, response(answer)["code"])).json()["id_token"]
    assert claims(token)["sub"] == rp.user["id"]
    assert claims(token)["amr"] == ["otp"]


@pytest.mark.requirement("oauth-1.9-12")
async def test_without_switch_or_template_nothing_is_offered(rp, browser):
    assert "/oauth2/passwordless" not in (await rp.authorize(browser)).text
    assert (await browser.get("/oauth2/passwordless", params=rp.query())).status_code == 400
    async with mailing(rp, "passwordlessEmailTemplateId", LINK):
        assert "/oauth2/passwordless" in (await rp.authorize(browser)).text
        off = {"passwordlessConfiguration": {"enabled": False}}
        await rp.patch(f"/api/application/{rp.client_id}", {"application": off})
        assert "/oauth2/passwordless" not in (await rp.authorize(browser)).text
        assert (await browser.get("/oauth2/passwordless/some-code", params=rp.query())).status_code == 400


@pytest.mark.requirement("attack-44", "oauth-1.9-12")
async def test_attack_44_response_does_not_reveal_accounts(rp, browser, mailbox):
    unknown = f"{new_id()}@example.com"
    answers = [await request_mail(rp, browser, login_id) for login_id in (unknown, rp.login_id)]
    await mailbox.wait_for(1)
    assert [mail.recipients for mail in mailbox.mails] == [[rp.login_id]]
    found = [
        answer.text.replace(login_id, "X") for answer, login_id in zip(answers, (unknown, rp.login_id), strict=True)
    ]
    assert found[0].replace(urllib.parse.quote(unknown), "X") == found[1].replace(urllib.parse.quote(rp.login_id), "X")
    assert answers[0].headers.get_list("Set-Cookie") == answers[1].headers.get_list("Set-Cookie")


@pytest.mark.requirement("attack-44")
async def test_attack_44_code_to_type_is_asked_for_of_everybody(rp, browser, typed):
    for login_id in (f"{new_id()}@example.com", rp.login_id):
        sent = await request_mail(rp, browser, login_id)
        assert says(sent, "Code from the message"), login_id
        wrong = await post(browser, sent, oneTimeCode="WRONG")
        assert wrong.status_code == 200
        assert says(wrong, "This code is incorrect or has expired."), login_id
        assert "fusionauth.sso" not in browser.cookies
    code = await newest(typed)
    assert response(await post(browser, sent, oneTimeCode=code))["state"] == "the-state"


@pytest.mark.requirement("attack-44")
async def test_attack_44_code_of_the_page_does_not_reveal_accounts_at_the_api(rp, browser, typed, http):
    answers = []
    for login_id in (f"{new_id()}@example.com", rp.login_id):
        code = page(await request_mail(rp, browser, login_id)).forms[0]["action"].rpartition("/")[2]
        sent = await http.post("/api/passwordless/send", json={"code": code})
        shown = await browser.get(f"/oauth2/passwordless/{code}", params=rp.query())
        has_attempts = await http.post("/api/passwordless/login", json={"code": code, "oneTimeCode": "WRONG"})
        answers.append([(one.status_code, "over" in one.text) for one in (sent, shown, has_attempts)])
    assert answers[0] == answers[1]
    assert answers[0][0][0] == 200
    await typed.wait_for(2)
    assert {tuple(mail.recipients) for mail in typed.mails} == {(rp.login_id,)}


async def test_five_wrong_codes_end_the_right_one(rp, browser, typed):
    sent = await request_mail(rp, browser)
    for _ in range(5):
        await post(browser, sent, oneTimeCode="WRONG")
    late = await post(browser, sent, oneTimeCode=await newest(typed))
    assert says(late, "This code is incorrect or has expired.")
    assert "fusionauth.sso" not in browser.cookies


@pytest.mark.requirement("oauth-1.9-12")
async def test_looking_at_a_link_uses_nothing_up_and_another_browser_is_asked(rp, browser, service, mailbox):
    await request_mail(rp, browser)
    link = await newest(mailbox)
    async with checking_client(service.base_url) as scanner:
        for _ in range(3):
            seen = await scanner.get(link)
            assert seen.status_code == 200
            assert "data-submit" not in seen.text
        assert "fusionauth.sso" not in scanner.cookies
        assert says(seen, "in another browser")
        assert says(seen, rp.login_id)
        headers = await scanner.head(link)
        assert (headers.status_code, headers.content) == (200, b"")
    async with checking_client(service.base_url) as phone:
        answer = await post(phone, await phone.get(link))
        assert "code" in response(answer)
    again = await post(browser, await browser.get(link))
    assert says(again, "This link has expired or was already used.")
    assert "fusionauth.sso" not in browser.cookies


@pytest.mark.requirement("attack-42")
async def test_attack_42_link_alone_or_forged_form_does_not_log_in(rp, browser, service, mailbox):
    await request_mail(rp, browser)
    link = await newest(mailbox)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link).query))
    async with checking_client(service.base_url) as victim:
        await rp.authorize(victim)
        forged = await victim.post(link.partition("?")[0], data={**query, "csrf_token": "guessed"})
        assert forged.status_code == 403
        assert says(forged, rp.login_id)
        marked = await victim.get(link)
        assert "data-submit" not in marked.text
        elsewhere = {"Sec-Fetch-Site": "cross-site"}
        form = page(marked).forms[0]
        refused = await victim.post(form["action"], data=form["fields"], headers=elsewhere)
        assert refused.status_code == 403
        assert "fusionauth.sso" not in victim.cookies
        assert "code" in response(await post(victim, refused))
    shown = await browser.get("/oauth2/passwordless", params=rp.query())
    fields = page(shown).forms[0]["fields"] | {"loginId": rp.login_id, "csrf_token": "guessed"}
    refused = await browser.post("/oauth2/passwordless", data=fields)
    assert refused.status_code == 403
    assert says(refused, "try again")
    assert len(mailbox.mails) == 1


@pytest.mark.requirement("oauth-1.9-12")
async def test_link_without_its_request_is_an_error_page(rp, browser, mailbox):
    await request_mail(rp, browser)
    bare = (await newest(mailbox)).partition("?")[0]
    assert (await browser.get(bare)).status_code == 400
    assert (await browser.post(bare, data={})).status_code == 400
    assert (await browser.get(bare, params={"client_id": rp.client_id})).status_code == 400
    stranger = await browser.get(bare, params=rp.query(redirect_uri="https://evil.example.com/"))
    assert stranger.status_code == 400
    assert response(await browser.get(bare, params=rp.query(response_type=None)))["error"] == "invalid_request"


async def test_attack_54_code_is_good_at_its_own_application_only(rp, browser, mailbox, api):
    await request_mail(rp, browser)
    code = (await newest(mailbox)).partition("?")[0].rpartition("/")[2]
    template = {"emailConfiguration": {"passwordlessEmailTemplateId": new_id()}}
    for tenant in (rp.tenant, None):
        other = await relying_party.make(api, tenant=tenant)
        template["emailConfiguration"]["passwordlessEmailTemplateId"] = (
            await api.get(f"/api/tenant/{rp.tenant['id']}")
        ).json()["tenant"]["emailConfiguration"]["passwordlessEmailTemplateId"]
        await other.configure_tenant(**template)
        on = {"passwordlessConfiguration": {"enabled": True}}
        await other.patch(f"/api/application/{other.client_id}", {"application": on})
        shown = await browser.get(f"/oauth2/passwordless/{code}", params=other.query())
        assert says(shown, "This link has expired or was already used.")
    assert "code" in response(await post(browser, await browser.get(await newest(mailbox))))


async def test_of_64_who_send_one_link_one_is_logged_in(rp, browser, mailbox):
    await request_mail(rp, browser)
    shown = await browser.get(await newest(mailbox))
    answers = await asyncio.gather(*(post(browser, shown) for _ in range(64)))
    assert sum("code" in answer.headers.get("Location", "") for answer in answers) == 1


async def test_mails_are_counted_for_unknown_and_known_users_alike(rp, browser, mailbox):
    limit = {"sendPasswordless": {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}}
    await rp.configure_tenant(rateLimitConfiguration=limit)
    for login_id in (f"{new_id()}@example.com", rp.login_id):
        assert says(await request_mail(rp, browser, login_id), "Check your messages")
        assert says(await request_mail(rp, browser, login_id), "Too many attempts"), login_id


async def test_one_address_asks_for_so_many_mails_and_no_more(rp, browser, mailbox, monkeypatch):
    monkeypatch.setattr(message_limits, "ADDRESS_MESSAGES", 2)
    unknown = f"{new_id()}@example.com"
    for _ in range(2):
        assert says(await request_mail(rp, browser, unknown), "Check your messages")
    for login_id in (unknown, rp.login_id):
        assert says(await request_mail(rp, browser, login_id), "Too many attempts"), login_id
    assert not mailbox.mails


async def test_gates_hold_after_a_link_too(rp, browser, mailbox):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"expiry": 1}})
    await request_mail(rp, browser)
    stopped = await post(browser, await browser.get(await newest(mailbox)))
    assert says(stopped, "This account has expired.")
    assert "fusionauth.sso" not in browser.cookies


async def test_silent_request_is_answered_without_a_page(rp, browser, mailbox):
    answer = await browser.get("/oauth2/passwordless", params=rp.query(prompt="none"))
    assert response(answer)["error"] == "login_required"


async def test_link_of_a_pushed_request_works_in_its_own_browser(rp, browser, mailbox, http):
    pushed = await http.post("/oauth2/par", data={**rp.query(), "client_secret": rp.secret})
    query = {"client_id": rp.client_id, "request_uri": pushed.json()["request_uri"]}
    shown = await follow(browser, await browser.get("/oauth2/passwordless", params=query))
    await post(browser, shown, loginId=rp.login_id)
    link = await newest(mailbox)
    assert (await http.get(link)).status_code == 400
    assert response(await post(browser, await browser.get(link)))["state"] == "the-state"


async def test_new_login_replaces_session_of_another_user(rp, browser, mailbox, api):
    await rp.log_in(browser)
    before = browser.cookies["fusionauth.sso"]
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    await request_mail(rp, browser)
    await send(browser, await browser.get(await newest(mailbox)))
    assert browser.cookies["fusionauth.sso"] != before
    assert path(await rp.authorize(browser)) == "/callback"
