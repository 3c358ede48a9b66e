"""Users change their own phone number with a code that is sent to the new one."""

from __future__ import annotations

import asyncio
import random
import re

import orjson
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.conftest import checking_client
from tests.hosted.chromium import Chromium
from tests.hosted.signing_up import press
from tests.hosted.test_account import enter, place
from tests.mailbox import receiving as mail_receiving
from tests.receiver import answers, in_turn, receiving
from tests.relying_party import PASSWORD, RelyingParty, page
from tests.subscriber import Subscriber


def number() -> str:
    return f"+1303{random.randrange(10**7):07}"


@pytest.fixture
async def messenger(rp, api):
    """A messenger of the tenant, whose messages contain only the code."""
    async with receiving() as receiver:
        template = {"name": new_id(), "type": "SMS", "defaultTemplate": "${verificationOneTimeCode}"}
        made = await api.post("/api/message/template", json={"messageTemplate": template})
        generic = {
            "name": new_id(),
            "type": "Generic",
            "url": receiver.url,
            "connectTimeout": 1000,
            "readTimeout": 2000,
        }
        found = await api.post("/api/messenger", json={"messenger": generic})
        settings = {
            "messengerId": found.json()["messenger"]["id"],
            "verificationTemplateId": made.json()["messageTemplate"]["id"],
        }
        await rp.configure_tenant(phoneConfiguration=settings)
        yield receiver


async def user_of(rp: RelyingParty) -> dict:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    return dict((await rp.api.get(f"/api/user/{rp.user['id']}", headers=headers)).json()["user"])


async def request_change(rp, browser, phone: str, **fields: str):
    shown = await enter(rp, browser, "/account/phone")
    return await press(browser, shown, **{"user.phoneNumber": phone, "currentPassword": PASSWORD, **fields})


async def code_to(messenger, phone: str, count: int = 1) -> str:
    requests = await messenger.wait_for(count)
    body = orjson.loads(requests[count - 1].body)
    assert body["phoneNumber"] == phone
    return str(body["textMessage"])


def says(shown, text: str) -> bool:
    return text in page(shown).text


async def test_number_changes_with_the_code_and_the_user_is_notified(rp, browser, messenger):
    async with mail_receiving() as mailbox:
        await rp.configure_tenant(emailConfiguration=mailbox.configuration())
        first, phone = number(), number()
        await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"phoneNumber": first}})
        shown = await request_change(rp, browser, f" {phone[:5]} {phone[5:]} ")
        assert (await user_of(rp))["phoneNumber"] == first
        code = await code_to(messenger, phone)
        changed = await press(browser, shown, code=code)
        assert changed.status_code == 302
        home = await browser.get(changed.headers["Location"])
        assert says(home, "Your phone number was changed.")
        assert (await user_of(rp))["phoneNumber"] == phone
        (mail,) = await mailbox.wait_for(1)
        assert mail.recipients == [rp.login_id]
        assert "If this was not you" in mail.part("plain")
        assert "${" not in mail.part("html")
    # The code is used, and no change is pending.
    assert says(await browser.get("/account/phone", params=place(rp)), "We send a code to the new number.")


async def test_change_needs_the_current_password(rp, browser, messenger):
    shown = await request_change(rp, browser, number(), currentPassword="wrong")
    assert shown.status_code == 200
    assert says(shown, "We send a code to the new number.")
    assert not messenger.requests


@pytest.mark.parametrize("phone", ["12", "", "abc", "+0000"])
async def test_malformed_number_is_rejected(rp, browser, messenger, phone):
    shown = await request_change(rp, browser, phone)
    assert says(shown, "We send a code to the new number.")
    assert not messenger.requests


async def test_number_of_another_user_cannot_be_used(rp, browser, messenger):
    phone = number()
    await relying_party.make_user(rp.api, rp.tenant["id"], phoneNumber=phone)
    assert says(await request_change(rp, browser, phone), "This phone number cannot be used.")
    assert not messenger.requests


async def test_number_that_another_user_took_meanwhile_is_not_assigned_twice(rp, browser, messenger):
    phone = number()
    shown = await request_change(rp, browser, phone)
    code = await code_to(messenger, phone)
    await relying_party.make_user(rp.api, rp.tenant["id"], phoneNumber=phone)
    assert (await press(browser, shown, code=code)).status_code == 200
    assert "phoneNumber" not in await user_of(rp)


async def test_wrong_codes_end_the_change(rp, browser, messenger):
    phone = number()
    shown = await request_change(rp, browser, phone)
    code = await code_to(messenger, phone)
    for _ in range(5):
        assert (await press(browser, shown, code="000000" if code != "000000" else "111111")).status_code == 200
    assert (await press(browser, shown, code=code)).status_code == 200
    assert "phoneNumber" not in await user_of(rp)


async def test_another_code_replaces_the_first_one(rp, browser, messenger):
    phone = number()
    shown = await request_change(rp, browser, phone)
    first = await code_to(messenger, phone)
    again = await press(browser, shown, 1, action="again")
    second = await code_to(messenger, phone, 2)
    if first != second:
        assert (await press(browser, again, code=first)).status_code == 200
    assert (await press(browser, again, code=second)).status_code == 302


async def test_user_can_enter_another_number_instead(rp, browser, messenger):
    shown = await request_change(rp, browser, number())
    other = await press(browser, shown, 2, action="other")
    assert says(other, "We send a code to the new number.")


async def test_codes_are_limited(rp, browser, messenger):
    shown = await request_change(rp, browser, number())
    for _ in range(9):
        shown = await press(browser, shown, 1, action="again")
    await messenger.wait_for(10)
    assert says(await press(browser, shown, 1, action="again"), "Too many attempts.")


async def test_of_64_racing_forms_one_changes_the_number(rp, browser, messenger):
    phone = number()
    shown = await request_change(rp, browser, phone)
    code = await code_to(messenger, phone)
    replies = await asyncio.gather(*(press(browser, shown, code=code) for _ in range(64)))
    assert [reply.status_code for reply in replies].count(302) == 1
    assert (await user_of(rp))["phoneNumber"] == phone


async def test_rejection_by_a_webhook_keeps_the_change_pending(rp, browser, messenger, api):
    phone = number()
    shown = await request_change(rp, browser, phone)
    code = await code_to(messenger, phone)
    async with receiving(in_turn(answers(500), answers(200))) as receiver:
        subscriber = Subscriber(api, receiver, rp.tenant["id"])
        await subscriber.subscribe(["user.update"], "AbsoluteMajority")
        assert (await press(browser, shown, code=code)).status_code == 200
        assert "phoneNumber" not in await user_of(rp)
        assert (await press(browser, shown, code=code)).status_code == 302
        await subscriber.subscribe([], "None")


async def test_plus_of_the_number_stays_in_front_in_a_right_to_left_language(rp, browser, messenger):
    phone = number()
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"preferredLanguages": ["ar"]}})
    assert f"<strong>\u2068{phone}\u2069</strong>" in (await request_change(rp, browser, phone)).text


async def test_page_is_not_offered_without_a_messenger(rp, browser):
    assert "/account/phone" not in (await enter(rp, browser)).text


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
async def test_page_fits_every_screen(chromium: Chromium, rp, browser, messenger, width, scheme):
    await chromium.look(width, scheme)
    await chromium.go(f"{rp.api.base_url}/account/phone?client_id={rp.client_id}&tenantId={rp.tenant['id']}")
    await chromium.type("#loginId", rp.login_id)
    await chromium.type("#password", PASSWORD)
    await chromium.click("button[type=submit]")
    await chromium.find("#user\\.phoneNumber")
    assert await chromium.run("return document.documentElement.scrollWidth") <= width


async def change_number(rp, browser, messenger) -> tuple[str, str, str]:
    """Change the number; return the previous one, the new one, and the path that the previous one received."""
    first, phone = number(), number()
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"phoneNumber": first}})
    shown = await request_change(rp, browser, phone)
    assert (await press(browser, shown, code=await code_to(messenger, phone))).status_code == 302
    text = await code_to(messenger, first, 2)
    found = re.search(r"https?://[^/]+(/phone/revoke-change/\S+)", text)
    assert found is not None, text
    return first, phone, found[1]


async def test_previous_number_restores_itself_and_ends_sessions(rp, browser, messenger, service):
    first, phone, link = await change_number(rp, browser, messenger)
    async with checking_client(service.base_url) as stranger:
        shown = await stranger.get(link)
        assert (await user_of(rp))["phoneNumber"] == phone
        assert says(await press(stranger, shown), "The change has been revoked")
        assert says(await press(stranger, shown), "no longer valid")
    assert (await user_of(rp))["phoneNumber"] == first
    assert (await browser.get("/account", params=place(rp))).status_code == 302


async def test_previous_number_that_another_user_took_is_not_assigned_twice(rp, browser, messenger, service):
    first, phone, link = await change_number(rp, browser, messenger)
    await relying_party.make_user(rp.api, rp.tenant["id"], phoneNumber=first)
    async with checking_client(service.base_url) as stranger:
        assert says(await press(stranger, await stranger.get(link)), "no longer valid")
    assert (await user_of(rp))["phoneNumber"] == phone
    assert (await browser.get("/account", params=place(rp))).status_code == 200


async def test_revocation_cancels_a_pending_change(rp, browser, messenger, service):
    first, _, link = await change_number(rp, browser, messenger)
    other = number()
    shown = await request_change(rp, browser, other)
    code = await code_to(messenger, other, 3)
    async with checking_client(service.base_url) as stranger:
        assert says(await press(stranger, await stranger.get(link)), "The change has been revoked")
    await press(browser, shown, code=code)
    assert (await user_of(rp))["phoneNumber"] == first


async def test_of_64_who_revoke_a_change_of_the_number_one_succeeds(rp, browser, messenger, service):
    _, _, link = await change_number(rp, browser, messenger)
    async with checking_client(service.base_url) as stranger:
        shown = await stranger.get(link)
        pages = await asyncio.gather(*(press(stranger, shown) for _ in range(64)))
    assert sum(says(one, "The change has been revoked") for one in pages) == 1


async def test_revocation_of_another_tenant_is_unknown(rp, browser, messenger, service, api):
    _, phone, link = await change_number(rp, browser, messenger)
    tenant = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    token = link.partition("?")[0]
    async with checking_client(service.base_url) as stranger:
        shown = await stranger.get(token, params={"tenantId": tenant["id"]})
        assert says(await press(stranger, shown), "no longer valid")
    assert (await user_of(rp))["phoneNumber"] == phone


async def test_first_number_notifies_no_other_one(rp, browser, messenger):
    phone = number()
    shown = await request_change(rp, browser, phone)
    assert (await press(browser, shown, code=await code_to(messenger, phone))).status_code == 302
    other = number()
    shown = await request_change(rp, browser, other)
    assert orjson.loads((await messenger.wait_for(2))[1].body)["phoneNumber"] == other


async def test_messenger_that_is_gone_is_reported_once(rp, browser, messenger, api, service):
    first, phone = number(), number()
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"phoneNumber": first}})
    shown = await request_change(rp, browser, phone)
    code = await code_to(messenger, phone)
    gone = new_id()
    settings = {**rp.tenant.get("phoneConfiguration", {}), "messengerId": gone}
    settings["verificationTemplateId"] = new_id()
    await rp.configure_tenant(phoneConfiguration=settings)
    assert (await press(browser, shown, code=code)).status_code == 302
    found = await api.get("/api/system/event-log/search", params={"message": f"*{gone}*"})
    assert [row["type"] for row in found.json()["eventLogs"]] == ["Error"]
    assert len(messenger.requests) == 1
