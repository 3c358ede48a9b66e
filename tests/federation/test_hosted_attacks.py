"""Attacks on the redirect to a provider and back."""

from __future__ import annotations

import asyncio
import collections
import urllib.parse

import pytest

from identity.ids import new_id
from identity.operations.limits import anonymous_request_limits
from tests import relying_party
from tests.conftest import checking_client
from tests.federation.hosted import CALLBACK, LINK_PAGE, departure
from tests.relying_party import REDIRECT_URI

SSO = "fusionauth.sso"
FEDERATED = "federated.csrf"


async def is_refused_here(answer) -> None:
    """A local error page without redirect and session."""
    assert answer.status_code == 400
    assert "Location" not in answer.headers
    assert not [value for value in answer.headers.get_list("Set-Cookie") if value.startswith(SSO)]
    assert "has expired or was started in another browser" in answer.text
    assert "go back to the application and sign in again" in answer.text


@pytest.mark.parametrize("state", [None, "", "made up", "the link of another kind"])
async def test_attack_42_unknown_state_is_rejected(hosted, state) -> None:
    left = await hosted.leave()
    await is_refused_here(await hosted.come_back(left, state=state))
    assert hosted.fake.receiver.requests[-1].path != "/token"
    assert "code" in relying_party.response(await hosted.come_back(left)), "the real one is still good"


@pytest.mark.requirement("attack-42")
async def test_attack_42_state_is_bound_to_its_browser(hosted, service) -> None:
    """An attacker who sends a victim to the callback with their own code would log the victim in as themselves."""
    left = await hosted.leave()
    async with checking_client(service.base_url) as victim:
        await is_refused_here(await hosted.come_back(left, browser=victim))
        mine = await hosted.leave(browser=victim)
        await is_refused_here(await hosted.come_back(left, browser=victim))
        await is_refused_here(await hosted.come_back(mine))
        assert "code" in relying_party.response(await hosted.come_back(mine, browser=victim))
    assert "code" in relying_party.response(await hosted.come_back(left))


@pytest.mark.requirement("attack-42")
async def test_attack_42_cross_site_form_does_not_log_in(hosted, service) -> None:
    left = await hosted.leave()
    form = {"code": "the-code", "state": left["state"]}
    async with checking_client(service.base_url) as victim:
        await hosted.leave(browser=victim)
        await is_refused_here(await victim.post(CALLBACK, data=form))
        await is_refused_here(await victim.post(CALLBACK, data={**form, "again": "true"}))
    assert hosted.fake.requests_to("/token") == []


async def test_attack_42_provider_button_requires_a_csrf_token(hosted) -> None:
    given = {**hosted.rp.query(), "identityProviderId": hosted.provider_id, "csrf_token": "made up"}
    answer = await hosted.browser.post("/oauth2/authorize", data=given)
    assert answer.status_code == 403
    assert "Location" not in answer.headers


@pytest.mark.requirement("attack-20")
async def test_attack_20_state_can_be_used_once(hosted) -> None:
    left = await hosted.leave()
    assert "code" in relying_party.response(await hosted.come_back(left))
    await is_refused_here(await hosted.come_back(left))
    left = await hosted.leave(prompt="login")
    await hosted.come_back(left, code=None, error="access_denied")
    await is_refused_here(await hosted.come_back(left))


@pytest.mark.requirement("attack-21")
async def test_attack_21_one_of_64_concurrent_callbacks_logs_in(hosted) -> None:
    left = await hosted.leave()
    answers = await asyncio.gather(*(hosted.come_back(left) for _ in range(64)))
    assert collections.Counter(answer.status_code for answer in answers) == {302: 1, 400: 63}
    (one,) = [answer for answer in answers if answer.status_code == 302]
    assert "code" in relying_party.response(one)
    assert len(hosted.fake.requests_to("/token")) == 1
    assert await hosted.scenario.count_users() == 2, "the application's own user, and whom the provider sent"


@pytest.mark.requirement("attack-17")
@pytest.mark.parametrize("changes", [{}, {"code": None, "error": "access_denied"}])
@pytest.mark.parametrize("named", [True, False])
async def test_attack_17_response_of_another_issuer_is_rejected(hosted, named, changes) -> None:
    hosted.fake.published = {"authorization_response_iss_parameter_supported": named}
    for iss in ["https://evil.example.com", f"{hosted.fake.issuer}/", *([None] if named else [])]:
        left = await hosted.leave()
        shown = await hosted.come_back(left, **{**changes, "iss": iss})
        assert shown.status_code == 200
        assert "We could not sign you in" in shown.text
    assert hosted.fake.requests_to("/token") == []
    left = await hosted.leave()
    if not changes:
        assert "code" in relying_party.response(await hosted.come_back(left, iss=hosted.fake.issuer))


@pytest.mark.requirement("attack-22")
async def test_attack_22_injected_code_is_rejected(hosted) -> None:
    """An injected code brings the ID token of another login, whose nonce and PKCE challenge are not this one's."""
    left, other = await hosted.leave(), await hosted.leave()
    hosted.fake.id_claims = hosted.fake.claims(nonce=other["nonce"])
    shown = await hosted.come_back(left)
    assert (shown.status_code, "We could not sign you in" in shown.text) == (200, True)
    first = hosted.fake.form()["code_verifier"]
    await hosted.come_back(other)
    assert hosted.fake.form()["code_verifier"] != first
    left = await hosted.leave(prompt="login")
    hosted.fake.id_claims = hosted.fake.claims()
    assert (await hosted.come_back(left)).status_code == 200, "and neither is one without a nonce"


async def test_attack_1_removed_redirect_uri_is_not_used(hosted) -> None:
    left = await hosted.leave()
    await hosted.rp.configure(authorizedRedirectURLs=["https://elsewhere.example.com/callback"])
    for answer in (await hosted.come_back(left), await hosted.come_back(left)):
        assert answer.status_code == 400
        assert "Location" not in answer.headers
    assert hosted.fake.requests_to("/token") == []


async def test_attack_11_callback_parameters_are_not_passed_to_the_application(hosted) -> None:
    left = await hosted.leave()
    extra = {"redirect_uri": "https://evil.example.com", "client_id": new_id(), "iss": hosted.fake.issuer}
    answer = await hosted.come_back(left, **extra)
    assert answer.headers["Location"].startswith(REDIRECT_URI)
    given = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(answer.headers["Location"]).query))
    assert given["code"] != "the-code"
    assert given["state"] == "the-state"
    assert given["iss"] == hosted.rp.tenant["issuer"]


@pytest.mark.requirement("attack-41")
async def test_attack_41_existing_session_id_is_not_reused(hosted) -> None:
    first = await hosted.walk()
    before = hosted.browser.cookies[SSO]
    hosted.fake.userinfo = {"sub": "another", "email": f"{new_id()}@example.com", "email_verified": True}
    left = await hosted.leave(prompt="login")
    hosted.fake.id_claims = hosted.fake.claims(sub="another", nonce=left["nonce"])
    second = await hosted.come_back(left)
    assert hosted.browser.cookies[SSO] != before
    assert (await hosted.claims(first))["sub"] != (await hosted.claims(second))["sub"]
    hosted.browser.cookies.clear()
    hosted.browser.cookies.set(SSO, before)
    assert (await hosted.rp.authorize(hosted.browser)).status_code == 200, "the earlier session has ended"


@pytest.mark.requirement("attack-54")
async def test_attack_54_providers_and_logins_are_isolated_by_tenant(hosted, api) -> None:
    other = await relying_party.make(api)
    shown = await other.authorize(hosted.browser, idp_hint=hosted.provider_id)
    assert "does not exist" in shown.text
    assert "identityProviderId" not in shown.text
    # What left for one tenant comes back to it, whatever tenant the callback names.
    left = await hosted.leave()
    headers = {"X-FusionAuth-TenantId": other.tenant["id"]}
    given = {"code": "the-code", "state": left["state"], "tenantId": other.tenant["id"]}
    hosted.fake.id_claims = hosted.fake.claims(nonce=left["nonce"])
    answer = await hosted.browser.get(CALLBACK, params=given, headers=headers)
    assert relying_party.response(answer)["iss"] == hosted.rp.tenant["issuer"]
    users = await api.get("/api/user/search?queryString=*", headers=headers)
    assert [user["id"] for user in users.json()["users"]] == [other.user["id"]]
    shown = await other.authorize(hosted.browser)
    assert shown.status_code == 200, "a session of one tenant is nothing in another"


async def test_attack_54_provider_of_one_tenant_is_unavailable_to_others(hosted, api) -> None:
    """Even where its configuration names an application of another tenant."""
    other = await relying_party.make(api)
    place = {other.client_id: {"enabled": True}}
    oauth2 = {"issuer": hosted.fake.issuer, "client_id": "a", "client_secret": "b"}
    own = {"name": new_id(), "type": "OpenIDConnect", "oauth2": oauth2, "tenantId": hosted.rp.tenant["id"]}
    body = {"identityProvider": {**own, "enabled": True, "applicationConfiguration": place}}
    answer = await api.post("/api/identity-provider", json=body)
    assert answer.status_code == 400
    assert "identityProviderId" not in (await other.authorize(hosted.browser)).text


@pytest.mark.requirement("attack-14", "oauth-1.8-8")
async def test_attack_14_and_71_pages_and_cookies_have_security_headers(hosted) -> None:
    gone = await hosted.rp.authorize(hosted.browser, idp_hint=hosted.provider_id)
    (cookie,) = [value for value in gone.headers.get_list("Set-Cookie") if value.startswith(FEDERATED)]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Domain" not in cookie
    assert gone.headers["Cache-Control"] == "no-store"
    assert gone.headers["Referrer-Policy"] == "no-referrer"
    shown = await hosted.come_back(departure(gone), code=None, error="<script>")
    assert shown.headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in shown.headers["Content-Security-Policy"]
    assert "<script>" not in shown.text


async def test_attack_42_link_id_is_not_accepted_as_state(hosted) -> None:
    await hosted.scenario.change(linkingStrategy="CreatePendingLink")
    answer = await hosted.walk()
    assert answer.headers["Location"].startswith(f"{LINK_PAGE}?link=")
    link = answer.headers["Location"].rpartition("=")[2]
    left = await hosted.leave()
    await is_refused_here(await hosted.come_back(left, state=link))
    page = await hosted.browser.get(LINK_PAGE, params={"link": left["state"]})
    assert page.status_code == 400


async def test_redirects_are_limited_in_size_and_by_address(hosted, monkeypatch) -> None:
    monkeypatch.setattr(anonymous_request_limits, "ADDRESS_REQUESTS", 2)
    wanted = {"idp_hint": hosted.provider_id}
    large = await hosted.rp.authorize(hosted.browser, **wanted, state="s" * anonymous_request_limits.MAXIMUM_BYTES)
    assert "8192 bytes" in relying_party.response(large)["error_description"]
    for _ in range(2):
        await hosted.leave()
    refused = relying_party.response(await hosted.rp.authorize(hosted.browser, **wanted))
    assert refused["error"] == "invalid_request"
    assert "Too many requests" in refused["error_description"]
