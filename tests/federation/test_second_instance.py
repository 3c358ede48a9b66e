"""A login at a second running instance by the real code flow."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests import relying_party
from tests.federation.conftest import EVENTS, Scenario
from tests.relying_party import CHALLENGE, PKCE, REDIRECT_URI, VERIFIER, RelyingParty

Document = dict[str, Any]


@pytest.fixture
async def federated(scenario: Scenario, there: RelyingParty) -> Scenario:
    """Our application, whose users log in at the other instance; its issuer says all there is to know."""
    oauth2 = {"issuer": there.tenant["issuer"], "client_id": there.client_id, "client_secret": there.secret}
    await scenario.add_provider(type="OpenIDConnect", oauth2={**oauth2, "scope": "openid email profile offline_access"})
    return scenario


async def code(there: RelyingParty, browser: httpx.AsyncClient, **changes: Any) -> str:
    return await there.code(browser, scope="openid email profile offline_access", **changes)


@pytest.mark.requirement("core-11-18", "core-11-39")
async def test_first_login_creates_user_link_and_registration(federated, there, browser_there) -> None:
    answer = await federated.logged_in(data={"code": await code(there, browser_there)})
    user = answer["user"]
    assert user["email"] == there.user["email"]
    assert user["verified"] is True
    assert user["id"] != there.user["id"]
    (registration,) = user["registrations"]
    assert (registration["applicationId"], registration["roles"]) == (federated.application["id"], ["user"])
    claims = relying_party.claims(answer["token"])
    assert claims["aud"] == federated.application["id"]
    assert claims["sub"] == user["id"]
    assert claims["authenticationType"] == "OPENID_CONNECT"
    assert claims["roles"] == ["user"]
    assert claims["iss"] == federated.tenant["issuer"]
    assert answer["tokenExpirationInstant"] // 1000 == claims["exp"]
    assert "refreshToken" not in answer
    (link,) = await federated.links(user["id"])
    assert link["identityProviderUserId"] == there.user["id"]
    assert link["displayName"] == there.user["email"]
    assert link["identityProviderName"] == federated.provider["name"]
    assert link["identityProviderType"] == "OpenIDConnect"
    assert link["tenantId"] == federated.tenant["id"]
    assert len(link["token"]) == 64, "the refresh token of the other instance"


@pytest.mark.requirement("core-11-31")
async def test_later_logins_find_the_same_user_by_link(federated, there, browser_there) -> None:
    first = await federated.logged_in(data={"code": await code(there, browser_there)})
    await federated.api.patch(f"/api/user/{first['user']['id']}", json={"user": {"email": "another@example.com"}})
    again = await federated.logged_in(data={"code": await code(there, browser_there)})
    assert again["user"]["id"] == first["user"]["id"]
    assert again["user"]["email"] == "another@example.com"
    assert await federated.count_users() == 1
    before, after = first["user"]["lastLoginInstant"], again["user"]["lastLoginInstant"]
    assert after >= before
    (link,) = await federated.links(first["user"]["id"])
    assert link["lastLoginInstant"] >= link["insertInstant"]


@pytest.mark.requirement("core-11-30")
async def test_code_verifier_is_forwarded(federated, there, browser_there) -> None:
    assert CHALLENGE
    data = {"code": await code(there, browser_there, **PKCE), "code_verifier": VERIFIER}
    assert (await federated.logged_in(data=data))["user"]["email"] == there.user["email"]
    data = {"code": await code(there, browser_there, **PKCE), "code_verifier": "x" * 43}
    answer = await federated.log_in(data=data)
    assert answer.status_code == 400
    assert answer.json()["generalErrors"][0]["code"] == "[ExternalAuthenticationException]OpenIDConnectToken"


async def test_code_can_be_used_once(federated, there, browser_there) -> None:
    data = {"code": await code(there, browser_there)}
    await federated.logged_in(data=data)
    assert (await federated.log_in(data=data)).status_code == 400


@pytest.mark.requirement("core-11-30")
async def test_nonce_is_checked_in_the_id_token(federated, there, browser_there) -> None:
    data = {"code": await code(there, browser_there, nonce="the-nonce"), "nonce": "the-nonce"}
    await federated.logged_in(data=data)
    data = {"code": await code(there, browser_there, nonce="another"), "nonce": "the-nonce"}
    assert (await federated.log_in(data=data)).status_code == 401


@pytest.mark.requirement("core-11-19")
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_the_client_authenticates_as_configured(federated, there, browser_there, method) -> None:
    await federated.change(oauth2={"clientAuthenticationMethod": method})
    await federated.logged_in(data={"code": await code(there, browser_there)})
    await federated.change(oauth2={"client_secret": "wrong"})
    assert (await federated.log_in(data={"code": await code(there, browser_there)})).status_code == 400


@pytest.mark.requirement("core-11-19")
async def test_public_client_authenticates_by_pkce(federated, there, browser_there) -> None:
    await there.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    await federated.change(oauth2={"clientAuthenticationMethod": "none"})
    data = {"code": await code(there, browser_there, **PKCE), "code_verifier": VERIFIER}
    await federated.logged_in(data=data)


@pytest.mark.requirement("core-11-6")
async def test_application_may_override_the_client(federated, there, browser_there) -> None:
    own = await relying_party.make(there.api, tenant=there.tenant)
    place = {"oauth2": {"client_id": own.client_id, "client_secret": own.secret}}
    await federated.change(applicationConfiguration={federated.application["id"]: place})
    data = {"code": await own.code(browser_there, scope="openid email"), "redirect_uri": REDIRECT_URI}
    assert (await federated.logged_in(data=data))["user"]["email"] == own.user["email"]


async def test_code_of_another_client_is_rejected(federated, there, browser_there) -> None:
    stranger = await relying_party.make(there.api, tenant=there.tenant)
    data = {"code": await stranger.code(browser_there, scope="openid email")}
    assert (await federated.log_in(data=data)).status_code == 400
    assert await federated.count_users() == 0


@pytest.mark.requirement("core-11-9")
async def test_reconcile_lambda_updates_user_and_registration(federated, there, browser_there) -> None:
    body = """
    function reconcile(user, registration, jwt, idToken, tokens) {
      user.firstName = 'From ' + jwt.email;
      user.data.issuer = idToken.iss;
      user.data.hasAccessToken = tokens.access_token.length > 100;
      user.email = 'stolen@example.com';
      user.verified = false;
      registration.roles = ['admin'];
      registration.data.seen = true;
    }
    """
    await federated.change(lambdaConfiguration={"reconcileId": await federated.make_lambda(body)})
    user = (await federated.logged_in(data={"code": await code(there, browser_there)}))["user"]
    assert user["firstName"] == f"From {there.user['email']}"
    assert user["data"] == {"hasAccessToken": True, "issuer": there.tenant["issuer"]}
    assert (user["email"], user["verified"]) == (there.user["email"], True)
    (registration,) = user["registrations"]
    assert (registration["roles"], registration["data"]) == (["admin"], {"seen": True})
    assert (await federated.user(user["id"]))["firstName"] == user["firstName"]


@pytest.mark.requirement(
    "core-11-40", "event-user.create-3", "event-user.identity-provider.link-2", "event-user.login.success"
)
async def test_login_sends_all_events(federated, there, browser_there, receiver) -> None:
    await federated.subscribe(receiver)
    user = (await federated.logged_in(data={"code": await code(there, browser_there)}, newDevice=True))["user"]
    absent = {"user.identity-provider.unlink", "user.login.failed", "user.update", "user.update.complete"}
    expected = set(EVENTS) - absent
    events = {request.event["type"]: request.event for request in await receiver.wait_for(len(expected))}
    assert set(events) == expected
    success = events["user.login.success"]
    assert success["authenticationType"] == "OPENID_CONNECT"
    assert success["identityProviderId"] == federated.provider["id"]
    assert success["identityProviderName"] == federated.provider["name"]
    assert success["applicationId"] == federated.application["id"]
    assert success["connectorId"] == "e3306678-a53a-4964-9040-1c96f36dda72"
    assert success["user"]["lastLoginInstant"] == user["lastLoginInstant"]
    link = events["user.identity-provider.link"]["identityProviderLink"]
    assert (link["userId"], link["identityProviderUserId"]) == (user["id"], there.user["id"])
    assert "token" not in link
    assert events["user.registration.create"]["registration"]["applicationId"] == federated.application["id"]
    assert {event["user"]["id"] for event in events.values()} == {user["id"]}
    assert {event["tenantId"] for event in events.values()} == {federated.tenant["id"]}


@pytest.mark.requirement("core-11-40", "event-user.update-3")
async def test_later_login_sends_update_events(federated, there, browser_there, receiver) -> None:
    await federated.logged_in(data={"code": await code(there, browser_there)})
    await federated.subscribe(receiver)
    await federated.logged_in(data={"code": await code(there, browser_there)})
    events = {request.event["type"]: request.event for request in await receiver.wait_for(3)}
    assert set(events) == {"user.login.success", "user.update", "user.update.complete"}
    assert events["user.update"]["original"]["email"] == events["user.update"]["user"]["email"]


@pytest.mark.requirement("core-11-38")
async def test_concurrent_first_logins_create_one_user(federated, there, browser_there) -> None:
    codes = [await code(there, browser_there) for _ in range(12)]
    answers = await asyncio.gather(*(federated.logged_in(data={"code": one}) for one in codes))
    assert len({answer["user"]["id"] for answer in answers}) == 1
    assert await federated.count_users() == 1
    assert len(await federated.links(answers[0]["user"]["id"])) == 1
