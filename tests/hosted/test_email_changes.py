"""Users change their own email address: confirmed, pending until verified, revocable from the previous address."""

from __future__ import annotations

import asyncio
import re
import urllib.parse

import pytest

from identity.ids import new_id
from identity.store.one_time_tokens import OneTimeTokenUse
from tests import internals, relying_party
from tests.conftest import checking_client
from tests.hosted.signing_up import found, press
from tests.hosted.steps import mailing
from tests.hosted.test_account import enter, place
from tests.mailbox import receiving as mailbox_of
from tests.receiver import answers, in_turn, receiving
from tests.relying_party import PASSWORD, page
from tests.subscriber import Subscriber
from tests.two_factor import authenticator, code, enable_email

TEXT = "verify ${verificationId} ${verificationOneTimeCode}"
REVOKE = re.compile(r"/email/revoke-change/\S+")


@pytest.fixture
async def party(api):
    made = await relying_party.make(api)
    await made.patch(f"/api/user/{made.user['id']}", {"user": {"email": f"{new_id()}@example.com"}})
    made.user = {**made.user, "email": (await user_of(made))["email"]}
    await api.post("/api/user/verify-email", json={"userId": made.user["id"]}, headers=tenant(made))
    return made


@pytest.fixture
async def mailbox_of_party(party):
    async with mailing(party, "verificationEmailTemplateId", TEXT, verifyEmail=True) as mailbox:
        yield mailbox


def tenant(rp) -> dict[str, str]:
    return {"X-FusionAuth-TenantId": rp.tenant["id"]}


async def user_of(rp) -> dict:
    return dict((await rp.api.get(f"/api/user/{rp.user['id']}", headers=tenant(rp))).json()["user"])


async def request_change(rp, browser, email: str | None = None, **answers: str) -> tuple[str, object]:
    """Submit a new address on the account page with the current password."""
    email = email or f"{new_id()}@example.com"
    shown = await enter(rp, browser, "/account/edit")
    return email, await press(browser, shown, **{"user.email": email, "currentPassword": PASSWORD, **answers})


async def mail_to(mailbox, address: str, count: int = 1) -> str:
    def own_mails() -> list[str]:
        return [mail.part("plain") for mail in mailbox.mails if mail.recipients == [address]]

    await mailbox.until(lambda: len(own_mails()) >= count)
    return own_mails()[-1]


async def verification_id(mailbox, email: str) -> str:
    return (await mail_to(mailbox, email)).split()[1]


async def revocation(mailbox, rp) -> str:
    match = REVOKE.search(await mail_to(mailbox, rp.login_id))
    assert match is not None
    return match[0]


async def verify(http, verification: str) -> int:
    return (await http.post("/api/user/verify-email", json={"verificationId": verification})).status_code


@pytest.mark.requirement("audit-a1", "self-service-17")
async def test_new_address_is_pending_until_it_is_verified_and_the_old_one_stays_valid(
    party, browser, mailbox_of_party, http
):
    email, saved = await request_change(party, browser)
    assert saved.headers["Location"].endswith("changed=email")
    shown = page(await browser.get(saved.headers["Location"])).text
    assert "Your address changes when you verify the new one" in shown
    assert email in shown
    before = await user_of(party)
    assert (before["email"], before["verified"]) == (party.login_id, True)
    assert await found(party, email=email) is None
    assert await verify(http, await verification_id(mailbox_of_party, email)) == 200
    after = await user_of(party)
    assert (after["email"], after["verified"]) == (email, True)
    assert after["verifiedInstant"] >= before["verifiedInstant"]
    identity = next(one for one in after["identities"] if one["type"] == "email")
    assert (identity["value"], identity["verified"], identity["verifiedReason"]) == (email, True, "Completed")
    assert "New email" not in page(await browser.get("/account", params=place(party))).text


@pytest.mark.requirement("audit-a1")
@pytest.mark.parametrize("given", [{"currentPassword": ""}, {"currentPassword": "wrong"}])
async def test_new_address_requires_the_current_password(party, browser, mailbox_of_party, given):
    _, refused = await request_change(party, browser, **{"user.firstName": "Ada", **given})
    assert refused.status_code == 200
    assert "password" in page(refused).text
    user = await user_of(party)
    assert (user["email"], user.get("firstName")) == (party.login_id, None)
    assert not mailbox_of_party.mails


async def drop_password(rp, service, **members) -> None:
    """Store the user without a password."""
    stored = await internals.store(service, "users").get(rp.tenant["id"], rp.user["id"])
    private = {name: value for name, value in stored["private"].items() if name != "password"}
    user = {**stored, **members, "private": private, "lastUpdateInstant": stored["lastUpdateInstant"] + 1}
    await internals.store(service, "users").replace(rp.tenant["id"], user, stored["lastUpdateInstant"], None)


@pytest.mark.requirement("audit-a1")
async def test_user_without_password_and_second_factor_cannot_change_the_address(
    party, browser, mailbox_of_party, service
):
    shown = await enter(party, browser, "/account/edit")
    await drop_password(party, service)
    edit = page(await browser.get("/account/edit", params=place(party)))
    assert "user.email" not in edit.forms[0]["fields"]
    assert (await press(browser, shown, **{"user.email": f"{new_id()}@example.com"})).status_code == 302
    assert (await user_of(party))["email"] == party.login_id
    assert not mailbox_of_party.mails


@pytest.mark.requirement("audit-a1")
async def test_user_without_a_password_confirms_with_a_second_factor(party, browser, mailbox_of_party, service, clock):
    await enter(party, browser, "/account/edit")
    factor = {"methods": [authenticator()], "recoveryCodes": ["ABCDE-FGHIJ"]}
    await party.patch(f"/api/user/{party.user['id']}", {"user": {"twoFactor": factor}})
    await drop_password(party, service)
    away = await browser.get("/account/edit", params=place(party))
    challenge = await browser.get((await browser.get(away.headers["Location"])).headers["Location"])
    back = await press(browser, challenge, code=code(clock.now()))
    shown = await browser.get(back.headers["Location"])
    email = f"{new_id()}@example.com"
    for wrong in ("", "000000", code(clock.now())):
        refused = await press(browser, shown, **{"user.email": email, "code": wrong})
        assert refused.status_code == 200, wrong
    assert not mailbox_of_party.mails
    clock.advance(seconds=60)
    saved = await press(browser, shown, **{"user.email": email, "code": code(clock.now())})
    assert saved.headers["Location"].endswith("changed=email")
    assert await mail_to(mailbox_of_party, email)


@pytest.mark.requirement("audit-a1")
async def test_user_without_a_password_confirms_with_a_code_that_is_sent(party, browser, mailbox_of_party, service):
    await enable_email(party, mailbox_of_party)
    await enter(party, browser, "/account/edit")
    device = f"{new_id()}@example.com"
    factor = {"methods": [{"method": "email", "email": device}], "recoveryCodes": ["ABCDE-FGHIJ"]}
    await party.patch(f"/api/user/{party.user['id']}", {"user": {"twoFactor": factor}})
    await drop_password(party, service)
    away = await browser.get("/account/edit", params=place(party))
    challenge = await browser.get((await browser.get(away.headers["Location"])).headers["Location"])
    back = await press(browser, challenge, code=(await mail_to(mailbox_of_party, device)).strip())
    shown = await browser.get(back.headers["Location"])
    (method,) = (await user_of(party))["twoFactor"]["methods"]
    sent = await press(browser, shown, 1, methodId=method["id"])
    assert "We have sent you a code" in page(sent).text
    email = f"{new_id()}@example.com"
    one_time_code = (await mail_to(mailbox_of_party, device, 2)).strip()
    saved = await press(browser, sent, **{"user.email": email, "code": one_time_code})
    assert saved.headers["Location"].endswith("changed=email")
    assert await mail_to(mailbox_of_party, email)


@pytest.mark.requirement("audit-a1")
async def test_old_address_is_notified_and_revokes_a_pending_change(party, browser, mailbox_of_party, http, service):
    email, _ = await request_change(party, browser)
    link = await revocation(mailbox_of_party, party)
    verification = await verification_id(mailbox_of_party, email)
    async with checking_client(service.base_url) as stranger:
        shown = await stranger.get(link)
        assert (await user_of(party))["email"] == party.login_id
        assert "The change has been revoked" in page(await press(stranger, shown)).text
        assert "no longer valid" in page(await press(stranger, shown)).text
    assert await verify(http, verification) == 404
    assert (await user_of(party))["email"] == party.login_id
    assert (await browser.get("/account", params=place(party))).status_code == 302


@pytest.mark.requirement("audit-a1")
async def test_old_address_reverts_a_completed_change_and_ends_sessions(
    party, browser, mailbox_of_party, http, service
):
    email, _ = await request_change(party, browser)
    assert await verify(http, await verification_id(mailbox_of_party, email)) == 200
    link = await revocation(mailbox_of_party, party)
    async with checking_client(service.base_url) as stranger:
        assert "The change has been revoked" in page(await press(stranger, await stranger.get(link))).text
    user = await user_of(party)
    assert (user["email"], user["verified"]) == (party.login_id, True)
    assert (await browser.get("/account", params=place(party))).status_code == 302


@pytest.mark.requirement("audit-a1")
async def test_later_change_replaces_an_earlier_one(party, browser, mailbox_of_party, http):
    first, _ = await request_change(party, browser)
    second, _ = await request_change(party, browser)
    stale, fresh = await verification_id(mailbox_of_party, first), await verification_id(mailbox_of_party, second)
    assert await verify(http, stale) == 404
    assert await verify(http, fresh) == 200
    assert (await user_of(party))["email"] == second


@pytest.mark.requirement("audit-a1")
async def test_address_is_not_given_to_two_users(party, browser, mailbox_of_party, http, api):
    email, _ = await request_change(party, browser)
    verification = await verification_id(mailbox_of_party, email)
    other = await relying_party.make_user(api, party.tenant["id"], email=email)
    assert await verify(http, verification) == 404
    assert (await user_of(party))["email"] == party.login_id
    holder = await found(party, email=email)
    assert holder is not None
    assert holder["id"] == other["id"]


@pytest.mark.requirement("audit-a1")
async def test_change_by_the_management_api_supersedes_a_pending_one(party, browser, mailbox_of_party, http):
    email, _ = await request_change(party, browser)
    own_mails = f"{new_id()}@example.com"
    await party.patch(f"/api/user/{party.user['id']}", {"user": {"email": own_mails}})
    assert await verify(http, await verification_id(mailbox_of_party, email)) == 404
    assert (await user_of(party))["email"] == own_mails


@pytest.mark.requirement("audit-a1")
async def test_of_64_who_verify_a_change_at_once_one_applies_it(party, browser, mailbox_of_party, http, api):
    email, _ = await request_change(party, browser)
    verification = await verification_id(mailbox_of_party, email)
    statuses = await asyncio.gather(*(verify(http, verification) for _ in range(64)))
    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 404, 503}
    assert (await user_of(party))["email"] == email


@pytest.mark.requirement("audit-a1")
async def test_of_64_who_revoke_a_change_at_once_one_succeeds(party, browser, mailbox_of_party, service):
    await request_change(party, browser)
    link = await revocation(mailbox_of_party, party)
    async with checking_client(service.base_url) as stranger:
        shown = await stranger.get(link)
        pages = await asyncio.gather(*(press(stranger, shown) for _ in range(64)))
    texts = [page(one).text for one in pages]
    assert sum("The change has been revoked" in text for text in texts) == 1


@pytest.mark.requirement("audit-a1")
async def test_revocation_wins_over_a_completion_under_way(
    party, browser, mailbox_of_party, http, service, monkeypatch
):
    email, _ = await request_change(party, browser)
    verification, link = await verification_id(mailbox_of_party, email), await revocation(mailbox_of_party, party)
    consume, revoked = OneTimeTokenUse.consume, []

    async def slow(use: OneTimeTokenUse) -> bool:
        is_ours = await consume(use)
        if is_ours and not revoked:
            # The verification is consumed; the change is not written yet.
            revoked.append(True)
            async with checking_client(service.base_url) as stranger:
                assert "The change has been revoked" in page(await press(stranger, await stranger.get(link))).text
        return is_ours

    monkeypatch.setattr(OneTimeTokenUse, "consume", slow)
    assert await verify(http, verification) == 404
    assert revoked
    assert (await user_of(party))["email"] == party.login_id


@pytest.mark.requirement("audit-a1")
async def test_revocation_of_one_tenant_is_unknown_to_another(party, browser, mailbox_of_party, api, service):
    await request_change(party, browser)
    link = urllib.parse.urlsplit(await revocation(mailbox_of_party, party)).path
    foreign = await relying_party.make(api)
    async with checking_client(service.base_url) as stranger:
        shown = await stranger.get(link, params=place(foreign))
        assert "no longer valid" in page(await press(stranger, shown)).text
        shown = await stranger.get(link, params=place(party))
        assert "The change has been revoked" in page(await press(stranger, shown)).text


@pytest.mark.requirement("audit-a1")
async def test_code_is_requested_where_the_tenant_verifies_by_code(party, browser, mailbox_of_party):
    await party.configure_tenant(
        emailConfiguration={
            "verifyEmail": True, "verificationStrategy": "FormField", "unverified": {"behavior": "Gated"},
        }
    )  # fmt: skip
    email, saved = await request_change(party, browser)
    asked = await browser.get(saved.headers["Location"])
    assert "Enter the code" in page(asked).text
    assert "This code is incorrect" in page(await press(browser, asked, oneTimeCode="WRONG")).text
    assert (await user_of(party))["email"] == party.login_id
    one_time_code = (await mail_to(mailbox_of_party, email)).split()[2]
    assert (await press(browser, asked, oneTimeCode=one_time_code)).status_code == 302
    assert (await user_of(party))["email"] == email


@pytest.mark.requirement("audit-a1")
async def test_mails_are_sent_where_the_tenant_has_no_templates(party, browser):
    async with mailbox_of() as mailbox:
        await party.configure_tenant(emailConfiguration=mailbox.configuration())
        email, _ = await request_change(party, browser)
        link = re.search(r"/email/verify/\S+", await mail_to(mailbox, email))
        assert link is not None
        assert party.login_id in await mail_to(mailbox, party.login_id)
    # The user is signed in in this browser: following the link completes the change.
    assert (await browser.get(link[0])).status_code == 302
    assert (await user_of(party))["email"] == email


@pytest.mark.requirement("audit-a1")
async def test_webhooks_receive_the_change_when_it_is_applied_and_may_veto_it(
    party, browser, mailbox_of_party, http, api
):
    email, _ = await request_change(party, browser)
    verification = await verification_id(mailbox_of_party, email)
    async with receiving(in_turn(answers(500), answers())) as receiver:
        subscriber = Subscriber(api, receiver, party.tenant["id"])
        await subscriber.subscribe(["user.update"], "AbsoluteMajority")
        assert await verify(http, verification) == 504
        assert (await user_of(party))["email"] == party.login_id
        assert await verify(http, verification) == 200
        _, updated = await subscriber.received("user.update", "user.update")
        await subscriber.subscribe([], "None")
    assert (updated["original"]["email"], updated["user"]["email"]) == (party.login_id, email)
    assert updated["user"]["verified"] is True
