"""Email linking to accounts with unverified addresses (account pre-hijacking) revokes earlier credentials."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests import internals
from tests.conftest import checking_client
from tests.federation.test_strategies import set_claims
from tests.hosted.signing_up import press
from tests.hosted.test_account_phone import change_number, messenger, says
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD
from tests.subscriber import Subscriber
from tests.two_factor import authenticator

__all__ = ["messenger"]


@pytest.fixture
async def unverified(federated, service):
    """An account under an unverified address, with its refresh token."""
    await federated.configure(loginConfiguration={"generateRefreshTokens": True})
    user = await federated.make_user(registered=True)
    await unverify(federated, service, user)
    entered = await login(federated, user)
    assert entered.status_code == 200, entered.text
    return {**user, "refreshToken": entered.json()["refreshToken"]}


async def unverify(federated, service, user, **private) -> None:
    users, tenant_id = internals.store(service, "users"), federated.tenant["id"]
    stored = await users.get(tenant_id, user["id"])
    kept = {name: value for name, value in stored.items() if name != "verifiedInstant"}
    changed = {**kept, "verified": False, "lastUpdateInstant": stored["lastUpdateInstant"] + 1}
    changed["private"] = {**stored["private"], "verifiedReason": "Disabled", **private}
    await users.replace(tenant_id, changed, stored["lastUpdateInstant"], None)


async def login(federated, user):
    body = {"loginId": user["email"], "password": PASSWORD, "applicationId": federated.application["id"]}
    return await federated.api.post("/api/login", json=body)


@pytest.mark.requirement("audit-a7")
async def test_link_to_an_unverified_account_ends_password_and_refresh_tokens(federated, fake, unverified) -> None:
    set_claims(fake, email=unverified["email"])
    found = (await federated.logged_in())["user"]
    assert (found["id"], found["verified"]) == (unverified["id"], True)
    assert (await login(federated, unverified)).status_code == 404
    refreshed = await federated.api.post("/api/jwt/refresh", json={"refreshToken": unverified["refreshToken"]})
    assert refreshed.status_code in {400, 401}
    assert (await federated.logged_in())["user"]["id"] == unverified["id"]


@pytest.mark.requirement("audit-a7")
async def test_link_to_an_unverified_account_ends_second_factors_and_other_links(federated, fake, unverified) -> None:
    factor = {"methods": [authenticator()], "recoveryCodes": ["ABCDE-FGHIJ"]}
    await federated.patch(f"/api/user/{unverified['id']}", {"user": {"twoFactor": factor}})
    link = {"identityProviderId": federated.provider["id"], "identityProviderUserId": new_id()}
    await federated.api.post(
        "/api/identity-provider/link", json={"identityProviderLink": {**link, "userId": unverified["id"]}}
    )
    person = set_claims(fake, email=unverified["email"])
    async with receiving() as receiver:
        subscriber = Subscriber(federated.api, receiver, federated.tenant["id"])
        await subscriber.subscribe(["user.identity-provider.unlink", "user.two-factor.method.remove"])
        await federated.logged_in()
        received = await subscriber.received("user.identity-provider.unlink", "user.two-factor.method.remove")
    assert {event["user"]["id"] for event in received} == {unverified["id"]}
    assert (await federated.user(unverified["id"]))["twoFactor"]["methods"] == []
    (left,) = await federated.links(unverified["id"])
    assert left["identityProviderUserId"] == person["sub"]


@pytest.mark.requirement("audit-a7")
async def test_link_to_a_verified_account_keeps_its_password(federated, fake) -> None:
    user = await federated.make_user(registered=True)
    set_claims(fake, email=user["email"])
    assert (await federated.logged_in())["user"]["id"] == user["id"]
    assert (await login(federated, user)).status_code == 200


@pytest.mark.requirement("audit-a7")
async def test_account_with_a_verified_phone_number_gets_a_pending_link(federated, fake, service) -> None:
    user = await federated.make_user(registered=True, phoneNumber="+14155550123")
    proof = {"value": "+14155550123", "verifiedInstant": 1, "verifiedReason": "Completed"}
    await unverify(federated, service, user, verifiedPhone=proof)
    set_claims(fake, email=user["email"])
    assert set(await federated.logged_in(232)) == {"pendingIdPLinkId"}
    assert await federated.links(user["id"]) == []
    assert (await login(federated, user)).status_code == 200


@pytest.mark.requirement("audit-a7")
async def test_veto_of_the_link_changes_nothing(federated, fake, unverified) -> None:
    set_claims(fake, email=unverified["email"])
    async with receiving(answers(500)) as receiver:
        subscriber = Subscriber(federated.api, receiver, federated.tenant["id"])
        await subscriber.subscribe(["user.email.verified"], "AbsoluteMajority")
        assert (await federated.log_in()).status_code == 504
        await subscriber.subscribe([], "None")
    assert (await federated.user(unverified["id"]))["verified"] is False
    assert await federated.links(unverified["id"]) == []
    assert (await login(federated, unverified)).status_code == 200


@pytest.mark.requirement("audit-a7")
async def test_session_of_the_earlier_registrant_ends(hosted, fake, browser, service) -> None:
    await hosted.rp.log_in(browser)
    user = hosted.rp.user
    await unverify(hosted.scenario, service, user)
    stored = await internals.store(service, "users").get(hosted.scenario.tenant["id"], user["id"])
    if "email" not in stored:
        await hosted.scenario.patch(f"/api/user/{user['id']}", {"user": {"email": f"{new_id()}@example.com"}})
        await unverify(hosted.scenario, service, user)
        stored = await internals.store(service, "users").get(hosted.scenario.tenant["id"], user["id"])
    set_claims(fake, email=stored["email"])
    await hosted.scenario.logged_in()
    assert (await hosted.rp.authorize(browser)).status_code == 200


@pytest.fixture
def rp(hosted):
    """The relying party of the application whose users may also log in at the fake provider."""
    return hosted.rp


@pytest.mark.requirement("audit-a7")
async def test_link_that_revokes_a_change_of_the_phone_number_ends(
    hosted, rp, fake, browser, messenger, service
) -> None:
    _, _, link = await change_number(rp, browser, messenger)
    user, email = rp.user, f"{new_id()}@example.com"
    await hosted.scenario.patch(f"/api/user/{user['id']}", {"user": {"email": email, "phoneNumber": None}})
    await unverify(hosted.scenario, service, user)
    set_claims(fake, email=email)
    assert (await hosted.scenario.logged_in())["user"]["id"] == user["id"]
    async with checking_client(service.base_url) as registrant:
        assert says(await press(registrant, await registrant.get(link)), "no longer valid")
    assert "phoneNumber" not in await hosted.scenario.user(user["id"])
