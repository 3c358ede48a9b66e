"""The account pages: one's own account and no other, by the session of a login, with a fresh one for what matters."""

from __future__ import annotations

import base64
import html
import re
import urllib.parse

import pytest

from identity.errors import Unavailable
from identity.ids import new_id
from identity.operations.pages import accounts
from identity.password_pool import PasswordPool
from tests import relying_party
from tests.conftest import checking_client
from tests.hosted.signing_up import found, offer, press
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, page, response
from tests.subscriber import Subscriber
from tests.two_factor import authenticator, code

NEW_PASSWORD = "another horse battery"


def place(rp) -> dict[str, str]:
    return {"client_id": rp.client_id, "tenantId": rp.tenant["id"]}


async def enter(rp, browser, path: str = "/account"):
    """A page of the account, after its login if there has to be one."""
    answer = await browser.get(path, params=place(rp))
    if answer.status_code == 302:
        assert answer.headers["Location"].startswith("/oauth2/authorize?")
        shown = await browser.get(answer.headers["Location"])
        if shown.status_code == 200:
            shown = await rp.submit(browser, shown)
        assert shown.status_code == 302
        back = urllib.parse.urlsplit(shown.headers["Location"])
        assert (back.path, back.query) == (path, urllib.parse.urlencode(place(rp)))
        answer = await browser.get(f"{back.path}?{back.query}")
    assert answer.status_code == 200, answer.text
    return answer


def secret_of(shown) -> str:
    return str(page(shown).forms[0]["fields"]["secretBase32Encoded"])


@pytest.mark.requirement("self-service-16")
async def test_account_shows_data_of_the_signed_in_user(rp, browser):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"firstName": "Ada", "birthDate": "1815-12-10"}})
    away = await browser.get("/account", params=place(rp))
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(away.headers["Location"]).query))
    assert urllib.parse.urlsplit(query["redirect_uri"]).path == "/account"
    shown = await enter(rp, browser)
    text = page(shown).text
    for value in (rp.login_id, "Ada", "1815-12-10", "(verified)"):
        assert value in text
    assert shown.headers["Cache-Control"] == "no-store"
    assert (await browser.get("/account", params=place(rp))).status_code == 200


@pytest.mark.requirement("self-service-16")
async def test_login_of_the_account_pages_gives_no_code_and_ends_nowhere_else(rp, browser):
    away = await browser.get("/account", params=place(rp))
    back = await rp.submit(browser, await browser.get(away.headers["Location"]))
    assert "code=" not in back.headers["Location"]
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(away.headers["Location"]).query))
    for changed in (f"{query['redirect_uri']}&x=1", query["redirect_uri"].replace("/account", "/admin")):
        assert (await browser.get("/oauth2/authorize", params={**query, "redirect_uri": changed})).status_code == 400
    assert (await browser.get("/account", params={"client_id": new_id()})).status_code == 400


async def test_all_errors_of_a_password_form_are_shown_at_once(rp, browser):
    await rp.configure_tenant(passwordValidationRules={"minLength": 12, "requireNumber": True})
    shown = await enter(rp, browser, "/account/password")
    refused = await press(browser, shown, currentPassword="wrong", password="abc", passwordConfirm="abd")
    for text in ("Incorrect current password.", "too short", "use a digit", "do not match"):
        assert text in page(refused).text


@pytest.mark.requirement("self-service-24")
async def test_account_pages_need_no_client_id(rp, browser):
    tenant = {"tenantId": rp.tenant["id"]}
    for path in ("/account", "/account/password"):
        chosen = await browser.get(path, params={**tenant, "locale": "de"})
        assert chosen.status_code == 302
        url = urllib.parse.urlsplit(chosen.headers["Location"])
        assert (url.path, dict(urllib.parse.parse_qsl(url.query))) == (path, {**place(rp), "locale": "de"})
    assert (await browser.get("/account", params={"tenantId": new_id()})).status_code == 400


async def test_account_without_client_id_uses_an_application_of_the_session(rp, browser):
    await rp.patch(
        f"/api/application/{rp.client_id}", {"application": {"oauthConfiguration": {"requireRegistration": True}}}
    )
    other = await relying_party.make(rp.api, tenant=rp.tenant)
    tenant = {"tenantId": rp.tenant["id"]}
    assert other.client_id in (await browser.get("/account", params=tenant)).headers["Location"]
    await enter(rp, browser)
    assert rp.client_id in (await browser.get("/account", params=tenant)).headers["Location"]


@pytest.mark.requirement("self-service-16")
async def test_there_is_no_account_page_where_no_session_is_kept(rp, browser):
    await rp.configure_tenant(httpSessionMaxInactiveInterval=0)
    assert "Account pages are not available" in page(await browser.get("/account", params=place(rp))).text


@pytest.mark.requirement("event-user.update-2", "self-service-17")
async def test_user_changes_the_fields_that_the_application_asks_for_and_webhooks_hear(rp, browser, api):
    await offer(rp, firstName={"enabled": True, "required": True}, mobilePhone={"enabled": True})
    shown = await enter(rp, browser, "/account/edit")
    assert set(page(shown).forms[0]["fields"]) == {
        "client_id", "tenantId", "session", "csrf_token", "user.email", "user.firstName", "user.mobilePhone",
        "currentPassword",
    }  # fmt: skip
    blank = await press(browser, shown, **{"user.firstName": " "})
    assert "Please enter your first name." in page(blank).text
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, rp.tenant["id"])
        await subscriber.subscribe(["user.update", "user.update.complete"], "AbsoluteMajority")
        smuggled = {"user.lastName": "Unasked", "userId": new_id()}
        saved = await press(browser, shown, **{"user.firstName": "Ada", **smuggled})
        assert saved.status_code == 302
        updated, _ = await subscriber.received("user.update", "user.update.complete")
    assert "Your changes have been saved." in page(await browser.get(saved.headers["Location"])).text
    user = await found(rp, email=rp.login_id)
    assert user is not None
    assert (user["id"], user["firstName"]) == (rp.user["id"], "Ada")
    assert "lastName" not in user
    assert (updated["original"].get("firstName"), updated["user"]["firstName"]) == (None, "Ada")


async def test_what_a_form_shows_in_part_is_not_lost_by_sending_it(rp, browser):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"preferredLanguages": ["gsw_CH", "fr"]}})
    shown = await enter(rp, browser, "/account/edit")
    assert '<option value="gsw_CH" selected>' in shown.text
    for chosen, kept in (("gsw_CH", ["gsw_CH", "fr"]), ("de", ["de"]), ("", [])):
        change = {"user.firstName": "Ada", "user.preferredLanguages": chosen}
        assert (await press(browser, shown, **change)).status_code == 302
        user = await found(rp, email=rp.login_id)
        assert user is not None
        assert (user["firstName"], user["preferredLanguages"]) == ("Ada", kept)


@pytest.mark.requirement("self-service-17", "webhooks-8-16")
async def test_vetoed_change_shows_error_and_changes_nothing(rp, browser, api):
    shown = await enter(rp, browser, "/account/edit")
    async with receiving(answers(500)) as receiver:
        await Subscriber(api, receiver, rp.tenant["id"]).subscribe(["user.update"], "AbsoluteMajority")
        answer = await press(browser, shown, **{"user.firstName": "Ada"})
    assert "rejected by a required check" in page(answer).text
    user = await found(rp, email=rp.login_id)
    assert user is not None
    assert "firstName" not in user


@pytest.mark.requirement("attack-44")
async def test_attack_44_address_of_another_user_is_reported_as_unusable(rp, browser, api):
    other = await relying_party.make_user(api, rp.tenant["id"])
    shown = await enter(rp, browser, "/account/edit")
    answer = await press(browser, shown, **{"user.email": other["email"], "currentPassword": PASSWORD})
    assert "This email address cannot be used." in page(answer).text
    assert "exists" not in page(answer).text


@pytest.mark.requirement("event-user.password.update", "self-service-18")
async def test_password_change_requires_current_password_and_ends_all_sessions(rp, browser, api):
    shown = await enter(rp, browser, "/account/password")
    for fields, message in (
        ({"currentPassword": "wrong", "password": NEW_PASSWORD}, "Incorrect current password."),
        ({"currentPassword": PASSWORD, "password": "short"}, "This password is too short."),
        ({"currentPassword": PASSWORD, "password": NEW_PASSWORD, "passwordConfirm": "x"}, "do not match"),
    ):
        answer = await press(browser, shown, **{"passwordConfirm": fields["password"], **fields})
        assert answer.status_code == 200
        assert message in page(answer).text
    right = {"currentPassword": PASSWORD, "password": NEW_PASSWORD, "passwordConfirm": NEW_PASSWORD}
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, rp.tenant["id"])
        await subscriber.subscribe(["user.password.update"])
        assert (await press(browser, shown, **right)).status_code == 302
        await subscriber.received("user.password.update")
    again = await rp.authorize(browser)
    assert again.status_code == 200
    assert "code" in response(await rp.submit(browser, again, password=NEW_PASSWORD))


@pytest.mark.requirement("attack-48", "self-service-18")
async def test_attack_48_present_password_is_guessed_only_so_often(rp, browser, monkeypatch):
    monkeypatch.setattr(accounts, "_PASSWORD_FAILURES", 2)
    shown = await enter(rp, browser, "/account/password")
    wrong = {"currentPassword": "wrong", "password": NEW_PASSWORD, "passwordConfirm": NEW_PASSWORD}
    for _ in range(2):
        assert "Incorrect current password" in page(await press(browser, shown, **wrong)).text
    answer = await press(browser, shown, **{**wrong, "currentPassword": PASSWORD})
    assert "Too many attempts" in page(answer).text


async def test_present_password_that_cannot_be_compared_is_no_failure(rp, browser, monkeypatch):
    async def busy(*_arguments: object, **_named: object) -> bool:
        raise Unavailable("Too many passwords wait.")

    monkeypatch.setattr(accounts, "_PASSWORD_FAILURES", 1)
    shown = await enter(rp, browser, "/account/password")
    right = {"currentPassword": PASSWORD, "password": NEW_PASSWORD, "passwordConfirm": NEW_PASSWORD}
    with monkeypatch.context() as patched:
        patched.setattr(PasswordPool, "verify", busy)
        for _ in range(2):
            assert "try again" in page(await press(browser, shown, **right)).text
    assert (await press(browser, shown, **right)).status_code == 302


@pytest.mark.parametrize("path", ["/account/edit", "/account/password", "/account/two-factor"])
async def test_what_matters_wants_a_login_of_a_short_time_ago(rp, browser, clock, path):
    shown = await enter(rp, browser, path)
    clock.advance(seconds=901)
    away = await browser.get(path, params=place(rp))
    assert away.status_code == 302
    assert "max_age=900" in away.headers["Location"]
    assert (await browser.get(away.headers["Location"])).status_code == 200
    if page(shown).forms:
        assert (await press(browser, shown, **{"user.firstName": "Ada"})).status_code == 302
        user = await found(rp, email=rp.login_id)
        assert user is not None
        assert "firstName" not in user
    assert (await browser.get("/account", params=place(rp))).status_code == 200


@pytest.mark.requirement("event-user.two-factor.method.add-3", "self-service-19")
async def test_second_factor_is_added_with_recovery_codes_shown_once_and_removed_with_a_code(rp, browser, clock, api):
    listed = await enter(rp, browser, "/account/two-factor")
    assert "Two-factor authentication is not set up." in page(listed).text
    shown = await browser.get("/account/two-factor/enable", params=place(rp))
    assert 'class="qr"' in shown.text
    secret = base64_of(secret_of(shown))
    assert "incorrect" in page(await press(browser, shown, code="000000")).text
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, rp.tenant["id"])
        kinds = ["user.two-factor.method.add", "user.two-factor.method.remove"]
        await subscriber.subscribe(kinds)
        done = await press(browser, shown, code=code(clock.now(), secret=secret))
        assert done.status_code == 200
        codes = re.findall(r"<code>([A-Z0-9]{5}-[A-Z0-9]{5})</code>", done.text)
        assert len(set(codes)) == 10
        (added,) = await subscriber.received(kinds[0])
        assert added["user"]["id"] == rp.user["id"]
        # From now on the session is not enough: the login asks for the second factor.
        away = await browser.get("/account/two-factor", params=place(rp))
        assert away.status_code == 302
        asked = await browser.get((await browser.get(away.headers["Location"])).headers["Location"])
        clock.advance(seconds=60)
        back = await press(browser, asked, code=code(clock.now(), secret=secret))
        assert back.headers["Location"].endswith(f"/account/two-factor?{urllib.parse.urlencode(place(rp))}")
        listed = await browser.get("/account/two-factor", params=place(rp))
        assert "Authenticator app" in page(listed).text
        assert codes[0] not in listed.text
        link = re.search(r'href="(/account/two-factor/disable\?[^"]+)"', listed.text)
        assert link is not None
        removing = await browser.get(html.unescape(link[1]))
        assert "incorrect" in page(await press(browser, removing, code="000000")).text
        assert (await press(browser, removing, code=codes[1])).status_code == 302
        await subscriber.received(kinds[1])
    assert (
        "Two-factor authentication is not set up."
        in page(await browser.get("/account/two-factor", params=place(rp))).text
    )


def base64_of(secret: str) -> str:
    return base64.b64encode(base64.b32decode(secret)).decode()


@pytest.mark.requirement("self-service-19")
async def test_account_of_a_user_with_a_second_factor_is_behind_it(rp, browser):
    await rp.log_in(browser)
    factor = {"methods": [authenticator()], "recoveryCodes": ["ABCDE-FGHIJ"]}
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": factor}})
    for path in ("/account", "/account/edit", "/account/two-factor/enable"):
        away = await browser.get(path, params=place(rp))
        assert away.status_code == 302
        onward = await browser.get(away.headers["Location"])
        assert "/oauth2/two-factor" in onward.headers["Location"]


async def test_secret_that_no_authenticator_may_have_is_replaced(rp, browser, clock):
    await enter(rp, browser, "/account/two-factor")
    shown = await browser.get("/account/two-factor/enable", params=place(rp))
    for bad in ("", "AA", "A" * 8000):
        own = code(clock.now(), secret=base64_of("AA======"))
        again = await press(browser, shown, secretBase32Encoded=bad, code=own)
        assert again.status_code == 200
        assert "incorrect" in page(again).text
        assert len(base64.b64decode(base64_of(secret_of(again)))) == 20


@pytest.mark.requirement("attack-46")
async def test_application_without_second_factor_is_no_way_to_another_one(rp, browser):
    settings = {"multiFactorConfiguration": {"loginPolicy": "Disabled"}}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": settings})
    factor = {"methods": [authenticator()], "recoveryCodes": ["ABCDE-FGHIJ"]}
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": factor}})
    await rp.log_in(browser)
    for path in ("/account", "/account/edit", "/account/two-factor", "/account/two-factor/enable"):
        away = await browser.get(path, params=place(rp))
        assert away.status_code == 302, path
        onward = await browser.get(away.headers["Location"])
        assert "/oauth2/two-factor" in onward.headers["Location"]


@pytest.mark.requirement("self-service-16")
async def test_attack_54_account_pages_never_show_another_account(rp, browser, api):
    other = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    factor = {"methods": [authenticator(id="OTHR")], "recoveryCodes": []}
    await rp.patch(f"/api/user/{other['id']}", {"user": {"twoFactor": factor}})
    shown = await enter(rp, browser, "/account/edit")
    smuggled = {"userId": other["id"], "id": other["id"], "user.id": other["id"], "user.firstName": "Mallory"}
    assert (await press(browser, shown, **smuggled)).status_code == 302
    assert "firstName" not in (await found(rp, email=other["email"]) or {})
    away = await browser.get("/account/two-factor/disable", params={**place(rp), "methodId": "OTHR"})
    assert (away.status_code, away.headers["Location"]) == (
        302, f"/account/two-factor?{urllib.parse.urlencode(place(rp))}",
    )  # fmt: skip
    form = {**page(shown).forms[0]["fields"], "methodId": "OTHR", "code": "000000"}
    assert (await browser.post("/account/two-factor/disable", data=form)).status_code == 302
    stored = await found(rp, email=other["email"])
    assert stored is not None
    assert len(stored["twoFactor"]["methods"]) == 1
    foreign = await relying_party.make(api)
    away = await browser.get("/account", params=place(foreign))
    assert away.status_code == 302
    assert (await browser.get(away.headers["Location"])).status_code == 200


@pytest.mark.requirement("attack-42")
async def test_attack_42_form_of_another_browser_or_login_changes_nothing(service, rp, browser, api):
    shown = await enter(rp, browser, "/account/edit")
    change = {"user.firstName": "Mallory"}
    assert (await press(browser, shown, **change, csrf_token="x")).status_code == 403
    assert (await press(browser, shown, **change, session="x")).status_code == 403
    async with checking_client(service.base_url) as stranger:
        away = await press(stranger, shown, **change)
        assert away.status_code == 302
    form = page(shown).forms[0]
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"}
    answer = await browser.post(form["action"], data={**form["fields"], **change}, headers=elsewhere)
    assert answer.status_code == 403
    first = rp.user
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    await rp.log_in(browser, prompt="login")
    stale = await press(browser, shown, **change)
    assert stale.status_code == 403
    for user in (first, rp.user):
        assert "firstName" not in (await found(rp, email=user["email"]) or {})


@pytest.mark.requirement("self-service-19", "passkeys-14")
@pytest.mark.parametrize(("policy", "is_kept"), [("Required", True), ("Enabled", False)])
async def test_the_only_second_factor_is_kept_where_logins_require_one(rp, browser, clock, policy, is_kept):
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": policy})
    factor = {"methods": [authenticator()], "recoveryCodes": ["ABCDE-FGHIJ"]}
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": factor}})
    away = await browser.get("/account/two-factor", params=place(rp))
    asked = await rp.submit(browser, await browser.get(away.headers["Location"]))
    asked = await browser.get(asked.headers["Location"])
    back = await press(browser, asked, code=code(clock.now()))
    assert back.status_code == 302
    listed = await browser.get("/account/two-factor", params=place(rp))
    link = re.search(r'href="(/account/two-factor/disable\?[^"]+)"', listed.text)
    assert link is not None
    removing = await browser.get(html.unescape(link[1]))
    clock.advance(seconds=60)
    answer = await press(browser, removing, code=code(clock.now()))
    assert (answer.status_code, "Add another method before you remove this one." in answer.text) == (
        (200, True) if is_kept else (302, False)
    )
    user = await found(rp, email=rp.login_id)
    assert user is not None
    assert len(user["twoFactor"]["methods"]) == is_kept
    if is_kept:
        # A user who lost the method has a recovery code, and the next login requires a new method.
        assert (await press(browser, removing, code="ABCDE-FGHIJ")).status_code == 302
