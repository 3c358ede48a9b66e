"""Logins with a phone number on the pages, where users type any login id into one field."""

from __future__ import annotations

import random

import pytest

from tests.relying_party import PASSWORD, RelyingParty, page, response


def number() -> str:
    return f"+1303{random.randrange(10**7):07}"


@pytest.fixture
async def phone(rp: RelyingParty) -> str:
    """The phone number of the user."""
    phone = number()
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"phoneNumber": phone}})
    return phone


async def verify(rp: RelyingParty, phone: str) -> None:
    """Verify the number as an administrator does."""
    inside = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"loginId": phone, "loginIdType": "phoneNumber", "verificationStrategy": "FormField"}
    started = await rp.api.post("/api/identity/verify/start", json=body, headers=inside)
    assert started.status_code == 200, started.text
    body = {name: started.json()[name] for name in ("oneTimeCode", "verificationId")}
    answer = await rp.api.post("/api/identity/verify/complete", json=body, headers=inside)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("spelling", ["{}", " {} ", "+1 (303) {}-{}"])
async def test_login_page_accepts_a_phone_number_in_any_spelling(rp, browser, phone, spelling):
    typed = spelling.format(phone) if spelling.count("{}") == 1 else spelling.format(phone[5:8], phone[8:])
    shown = await rp.authorize(browser)
    refused = await rp.submit(browser, shown, loginId=typed, password="wrong")
    assert refused.status_code == 200
    answer = await rp.submit(browser, refused, loginId=typed)
    assert "code" in response(answer)


async def test_tenant_that_verifies_numbers_accepts_a_verified_one_only(rp, browser, phone):
    await rp.configure_tenant(phoneConfiguration={"verifyPhoneNumber": True})
    shown = await rp.authorize(browser)
    shown = await rp.submit(browser, shown, loginId=phone)
    assert shown.status_code == 200
    unknown = await rp.submit(browser, shown, loginId=number())
    assert page(unknown).text == page(shown).text.replace(phone, "")
    await verify(rp, phone)
    assert "code" in response(await rp.submit(browser, shown, loginId=phone))


async def test_password_grant_accepts_a_phone_number(rp, http, phone):
    await rp.configure(enabledGrants=["password"])
    form = {"grant_type": "password", "username": phone, "password": PASSWORD}
    assert (await rp.token(http, **form)).status_code == 200
    await rp.configure_tenant(phoneConfiguration={"verifyPhoneNumber": True})
    assert (await rp.token(http, **form)).json()["error"] == "invalid_grant"


async def test_spellings_of_a_number_share_the_limit_of_failed_logins(rp, browser):
    await rp.configure_tenant(
        rateLimitConfiguration={"failedLogin": {"enabled": True, "limit": 2, "timePeriodInSeconds": 60}}
    )
    unknown, shown = number(), await rp.authorize(browser)
    for typed in (unknown, f"{unknown[:5]} {unknown[5:]}"):
        shown = await rp.submit(browser, shown, loginId=typed)
        assert "many" not in page(shown).text
    assert "many" in page(await rp.submit(browser, shown, loginId=f"{unknown[:6]}-{unknown[6:]}")).text
