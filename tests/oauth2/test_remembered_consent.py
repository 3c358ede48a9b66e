"""Remembered consent: duration, renewal, and deletion."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests import internals, relying_party
from tests.oauth2.consenting import agree, ask, choices, send
from tests.relying_party import PASSWORD, response


@pytest.fixture
async def rp(api):
    """A third-party application whose consent is remembered for a limited time."""
    return await relying_party.make(api, relationship="ThirdParty", consentMode="RememberDecision")


async def granted(rp, http, browser, **changes) -> str:
    """The scopes granted by a request without a consent page."""
    answer = response(await rp.authorize(browser, **{"scope": "openid email phone", **changes}))
    return (await rp.exchange(http, answer["code"])).json()["scope"]


async def is_asked(rp, browser, scope: str = "openid email phone", **changes) -> bool:
    answer = await rp.authorize(browser, scope=scope, **changes)
    return answer.headers.get("Location", "").startswith("/oauth2/consent?")


@pytest.mark.requirement("oauth-1.9-21")
async def test_decision_is_remembered_including_declined_scopes(rp, browser, http, new_browser):
    await agree(rp, browser, "email")
    assert await granted(rp, http, browser) == "openid email"
    assert await granted(rp, http, browser, prompt="none", scope="phone openid") == "openid"
    other = new_browser()
    answer = response(await rp.submit(other, await rp.authorize(other, scope="openid email phone")))
    assert (await rp.exchange(http, answer["code"])).json()["scope"] == "openid email"


async def test_decision_applies_to_one_application(rp, browser, api):
    await agree(rp, browser, "email")
    sibling = await relying_party.make(api, tenant=rp.tenant, relationship="ThirdParty", consentMode="RememberDecision")
    assert await is_asked(sibling, browser)


@pytest.mark.requirement("oauth-1.9-19")
async def test_always_prompt_remembers_nothing(rp, browser):
    await rp.configure(consentMode="AlwaysPrompt")
    await agree(rp, browser, "email", "phone")
    assert await is_asked(rp, browser)
    await rp.configure(consentMode="RememberDecision")
    assert await is_asked(rp, browser)
    await agree(rp, browser, "email", "phone")
    await rp.configure(consentMode="AlwaysPrompt")
    assert await is_asked(rp, browser)


@pytest.mark.requirement("oauth-1.9-19")
async def test_prompt_consent_shows_the_earlier_decision(rp, browser, http):
    await agree(rp, browser, "email")
    shown = await ask(rp, browser, prompt="consent")
    assert choices(shown) == {"email": True, "phone": False}
    await send(browser, shown, "phone")
    assert await granted(rp, http, browser) == "openid phone"


async def test_prompt_login_and_consent_shows_both_pages(rp, browser):
    await agree(rp, browser, "email")
    shown = await rp.authorize(browser, scope="openid email phone", prompt="login consent")
    assert shown.status_code == 200
    answer = await rp.submit(browser, shown)
    assert answer.headers["Location"].startswith("/oauth2/consent?")
    asked = await browser.get(answer.headers["Location"])
    assert "code" in response(await send(browser, asked, "email"))


@pytest.mark.requirement("oauth-1.9-21")
async def test_new_scope_is_prompted_and_others_are_remembered(rp, browser, http):
    await agree(rp, browser, "email", scope="openid email")
    assert not await is_asked(rp, browser, "openid email")
    shown = await ask(rp, browser, scope="openid email phone")
    assert choices(shown) == {"email": True, "phone": False}
    await send(browser, shown, "email")
    assert await granted(rp, http, browser) == "openid email"
    await agree(rp, browser, "profile", scope="openid profile")
    assert await granted(rp, http, browser) == "openid email"


@pytest.mark.requirement("oauth-1.9-21")
async def test_declined_scope_that_became_required_is_prompted(rp, browser):
    await agree(rp, browser, "email")
    assert not await is_asked(rp, browser)
    await rp.configure(providedScopePolicy={"phone": {"required": True}})
    assert await is_asked(rp, browser)
    assert not await is_asked(rp, browser, "openid email")


@pytest.mark.requirement("oauth-1.9-21")
async def test_decision_expires_after_the_configured_time(rp, browser, clock):
    times = {"rememberOAuthScopeConsentChoiceTimeToLiveInSeconds": 60}
    await rp.configure_tenant(externalIdentifierConfiguration=times)
    await agree(rp, browser, "email")
    clock.advance(seconds=59)
    assert not await is_asked(rp, browser)
    clock.advance(seconds=1)
    assert await is_asked(rp, browser)


async def test_refusal_is_not_remembered(rp, browser):
    await send(browser, await ask(rp, browser), action="cancel")
    assert await is_asked(rp, browser)


@pytest.mark.requirement("oauth-1.9-23")
async def test_decision_is_deleted_with_its_scope(rp, browser, api):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    path, body = f"/api/application/{rp.client_id}/scope", {"scope": {"name": "calendar"}}
    scope_id = (await api.post(path, json=body, headers=headers)).json()["scope"]["id"]
    await agree(rp, browser, "calendar", scope="openid calendar")
    assert not await is_asked(rp, browser, "openid calendar")
    described = {"scope": {"defaultConsentMessage": "Read your calendar"}}
    merge = {**headers, "Content-Type": "application/merge-patch+json"}
    assert (await api.request("PATCH", f"{path}/{scope_id}", json=described, headers=merge)).status_code == 200
    assert not await is_asked(rp, browser, "openid calendar")
    assert (await api.delete(f"{path}/{scope_id}", headers=headers)).status_code == 200
    assert (await api.post(path, json=body, headers=headers)).status_code == 200
    assert await is_asked(rp, browser, "openid calendar")


@pytest.mark.requirement("oauth-1.9-23")
async def test_decision_is_deleted_with_user_and_application(rp, browser, api, service):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    consents, tenant_id = internals.store(service, "scope_consents"), rp.tenant["id"]
    await agree(rp, browser, "email")
    assert await consents.count(tenant_id, {"userId": rp.user["id"]}) == 1
    query = {"hardDelete": "true"}
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers, params=query)).status_code == 200
    assert await consents.count(tenant_id) == 0
    rp.user = await relying_party.make_user(api, tenant_id, rp.client_id)
    await agree(rp, browser, "email")
    assert await consents.count(tenant_id) == 1
    assert (await api.delete(f"/api/application/{rp.client_id}", headers=headers, params=query)).status_code == 200
    assert await consents.count(tenant_id) == 0


@pytest.mark.requirement("oauth-1.9-23")
async def test_decision_of_a_deleted_user_is_not_stored(rp, browser, api, service, monkeypatch):
    shown = await ask(rp, browser)
    consents, tenant_id = internals.store(service, "scope_consents"), rp.tenant["id"]
    headers, decide = {"X-FusionAuth-TenantId": tenant_id}, type(consents).decide

    async def after_the_removal(self, *arguments, **named):
        await api.delete(f"/api/user/{rp.user['id']}", headers=headers, params={"hardDelete": "true"})
        return await decide(self, *arguments, **named)

    monkeypatch.setattr(type(consents), "decide", after_the_removal)
    await send(browser, shown, "email")
    assert await consents.count(tenant_id) == 0


async def password_grant(rp, http, scope: str):
    form = {"grant_type": "password", "username": rp.login_id, "password": PASSWORD, "scope": scope}
    return await rp.token(http, **form)


@pytest.mark.requirement("oauth-1.9-24")
async def test_password_grant_uses_remembered_consent(rp, browser, http):
    await rp.configure(enabledGrants=["authorization_code", "password"])
    refused = await password_grant(rp, http, "openid email phone")
    assert (refused.status_code, refused.json()["error"], refused.json()["error_reason"]) == (
        400, "invalid_scope", "missing_required_scope",
    )  # fmt: skip
    await agree(rp, browser, "email")
    assert (await password_grant(rp, http, "openid email phone")).json()["scope"] == "openid email"
    assert (await password_grant(rp, http, "openid profile")).json()["error"] == "invalid_scope"
    wrong = await rp.token(http, grant_type="password", username=new_id(), password="x", scope="openid email")
    assert wrong.json()["error_reason"] == "invalid_user_credentials"


async def test_decision_survives_deactivation_of_its_user(rp, browser, api, service):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    await agree(rp, browser, "email")
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200
    assert await internals.store(service, "scope_consents").count(rp.tenant["id"]) == 1
