"""Steps of a registration form that verify the email address or the phone number before the user exists."""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from typing import Any

import httpx
import pytest

from identity.domain.forms.forms import FIELD_IDS
from identity.ids import new_id
from tests.api.test_forms import make_field, make_form
from tests.conftest import checking_client
from tests.hosted.signing_up import an_email, found, offer, press
from tests.hosted.steps import mailing, newest, says
from tests.hosted.test_account_phone import code_to, messenger, number
from tests.hosted.test_registration_forms import EMAIL, FIRST_NAME, LOGIN, SECRET, open_form, step
from tests.receiver import answers, in_turn, receiving
from tests.relying_party import PASSWORD, RelyingParty, page, response
from tests.subscriber import Subscriber

PHONE = FIELD_IDS["user.phoneNumber"]
ENTER_CODE = "Enter the code that we sent to"
WRONG_CODE = "This code is incorrect"
NOT_SENT = "We could not send a code"
VERIFY_EMAIL = {"type": "verifyEmail"}

__all__ = ["messenger"]


async def offer_steps(rp: RelyingParty, *steps: Any) -> None:
    """Let users register with a form of these steps: field ids, or a step that verifies a login id."""
    listed = [{"fields": one} if isinstance(one, list) else one for one in steps]
    form = await make_form(rp.api, steps=listed)
    await offer(rp, type="advanced", formId=form["id"])


@pytest.fixture
async def box(rp):
    async with mailing(rp, "verificationEmailTemplateId", "${verificationOneTimeCode}") as mailbox:
        yield mailbox


async def begin(rp: RelyingParty, browser: httpx.AsyncClient, email: str) -> httpx.Response:
    return await step(browser, await open_form(rp, browser), **{"user.email": email}, **LOGIN)


async def at_step(browser: httpx.AsyncClient, shown: httpx.Response, wanted: int) -> httpx.Response:
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(str(shown.url)).query))
    return await browser.get("/oauth2/register/steps", params={**query, "step": str(wanted)})


def without_values(shown: httpx.Response, login_id: str) -> str:
    """Return a page without the values that differ between registrations."""
    return re.sub(r'value="[^"]*"|intent=[\w-]+|nonce="[^"]*"', "", shown.text.replace(login_id, ""))


def identity(user: dict[str, Any], kind: str) -> tuple[Any, Any]:
    (one,) = [one for one in user["identities"] if one["type"] == kind]
    return one["verified"], one["verifiedReason"]


@pytest.mark.requirement("forms-3")
@pytest.mark.parametrize("settings", [{}, {"verifyEmail": True, "unverified": {"behavior": "Gated"}}])
async def test_user_is_created_verified_after_the_code_and_the_last_step(rp, browser, box, settings):
    await rp.configure_tenant(emailConfiguration=settings)
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL, [FIRST_NAME])
    email = an_email()
    shown = await begin(rp, browser, email.upper())
    assert says(shown, f"{ENTER_CODE} {email}")
    code = await newest(box)
    skipped = await at_step(browser, shown, 3)
    assert says(skipped, ENTER_CODE)
    wrong = await press(browser, shown, oneTimeCode="wrong")
    assert says(wrong, WRONG_CODE)
    last = await step(browser, wrong, oneTimeCode=code.lower())
    assert "3 / 3" in page(last).text
    assert await found(rp, email=email) is None
    assert response(await step(browser, last, **{"user.firstName": "Grace"}))["userState"] == "Authenticated"
    user = await found(rp, email=email)
    assert user is not None
    assert (user["verified"], identity(user, "email")) == (True, (True, "Completed"))
    assert len(box.mails) == 1


async def test_phone_number_is_verified_in_the_last_step(rp, browser, messenger):
    await offer_steps(rp, [PHONE, SECRET], {"type": "verifyPhoneNumber"})
    phone = number()
    shown = await step(
        browser, await open_form(rp, browser), **{"user.phoneNumber": f"{phone[:5]} {phone[5:]}"}, **LOGIN
    )
    assert says(shown, "Verify your phone number")
    got = response(await step(browser, shown, oneTimeCode=await code_to(messenger, phone)))
    assert got["userState"] == "Authenticated"
    user = await found(rp, loginId=phone, loginIdTypes="phoneNumber")
    assert user is not None
    assert identity(user, "phoneNumber") == (True, "Completed")


async def test_another_address_has_to_be_verified_again(rp, browser, box):
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL, [FIRST_NAME])
    first, second = an_email(), an_email()
    shown = await begin(rp, browser, first)
    old_code = await newest(box)
    last = await step(browser, shown, oneTimeCode=old_code)
    assert says(await at_step(browser, last, 2), f"{first} is verified.")
    changed = await step(browser, await at_step(browser, last, 1), **{"user.email": second})
    assert says(changed, f"{ENTER_CODE} {second}")
    assert says(await press(browser, last, **{"user.firstName": "Grace"}), WRONG_CODE)
    assert says(await press(browser, changed, oneTimeCode=old_code), WRONG_CODE)
    last = await step(browser, changed, oneTimeCode=await newest(box, 2))
    response(await step(browser, last, **{"user.firstName": "Grace"}))
    assert await found(rp, email=first) is None
    assert await found(rp, email=second) is not None


async def test_code_is_useless_after_five_wrong_ones_and_another_can_be_requested(rp, browser, box):
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL)
    email = an_email()
    shown = await begin(rp, browser, email)
    code = await newest(box)
    for _ in range(5):
        assert says(await press(browser, shown, oneTimeCode="wrong"), WRONG_CODE)
    refused = await press(browser, shown, oneTimeCode=code)
    assert "/oauth2/register/steps" in str(refused.url)
    assert await found(rp, email=email) is None
    again = await press(browser, refused, 1, action="resend")
    assert says(again, "We have sent you a code")
    new_code = await newest(box, 2)
    assert new_code != code
    response(await step(browser, again, oneTimeCode=new_code))


async def test_messages_to_one_address_are_limited(rp, browser, box):
    limit = {"enabled": True, "limit": 2, "timePeriodInSeconds": 900}
    await rp.configure_tenant(rateLimitConfiguration={"sendEmailVerification": limit})
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL)
    email = an_email()
    shown = await begin(rp, browser, email)
    again = await press(browser, shown, 1, action="resend")
    assert await newest(box, 2) == await newest(box)
    refused = await press(browser, again, 1, action="resend")
    assert not says(refused, "We have sent you a code")
    assert says(await begin(rp, browser, email), NOT_SENT)
    assert len(box.mails) == 2


async def test_page_says_that_no_code_could_be_sent(rp, browser):
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL)
    shown = await begin(rp, browser, an_email())
    assert says(shown, NOT_SENT)
    assert says(await press(browser, shown, 1, action="resend"), NOT_SENT)
    assert says(await press(browser, shown, oneTimeCode="ABCDEF"), WRONG_CODE)


async def test_address_in_use_is_disclosed_only_to_its_owner(rp, browser, service, box):
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL)
    email = an_email()
    async with checking_client(base_url=service.base_url) as other:
        used, unused = await begin(rp, browser, rp.login_id), await begin(rp, other, email)
        assert used.status_code == unused.status_code == 200
        assert says(used, f"{ENTER_CODE} {rp.login_id}")
        assert without_values(used, rp.login_id) == without_values(unused, email)
    mails = await box.wait_for(2)
    (code,) = [mail.part("plain").strip() for mail in mails if mail.recipients == [rp.login_id]]
    shown = await step(browser, used, oneTimeCode=code)
    assert 'id="user.email-errors"' in shown.text


async def test_64_concurrent_codes_register_one_user(rp, browser, box):
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL)
    email = an_email()
    shown = await begin(rp, browser, email)
    code = await newest(box)
    answers = await asyncio.gather(*(press(browser, shown, oneTimeCode=code) for _ in range(64)))
    assert [answer.status_code for answer in answers].count(302) == 1
    assert not [answer for answer in answers if answer.status_code >= 500]
    replay = await press(browser, shown, oneTimeCode=code)
    assert replay.status_code == 400
    assert await found(rp, email=email) is not None


async def test_verified_answer_is_required(rp, browser, box):
    email = await make_field(rp.api, key="user.email", type="email", required=False)
    await offer_steps(rp, [email["id"], FIELD_IDS["user.username"], SECRET], VERIFY_EMAIL)
    names = {"user.username": new_id(), "user.email": ""}
    shown = await press(browser, await open_form(rp, browser), **names, **LOGIN)
    assert 'id="user.email-errors"' in shown.text


async def test_address_is_verified_again_if_its_verification_created_another_user(rp, browser):
    text = "${verificationOneTimeCode} ${verificationId}"
    async with mailing(rp, "verificationEmailTemplateId", text) as box:
        await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL, [FIRST_NAME])
        email = an_email()
        shown = await begin(rp, browser, email)
        code, verification_id = (await newest(box)).split()
        last = await step(browser, shown, oneTimeCode=code)
        headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
        body = {"user": {"email": email, "password": PASSWORD}, "verificationIds": [verification_id]}
        other = await rp.api.post("/api/user", json=body, headers=headers)
        assert other.status_code == 200, other.text
        path = f"/api/user/{other.json()['user']['id']}"
        assert (await rp.api.delete(path, params={"hardDelete": "true"}, headers=headers)).status_code == 200
        again = await press(browser, last, **{"user.firstName": "Grace"})
        assert "2 / 3" in page(again).text
        resent = await press(browser, again, 1, action="resend")
        code, _ = (await newest(box, 2)).split()
        response(await step(browser, await step(browser, resent, oneTimeCode=code), **{"user.firstName": "Grace"}))
        user = await found(rp, email=email)
        assert user is not None
        assert user["verified"] is True


async def test_rejection_by_a_webhook_keeps_the_code_valid(rp, browser, box):
    await offer_steps(rp, [EMAIL, SECRET], VERIFY_EMAIL, [FIRST_NAME])
    shown = await begin(rp, browser, an_email())
    code = await newest(box)
    async with receiving(in_turn(answers(500), answers(200))) as receiver:
        subscriber = Subscriber(rp.api, receiver, rp.tenant["id"])
        await subscriber.subscribe(["user.identity.verified"], "AbsoluteMajority")
        assert not says(await press(browser, shown, oneTimeCode=code), WRONG_CODE)
        assert says(await at_step(browser, shown, 3), ENTER_CODE)
        assert "3 / 3" in page(await step(browser, shown, oneTimeCode=code)).text
        await subscriber.subscribe([], "None")
