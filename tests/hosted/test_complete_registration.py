"""Registrations that come about at a login, and the page that asks for what is missing first."""

from __future__ import annotations

import asyncio

import pytest

from tests import relying_party
from tests.api.test_consents import make as make_consent
from tests.api.test_forms import make_field
from tests.conftest import checking_client
from tests.hosted.signing_up import found, offer, press, send
from tests.hosted.test_registration_forms import EMAIL, SECRET, consents_of, offer_form
from tests.oauth2.test_lambdas import hook
from tests.receiver import answers, in_turn, receiving
from tests.relying_party import page, response
from tests.subscriber import Subscriber

CREATED = ("user.registration.create", "user.registration.create.complete")
UPDATED = ("user.update", "user.update.complete")


@pytest.fixture
async def unregistered_party(rp, api):
    """The relying party, whose user is not registered for it."""
    rp.user = await relying_party.make_user(api, rp.tenant["id"])
    return rp


async def registered(rp) -> list[str]:
    user = await found(rp, userId=rp.user["id"]) or await found(rp, email=rp.login_id)
    assert user is not None
    return [one["applicationId"] for one in user["registrations"]]


async def asked_for_more(rp, browser):
    """The page that a login leads to."""
    answer = await rp.submit(browser, await rp.authorize(browser))
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/oauth2/complete-registration?")
    shown = await browser.get(answer.headers["Location"])
    assert shown.status_code == 200
    return shown


@pytest.mark.requirement("self-service-9")
@pytest.mark.parametrize("is_required", [True, False])
async def test_login_registers_where_people_may_register_themselves(unregistered_party, browser, api, is_required):
    await unregistered_party.configure(requireRegistration=is_required)
    await offer(unregistered_party)
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, unregistered_party.tenant["id"])
        await subscriber.subscribe(CREATED, "AbsoluteMajority")
        got = await unregistered_party.log_in(browser)
        created, _ = await subscriber.received(*CREATED)
    assert got["userState"] == "Authenticated"
    assert created["registration"]["applicationId"] == unregistered_party.client_id
    assert created["user"]["id"] == unregistered_party.user["id"]
    assert await registered(unregistered_party) == [unregistered_party.client_id]


@pytest.mark.requirement("self-service-9")
async def test_login_does_not_register_user_if_self_registration_is_disabled(unregistered_party, browser):
    assert (await unregistered_party.log_in(browser))["userState"] == "AuthenticatedNotRegistered"
    assert await registered(unregistered_party) == []


@pytest.mark.requirement("self-service-9")
async def test_session_registers_as_a_login_does_but_never_unseen(unregistered_party, browser, api):
    sibling = await relying_party.make(api, tenant=unregistered_party.tenant)
    sibling.user = unregistered_party.user
    await sibling.log_in(browser)
    await offer(unregistered_party)
    unseen = response(await unregistered_party.authorize(browser, prompt="none"))
    assert unseen["userState"] == "AuthenticatedNotRegistered"
    await unregistered_party.configure(requireRegistration=True)
    unseen = response(await unregistered_party.authorize(browser, prompt="none"))
    assert (unseen["error"], unseen["error_reason"]) == ("interaction_required", "registration_required")
    assert await registered(unregistered_party) == []
    assert response(await unregistered_party.authorize(browser))["userState"] == "Authenticated"
    assert await registered(unregistered_party) == [unregistered_party.client_id]


@pytest.mark.requirement("self-service-9", "webhooks-8-16")
async def test_veto_of_the_registration_leaves_the_user_at_the_login_page(unregistered_party, browser, api):
    await offer(unregistered_party)
    shown = await unregistered_party.authorize(browser)
    async with receiving(answers(500)) as receiver:
        await Subscriber(api, receiver, unregistered_party.tenant["id"]).subscribe(CREATED[:1], "AbsoluteMajority")
        answer = await unregistered_party.submit(browser, shown)
    assert answer.status_code == 200
    assert "rejected by a required check" in page(answer).text
    assert await registered(unregistered_party) == []


@pytest.mark.requirement("self-service-8")
async def test_login_is_no_way_around_the_lambda_of_the_registration(unregistered_party, browser):
    await offer(unregistered_party)
    await hook(
        unregistered_party,
        "selfServiceRegistrationValidationId",
        "result.errors.generalErrors = [{code: '[no]', message: 'By invitation only.'}]",
    )
    answer = await unregistered_party.submit(browser, await unregistered_party.authorize(browser))
    assert "By invitation only." in page(answer).text
    assert await registered(unregistered_party) == []


@pytest.mark.requirement("core-18-lambdas-33")
async def test_lambda_of_a_registration_by_login_gets_one_step(unregistered_party, browser):
    await offer(unregistered_party)
    await hook(
        unregistered_party,
        "selfServiceRegistrationValidationId",
        "const {step, stepIndex, totalSteps, form: none, fields} = form;"
        "const message = [step, stepIndex, totalSteps, none, fields.length].join();"
        "result.errors.generalErrors = [{code: '[no]', message}]",
    )
    answer = await unregistered_party.submit(browser, await unregistered_party.authorize(browser))
    assert "1,0,1,,0" in page(answer).text


@pytest.mark.requirement("event-user.registration.create-2", "self-service-10")
async def test_missing_fields_are_requested_first_and_stored_with_registration(unregistered_party, browser, api):
    required = {"enabled": True, "required": True}
    await offer(unregistered_party, firstName=required, lastName=required, birthDate={"enabled": True})
    await unregistered_party.patch(f"/api/user/{unregistered_party.user['id']}", {"user": {"lastName": "Lovelace"}})
    shown = await asked_for_more(unregistered_party, browser)
    assert set(page(shown).forms[0]["fields"]) == {"client_id", "tenantId", "intent", "csrf_token", "user.firstName"}
    assert unregistered_party.login_id in page(shown).text
    assert await registered(unregistered_party) == []
    blank = await send(browser, shown, firstName="  ")
    assert "Please enter your first name." in page(blank).text
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, unregistered_party.tenant["id"])
        await subscriber.subscribe([*UPDATED, *CREATED], "AbsoluteMajority")
        got = response(await send(browser, blank, firstName="Ada", lastName="Unasked"))
        updated, _, created, _ = await subscriber.received(*UPDATED, *CREATED)
    assert got["userState"] == "Authenticated"
    assert got["state"] == "the-state"
    assert (updated["user"]["firstName"], updated["user"]["lastName"]) == ("Ada", "Lovelace")
    assert "firstName" not in updated["original"]
    assert created["registration"]["applicationId"] == unregistered_party.client_id
    assert await registered(unregistered_party) == [unregistered_party.client_id]


@pytest.mark.requirement("reason-registration_missing_requirement", "self-service-10")
async def test_page_of_missing_fields_cannot_be_left_out(unregistered_party, browser):
    await offer(unregistered_party, firstName={"enabled": True, "required": True})
    shown = await asked_for_more(unregistered_party, browser)
    again = await unregistered_party.authorize(browser)
    assert again.headers["Location"].startswith("/oauth2/complete-registration?")
    unseen = response(await unregistered_party.authorize(browser, prompt="none"))
    assert unseen["error"] == "interaction_required"
    assert unseen["error_reason"] == "registration_missing_requirement"
    assert "code" in response(await send(browser, shown, firstName="Ada"))


@pytest.mark.requirement("self-service-10")
async def test_who_is_registered_is_asked_only_where_the_application_says_so(rp, browser):
    await offer(rp, firstName={"enabled": True, "required": True})
    assert "code" in await rp.log_in(browser)
    await offer(rp, completeRegistration=True)
    shown = await browser.get((await rp.authorize(browser)).headers["Location"])
    assert "code" in response(await send(browser, shown, firstName="Ada"))
    assert "code" in response(await rp.authorize(browser))


async def test_veto_of_what_was_missing_changes_nothing_and_can_be_tried_again(unregistered_party, browser, api):
    await offer(unregistered_party, firstName={"enabled": True, "required": True})
    shown = await asked_for_more(unregistered_party, browser)
    async with receiving(in_turn(answers(500), answers())) as receiver:
        await Subscriber(api, receiver, unregistered_party.tenant["id"]).subscribe(CREATED[:1], "AbsoluteMajority")
        answer = await send(browser, shown, firstName="Ada")
        assert "rejected by a required check" in page(answer).text
        assert await registered(unregistered_party) == []
        user = await found(unregistered_party, email=unregistered_party.login_id)
        assert user is not None
        assert "firstName" not in user
        assert "code" in response(await send(browser, answer, firstName="Ada"))


@pytest.mark.requirement("self-service-10")
async def test_of_many_who_send_the_page_at_once_one_gets_a_response(unregistered_party, browser):
    await offer(unregistered_party, firstName={"enabled": True, "required": True})
    shown = await asked_for_more(unregistered_party, browser)
    sent = await asyncio.gather(*(send(browser, shown, firstName="Ada") for _ in range(16)))
    assert sorted(answer.status_code for answer in sent) == [302] + [400] * 15
    assert await registered(unregistered_party) == [unregistered_party.client_id]


async def test_attack_42_page_of_another_browser_is_worth_nothing(service, unregistered_party, browser):
    await offer(unregistered_party, firstName={"enabled": True, "required": True})
    shown = await asked_for_more(unregistered_party, browser)
    assert (await send(browser, shown, firstName="Ada", csrf_token="x")).status_code == 403
    async with checking_client(service.base_url) as other:
        assert (await send(other, shown, firstName="Ada")).status_code == 400
    assert (await send(browser, shown, firstName="Ada", intent="x")).status_code == 400
    assert await registered(unregistered_party) == []


@pytest.mark.requirement("forms-7", "self-service-3", "self-service-9")
async def test_login_collects_the_required_answers_of_a_form(unregistered_party, browser):
    rp = unregistered_party
    consent = await make_consent(rp.api, defaultMinimumAgeForSelfConsent=0)
    agreed = await make_field(rp.api, type="consent", consentId=consent["id"], required=True)
    color = await make_field(rp.api, control="select", options=["red", "blue"], required=True)
    seat = await make_field(rp.api, key="registration.data.seat", type="number", required=True)
    optional = await make_field(rp.api, key="user.data.nick")
    await offer_form(rp, [EMAIL, SECRET], [field["id"] for field in (agreed, color, seat, optional)])
    shown = await rp.submit(browser, await rp.authorize(browser))
    assert "/oauth2/complete-registration?" in shown.headers["Location"]
    shown = await browser.get(shown.headers["Location"])
    assert "user.data.nick" not in page(shown).forms[0]["fields"]
    refused = await press(browser, shown, **{"user.data.color": "green", "registration.data.seat": "front"})
    for key in ("user.data.color", "registration.data.seat", agreed["key"].replace("'", "&#39;")):
        assert f'id="{key}-errors"' in refused.text
    assert await registered(rp) == []
    answers = {"user.data.color": "red", "registration.data.seat": "7", agreed["key"]: "true", "user.data.nick": "x"}
    assert response(await press(browser, refused, **answers))["userState"] == "Authenticated"
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    user = (await rp.api.get(f"/api/user/{rp.user['id']}", headers=headers)).json()["user"]
    assert user["data"] == {"color": "red"}
    assert [one["data"] for one in user["registrations"]] == [{"seat": 7}]
    assert await consents_of(rp, user) == [(consent["id"], "Active")]
    assert response(await rp.authorize(browser))["userState"] == "Authenticated"


@pytest.mark.requirement("self-service-3")
async def test_registered_user_is_asked_for_new_answers_where_the_application_says_so(rp, browser):
    seat = await make_field(rp.api, key="registration.data.seat", required=True)
    await offer_form(rp, [EMAIL, SECRET, seat["id"]])
    assert response(await rp.submit(browser, await rp.authorize(browser)))["userState"] == "Authenticated"
    await offer(rp, completeRegistration=True)
    away = await rp.authorize(browser)
    assert "/oauth2/complete-registration?" in away.headers["Location"]
    shown = await browser.get(away.headers["Location"])
    assert response(await press(browser, shown, **{"registration.data.seat": "7A"}))["userState"] == "Authenticated"
    assert response(await rp.authorize(browser))["userState"] == "Authenticated"
