"""/api/user/scope-consent: listing, reading and withdrawing consents."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import new_id
from tests import relying_party
from tests.oauth2.consenting import agree
from tests.receiver import receiving
from tests.subscriber import check_event
from tests.webhooks import subscribe

MEMBERS = {
    *("applicationId", "approved", "declined", "expirationInstant", "insertInstant"),
    *("lastUpdateInstant", "tenantId", "userId"),
}


@pytest.fixture
async def rp(api):
    """A third-party application whose consent is remembered for a limited time."""
    return await relying_party.make(api, relationship="ThirdParty", consentMode="RememberDecision")


def path(rp) -> str:
    return f"/api/user/scope-consent/{rp.user['id']}"


def of_tenant(rp) -> dict[str, str]:
    return {"X-FusionAuth-TenantId": rp.tenant["id"]}


@pytest.mark.requirement("oauth-1.9-28")
async def test_decisions_are_listed_newest_first(rp, browser, api, clock):
    await agree(rp, browser, "email")
    sibling = await relying_party.make(api, tenant=rp.tenant, relationship="ThirdParty", consentMode="RememberDecision")
    sibling.user = rp.user
    clock.advance(seconds=1)
    await agree(sibling, browser, "phone")
    answer = await api.get(path(rp), headers=of_tenant(rp))
    assert answer.status_code == 200
    newest, oldest = answer.json()["scopeConsents"]
    assert newest.keys() == oldest.keys() == MEMBERS
    assert (oldest["applicationId"], oldest["approved"], oldest["declined"]) == (rp.client_id, ["email"], ["phone"])
    assert (newest["applicationId"], newest["approved"], newest["declined"]) == (
        sibling.client_id, ["phone"], ["email"],
    )  # fmt: skip
    assert (oldest["userId"], oldest["tenantId"]) == (rp.user["id"], rp.tenant["id"])
    assert oldest["expirationInstant"] == oldest["lastUpdateInstant"] + 2_592_000_000
    one = await api.get(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp))
    assert one.json() == {"scopeConsent": oldest}


async def test_user_without_decisions_gets_an_empty_list(rp, api):
    assert (await api.get(path(rp), headers=of_tenant(rp))).json() == {"scopeConsents": []}
    for answer in (
        await api.get(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp)),
        await api.delete(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp)),
        await api.get(f"/api/user/scope-consent/{new_id()}", headers=of_tenant(rp)),
        await api.delete(f"/api/user/scope-consent/{new_id()}/{rp.client_id}", headers=of_tenant(rp)),
    ):
        assert (answer.status_code, answer.content) == (404, b"")


async def test_decision_that_expired_is_not_shown(rp, browser, api, clock):
    await agree(rp, browser, "email")
    clock.advance(seconds=2_592_000)
    assert (await api.get(path(rp), headers=of_tenant(rp))).json() == {"scopeConsents": []}
    assert (await api.get(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp))).status_code == 404


@pytest.mark.requirement("oauth-1.9-28")
async def test_withdrawal_revokes_tokens_of_one_application(rp, browser, http, api):
    sibling = await relying_party.make(api, tenant=rp.tenant)
    sibling.user = rp.user
    answer = await agree(rp, browser, "email", scope="openid offline_access email")
    tokens = (await rp.exchange(http, answer["code"])).json()
    others = await sibling.tokens(http, browser)
    assert (await api.delete(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp))).status_code == 200
    assert (await rp.refresh(http, tokens["refresh_token"])).json()["error_reason"] == "refresh_token_not_found"
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401
    again = await rp.authorize(browser, scope="openid email")
    assert again.headers["Location"].startswith("/oauth2/consent?")
    assert (await sibling.refresh(http, others["refresh_token"])).status_code == 200
    assert (await api.delete(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp))).status_code == 404


@pytest.mark.requirement("event-jwt.refresh-token.revoke-8")
async def test_withdrawal_sends_revocation_events(rp, browser, http, api):
    async with receiving() as receiver:
        kind = "jwt.refresh-token.revoke"
        webhook_id = await subscribe(api, rp.tenant, receiver.url, [kind])
        answer = await agree(rp, browser, "email", scope="openid offline_access email")
        await rp.exchange(http, answer["code"])
        await api.delete(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp))
        (request,) = await receiver.wait_for(1)
        await api.delete(f"/api/webhook/{webhook_id}")
    assert request.event["type"] == kind
    check_event(request.event)
    assert (request.event["userId"], request.event["applicationId"]) == (rp.user["id"], rp.client_id)


async def test_one_of_racing_withdrawals_succeeds(rp, browser, api):
    await agree(rp, browser, "email")
    url = f"{path(rp)}/{rp.client_id}"
    answers = await asyncio.gather(*(api.delete(url, headers=of_tenant(rp)) for _ in range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 15


@pytest.mark.requirement("oauth-1.9-28")
async def test_decisions_are_isolated_by_tenant(rp, browser, api):
    await agree(rp, browser, "email")
    stranger = of_tenant(await relying_party.make(api))
    assert (await api.get(path(rp), headers=stranger)).status_code == 404
    assert (await api.delete(f"{path(rp)}/{rp.client_id}", headers=stranger)).status_code == 404
    assert (await api.get(f"{path(rp)}/{rp.client_id}", headers=of_tenant(rp))).status_code == 200
