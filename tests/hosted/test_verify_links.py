"""The links of verification mails: what looking at one does, what pressing the button does, and another one for it."""

from __future__ import annotations

import asyncio
import re

import pytest

from identity.ids import new_id
from identity.operations.limits import message_limits
from identity.operations.verification import verification_api
from tests import internals, relying_party
from tests.api.test_notices import make_template
from tests.api.test_verify_email import own_address
from tests.conftest import checking_client
from tests.hosted.signing_up import alike, press
from tests.mailbox import receiving as mailbox_of
from tests.receiver import answers, in_turn, receiving
from tests.relying_party import PASSWORD, page
from tests.subscriber import Subscriber


@pytest.fixture
async def gate(rp, api):
    """The relying party, whose tenant verifies addresses, and whose application verifies registrations."""
    template_id = await make_template(api, "${verificationId} ${verificationOneTimeCode}")
    await rp.configure_tenant(emailConfiguration={"verifyEmail": True, "verificationEmailTemplateId": template_id})
    await rp.patch(
        f"/api/application/{rp.client_id}",
        {"application": {"verifyRegistration": True, "verificationEmailTemplateId": template_id}},
    )
    return rp


async def made(rp, **members) -> dict:
    """What registering a new user answers; the ids of both links are in it."""
    body = {
        "user": {"email": f"{new_id()}@example.com", "password": PASSWORD},
        "registration": {"applicationId": rp.client_id},
        **members,
    }
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await rp.api.post("/api/user/registration", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found = dict(answer.json())
    shown = (await rp.api.get(f"/api/user/{found['user']['id']}", headers=headers)).json()
    return {**shown, **found}


async def with_code(rp) -> dict:
    """What making a user answers where a code is mailed."""
    body = {"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    return dict((await rp.api.post("/api/user", json=body, headers=headers)).json())


def link(of, kind: str) -> str:
    key = "emailVerificationId" if kind == "email" else "registrationVerificationId"
    return f"/{kind}/verify/{of[key]}"


async def is_verified(rp, user_id: str, kind: str) -> bool:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    user = (await rp.api.get(f"/api/user/{user_id}", headers=headers)).json()["user"]
    return bool(user["verified"] if kind == "email" else user["registrations"][0]["verified"])


@pytest.mark.requirement("self-service-13", "self-service-15")
@pytest.mark.parametrize("kind", ["email", "registration"])
async def test_looking_at_a_link_verifies_nothing_and_pressing_the_button_does(gate, browser, kind):
    found = await made(gate)
    for _ in range(3):
        shown = await browser.get(link(found, kind), params={"client_id": gate.client_id})
        assert shown.status_code == 200
        assert not await is_verified(gate, found["user"]["id"], kind)
    done = await press(browser, shown)
    assert done.status_code == 302
    assert done.headers["Location"] == f"/{kind}/complete?client_id={gate.client_id}"
    assert await is_verified(gate, found["user"]["id"], kind)
    answer = await browser.get(done.headers["Location"])
    assert "verified" in page(answer).text
    for header in ("Referrer-Policy", "Cache-Control"):
        assert shown.headers[header] in {"no-referrer", "no-store"}
    again = await browser.get(link(found, kind))
    assert (again.status_code, again.headers["Location"]) == (302, f"/{kind}/complete")
    assert (await press(browser, shown)).headers["Location"].startswith(f"/{kind}/complete")


@pytest.mark.requirement("self-service-13")
async def test_link_verifies_immediately_if_only_its_user_is_signed_in(gate, browser, api):
    found, other = await made(gate), await made(gate)
    gate.user = found["user"]
    await gate.log_in(browser)
    shown = await browser.get(link(other, "email"))
    assert shown.status_code == 200
    assert not await is_verified(gate, other["user"]["id"], "email")
    done = await browser.get(link(found, "email"))
    assert (done.status_code, done.headers["Location"]) == (302, "/email/complete")
    assert await is_verified(gate, found["user"]["id"], "email")


@pytest.mark.requirement("event-user.email.verified-3", "self-service-13", "webhooks-8-16")
@pytest.mark.parametrize(
    ("kind", "event"), [("email", "user.email.verified"), ("registration", "user.registration.verified")]
)
async def test_vetoed_link_stays_valid_and_raises_one_event_when_followed(gate, browser, api, kind, event):
    found = await made(gate)
    shown = await browser.get(link(found, kind))
    async with receiving(in_turn(answers(500), answers())) as receiver:
        subscriber = Subscriber(api, receiver, gate.tenant["id"])
        await subscriber.subscribe([event], "AbsoluteMajority")
        answer = await press(browser, shown)
        assert answer.status_code == 200
        assert "rejected by a required check" in page(answer).text
        assert not await is_verified(gate, found["user"]["id"], kind)
        assert (await press(browser, answer)).status_code == 302
        assert (await press(browser, answer)).status_code == 302
        _, received = await subscriber.received(event, event)
        await subscriber.subscribe([], "None")
    assert received["user"]["id"] == found["user"]["id"]
    assert await is_verified(gate, found["user"]["id"], kind)


async def test_of_64_racing_confirmations_all_succeed_with_one_event(gate, browser, api):
    found = await made(gate)
    shown = await browser.get(link(found, "email"))
    async with receiving() as receiver:
        subscriber = Subscriber(api, receiver, gate.tenant["id"])
        await subscriber.subscribe(["user.email.verified"])
        done = await asyncio.gather(*(press(browser, shown) for _ in range(64)))
        assert {one.status_code for one in done} <= {200, 302}
        assert (await browser.get(link(found, "email"))).status_code == 302
        await subscriber.received("user.email.verified")
    assert len(receiver.requests) == 1


@pytest.mark.requirement("self-service-13")
async def test_code_of_the_mail_is_asked_for_where_there_is_one_and_tried_five_times(gate, browser):
    await gate.configure_tenant(
        emailConfiguration={"verificationStrategy": "FormField", "unverified": {"behavior": "Gated"}}
    )
    found = await with_code(gate)
    shown = await browser.get(link(found, "email"))
    assert re.search(r'<input id="oneTimeCode"[^>]*autocomplete="one-time-code"', shown.text)
    assert "Please enter the code" in page(await press(browser, shown)).text
    answer = await press(browser, shown, oneTimeCode="WRONG")
    assert "This code is incorrect" in page(answer).text
    assert (await press(browser, answer, oneTimeCode=found["emailVerificationOneTimeCode"])).status_code == 302
    assert await is_verified(gate, found["user"]["id"], "email")
    found = await with_code(gate)
    shown = await browser.get(link(found, "email"))
    for _ in range(5):
        answer = await press(browser, shown, oneTimeCode="WRONG")
    answer = await press(browser, shown, oneTimeCode=found["emailVerificationOneTimeCode"])
    assert "no longer valid" in page(answer).text
    assert not await is_verified(gate, found["user"]["id"], "email")


async def test_attack_42_button_works_only_for_the_browser_that_was_shown_it(service, gate, browser):
    found = await made(gate)
    shown = await browser.get(link(found, "email"))
    assert (await press(browser, shown, csrf_token="x")).status_code == 403
    async with checking_client(service.base_url) as scanner:
        assert (await scanner.post(link(found, "email"), data=page(shown).forms[0]["fields"])).status_code == 403
    assert not await is_verified(gate, found["user"]["id"], "email")


async def test_attack_54_link_of_another_tenant_is_none(gate, browser, api):
    found = await made(gate)
    other = await relying_party.make(api)
    for named in ({"tenantId": other.tenant["id"]}, {"client_id": other.client_id}):
        assert "no longer valid" in page(await browser.get(link(found, "email"), params=named)).text
    mixed = {"client_id": other.client_id, "tenantId": gate.tenant["id"]}
    assert (await browser.get(link(found, "email"), params=mixed)).status_code == 400
    assert (await browser.get(link(found, "registration").replace("registration", "email"))).status_code == 200


@pytest.mark.requirement("self-service-14")
async def test_link_that_is_over_offers_another_one_and_says_the_same_of_everybody(service, gate, browser):
    async with mailbox_of() as mailbox:
        await gate.configure_tenant(emailConfiguration=mailbox.configuration())
        for kind in ("email", "registration"):
            before = len(mailbox.mails)
            found = await made(gate)
            count = len(await mailbox.wait_for(before + 2))
            at = {"client_id": gate.client_id}
            shown = await browser.get(f"/{kind}/verify/{new_id()}", params=at)
            assert "no longer valid" in page(shown).text
            assert page(shown).forms[0]["action"] == f"/{kind}/verify"
            answer = await press(browser, shown, email=f"{new_id()}@example.com")
            response = await press(browser, shown, email=found["user"]["email"])
            assert (answer.status_code, answer.headers["Location"]) == (302, f"/{kind}/sent?client_id={gate.client_id}")
            assert alike(answer) == alike(response)
            mails = await mailbox.wait_for(count + 1)
            assert mails[-1].recipients == [found["user"]["email"]]
            fresh = mails[-1].part("plain").split()[0]
            shown = await browser.get(f"/{kind}/verify/{fresh}", params=at)
            assert (await press(browser, shown)).status_code == 302
            assert await is_verified(gate, found["user"]["id"], kind)
            sent = await browser.get(answer.headers["Location"])
            assert "we have sent a link" in page(sent).text
        await internals.store(service, "background_work").finish()
        assert len(mailbox.mails) == count + 1


@pytest.mark.requirement("self-service-14")
async def test_form_for_another_link_is_judged(gate, browser, rp):
    shown = await browser.get("/email/verify", params={"client_id": gate.client_id})
    assert "Please enter your email address" in page(await press(browser, shown, email=" ")).text
    assert (await press(browser, shown, email="a@example.com", csrf_token="x")).status_code == 403
    await gate.configure_tenant(emailConfiguration={"verifyEmail": False})
    answer = await browser.get(f"/email/verify/{new_id()}", params={"client_id": gate.client_id})
    assert not page(answer).forms
    assert (await press(browser, shown, email="a@example.com")).status_code == 400
    assert not page(await browser.get("/registration/verify", params={"tenantId": rp.tenant["id"]})).forms


async def test_attack_48_one_address_asks_for_only_so_many_links(gate, browser, monkeypatch):
    monkeypatch.setattr(message_limits, "ADDRESS_MESSAGES", 2)
    shown = await browser.get("/email/verify", params={"client_id": gate.client_id})
    for _ in range(2):
        assert (await press(browser, shown, email="a@example.com")).status_code == 302
    answer = await press(browser, shown, email="b@example.com")
    assert "Too many attempts" in page(answer).text


async def test_link_goes_back_to_the_login_that_it_came_from(gate, browser):
    found = await made(gate)
    shown = await browser.get(link(found, "email"), params=gate.query())
    done = await press(browser, shown)
    answer = await browser.get(done.headers["Location"])
    back = re.search(r'class="button" href="(/oauth2/authorize\?[^"]+)"', answer.text)
    assert back is not None
    assert (await browser.get(back[1].replace("&amp;", "&"))).status_code == 200


@pytest.mark.requirement("users-8-11")
async def test_attack_48_address_that_guesses_links_is_stopped(gate, browser, monkeypatch):
    monkeypatch.setattr(verification_api, "_FAILURES", 3)
    found, mine = await made(gate), own_address()
    statuses = [
        (await browser.get(f"/email/verify/{n:04}", params={"client_id": gate.client_id}, headers=mine)).status_code
        for n in range(4)
    ]
    assert statuses[-1] == 503 and 503 not in statuses[:-1]
    assert (await browser.get(link(found, "email"), headers=mine)).status_code == 503
    assert (await browser.get(link(found, "email"), headers=own_address())).status_code == 200


@pytest.mark.requirement("audit-a2-issuer")
async def test_links_work_below_the_url_of_the_tenant(rp, api, browser, http) -> None:
    """`${tenant.issuer}` of a tenant that names no issuer is the base URL with the tenant id."""
    template_id = await make_template(api, "${verificationId}")
    settings = {"verifyEmail": True, "verificationEmailTemplateId": template_id}
    await rp.configure_tenant(emailConfiguration=settings)
    verification_id = (await made(rp))["emailVerificationId"]
    answer = await browser.get(f"/{rp.tenant['id']}/email/verify/{verification_id}", params={"client_id": rp.client_id})
    assert answer.status_code == 302
    location = answer.headers["Location"]
    assert location.startswith(f"/email/verify/{verification_id}?")
    shown = await browser.get(location)
    assert shown.status_code == 200 and page(shown).forms
    for path in ("password/change", "registration/verify"):
        answer = await browser.get(f"/{rp.tenant['id']}/{path}/{verification_id}")
        assert answer.headers["Location"] == f"/{path}/{verification_id}?tenantId={rp.tenant['id']}"
    unknown = await browser.get(f"/{new_id()}/email/verify/{verification_id}")
    assert unknown.status_code == 400
