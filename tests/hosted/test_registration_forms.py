"""Registration by a form: steps, their validation, what is stored, and hostile input."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.parse
from typing import Any

import httpx
import pytest

from identity.domain.forms.forms import FIELD_IDS
from identity.ids import new_id
from tests import relying_party
from tests.api.test_consents import make as make_consent
from tests.api.test_forms import make_field, make_form
from tests.api.test_user_consents import birth_date
from tests.conftest import checking_client
from tests.hosted.signing_up import alike, an_email, found, offer, press
from tests.hosted.steps import mailing
from tests.oauth2.test_lambdas import hook, lambda_log
from tests.relying_party import PASSWORD, RelyingParty, page, response

Document = dict[str, Any]
FIELDS = FIELD_IDS
EMAIL, SECRET, FIRST_NAME = FIELDS["user.email"], FIELDS["user.password"], FIELDS["user.firstName"]
LOGIN = {"user.password": PASSWORD, "confirm.user.password": PASSWORD}


async def offer_form(rp: RelyingParty, *steps: list[str], **settings: Any) -> Document:
    """Let users register with a form of these steps."""
    form = await make_form(rp.api, *steps)
    await offer(rp, type="advanced", formId=form["id"], **settings)
    return form


async def open_form(rp: RelyingParty, browser: httpx.AsyncClient, **changes: str | None) -> httpx.Response:
    shown = await browser.get("/oauth2/register", params=rp.query(**changes))
    assert shown.status_code == 200, shown.text
    return shown


async def step(browser: httpx.AsyncClient, shown: httpx.Response, **answers: str) -> httpx.Response:
    """Send a step, and follow the redirect to the next one."""
    answer = await press(browser, shown, **answers)
    location = answer.headers.get("Location", "")
    return await browser.get(location) if location.startswith("/oauth2/register/steps") else answer


async def consents_of(rp: RelyingParty, user: Document) -> list[tuple[str, str]]:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await rp.api.get("/api/user/consent", params={"userId": user["id"]}, headers=headers)
    return [(one["consentId"], one["status"]) for one in answer.json()["userConsents"]]


@pytest.mark.requirement("self-service-3")
async def test_three_steps_register_a_user_with_data_and_a_consent(rp, browser):
    color = await make_field(rp.api, control="radio", options=["red", "blue"], required=True)
    size = await make_field(rp.api, key="registration.data.shoe['size']", type="number", control="number")
    tags = await make_field(rp.api, key="user.data.tags", control="checkbox", options=["a b", "c", "d"])
    news = await make_field(rp.api, key="user.data.news", control="checkbox", type="bool")
    consent = await make_consent(rp.api, defaultMinimumAgeForSelfConsent=0)
    agreed = await make_field(rp.api, type="consent", consentId=consent["id"], required=True)
    fields = [color["id"], size["id"], tags["id"], news["id"]]
    await offer_form(rp, [EMAIL, SECRET], [FIRST_NAME, *fields], [agreed["id"]])
    email = an_email()
    second = await step(browser, await open_form(rp, browser), **{"user.email": email}, **LOGIN)
    assert "2 / 3" in page(second).text
    answers = {"user.firstName": "Grace", "user.data.color": "blue", "registration.data.shoe['size']": "38.5"}
    third = await step(browser, second, **answers, **{"user.data.tags#0": "a b", "user.data.tags#2": "d"})
    assert await found(rp, email=email) is None
    got = response(await step(browser, third, **{f"consents['{consent['id']}']": "true"}))
    assert got["state"] == "the-state"
    user = await found(rp, email=email)
    assert user is not None
    assert user["firstName"] == "Grace"
    assert user["data"] == {"color": "blue", "tags": ["a b", "d"], "news": False}
    (registration,) = user["registrations"]
    assert registration["data"] == {"shoe": {"size": 38.5}}
    assert registration["roles"] == []
    assert await consents_of(rp, user) == [(consent["id"], "Active")]


async def test_form_of_one_step_registers_at_once(rp, browser):
    await offer_form(rp, [EMAIL, SECRET])
    email = an_email()
    shown = await open_form(rp, browser, login_hint=email)
    assert page(shown).forms[0]["fields"]["user.email"] == email
    assert response(await press(browser, shown, **LOGIN))["userState"] == "Authenticated"
    assert await found(rp, email=email) is not None


@pytest.mark.requirement("forms-3")
async def test_step_shows_all_its_errors_and_keeps_the_answers(rp, browser):
    zip_code = {"enabled": True, "expression": "[0-9]{5}"}
    fields = [
        await make_field(rp.api, key="user.data.zip", validator=zip_code),
        await make_field(rp.api, key="user.data.age", type="number"),
        await make_field(rp.api, key="user.data.nick", required=True),
        await make_field(rp.api, key="user.data.mail", type="email", confirm=True),
        await make_field(rp.api, key="user.data.day", type="date"),
    ]
    await offer_form(rp, [EMAIL, SECRET, *(field["id"] for field in fields)])
    wrong = {"user.email": "unknown", "user.password": "short", "confirm.user.password": "other"}
    wrong |= {"user.data.zip": "123456", "user.data.age": "1e9", "user.data.mail": "a@example.com"}
    wrong |= {"confirm.user.data.mail": "b@example.com", "user.data.day": "2024-02-30"}
    shown = await press(browser, await open_form(rp, browser), **wrong)
    assert shown.status_code == 200
    text = page(shown).text
    for field in (fields[0], fields[1], fields[2], fields[4]):
        assert f'id="{field["key"]}-errors"' in shown.text
    assert 'id="confirm.user.data.mail-errors"' in shown.text
    assert 'id="user.email-errors"' in shown.text
    assert 'id="confirm.user.password-errors"' in shown.text
    assert "Please fill in this field." in text
    assert page(shown).forms[0]["fields"]["user.data.zip"] == "123456"
    assert "short" not in shown.text


async def test_password_and_address_are_checked_in_their_step(rp, browser):
    await offer_form(rp, [EMAIL, SECRET], [FIRST_NAME])
    weak = {"user.email": rp.login_id, "user.password": "short", "confirm.user.password": "short"}
    shown = await press(browser, await open_form(rp, browser), **weak)
    assert 'id="user.email-errors"' in shown.text
    assert 'id="user.password-errors"' in shown.text


async def test_user_goes_back_and_changes_a_step_without_entering_the_password_again(rp, browser):
    await offer_form(rp, [EMAIL, SECRET], [FIRST_NAME])
    first, email = an_email(), an_email()
    second = await step(browser, await open_form(rp, browser), **{"user.email": first}, **LOGIN)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(str(second.url)).query))
    back = await browser.get("/oauth2/register/steps", params={**query, "step": "1"})
    assert page(back).forms[0]["fields"]["user.email"] == first
    assert PASSWORD not in back.text
    assert re.search(r'id="user.password"[^>]*required', back.text) is None
    last = await step(browser, back, **{"user.email": email})
    response(await step(browser, last, **{"user.firstName": "Grace"}))
    assert await found(rp, email=first) is None
    assert await found(rp, email=email) is not None


async def test_steps_cannot_be_skipped_or_continued_by_another_browser(rp, browser, service):
    await offer_form(rp, [EMAIL, SECRET], [FIRST_NAME], [FIELDS["user.lastName"]])
    second = await step(browser, await open_form(rp, browser), **{"user.email": an_email()}, **LOGIN)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(str(second.url)).query))
    ahead = await browser.get("/oauth2/register/steps", params={**query, "step": "3"})
    assert "2 / 3" in page(ahead).text
    form = page(second).forms[0]
    skipping = await browser.post(form["action"], data={**form["fields"], "step": "3", "user.lastName": "Hopper"})
    assert skipping.headers["Location"].endswith("step=3")
    async with checking_client(service.base_url) as other:
        assert (await other.get("/oauth2/register/steps", params=query)).status_code == 400
    forged = await browser.post(form["action"], data={**form["fields"], "csrf_token": "x"})
    assert forged.status_code == 403
    gone = await browser.get("/oauth2/register/steps", params={**query, "intent": "0" * 32})
    assert gone.status_code == 400


@pytest.mark.parametrize(
    "hostile",
    [
        {"user.id": "00000000-0000-0000-0000-00000000aaaa"},
        {"registration.roles": "admin"},
        {"user.verified": "true"},
        {"user.data.role": "admin"},
        {"user.data.__proto__.admin": "true"},
        {"__proto__": "x"},
        {"registration.data.admin": "true"},
        {"user.tenantId": "00000000-0000-0000-0000-00000000aaaa"},
    ],
    ids=str,
)
async def test_members_that_the_form_does_not_have_are_ignored(rp, browser, hostile):
    await offer_form(rp, [EMAIL, SECRET])
    email = an_email()
    response(await press(browser, await open_form(rp, browser), **{"user.email": email}, **LOGIN, **hostile))
    user = await found(rp, email=email)
    assert user is not None
    assert user["data"] == {}
    assert user["registrations"][0]["roles"] == []
    assert user["registrations"][0]["data"] == {}
    assert "00000000aaaa" not in str(user)


async def test_over_long_and_unlisted_values_are_refused(rp, browser):
    color = await make_field(rp.api, control="select", options=["red"])
    note = await make_field(rp.api, key="user.data.note", control="textarea")
    await offer_form(rp, [EMAIL, SECRET, color["id"], note["id"]])
    email = an_email()
    answers = {"user.email": email, **LOGIN, "user.data.color": "green", "user.data.note": "x" * 10_001}
    shown = await press(browser, await open_form(rp, browser), **answers)
    assert 'id="user.data.color-errors"' in shown.text
    assert 'id="user.data.note-errors"' in shown.text
    assert await found(rp, email=email) is None


async def test_names_and_options_of_fields_are_escaped(rp, browser):
    script = "<script>alert(1)</script>"
    field = await make_field(rp.api, name=f"{script}{new_id()}", control="radio", options=[script])
    await offer_form(rp, [EMAIL, SECRET, field["id"]])
    shown = await open_form(rp, browser)
    assert script not in shown.text
    assert "&lt;script&gt;alert(1)" in shown.text


async def test_labels_are_texts_of_the_theme(rp, browser, api):
    await make_field(rp.api)
    field = await make_field(rp.api, control="radio", options=["red"])
    texts = "user.data.color=Favorite color\nred=Crimson\n[missing]user.data.color=Pick one"
    theme = {"name": new_id(), "defaultMessages": texts}
    made = (await api.post("/api/theme", json={"theme": theme})).json()["theme"]["id"]
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"themeId": made}})
    await offer_form(rp, [EMAIL, SECRET, field["id"]])
    text = page(await open_form(rp, browser)).text
    assert "Favorite color" in text
    assert "Crimson" in text


@pytest.mark.requirement("forms-4")
async def test_concurrent_last_steps_register_one_user(rp, browser):
    await offer_form(rp, [FIELDS["user.username"], SECRET], [FIRST_NAME])
    name = new_id()
    shown = await step(browser, await open_form(rp, browser), **{"user.username": name}, **LOGIN)
    answers = await asyncio.gather(*(press(browser, shown, **{"user.firstName": "Grace"}) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [302] + [400] * 63
    assert await found(rp, username=name) is not None


@pytest.mark.requirement("forms-5")
async def test_too_young_user_cannot_give_a_consent(rp, browser):
    consent = await make_consent(rp.api, defaultMinimumAgeForSelfConsent=16)
    agreed = await make_field(rp.api, type="consent", consentId=consent["id"])
    await offer_form(rp, [EMAIL, SECRET], [FIELDS["user.birthDate"]], [agreed["id"]])
    email, key = an_email(), f"consents['{consent['id']}']"
    second = await step(browser, await open_form(rp, browser), **{"user.email": email}, **LOGIN)
    third = await step(browser, second, **{"user.birthDate": birth_date(12)})
    refused = await step(browser, third, **{key: "true"})
    assert "too young" in page(refused).text
    assert await found(rp, email=email) is None
    response(await step(browser, refused, **{key: ""}))
    user = await found(rp, email=email)
    assert user is not None
    assert await consents_of(rp, user) == []


@pytest.mark.requirement("core-18-lambdas-33")
async def test_lambda_validates_each_step_with_the_answers_so_far(rp, browser):
    statements = (
        "if (form.step === 1 && user.email.startsWith('no'))"
        " result.errors.generalErrors = [{code: '[no]', message: 'Not you'}];"
        "if (form.step === 2 && user.data.color === 'red')"
        " result.errors.fieldErrors['user.data.color'] = [{code: '[ugly]user.data.color', message: 'Not red'}];"
        "if (form.step === 3 && user.firstName !== 'Grace')"
        " result.errors.fieldErrors['user.firstName'] = [{code: '[no]user.firstName', message: 'Not that name'}];"
    )
    await hook(rp, "selfServiceRegistrationValidationId", statements)
    color = await make_field(rp.api)
    await offer_form(rp, [EMAIL, SECRET], [color["id"]], [FIRST_NAME])
    email = an_email()
    refused = await step(browser, await open_form(rp, browser), **{"user.email": f"no{email}"}, **LOGIN)
    assert "Not you" in page(refused).text
    assert "1 / 3" in page(refused).text
    second = await step(browser, refused, **{"user.email": email}, **LOGIN)
    refused = await step(browser, second, **{"user.data.color": "red"})
    assert "Not red" in page(refused).text
    assert "2 / 3" in page(refused).text
    third = await step(browser, refused, **{"user.data.color": "blue"})
    refused = await step(browser, third, **{"user.firstName": "Ada"})
    assert "Not that name" in page(refused).text
    assert "3 / 3" in page(refused).text
    assert await found(rp, email=email) is None
    response(await step(browser, refused, **{"user.firstName": "Grace"}))
    assert await found(rp, email=email) is not None


@pytest.mark.requirement("core-18-lambdas-33")
async def test_lambda_gets_the_form_and_the_fields_of_the_step_but_no_password(rp, browser, service):
    made = await hook(
        rp,
        "selfServiceRegistrationValidationId",
        "const {step, stepIndex, totalSteps, fields} = form;"
        "console.info(JSON.stringify({step, stepIndex, totalSteps, form: form.form.name,"
        " fields: fields.map(field => field.key), application: [form.applicationId, context.applicationId],"
        " user: [user.email, user.password, user.data, registration.applicationId]}))",
    )
    color = await make_field(rp.api)
    form = await offer_form(rp, [EMAIL, SECRET], [color["id"]])
    email = an_email()
    second = await step(browser, await open_form(rp, browser), **{"user.email": email}, **LOGIN)
    response(await step(browser, second, **{"user.data.color": "blue"}))
    seen = [json.loads(text.partition("printed:\n")[2]) for _, text in await lambda_log(service, made)]
    common = {"totalSteps": 2, "form": form["name"], "application": [rp.client_id, rp.client_id]}
    assert seen == [
        {
            **common,
            "step": 1,
            "stepIndex": 0,
            "fields": ["user.email", "user.password"],
            "user": [email, None, {}, rp.client_id],
        },
        {
            **common,
            "step": 2,
            "stepIndex": 1,
            "fields": ["user.data.color"],
            "user": [email, None, {"color": "blue"}, rp.client_id],
        },
    ]


async def test_failing_lambda_ends_the_registration_at_its_step(rp, browser):
    await hook(rp, "selfServiceRegistrationValidationId", "user.data.missing.member")
    await offer_form(rp, [EMAIL, SECRET], [FIRST_NAME])
    refused = await press(browser, await open_form(rp, browser), **{"user.email": an_email()}, **LOGIN)
    assert response(refused)["error"] == "server_error"


async def test_lambda_refuses_the_last_step_and_the_answers_stay(rp, browser):
    error = "result.errors.fieldErrors = {'user.data.color': [{code: '[ugly]user.data.color', message: 'Not red'}]}"
    statements = f"if (form.step === form.totalSteps && user.data.color === 'red') {error}"
    await hook(rp, "selfServiceRegistrationValidationId", statements)
    color = await make_field(rp.api)
    await offer_form(rp, [EMAIL, SECRET], [color["id"]], [FIRST_NAME])
    email = an_email()
    second = await step(browser, await open_form(rp, browser), **{"user.email": email}, **LOGIN)
    third = await step(browser, second, **{"user.data.color": "red"})
    refused = await step(browser, third, **{"user.firstName": "Grace"})
    assert "Not red" in page(refused).text
    assert "2 / 3" in page(refused).text
    third = await step(browser, refused, **{"user.data.color": "blue"})
    response(await step(browser, third))
    user = await found(rp, email=email)
    assert user is not None
    assert (user["data"]["color"], user["firstName"]) == ("blue", "Grace")


async def test_attack_44_form_does_not_reveal_addresses_where_they_are_verified_first(rp, browser, service):
    await offer_form(rp, [EMAIL, SECRET], [FIRST_NAME])
    async with mailing(
        rp, "verificationEmailTemplateId", "${verificationId}", verifyEmail=True, unverified={"behavior": "Gated"}
    ):
        seen = []
        for email in (an_email(), rp.login_id):
            async with checking_client(service.base_url) as fresh:
                second = await step(fresh, await open_form(rp, fresh), **{"user.email": email}, **LOGIN)
                assert "2 / 2" in page(second).text
                sent = await step(fresh, second, **{"user.firstName": "Grace"})
            assert "Check your email" in page(sent).text
            seen.append(alike(sent))
        assert seen[0] == seen[1]


@pytest.mark.requirement("forms-4")
async def test_registration_of_one_tenant_is_not_found_at_another(rp, browser, api):
    await offer_form(rp, [EMAIL, SECRET], [FIRST_NAME])
    other = await relying_party.make(api)
    await offer_form(other, [EMAIL, SECRET], [FIRST_NAME])
    second = await step(browser, await open_form(rp, browser), **{"user.email": an_email()}, **LOGIN)
    form = page(second).forms[0]
    foreign = {"client_id": other.client_id, "tenantId": other.tenant["id"]}
    assert (await browser.get(form["action"], params={**form["fields"], **foreign})).status_code == 400
    refused = await browser.post(form["action"], data={**form["fields"], **foreign, "user.firstName": "Grace"})
    assert refused.status_code == 400


@pytest.mark.requirement("forms-4")
async def test_answers_are_encrypted_and_the_request_has_no_password(rp, browser, service):
    field = await make_field(rp.api)
    await offer_form(rp, [EMAIL, SECRET, field["id"]], [FIRST_NAME])
    email, color = an_email(), f"color-{new_id()}"
    await step(browser, await open_form(rp, browser), **{"user.email": email, "user.data.color": color}, **LOGIN)
    redis = service.services.runtime.redis.client
    values = [await redis.get(key) async for key in redis.scan_iter(match="*login-intent*")]
    assert values
    for value in values:
        for secret in (email, color, PASSWORD):
            assert secret not in str(value)
