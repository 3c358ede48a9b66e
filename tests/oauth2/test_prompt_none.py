"""`prompt=none`, and refreshes of tokens whose user has ended."""

from __future__ import annotations

import time

import pytest

from identity.ids import new_id
from tests import relying_party
from tests.conftest import EMAIL_TEMPLATE
from tests.relying_party import PASSWORD, response

GATED = {"behavior": "Gated"}


async def refusal(rp, browser) -> tuple[str, str | None]:
    answer = response(await rp.authorize(browser, prompt="none"))
    return answer["error"], answer.get("error_reason")


@pytest.mark.requirement("oauth-1.8-16", "reason-email_verification_required")
async def test_unverified_email_address(rp, browser, api):
    gate = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE, "unverified": {"behavior": "Allow"}}
    await rp.configure_tenant(emailConfiguration=gate)
    body = {"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    rp.user = (await api.post("/api/user", json=body, headers=headers)).json()["user"]
    assert rp.user["verified"] is False
    await rp.log_in(browser)
    await rp.configure_tenant(emailConfiguration={**gate, "unverified": GATED})
    assert await refusal(rp, browser) == ("interaction_required", "email_verification_required")


@pytest.mark.requirement(
    "certification-authorize-3", "error-interaction_required", "oauth-1.8-16", "reason-multi_factor_challenge_required"
)
async def test_second_factor(rp, browser):
    await rp.log_in(browser)
    method = {
        "method": "authenticator",
        "authenticator": {"algorithm": "HmacSHA1", "codeLength": 6, "timeStep": 30},
        "secret": "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=",
    }
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": [method]}}})
    assert await refusal(rp, browser) == ("interaction_required", "multi_factor_challenge_required")


@pytest.mark.requirement("oauth-1.8-16", "reason-registration_verification_required")
async def test_unverified_registration(rp, browser, api):
    await rp.patch(
        f"/api/application/{rp.client_id}",
        {
            "application": {
                "verifyRegistration": True,
                "verificationEmailTemplateId": EMAIL_TEMPLATE,
                "unverified": GATED,
            }
        },
    )
    sibling = await relying_party.make(api, tenant=rp.tenant)
    rp.user = sibling.user
    await sibling.log_in(browser)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"registration": {"applicationId": rp.client_id}}
    assert (await api.post(f"/api/user/registration/{rp.user['id']}", json=body, headers=headers)).status_code == 200
    assert await refusal(rp, browser) == ("interaction_required", "registration_verification_required")


@pytest.mark.requirement("oauth-2.2-13")
async def test_expired_user_cannot_refresh(rp, browser, http, clock):
    tokens = await rp.tokens(http, browser)
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"expiry": int(time.time() * 1000) + 60_000}})
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200
    clock.advance(seconds=61)
    answer = await rp.refresh(http, tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"], answer.json()["error_reason"]) == (
        400, "invalid_grant", "user_expired",
    )  # fmt: skip
