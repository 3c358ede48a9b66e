"""The consent page: prompts, granted scopes, and forged forms."""

from __future__ import annotations

import asyncio

import pytest

from tests import internals, relying_party
from tests.oauth2.consenting import agree, ask, choices, required, send
from tests.relying_party import REDIRECT_URI, claims, page, response

ELSEWHERE = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"}


@pytest.fixture
async def rp(api):
    """A third party's application."""
    return await relying_party.make(api, relationship="ThirdParty")


async def scope_of(rp, http, parameters: dict[str, str]) -> str:
    return (await rp.exchange(http, parameters["code"])).json()["scope"]


def refused(answer) -> tuple[str, str]:
    params = response(answer)
    return params["error"], params["error_reason"]


@pytest.mark.requirement("oauth-1.9-22", "oauth-1.9-6")
async def test_consent_is_prompted_after_login_and_determines_scopes(rp, browser, http):
    shown = await ask(rp, browser, scope="openid offline_access email phone")
    assert choices(shown) == {"email": False, "phone": False}
    assert rp.login_id in page(shown).text
    assert rp.application["name"] in page(shown).text
    answer = response(await send(browser, shown, "phone"))
    assert (answer["state"], answer["userState"]) == ("the-state", "Authenticated")
    tokens = (await rp.exchange(http, answer["code"])).json()
    assert tokens["scope"] == "openid offline_access phone"
    assert claims(tokens["access_token"])["scope"] == "openid offline_access phone"
    assert claims(tokens["id_token"])["scope"] == "openid offline_access phone"
    refreshed = (await rp.refresh(http, tokens["refresh_token"])).json()
    assert claims(refreshed["access_token"])["scope"] == "openid offline_access phone"
    wider = await rp.refresh(http, tokens["refresh_token"], scope="openid email")
    assert (wider.status_code, wider.json()["error"]) == (400, "invalid_scope")


@pytest.mark.requirement("oauth-1.9-22")
async def test_implicit_tokens_have_granted_scopes_only(rp, browser):
    await rp.configure(enabledGrants=["implicit"])
    shown = await ask(rp, browser, response_type="token id_token", nonce="n", scope="openid email phone")
    answer = response(await send(browser, shown, "email"))
    assert answer["scope"] == "openid email"
    assert claims(answer["access_token"])["scope"] == "openid email"
    assert claims(answer["id_token"])["nonce"] == "n"


async def test_response_uses_form_post_if_requested(rp, browser):
    shown = await ask(rp, browser, response_mode="form_post")
    answer = await send(browser, shown)
    assert answer.status_code == 200
    assert response(answer)["state"] == "the-state"


@pytest.mark.requirement("oauth-1.9-22")
async def test_userinfo_has_no_claims_of_declined_scopes(rp, browser, http):
    answer = await agree(rp, browser, "phone", scope="openid email phone")
    token = (await rp.exchange(http, answer["code"])).json()["access_token"]
    userinfo = (await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})).json()
    assert userinfo == {"sub": rp.user["id"]}


async def test_scopes_without_consent_show_no_page(rp, browser):
    assert "code" in await rp.log_in(browser, scope="openid offline_access")
    assert "code" in response(await rp.authorize(browser, scope=None))


@pytest.mark.requirement("oauth-1.2-row-23", "reason-missing_required_scope")
async def test_required_scopes_cannot_be_left_out(rp, browser, http):
    await rp.configure(providedScopePolicy={"email": {"required": True}})
    shown = await ask(rp, browser)
    assert (required(shown), choices(shown)) == ({"email"}, {"phone": False})
    assert refused(await send(browser, shown, **{"scopeConsents['email']": None})) == (
        "access_denied", "missing_required_scope",
    )  # fmt: skip
    again = await ask(rp, browser)
    assert refused(await send(browser, again, **{"scopeConsents['email']": "false"}))[1] == "missing_required_scope"
    assert await scope_of(rp, http, await agree(rp, browser)) == "openid email"


@pytest.mark.requirement("error-access_denied", "oauth-1.2-row-23", "reason-consent_canceled")
async def test_row_23_cancelling_is_access_denied(rp, browser):
    shown = await ask(rp, browser)
    answer = response(await send(browser, shown, "email", action="cancel"))
    assert (answer["error"], answer["error_reason"]) == ("access_denied", "consent_canceled")
    assert answer["state"] == "the-state"
    assert "code" not in answer


@pytest.mark.requirement("oauth-1.2-row-23")
async def test_unknown_action_grants_nothing(rp, browser):
    shown = await ask(rp, browser)
    assert refused(await send(browser, shown, "email", action="ALLOW")) == ("access_denied", "consent_canceled")


async def test_approval_of_unrequested_scopes_is_ignored(rp, browser, http):
    shown = await ask(rp, browser, scope="openid email")
    answer = response(await send(browser, shown, "phone", "email", "offline_access", "profile", "anything"))
    assert await scope_of(rp, http, answer) == "openid email"


async def test_custom_scopes_are_prompted_and_required_like_others(rp, browser, http):
    scopes = [
        {"name": "calendar:read", "defaultConsentMessage": "Read your calendar", "defaultConsentDetail": "Every day."},
        {"name": "it's", "required": True},
    ]
    for scope in scopes:
        path = f"/api/application/{rp.client_id}/scope"
        headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
        assert (await rp.api.post(path, json={"scope": scope}, headers=headers)).status_code == 200
    shown = await ask(rp, browser, scope="openid calendar:read it's")
    text = page(shown).text
    assert "Read your calendar" in text
    assert "Every day." in text
    assert (required(shown), choices(shown)) == ({"it's"}, {"calendar:read": False})
    answer = response(await send(browser, shown, "calendar:read"))
    assert await scope_of(rp, http, answer) == "openid calendar:read it's"


async def test_unknown_scopes_are_shown_without_a_choice(rp, browser, http):
    await rp.configure(unknownScopePolicy="Allow")
    shown = await ask(rp, browser, scope="openid email unheard-of")
    assert "unheard-of" in page(shown).text
    assert choices(shown) == {"email": False}
    assert await scope_of(rp, http, response(await send(browser, shown))) == "openid unheard-of"


@pytest.mark.requirement("oauth-1.8-9")
async def test_page_can_be_reloaded_and_submitted_once(rp, browser):
    shown = await ask(rp, browser)
    assert (await browser.get(str(shown.url))).status_code == 200
    assert "code" in response(await send(browser, shown))
    for again in (await send(browser, shown), await browser.get(str(shown.url))):
        assert again.status_code == 400
        assert "answered already" in page(again).text
        assert "Location" not in again.headers
    assert "fusionauth.li" not in browser.cookies


@pytest.mark.requirement("oauth-1.9-25")
async def test_attack_one_of_64_racing_submissions_gets_a_code(rp, browser):
    shown = await ask(rp, browser)
    answers = await asyncio.gather(*(send(browser, shown, "email") for _ in range(64)))
    codes = [answer for answer in answers if answer.status_code == 302]
    assert len(codes) == 1
    assert "code" in response(codes[0])
    assert {answer.status_code for answer in answers} == {302, 400}


@pytest.mark.requirement("oauth-1.9-25")
async def test_form_is_bound_to_its_browser(rp, browser, new_browser):
    shown, other = await ask(rp, browser), new_browser()
    assert (await send(other, shown)).status_code == 400
    assert (await other.get(str(shown.url))).status_code == 400
    await ask(rp, other)
    assert (await send(other, shown)).status_code == 400
    assert "code" in response(await send(browser, shown))


@pytest.mark.requirement("oauth-1.9-25")
async def test_form_of_another_client_or_tenant_is_rejected(rp, browser, api):
    shown = await ask(rp, browser)
    sibling = await relying_party.make(api, tenant=rp.tenant, relationship="ThirdParty")
    stranger = await relying_party.make(api, relationship="ThirdParty")
    assert (await send(browser, shown, client_id=sibling.client_id, tenantId=None)).status_code == 400
    assert (await send(browser, shown, client_id=stranger.client_id, tenantId=None)).status_code == 400
    assert "tenantId" in page(await send(browser, shown, tenantId=stranger.tenant["id"])).text
    assert "code" in response(await send(browser, shown))


async def test_several_tabs_have_separate_transactions(rp, browser):
    first, second = await ask(rp, browser, state="first"), await ask(rp, browser, state="second")
    assert response(await send(browser, first))["state"] == "first"
    assert response(await send(browser, second))["state"] == "second"


@pytest.mark.requirement("attack-42", "oauth-1.9-26")
async def test_attack_42_forged_submission_is_rejected_and_keeps_the_transaction(rp, browser):
    shown = await ask(rp, browser)
    forged = await send(browser, shown, "email", csrf_token="guessed")
    assert forged.status_code == 403
    assert "try again" in page(forged).text
    form = page(shown).forms[0]
    answer = await browser.post(form["action"], data={**form["fields"], "action": "allow"}, headers=ELSEWHERE)
    assert answer.status_code == 403
    assert "code" in response(await send(browser, shown))


@pytest.mark.requirement("oauth-1.9-25")
async def test_transaction_expires(rp, browser, service):
    shown = await ask(rp, browser)
    redis = internals.redis(service)
    keys = [key async for key in redis.client.scan_iter(redis.key("login-intent", rp.tenant["id"], "*"))]
    assert len(keys) == 1
    assert 1790 < await redis.client.ttl(keys[0]) <= 1800
    await redis.client.delete(*keys)
    assert (await send(browser, shown)).status_code == 400


async def test_transaction_does_not_contain_the_password(rp, browser, service):
    await ask(rp, browser)
    redis = internals.redis(service)
    (key,) = [key async for key in redis.client.scan_iter(redis.key("login-intent", rp.tenant["id"], "*"))]
    stored = await redis.client.get(key)
    assert relying_party.PASSWORD not in stored
    assert "csrf" not in stored
    assert browser.cookies["fusionauth.li"] not in key + stored


async def test_page_without_a_login_is_rejected(rp, browser):
    for query in ({"client_id": rp.client_id}, {"client_id": rp.client_id, "intent": "x"}):
        answer = await browser.get("/oauth2/consent", params=query)
        assert answer.status_code == 400
        assert "start again" in page(answer).text
    assert "client_id" in page(await browser.get("/oauth2/consent")).text


async def test_logout_meanwhile_requires_a_new_login(rp, browser):
    shown = await ask(rp, browser)
    cookie = browser.cookies["fusionauth.li"]
    await browser.get("/oauth2/logout", params={"client_id": rp.client_id})
    assert (await send(browser, shown, "email")).status_code == 400
    browser.cookies.set("fusionauth.li", cookie, domain="localhost.local", path="/")
    again = await send(browser, shown, "email")
    assert again.status_code == 200
    assert page(again).forms[0]["action"] == "/oauth2/authorize"
    assert (await rp.submit(browser, again)).headers["Location"].startswith("/oauth2/consent?")


async def test_user_locked_meanwhile_gets_no_response(rp, browser, api):
    shown = await ask(rp, browser)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200
    assert (await send(browser, shown)).status_code == 200


async def test_consent_works_with_sso_disabled(rp, browser, http):
    await rp.configure_tenant(httpSessionMaxInactiveInterval=0)
    answer = await agree(rp, browser, "email", scope="openid email")
    assert await scope_of(rp, http, answer) == "openid email"
    assert "fusionauth.sso" not in browser.cookies


@pytest.mark.requirement("attack-46")
async def test_attack_46_login_with_a_former_password_cannot_consent(rp, browser, api, clock):
    await rp.configure_tenant(httpSessionMaxInactiveInterval=0)
    shown = await ask(rp, browser, scope="openid email")
    clock.advance(seconds=1)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"user": {"password": "another horse battery"}}
    assert (await api.patch(f"/api/user/{rp.user['id']}", json=body, headers=headers)).status_code == 200
    answer = await send(browser, shown)
    assert answer.status_code == 200
    assert 'name="password"' in answer.text


async def test_redirect_uri_removed_meanwhile_is_not_used(rp, browser):
    shown = await ask(rp, browser)
    await rp.configure(authorizedRedirectURLs=["https://other.example.com/"])
    answer = await send(browser, shown)
    assert answer.status_code == 400
    assert "redirect_uri" in page(answer).text


async def test_first_party_application_skips_the_prompt(rp, browser):
    shown = await ask(rp, browser)
    await rp.configure(relationship="FirstParty")
    answer = await browser.get(str(shown.url))
    assert "code" in response(answer)
    assert (await browser.get(str(shown.url))).status_code == 400


@pytest.mark.requirement("attack-14", "oauth-1.9-26")
async def test_page_has_a_strict_content_security_policy(rp, browser):
    shown = await ask(rp, browser)
    policy = dict(part.split(" ", 1) for part in shown.headers["Content-Security-Policy"].split("; "))
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["form-action"] == "'self' https://app.example.com https:"
    assert shown.headers["X-Frame-Options"] == "DENY"
    assert shown.headers["Cache-Control"] == "no-store"


@pytest.mark.requirement("attack-19", "oauth-1.9-26")
async def test_attack_19_page_escapes_request_values(rp, browser):
    nasty = "<script>alert(1)</script>"
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"name": nasty + rp.client_id}})
    await rp.configure(unknownScopePolicy="Allow")
    shown = await ask(rp, browser, scope=f"openid email {nasty}", state=nasty)
    assert "<script>" not in shown.text
    assert nasty in page(shown).text
    assert response(await send(browser, shown))["state"] == nasty


async def test_tenant_may_be_in_the_path(rp, browser):
    path = f"/{rp.tenant['id']}/oauth2"
    shown = await browser.get(f"{path}/authorize", params=rp.query(scope="openid email"))
    answer = await rp.submit(browser, shown)
    assert answer.headers["Location"].startswith(f"{path}/consent?")
    asked = await browser.get(answer.headers["Location"])
    assert page(asked).forms[0]["action"] == f"{path}/consent"
    assert response(await send(browser, asked))["iss"] == rp.tenant["issuer"]


@pytest.mark.requirement(
    "certification-authorize-3", "error-consent_required", "oauth-1.8-15", "reason-consent_required"
)
async def test_prompt_none_shows_no_page(rp, browser):
    await ask(rp, browser)
    answer = await rp.authorize(browser, scope="openid email", prompt="none")
    assert refused(answer) == ("consent_required", "consent_required")
    assert answer.headers["Location"].startswith(REDIRECT_URI)


async def test_pushed_request_shows_the_prompt_and_gets_one_response(rp, browser, http):
    form = {**rp.query(scope="openid email"), "client_secret": rp.secret}
    uri = (await http.post("/oauth2/par", data=form)).json()["request_uri"]
    opened = await browser.get("/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": uri})
    shown = await browser.get(opened.headers["Location"])
    answer = await rp.submit(browser, shown)
    asked = await browser.get(answer.headers["Location"])
    assert await scope_of(rp, http, response(await send(browser, asked, "email"))) == "openid email"
    # The session answers the next one at once, and the page is shown on the way, too.
    uri = (await http.post("/oauth2/par", data=form)).json()["request_uri"]
    answer = await browser.get("/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": uri})
    assert answer.headers["Location"].startswith("/oauth2/consent?")
    asked = await browser.get(answer.headers["Location"])
    assert await scope_of(rp, http, response(await send(browser, asked))) == "openid"


async def test_application_that_requires_par_gets_its_response(rp, browser, http):
    await rp.configure(requirePushedAuthorizationRequests=True)
    form = {**rp.query(scope="openid email"), "client_secret": rp.secret}
    uri = (await http.post("/oauth2/par", data=form)).json()["request_uri"]
    opened = await browser.get("/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": uri})
    answer = await rp.submit(browser, await browser.get(opened.headers["Location"]))
    asked = await browser.get(answer.headers["Location"])
    assert await scope_of(rp, http, response(await send(browser, asked, "email"))) == "openid email"


@pytest.mark.requirement("oauth-1.9-25")
async def test_steps_cannot_be_skipped_with_another_transaction(rp, browser, api):
    await rp.configure(
        enabledGrants=["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"],
        deviceVerificationURL="https://app.example.com/device",
    )
    shown = await ask(rp, browser)
    fields = page(shown).forms[0]["fields"]
    for answer in (
        await browser.get("/oauth2/device", params=fields),
        await browser.post("/oauth2/device", data={**fields, "action": "allow", "grant": "x"}),
    ):
        assert (answer.status_code, "start again" in page(answer).text) == (400, True)
    assert "code" in response(await send(browser, shown))
