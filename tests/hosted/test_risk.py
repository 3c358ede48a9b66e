"""Second factors by risk and by lambda on the pages: new browsers are challenged, known ones and sessions are not."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests import relying_party, two_factor
from tests.conftest import checking_client
from tests.hosted.steps import follow, log_in, path, send
from tests.relying_party import response


@pytest.fixture
async def rp(api):
    """An application whose user has an authenticator app."""
    party = await relying_party.make(api)
    body = {"user": {"twoFactor": {"methods": [two_factor.authenticator()], "recoveryCodes": []}}}
    await party.patch(f"/api/user/{party.user['id']}", body)
    return party


async def add_lambda(rp, statements: str) -> None:
    body = f"function checkRequired(result, user, registration, context) {{ {statements} }}"
    wanted = {"lambda": {"name": new_id(), "type": "MFARequirement", "body": body}}
    lambda_id = (await rp.api.post("/api/lambda", json=wanted)).json()["lambda"]["id"]
    await rp.configure_tenant(lambdaConfiguration={"multiFactorRequirementId": lambda_id})


@pytest.mark.requirement("users-10-23")
async def test_new_browser_is_challenged_and_the_record_has_the_reason(rp, key, browser, clock):
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": "ChallengeOnMediumRisk"})
    assert "code" in response(await log_in(rp, browser))
    assert "code" in response(await rp.authorize(browser)), "the session needs no second factor either"
    async with checking_client(str(browser.base_url)) as other:
        shown = await log_in(rp, other)
        assert path(shown) == "/oauth2/two-factor"
        assert "code" in response(await send(other, shown, code=two_factor.code(clock.now())))
    found = await key.get("/api/user/recent-login", params={"userId": rp.user["id"]})
    newest = found.json()["logins"][0]
    assert (newest["clientRisk"], newest["riskReasons"]) == ("MEDIUM", ["UnrecognizedDevice", "UntrustedDevice"])


@pytest.mark.requirement("core-18-lambdas-35")
async def test_lambda_waives_the_second_factor_of_a_login_and_of_its_session(rp, browser):
    await add_lambda(rp, "result.required = false;")
    assert "code" in response(await log_in(rp, browser))
    assert "code" in response(await rp.authorize(browser))


@pytest.mark.requirement("core-18-lambdas-35")
async def test_lambda_requires_the_second_factor_that_a_session_lacks(rp, browser, clock):
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": "Disabled"})
    assert "code" in response(await log_in(rp, browser))
    await add_lambda(rp, "result.required = true;")
    shown = await follow(browser, await rp.authorize(browser))
    assert path(shown) == "/oauth2/two-factor"
    assert "code" in response(await send(browser, shown, code=two_factor.code(clock.now())))
    assert "code" in response(await rp.authorize(browser)), "the session has the second factor from now on"
