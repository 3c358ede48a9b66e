"""The registration page: people register themselves and go on with the request that brought them."""

from __future__ import annotations

import asyncio
import base64
import html
import re
import urllib.parse

import pytest

from identity.ids import new_id
from identity.operations.pages import registration_page
from identity.password_pool import PasswordPool
from tests import two_factor
from tests.api.test_user_consents import birth_date
from tests.conftest import checking_client
from tests.hosted import steps
from tests.hosted.signing_up import alike, an_email, found, offer, open_page, press, send
from tests.mailbox import receiving as mailbox_of
from tests.oauth2.test_lambdas import hook
from tests.password_reset import make_template
from tests.receiver import answers, receiving
from tests.relying_party import CHALLENGE, PASSWORD, REDIRECT_URI, VERIFIER, claims, page, response
from tests.subscriber import Subscriber
from tests.veto import unchanged

EVENTS = (
    "user.create", "user.registration.create", "user.create.complete", "user.registration.create.complete",
    "user.login.success",
)  # fmt: skip


@pytest.mark.requirement("self-service-1")
async def test_who_registers_is_logged_in_and_the_application_gets_tokens(rp, browser):
    await offer(rp, firstName={"enabled": True})
    email = an_email()
    shown = await open_page(rp, browser)
    answer = await send(browser, shown, email=email, password=PASSWORD, firstName="Grace")
    got = response(answer)
    assert got["state"] == "the-state"
    assert got["userState"] == "Authenticated"
    tokens = (await rp.exchange(browser, got["code"])).json()
    user = await found(rp, email=email)
    assert user is not None
    assert claims(tokens["access_token"])["sub"] == user["id"]
    assert claims(tokens["access_token"])["authenticationType"] == "REGISTRATION"
    assert user["firstName"] == "Grace"
    assert [one["applicationId"] for one in user["registrations"]] == [rp.client_id]
    assert response(await rp.authorize(browser))["state"] == "the-state"


@pytest.mark.requirement("self-service-1")
async def test_login_page_leads_to_the_registration_and_back_with_the_whole_request(rp, browser):
    assert "/oauth2/register" not in (await rp.authorize(browser)).text
    await offer(rp)
    asked = {"nonce": "n-1", "code_challenge": CHALLENGE, "code_challenge_method": "S256", "scope": "openid"}
    shown = await rp.authorize(browser, **asked)
    to_page = re.search(r'href="(/oauth2/register\?[^"]+)"', shown.text)
    assert to_page is not None
    registering = await browser.get(html.unescape(to_page[1]))
    back = re.search(r'href="(/oauth2/authorize\?[^"]+)"', registering.text)
    assert back is not None
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(html.unescape(back[1])).query))
    assert query == rp.query(**asked)
    answer = await send(browser, registering, email=an_email(), password=PASSWORD)
    tokens = await rp.exchange(browser, response(answer)["code"], code_verifier=VERIFIER)
    assert claims(tokens.json()["id_token"])["nonce"] == "n-1"


@pytest.mark.requirement("event-user.create-4", "self-service-6")
async def test_registration_raises_events_of_user_and_registration_but_not_of_login(rp, browser, api):
    await offer(rp)
    email = an_email()
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, rp.tenant["id"])
        await subscriber.subscribe(EVENTS, "AbsoluteMajority")
        await send(browser, await open_page(rp, browser), email=email, password=PASSWORD)
        made, registered, after, _ = await subscriber.received(*EVENTS[:4])
    order = [request.event["type"] for request in receiver.requests]
    assert order.index("user.create") < order.index("user.create.complete")
    assert made["user"]["email"] == after["user"]["email"] == email
    assert registered["registration"]["applicationId"] == rp.client_id
    assert made["info"]["ipAddress"] == "127.0.0.1"


@pytest.mark.requirement("self-service-6", "webhooks-8-16")
@pytest.mark.parametrize("kind", ["user.create", "user.registration.create"])
async def test_vetoed_registration_creates_no_user_and_shows_error(service, rp, browser, api, kind):
    await offer(rp)
    email = an_email()
    shown = await open_page(rp, browser)
    async with receiving(answers(500)) as receiver:
        await Subscriber(api, receiver, rp.tenant["id"]).subscribe([kind], "AbsoluteMajority")
        async with unchanged(service, rp.tenant["id"], except_for=[":limit:"]):
            answer = await send(browser, shown, email=email, password=PASSWORD)
    assert answer.status_code == 200
    assert "rejected by a required check" in page(answer).text
    assert await found(rp, email=email) is None


@pytest.mark.requirement("self-service-2")
async def test_only_fields_of_the_application_are_accepted(rp, browser):
    await offer(
        rp, confirmPassword=True, birthDate={"enabled": True}, lastName={"enabled": True, "required": True},
        preferredLanguages={"enabled": True}, mobilePhone={"enabled": True}, middleName={"required": True},
    )  # fmt: skip
    shown = await open_page(rp, browser)
    labels = re.findall(r"<label for=\"([^\"]+)\"", shown.text)
    assert labels == [
        "user.email", "user.password", "passwordConfirm", "user.lastName", "user.birthDate", "user.mobilePhone",
        "user.preferredLanguages", "rememberDevice",
    ]  # fmt: skip
    for name, known_as in {
        "user.email": "email", "user.password": "new-password", "passwordConfirm": "new-password",
        "user.lastName": "family-name", "user.birthDate": "bday", "user.mobilePhone": "tel",
    }.items():  # fmt: skip
        assert re.search(rf'<input id="{name}" name="{name}" [^>]*autocomplete="{known_as}"', shown.text), name
    email = an_email()
    fields = {
        "email": email, "password": PASSWORD, "passwordConfirm": PASSWORD, "lastName": "Hopper",
        "birthDate": "1906-12-09", "mobilePhone": "+1 555 0100", "preferredLanguages": "en",
        "firstName": "Unasked", "username": "unasked", "verified": "true", "data.admin": "true", "active": "false",
    }  # fmt: skip
    assert "code" in response(await send(browser, shown, **fields))
    user = await found(rp, email=email)
    assert user is not None
    assert (user["lastName"], user["birthDate"], user["mobilePhone"]) == ("Hopper", "1906-12-09", "+1 555 0100")
    assert user["preferredLanguages"] == ["en"]
    assert not {"firstName", "username", "data"} & {name for name, value in user.items() if value}


@pytest.mark.requirement("self-service-2")
async def test_form_brings_no_roles_but_the_default_ones(rp, browser):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    for role in ({"name": "admin", "isSuperRole": True}, {"name": "member", "isDefault": True}):
        path = f"/api/application/{rp.client_id}/role"
        assert (await rp.api.post(path, json={"role": role}, headers=headers)).status_code == 200
    await offer(rp)
    form, email = page(await open_page(rp, browser)).forms[0], an_email()
    smuggled = {"registration.roles": "admin", "user.email": email, "user.password": PASSWORD}
    response(await browser.post(form["action"], data={**form["fields"], **smuggled}))
    user = await found(rp, email=email)
    assert user is not None
    assert user["registrations"][0]["roles"] == ["member"]


@pytest.mark.requirement("self-service-2")
@pytest.mark.parametrize(
    ("kind", "value", "bad", "message"),
    [
        ("username", "ada-{}", "", "Please choose a username."),
        ("phoneNumber", "+4915{}", "0151 23", "with a plus sign"),
    ],
)
async def test_login_id_is_of_the_type_that_the_application_wants(rp, browser, kind, value, bad, message):
    await offer(rp, loginIdType=kind)
    shown = await open_page(rp, browser)
    assert "user.email" not in shown.text
    assert message in page(await send(browser, shown, password=PASSWORD, **{kind: bad})).text
    login_id = value.format(str(int(new_id()[:8], 16)))
    tokens = response(await send(browser, shown, password=PASSWORD, **{kind: login_id}))
    assert tokens["userState"] == "Authenticated"
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    query = {"loginId": login_id, "loginIdTypes": kind}
    user = (await rp.api.get("/api/user", params=query, headers=headers)).json()["user"]
    assert user[kind] == login_id


@pytest.mark.requirement("self-service-2", "self-service-5")
@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        ({"email": ""}, "user.email", "Please enter your email address."),
        ({"email": "unknown"}, "user.email", "Please enter a valid email address."),
        ({"email": "me@blocked.example"}, "user.email", "cannot be used here"),
        ({"password": "short"}, "user.password", "too short"),
        ({"password": ""}, "user.password", "Please choose a password."),
        ({"passwordConfirm": "another one"}, "passwordConfirm", "The two passwords do not match."),
        ({"firstName": " "}, "user.firstName", "Please enter your first name."),
        ({"birthDate": "yesterday"}, "user.birthDate", "birthDate"),
        ({"mobilePhone": "call me"}, "user.mobilePhone", "not a phone number"),
    ],
)
async def test_what_is_wrong_is_said_at_the_field_and_keeps_what_was_right(rp, browser, fields, path, message):
    await rp.configure_tenant(registrationConfiguration={"blockedDomains": ["blocked.example"]})
    await offer(
        rp, confirmPassword=True, firstName={"enabled": True, "required": True}, birthDate={"enabled": True},
        mobilePhone={"enabled": True},
    )  # fmt: skip
    email = an_email()
    right = {"email": email, "password": PASSWORD, "passwordConfirm": PASSWORD, "firstName": "Ada"}
    if "password" in fields:
        right["passwordConfirm"] = fields["password"]
    answer = await send(browser, await open_page(rp, browser), **{**right, **fields})
    assert answer.status_code == 200
    described = re.search(
        rf'<input id="{path}"[^>]*aria-invalid="true"[^>]*aria-describedby="{path}-errors', answer.text
    )
    assert described is not None
    said = re.search(rf'<p class="wrong" id="{path}-errors">([^<]+)</p>', answer.text)
    assert said is not None
    assert message in html.unescape(said[1])
    assert f'<a href="#{path}">' in answer.text
    assert PASSWORD not in answer.text
    assert answer.text.count(" autofocus") == 1
    assert re.search(rf'<input id="{path}"[^>]*autofocus', answer.text)
    kept = page(answer).forms[0]["fields"]
    assert kept["user.firstName"] == fields.get("firstName", "Ada").strip() or fields.get("firstName")
    assert await found(rp, email=email) is None


@pytest.mark.requirement("self-service-5")
async def test_rules_for_passwords_are_shown(rp, browser):
    await offer(rp)
    rules = {"minLength": 11, "requireNumber": True, "requireMixedCase": True, "requireNonAlpha": True}
    await rp.configure_tenant(passwordValidationRules={**rules, "disallowUserLoginId": True})
    text = page(await open_page(rp, browser)).text
    for line in ("At least 11 characters", "A digit", "upper and lower case", "not a letter or digit", "Not your"):
        assert line in text
    none = dict.fromkeys((name for name in rules if name != "minLength"), False)
    await rp.configure_tenant(passwordValidationRules={**none, "disallowUserLoginId": False})
    text = page(await open_page(rp, browser)).text
    assert "At least 11 characters" in text
    assert "A digit" not in text


@pytest.mark.requirement("event-user.loginId.duplicate.create-2", "self-service-7")
async def test_duplicate_login_id_raises_event_and_changes_nothing(service, rp, browser, api):
    await offer(rp)
    shown = await open_page(rp, browser)
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, rp.tenant["id"])
        await subscriber.subscribe(["user.loginId.duplicate.create", *EVENTS])
        async with unchanged(service, rp.tenant["id"], except_for=[":limit:", "outbox"]):
            answer = await send(browser, shown, email=rp.login_id.upper(), password=PASSWORD)
        (event,) = await subscriber.received("user.loginId.duplicate.create")
    assert answer.status_code == 200
    assert "An account with this email address already exists." in page(answer).text
    assert event["existing"]["id"] == rp.user["id"]
    assert event["duplicateEmail"] == rp.login_id


async def test_of_16_who_register_with_one_login_id_at_once_one_does(service, rp, browser):
    await offer(rp)
    email = an_email()
    shown = await open_page(rp, browser)
    sent = [send(browser, shown, email=email, password=PASSWORD) for _ in range(16)]
    statuses = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert statuses.count(302) == 1
    assert statuses.count(200) == 15


@pytest.mark.requirement("core-18-lambdas-18", "self-service-8")
async def test_lambda_of_the_application_may_refuse_a_registration(rp, browser, api):
    await offer(rp)
    statements = """
      if (user.email.endsWith('@example.com')) {
        result.errors.fieldErrors['user.email'] = [{code: '[no]user.email', message: 'Use another address.'}];
        result.errors.generalErrors = [{code: '[no]', message: 'Not today & not here.'}];
      }"""
    await hook(rp, "selfServiceRegistrationValidationId", statements)
    shown, email = await open_page(rp, browser), an_email()
    answer = await send(browser, shown, email=email, password=PASSWORD)
    assert "Use another address." in page(answer).text
    assert "Not today &amp; not here." in answer.text
    assert await found(rp, email=email) is None
    assert "code" in response(await send(browser, shown, email=f"{new_id()}@example.org", password=PASSWORD))


@pytest.mark.requirement("self-service-4")
async def test_page_is_an_error_if_self_registration_is_disabled(rp, browser):
    shown = await browser.get("/oauth2/register", params=rp.query())
    assert shown.status_code == 400
    assert "Self-service registration is not enabled" in page(shown).text
    answer = await browser.post("/oauth2/register", data={**rp.query(), "user.email": an_email()})
    assert answer.status_code == 400


@pytest.mark.requirement("self-service-1")
async def test_request_is_judged_as_at_the_authorization_endpoint(rp, browser):
    await offer(rp)
    unproven = await browser.get("/oauth2/register", params=rp.query(redirect_uri="https://evil.example.com/"))
    assert unproven.status_code == 400
    wrong = await browser.get("/oauth2/register", params=rp.query(response_type="nothing"))
    assert response(wrong)["error"] == "unsupported_response_type"
    unseen = await browser.get("/oauth2/register", params=rp.query(prompt="none"))
    assert response(unseen)["error"] == "login_required"
    other = await browser.get(f"/{new_id()}/oauth2/register", params=rp.query())
    assert other.status_code == 400
    assert (await browser.get(f"/{rp.tenant['id']}/oauth2/register", params=rp.query())).status_code == 200


async def test_request_for_a_known_user_registers_no_other_user(rp, browser):
    await offer(rp)
    about = f'{{"id_token": {{"sub": {{"value": "{rp.user["id"]}"}}}}}}'
    email = an_email()
    answer = await send(browser, await open_page(rp, browser, claims=about), email=email, password=PASSWORD)
    assert response(answer)["error"] == "login_required"
    assert await found(rp, email=email) is None


@pytest.mark.parametrize("change", [{"csrf_token": "x"}, {"csrf_token": ""}])
async def test_attack_42_form_of_another_browser_registers_no_user(rp, browser, change):
    await offer(rp)
    shown, email = await open_page(rp, browser), an_email()
    answer = await send(browser, shown, email=email, password=PASSWORD, **change)
    assert answer.status_code == 403
    assert "sent from another site" in page(answer).text
    assert await found(rp, email=email) is None


@pytest.mark.requirement("attack-42")
async def test_attack_42_cross_site_form_registers_no_user(service, rp, browser):
    await offer(rp)
    form, email = page(await open_page(rp, browser)).forms[0], an_email()
    data = {**form["fields"], "user.email": email, "user.password": PASSWORD}
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"}
    assert (await browser.post(form["action"], data=data, headers=elsewhere)).status_code == 403
    async with checking_client(service.base_url) as victim:
        assert (await victim.post(form["action"], data=data)).status_code == 403
    assert await found(rp, email=email) is None


@pytest.mark.requirement("attack-48")
async def test_attack_48_one_address_registers_only_so_often(rp, browser, monkeypatch):
    monkeypatch.setattr(registration_page, "REGISTRATIONS", 2)
    await offer(rp)
    shown = await open_page(rp, browser)
    for _ in range(2):
        response(await send(browser, shown, email=an_email(), password=PASSWORD))
    email = an_email()
    answer = await send(browser, shown, email=email, password=PASSWORD)
    assert "Too many attempts" in page(answer).text
    assert await found(rp, email=email) is None


async def test_session_of_before_gives_way_to_the_new_user(rp, browser):
    await offer(rp)
    await rp.log_in(browser)
    email = an_email()
    await send(browser, await open_page(rp, browser), email=email, password=PASSWORD)
    tokens = (await rp.exchange(browser, await rp.code(browser))).json()
    user = await found(rp, email=email)
    assert user is not None
    assert claims(tokens["id_token"])["sub"] == user["id"]


async def test_page_leaks_nothing_to_other_sites_and_is_not_kept(rp, browser):
    await offer(rp)
    shown = await open_page(rp, browser)
    assert shown.headers["Referrer-Policy"] == "no-referrer"
    assert shown.headers["Cache-Control"] == "no-store"
    assert shown.headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in shown.headers["Content-Security-Policy"]
    evil = '"><script>alert(1)</script>'
    answer = await send(browser, shown, email=evil, password="x", firstName=evil)
    assert "<script>" not in answer.text


@pytest.mark.requirement("self-service-1")
async def test_pushed_request_goes_on_at_the_registration_page(rp, browser):
    await offer(rp)
    pushed = await browser.post("/oauth2/par", data={**rp.query(), "client_secret": rp.secret})
    assert pushed.status_code == 201, pushed.text
    query = {"client_id": rp.client_id, "request_uri": pushed.json()["request_uri"]}
    moved = await browser.get("/oauth2/register", params=query)
    assert moved.status_code == 302
    assert moved.headers["Location"].startswith("/oauth2/register?")
    shown = await browser.get(moved.headers["Location"])
    assert REDIRECT_URI not in str(page(shown).forms[0]["fields"])
    assert "code" in response(await send(browser, shown, email=an_email(), password=PASSWORD))


@pytest.mark.requirement("oauth-1.9-8")
async def test_who_registers_where_a_second_factor_is_needed_sets_one_up_on_the_way(rp, browser, clock, http):
    await offer(rp)
    await rp.configure(authenticationMethodsEnabled=True)
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": "Required"})
    shown = await steps.follow(
        browser, await send(browser, await open_page(rp, browser), email=an_email(), password=PASSWORD)
    )
    assert steps.path(shown) == "/oauth2/two-factor-enable"
    secret = base64.b64encode(base64.b32decode(page(shown).forms[0]["fields"]["secretBase32Encoded"])).decode()
    codes = await steps.post(browser, shown, code=two_factor.code(clock.now(), secret=secret))
    answer = await steps.send(browser, codes)
    token = (await rp.exchange(http, response(answer)["code"])).json()["id_token"]
    assert claims(token)["amr"] == ["pwd", "otp", "mfa"]


@pytest.fixture
async def discreet(rp, api):
    """Registration is enabled and requires a verified address; returns the mailbox."""
    await offer(rp)
    template_id = await make_template(api, "${verificationId}")
    async with mailbox_of() as mailbox:
        gated = {"verifyEmail": True, "verificationEmailTemplateId": template_id, "unverified": {"behavior": "Gated"}}
        in_use = {"loginIdInUseOnCreateEmailTemplateId": await make_template(api, "A new user entered your address")}
        await rp.configure_tenant(emailConfiguration={**mailbox.configuration(), **gated, **in_use})
        yield mailbox


@pytest.mark.requirement("attack-44")
async def test_attack_44_existing_address_gets_the_response_of_a_new_one_if_verified_first(rp, browser, discreet):
    shown, email = await open_page(rp, browser), an_email()
    new = await send(browser, shown, email=email, password=PASSWORD)
    taken = await send(browser, shown, email=rp.login_id, password=PASSWORD)
    assert new.status_code == 200
    assert "Check your email" in page(new).text
    assert alike(new) == alike(taken)
    assert "fusionauth.sso" not in browser.cookies
    mails = await discreet.wait_for(2)
    result = {mail.recipients[0]: mail.part("plain").strip() for mail in mails}
    assert result.keys() == {email, rp.login_id}
    assert result[rp.login_id] == "A new user entered your address"
    weak = [await send(browser, shown, email=one, password="short") for one in (an_email(), rp.login_id)]
    for answer in weak:
        assert "This password is too short." in page(answer).text
        assert "account with this" not in page(answer).text
    assert response(await rp.submit(browser, await rp.authorize(browser)))["state"] == "the-state"


@pytest.mark.requirement("attack-44")
async def test_attack_44_existing_address_takes_as_long_as_a_new_one_if_verified_first(
    rp, browser, discreet, monkeypatch
):
    hashed = []
    verify_decoy = PasswordPool.verify_decoy

    async def counted(self, *arguments, **named):
        hashed.append(arguments[1:])
        await verify_decoy(self, *arguments, **named)

    monkeypatch.setattr(PasswordPool, "verify_decoy", counted)
    await send(browser, await open_page(rp, browser), email=rp.login_id, password=PASSWORD)
    assert len(hashed) == 1


async def test_new_user_signs_in_after_the_address_was_verified(rp, browser, discreet):
    email = an_email()
    answer = await send(browser, await open_page(rp, browser), email=email, password=PASSWORD)
    (mail,) = await discreet.wait_for(1)
    link = await browser.get(f"/email/verify/{mail.part('plain').strip()}")
    assert (await press(browser, link)).status_code == 302
    back = re.search(r'class="button" href="(/oauth2/authorize\?[^"]+)"', answer.text)
    assert back is not None
    login = await browser.get(html.unescape(back[1]))
    assert response(await rp.submit(browser, login, loginId=email))["userState"] == "Authenticated"


async def test_registration_that_has_to_be_verified_first_leads_to_its_gate(rp, browser, api):
    await offer(rp)
    template_id = await make_template(api, "${verificationId}")
    gated = {
        "verifyRegistration": True,
        "verificationEmailTemplateId": template_id,
        "unverified": {"behavior": "Gated"},
    }
    await rp.patch(f"/api/application/{rp.client_id}", {"application": gated})
    async with mailbox_of() as mailbox:
        await rp.configure_tenant(emailConfiguration=mailbox.configuration())
        answer = await send(browser, await open_page(rp, browser), email=an_email(), password=PASSWORD)
        assert answer.headers["Location"].startswith("/registration/verification-required?")
        (mail,) = await mailbox.wait_for(1)
        done = await browser.get(f"/registration/verify/{mail.part('plain').strip()}")
        # The user is signed in in this browser, and no page is shown.
        assert done.headers["Location"] == "/registration/complete"
        assert "code" in response(await rp.authorize(browser))
        assert len(mailbox.mails) == 1


@pytest.mark.requirement("self-service-23", "users-2.1-14")
async def test_child_registers_only_if_the_tenant_allows_it_and_adults_always(service, rp, browser):
    family = {"enabled": True, "allowChildRegistrations": False, "maximumChildAge": 12}
    await rp.configure_tenant(familyConfiguration=family)
    await offer(rp, birthDate={"enabled": True})
    children = {"email": an_email(), "password": PASSWORD, "birthDate": birth_date(12)}
    answer = await send(browser, await open_page(rp, browser), **children)
    assert "Children cannot create an account here." in answer.text
    assert await found(rp, email=children["email"]) is None
    for others in ({"birthDate": birth_date(13)}, {}):
        email = an_email()
        async with checking_client(service.base_url) as another:
            answer = await send(another, await open_page(rp, another), email=email, password=PASSWORD, **others)
        assert answer.status_code in {302, 303}
        assert await found(rp, email=email) is not None
    for allowed in ({"allowChildRegistrations": True}, {"enabled": False, "allowChildRegistrations": False}):
        await rp.configure_tenant(familyConfiguration=allowed)
        email = an_email()
        async with checking_client(service.base_url) as another:
            await send(another, await open_page(rp, another), **{**children, "email": email})
        assert await found(rp, email=email) is not None


@pytest.mark.requirement("users-2.1-15")
async def test_a_child_names_a_parent_where_that_is_required_and_the_parent_is_asked(service, rp, browser):
    template = await make_template(rp.api, "${parentEmail} ${children[0].email}")
    family = {"enabled": True, "parentEmailRequired": True, "parentRegistrationEmailTemplateId": template}
    await rp.configure_tenant(familyConfiguration=family)
    await offer(rp)
    assert "user.parentEmail" not in (await open_page(rp, browser)).text
    await offer(rp, birthDate={"enabled": True})
    child = {"email": an_email(), "password": PASSWORD, "birthDate": birth_date(12)}
    answer = await send(browser, await open_page(rp, browser), **child)
    assert "Please enter the email address of a parent." in answer.text
    assert await found(rp, email=child["email"]) is None
    answer = await send(browser, answer, password=PASSWORD, parentEmail="unknown")
    assert "Please enter a valid email address." in answer.text
    parent = an_email()
    async with mailbox_of() as mailbox:
        await rp.configure_tenant(emailConfiguration=mailbox.configuration())
        await send(browser, answer, password=PASSWORD, parentEmail=parent)
        (mail,) = await mailbox.wait_for(1)
    assert mail.part("plain").strip() == f"{parent} {child['email']}"
    assert (await found(rp, email=child["email"]))["parentEmail"] == parent
    async with checking_client(service.base_url) as another:
        adult = {"email": an_email(), "password": PASSWORD, "birthDate": birth_date(13)}
        await send(another, await open_page(rp, another), **adult)
    assert "parentEmail" not in await found(rp, email=adult["email"])


@pytest.fixture
async def coded(rp, api, discreet):
    """As `discreet`, with a code in place of the link."""
    text = "${verificationOneTimeCode}"
    emails = {"verificationStrategy": "FormField", "verificationEmailTemplateId": await make_template(api, text)}
    await rp.configure_tenant(emailConfiguration=emails)
    return discreet


async def test_new_user_enters_the_code_right_after_registering(rp, browser, coded):
    email = an_email()
    asked = await steps.follow(
        browser, await send(browser, await open_page(rp, browser), email=email, password=PASSWORD)
    )
    (mail,) = await coded.wait_for(1)
    assert "This code is incorrect." in page(await press(browser, asked, oneTimeCode="WRONG")).text
    done = await steps.follow(browser, await press(browser, asked, oneTimeCode=mail.part("plain").strip()))
    back = re.search(r'class="button" href="(/oauth2/authorize\?[^"]+)"', done.text)
    assert back is not None
    login = await browser.get(html.unescape(back[1]))
    assert response(await rp.submit(browser, login, loginId=email))["userState"] == "Authenticated"


@pytest.mark.requirement("attack-44")
async def test_attack_44_code_page_is_the_same_for_an_existing_address(rp, browser, coded):
    shown = await open_page(rp, browser)
    pages = []
    for email in (an_email(), rp.login_id):
        sent = await send(browser, shown, email=email, password=PASSWORD)
        asked = await steps.follow(browser, sent)
        seen = [asked, *[await press(browser, asked, oneTimeCode="WRONG") for _ in range(6)]]
        path = urllib.parse.urlsplit(sent.headers["Location"]).path
        pages.append([answer.text.replace(path, "") for answer in seen] + [answer.status_code for answer in seen])
    assert pages[0] == pages[1]
    assert "no longer valid" in pages[0][6]
