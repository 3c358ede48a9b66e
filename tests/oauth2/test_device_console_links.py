"""Accounts at console and game platforms in the device grant (`idp-link`), against fakes of each platform."""

from __future__ import annotations

from typing import Any

import pytest

from identity.ids import new_id
from identity.operations.providers import console_tokens
from tests import fake_consoles, relying_party
from tests.fake_consoles import CLIENT_ID, SECRET, WEB_API_KEY, FakeConsoles
from tests.oauth2.devices import Device, device_client
from tests.oauth2.test_device_links import Document, add_provider, approve, begin, links, refused
from tests.relying_party import RelyingParty, claims

TYPES = ["EpicGames", "Nintendo", "SonyPSN", "Steam", "Xbox"]
STATES_CLIENT = ["EpicGames", "Nintendo", "SonyPSN", "Steam"]


@pytest.fixture
async def rp(api: Any) -> RelyingParty:
    return await device_client(api)


@pytest.fixture
async def consoles(session_clock: Any, monkeypatch: Any) -> Any:
    """The platforms, at whose addresses the service finds the fakes."""
    async with fake_consoles.running(session_clock) as running:
        for name, url in running.endpoints().items():
            monkeypatch.setitem(console_tokens.ENDPOINTS, name, url)
        yield running


async def provider_of(rp: RelyingParty, kind: str, **members: Any) -> Document:
    usual = {"client_id": CLIENT_ID} | ({"webAPIKey": WEB_API_KEY} if kind == "Steam" else {"client_secret": SECRET})
    return await add_provider(rp, type=kind, **{**usual, **members})


def an_account(kind: str) -> str:
    return str(new_id().translate({ord(c): str(ord(c) % 10) for c in "abcdef-"})) if kind == "Steam" else new_id()


async def a_token(consoles: FakeConsoles, kind: str, account: str, client_id: str = CLIENT_ID) -> str:
    if kind == "Nintendo":
        return await consoles.issue_jwt(account, aud=client_id)
    return consoles.issue(account, client_id)


@pytest.mark.requirement("audit-d3")
@pytest.mark.parametrize("kind", TYPES)
async def test_account_is_linked_when_the_device_is_approved(rp, http, consoles, kind):
    provider, account = await provider_of(rp, kind), an_account(kind)
    token = await a_token(consoles, kind, account)
    device = await Device.begin(rp, http, scope=f"openid idp-link:{provider['id']}:{token} offline_access")
    about = await http.post("/oauth2/device/user-code", data={"client_id": rp.client_id, "user_code": device.user_code})
    assert about.json()["pendingIdPLink"] == {
        "displayName": "Player One",
        "identityProviderId": provider["id"],
        "identityProviderName": provider["name"],
        "identityProviderType": kind,
        "identityProviderUserId": account,
    }
    assert token not in about.text
    assert await links(rp) == []
    approved = await approve(rp, http, device)
    assert approved.status_code == 200, approved.text
    assert "token" not in approved.json()["identityProviderLink"]
    (link,) = await links(rp)
    assert link["identityProviderUserId"] == account
    assert link.get("token") == (token if kind in {"Nintendo", "SonyPSN", "Steam"} else None)
    tokens = await device.tokens()
    assert tokens["scope"] == "openid offline_access"
    assert "idp-link" not in str(claims(tokens["access_token"]))


@pytest.mark.requirement("audit-d3")
@pytest.mark.parametrize("kind", TYPES)
async def test_unknown_token_is_rejected_immediately_without_being_repeated(rp, http, consoles, kind):
    provider = await provider_of(rp, kind)
    for token in (new_id(), "", "x.y.z", f"{await a_token(consoles, kind, an_account(kind))}:a:b"):
        answer = await begin(rp, http, f"idp-link:{provider['id']}:{token}")
        refused(answer, "cannot be trusted")
        assert not token or token not in answer.text


@pytest.mark.requirement("audit-d3")
@pytest.mark.parametrize("kind", STATES_CLIENT)
async def test_token_of_another_client_is_refused(rp, http, consoles, kind):
    provider = await provider_of(rp, kind)
    token = await a_token(consoles, kind, an_account(kind), "another-client")
    refused(await begin(rp, http, f"idp-link:{provider['id']}:{token}"), "cannot be trusted")


@pytest.mark.requirement("audit-d3")
@pytest.mark.parametrize("kind", STATES_CLIENT)
async def test_client_override_of_an_application_is_used(rp, http, consoles, kind):
    own = {rp.client_id: {"enabled": True, "client_id": "own-client"}}
    provider = await provider_of(rp, kind, applicationConfiguration=own)
    token = await a_token(consoles, kind, an_account(kind), "own-client")
    assert (await begin(rp, http, f"idp-link:{provider['id']}:{token}")).status_code == 200
    token = await a_token(consoles, kind, an_account(kind))
    refused(await begin(rp, http, f"idp-link:{provider['id']}:{token}"), "cannot be trusted")


@pytest.mark.requirement("audit-d3")
@pytest.mark.parametrize("mode", ["Public", "Partner"])
async def test_steam_accepts_an_application_id_and_a_session_ticket(rp, http, consoles, mode):
    provider, account = await provider_of(rp, "Steam", apiMode=mode), an_account("Steam")
    ticket = consoles.issue_ticket(account)
    device = await Device.begin(rp, http, scope=f"idp-link:{provider['id']}:480:{ticket}")
    assert (await approve(rp, http, device)).status_code == 200
    assert [link["identityProviderUserId"] for link in await links(rp)] == [account]
    paths = {request.path.split("/")[1] for request in consoles.receiver.requests}
    assert paths == {mode.lower()}
    refused(await begin(rp, http, f"idp-link:{provider['id']}:440:{ticket}"), "cannot be trusted")
    refused(await begin(rp, http, f"idp-link:{provider['id']}:480:{'0' * 32}"), "cannot be trusted")


@pytest.mark.requirement("audit-d3")
async def test_nintendo_token_must_be_a_live_access_token_signed_by_nintendo(rp, http, consoles):
    provider = await provider_of(rp, "Nintendo")
    for changes in ({"exp": 1}, {"iss": "https://evil.example.com"}, {"typ": "id_token"}, {"sub": "another user"}):
        token = await consoles.issue_jwt(new_id(), **changes)
        refused(await begin(rp, http, f"idp-link:{provider['id']}:{token}"), "cannot be trusted")
    good = await consoles.issue_jwt(new_id())
    refused(await begin(rp, http, f"idp-link:{provider['id']}:{good[:-4]}AAAA"), "cannot be trusted")


@pytest.mark.requirement("audit-d3")
@pytest.mark.parametrize(
    ("kind", "path", "answer"),
    [
        ("EpicGames", "/epic/id/v2/accounts", [{"accountId": "another", "displayName": "x"}]),
        ("EpicGames", "/epic/id/v2/accounts", {"accountId": "x"}),
        ("EpicGames", "/epic/oauth/v2/tokenInfo", [1]),
        ("Nintendo", "/2.0.0/users/me", {"id": "another"}),
        ("Nintendo", "/1.0.0/certificates", {"keys": "x"}),
        ("Steam", "/public/ISteamUser/GetPlayerSummaries/v2/", {"response": {"players": []}}),
        ("Steam", "/public/ISteamUserOAuth/GetTokenDetails/v1/", {"response": {"steamid": "../1"}}),
        ("Xbox", "/xsts/authorize", {"DisplayClaims": {"xui": []}}),
        ("Xbox", "/xsts/authorize", {"DisplayClaims": None}),
        ("Xbox", "/user/authenticate", []),
    ],
)
async def test_unexpected_platform_response_links_no_account(rp, http, consoles, kind, path, answer):
    provider, account = await provider_of(rp, kind), an_account(kind)
    token = await a_token(consoles, kind, account)
    consoles.changed[path] = answer
    refused(await begin(rp, http, f"idp-link:{provider['id']}:{token}"), "cannot be trusted")


@pytest.mark.requirement("audit-d3")
async def test_unavailable_platform_rejects_the_device_without_logging_tokens(rp, http, consoles, monkeypatch, api):
    provider = await provider_of(rp, "SonyPSN", debug=True)
    monkeypatch.setitem(console_tokens.ENDPOINTS, "sony_token_info", "http://127.0.0.1:1/2.0/oauth/token")
    token = consoles.issue(new_id())
    refused(await begin(rp, http, f"idp-link:{provider['id']}:{token}"), "cannot be trusted")
    found = await api.get("/api/system/event-log/search", params={"message": provider["id"], "numberOfResults": 100})
    logged = found.text
    assert provider["id"] in logged
    assert token not in logged


@pytest.mark.requirement("audit-d3")
async def test_account_of_another_user_is_not_linked(rp, http, consoles):
    provider, account = await provider_of(rp, "Xbox"), new_id()
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    scope = f"idp-link:{provider['id']}:{consoles.issue(account)}"
    first, second = [await Device.begin(rp, http, scope=scope) for _ in range(2)]
    assert (await approve(rp, http, first)).status_code == 200
    assert "another user" in (await approve(rp, http, second, other)).json()["error_description"]
    assert await links(rp, other) == []
