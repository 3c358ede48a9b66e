"""`idp-link` in the device grant: verified immediately, linked on approval."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.conftest import checking_client
from tests.fake_provider import FakeProvider, make_key, providing, signed
from tests.oauth2.devices import Device, device_client
from tests.receiver import receiving
from tests.relying_party import PASSWORD, RelyingParty, claims, page
from tests.subscriber import check_event
from tests.webhooks import subscribe

Document = dict[str, Any]


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    return await device_client(api)


@pytest.fixture(scope="module")
async def key() -> Document:
    """The key of the provider."""
    return await make_key(kid="theirs")


async def add_provider(rp: RelyingParty, **members: Any) -> Document:
    wanted = {"name": f"Provider {new_id()}", "enabled": True, "tenantId": rp.tenant["id"], **members}
    wanted.setdefault("applicationConfiguration", {rp.client_id: {"enabled": True}})
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await rp.api.post("/api/identity-provider", json={"identityProvider": wanted}, headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["identityProvider"])


@pytest.fixture
async def provider(rp: RelyingParty, key: Document) -> Document:
    """An external JWT provider."""
    return await add_provider(rp, type="ExternalJWT", keys={"theirs": key["publicKey"]})


async def jwt(key: Document, session_clock: Any, account: str, **changes: Any) -> str:
    now = session_clock.now() // 1000
    given = {"sub": account, "preferred_username": "player one", "iat": now, "exp": now + 300, **changes}
    return await signed(key, given)


async def begin(rp: RelyingParty, http: httpx.AsyncClient, scope: str) -> httpx.Response:
    return await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id, "scope": scope})


async def approve(
    rp: RelyingParty, http: httpx.AsyncClient, device: Device, user: Document | None = None
) -> httpx.Response:
    login_id = rp.login_id if user is None else user["email"]
    token = (await rp.token(http, grant_type="password", username=login_id, password=PASSWORD)).json()["access_token"]
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token, "user_code": device.user_code}
    return await http.post("/oauth2/device/approve", data=form)


def refused(answer: httpx.Response, text: str) -> None:
    assert answer.status_code == 400
    body = answer.json()
    assert (body["error"], body["error_reason"]) == ("invalid_scope", "unknown_scope")
    assert text in body["error_description"]


async def links(rp: RelyingParty, user: Document | None = None) -> list[Document]:
    query = {"userId": (user or rp.user)["id"]}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    answer = await rp.api.get("/api/identity-provider/link", params=query, headers=headers)
    return list(answer.json()["identityProviderLinks"])


@pytest.mark.requirement("contract-device-1", "event-user.identity-provider.link-2", "oauth-3-4")
async def test_account_is_linked_after_device_approval(rp, http, provider, key, session_clock):
    account = new_id()
    token = await jwt(key, session_clock, account)
    device = await Device.begin(rp, http, scope=f"openid idp-link:{provider['id']}:{token} offline_access")
    about = await http.post("/oauth2/device/user-code", data={"client_id": rp.client_id, "user_code": device.user_code})
    assert "scope" not in about.json()
    shown = {
        "displayName": "player one",
        "identityProviderId": provider["id"],
        "identityProviderName": provider["name"],
        "identityProviderType": "ExternalJWT",
        "identityProviderUserId": account,
    }
    assert about.json()["pendingIdPLink"] == shown
    assert await links(rp) == []
    async with receiving() as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, ["user.identity-provider.link"])
        answer = await approve(rp, http, device)
        assert answer.status_code == 200, answer.text
        (request,) = await receiver.wait_for(1)
    link = answer.json()["identityProviderLink"]
    assert link.items() >= shown.items()
    assert link.keys() >= {"insertInstant", "lastLoginInstant"}
    assert "token" not in link
    assert request.event["type"] == "user.identity-provider.link"
    check_event(request.event)
    assert request.event["identityProviderLink"]["identityProviderUserId"] == account
    assert [found["identityProviderUserId"] for found in await links(rp)] == [account]
    tokens = await device.tokens()
    assert tokens["scope"] == "openid offline_access"
    assert "idp-link" not in str(claims(tokens["access_token"]))


@pytest.mark.requirement("oauth-3-4")
async def test_account_of_another_user_is_not_linked_and_the_grant_stays_pending(
    rp, http, provider, key, session_clock
):
    account, other = new_id(), await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    scope = f"idp-link:{provider['id']}:{await jwt(key, session_clock, account)}"
    first, second = [await Device.begin(rp, http, scope=scope) for _ in range(2)]
    assert (await approve(rp, http, first)).status_code == 200
    answer = await approve(rp, http, second, other)
    assert (answer.json()["error"], answer.json()["error_reason"]) == ("invalid_request", "unknown")
    assert "another user" in answer.json()["error_description"]
    assert await links(rp, other) == []
    assert (await second.poll()).json()["error"] == "authorization_pending"
    assert (await approve(rp, http, second)).status_code == 200
    assert len(await links(rp)) == 1


@pytest.mark.requirement("oauth-3-9")
async def test_page_shows_the_account_and_the_result(rp, http, service, provider, key, session_clock):
    account = new_id()
    scope = f"idp-link:{provider['id']}:{await jwt(key, session_clock, account)}"
    first, second = [await Device.begin(rp, http, scope=scope) for _ in range(2)]
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    async with checking_client(service.base_url, follow_redirects=True) as browser:
        last = await connected(rp, browser, first, rp.login_id)
        assert f"Your account at {provider['name']} is now linked" in page(last).text
    async with checking_client(service.base_url, follow_redirects=True) as browser:
        last = await connected(rp, browser, second, other["email"])
        assert "try again with another one" in page(last).text
        assert provider["name"] not in page(last).text
    assert (await second.poll()).json()["error"] == "authorization_pending"


async def connected(rp: RelyingParty, browser: httpx.AsyncClient, device: Device, login_id: str) -> httpx.Response:
    """The last page after a user allowed a device with an account to link."""
    shown = await browser.get("/oauth2/device", params={"client_id": rp.client_id})
    for fields in (
        {"interactive_user_code": device.user_code}, {"loginId": login_id, "password": PASSWORD}, {"action": "allow"},
    ):  # fmt: skip
        form = page(shown).forms[0]
        assert "action" not in fields or "player one" in page(shown).text
        shown = await browser.post(form["action"], data={**form["fields"], **fields})
    return shown


@pytest.mark.requirement("oauth-3-4")
async def test_untrusted_token_is_rejected_immediately(rp, http, provider, key, session_clock):
    stranger = await make_key(kid="theirs")
    good = await jwt(key, session_clock, "person")
    for token in (
        "",
        "x.y.z",
        f"{good}:second",
        f"{good[:-4]}AAAA",
        await jwt(stranger, session_clock, "person"),
        await jwt(key, session_clock, "person", exp=1),
    ):
        answer = await begin(rp, http, f"openid idp-link:{provider['id']}:{token}")
        refused(answer, "cannot be trusted")
        assert provider["name"] in answer.json()["error_description"]
        assert not token or token not in answer.text


@pytest.mark.requirement("contract-device-1")
async def test_only_supported_providers_are_accepted(rp, http, provider, key, session_clock):
    token = await jwt(key, session_clock, "person")
    other = await add_provider(rp, type="LinkedIn", client_id="x", client_secret="x")
    refused(await begin(rp, http, f"idp-link:{other['id']}:{token}"), "of type LinkedIn")
    keys = {"theirs": key["publicKey"]}
    off = await add_provider(rp, type="ExternalJWT", keys=keys, applicationConfiguration={})
    closed = await add_provider(rp, type="ExternalJWT", keys=keys, linkingStrategy="Disabled")
    for provider_id in (off["id"], new_id(), "x"):
        refused(await begin(rp, http, f"idp-link:{provider_id}:{token}"), "unknown")
    refused(await begin(rp, http, f"idp-link:{closed['id']}:{token}"), "does not support links")
    both = f"idp-link:{provider['id']}:{token} idp-link:{closed['id']}:{token}"
    refused(await begin(rp, http, both), "Only one account")


@pytest.mark.requirement("oauth-3-12")
async def test_provider_of_another_tenant_is_unknown(rp, http, api, provider, key, session_clock):
    other = await device_client(api)
    token = await jwt(key, session_clock, "person")
    refused(await begin(other, http, f"idp-link:{provider['id']}:{token}"), "unknown")


@pytest.mark.requirement("oauth-3-4")
async def test_id_token_of_an_openid_provider_names_the_account(rp, http, session_clock):
    async with providing(session_clock) as fake:
        oauth2 = {"issuer": fake.issuer, "client_id": fake.client_id, "client_secret": "secret"}
        provider = await add_provider(rp, type="OpenIDConnect", oauth2=oauth2)
        account = new_id()
        device = await Device.begin(rp, http, scope=await link_scope(provider, fake, sub=account))
        for changes in ({"aud": "another-client"}, {"iss": "https://other.example.com"}, {"exp": 1}, {"sub": None}):
            refused(await begin(rp, http, await link_scope(provider, fake, **changes)), "cannot be trusted")
        answer = await approve(rp, http, device)
    assert answer.json()["identityProviderLink"]["identityProviderUserId"] == account


async def link_scope(provider: Document, fake: FakeProvider, **changes: Any) -> str:
    return f"idp-link:{provider['id']}:{await signed(fake.key, fake.claims(**changes))}"


async def test_provider_without_issuer_cannot_verify_id_tokens(rp, http, key, session_clock):
    endpoints = {f"{name}_endpoint": "https://provider.example.com" for name in ("authorization", "token", "userinfo")}
    provider = await add_provider(
        rp, type="OpenIDConnect", oauth2={"client_id": "x", "client_secret": "x", **endpoints}
    )
    token = await jwt(key, session_clock, "person")
    refused(await begin(rp, http, f"idp-link:{provider['id']}:{token}"), "cannot be trusted")
