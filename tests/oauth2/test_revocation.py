"""Revocation (RFC 7009): revoked and remaining tokens, permissions, and events."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import new_id, new_secret
from tests import internals, relying_party
from tests.receiver import Receiver
from tests.relying_party import PKCE, VERIFIER, claims
from tests.webhooks import subscribe

EVENT = "jwt.refresh-token.revoke"


async def revoke(rp, http, token: str | None, *, path: str = "", **form: str | None):
    merged = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token, **form}
    given = {name: value for name, value in merged.items() if value is not None}
    answer = await http.post(f"{path}/oauth2/revoke", data=given)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    return answer


async def ended(rp, http, token: str, **form: str | None) -> None:
    answer = await revoke(rp, http, token, **form)
    assert (answer.status_code, answer.content) == (200, b""), answer.text
    assert "Content-Type" not in answer.headers


def refused(answer, status: int, error: str, reason: str) -> None:
    assert answer.status_code == status, answer.text
    assert (answer.json()["error"], answer.json()["error_reason"]) == (error, reason)
    assert answer.headers.get("WWW-Authenticate") == ('Basic realm="oauth2"' if status == 401 else None)


async def opens(http, access_token: str) -> bool:
    answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {access_token}"})
    assert answer.status_code in {200, 401}
    return answer.status_code == 200


async def is_active(rp, http, token: str, hint: str = "") -> bool:
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token, "token_type_hint": hint}
    return bool((await http.post("/oauth2/introspect", data=form)).json()["active"])


@pytest.fixture
async def receiver(rp, api, receiver) -> Receiver:
    """Receives the revocation events of the tenant."""
    await subscribe(api, rp.tenant, receiver.url, [EVENT])
    return receiver


@pytest.mark.requirement("oauth-12-1")
async def test_refresh_token_is_revoked_with_its_access_tokens(rp, browser, http):
    first = await rp.tokens(http, browser)
    second = (await rp.refresh(http, first["refresh_token"])).json()
    other = await rp.tokens(http, browser)
    await ended(rp, http, first["refresh_token"])
    refused(await rp.refresh(http, first["refresh_token"]), 400, "invalid_grant", "refresh_token_not_found")
    for tokens in (first, second):
        assert not await opens(http, tokens["access_token"])
        assert not await is_active(rp, http, tokens["access_token"])
    assert not await is_active(rp, http, first["refresh_token"], "refresh_token")
    assert await opens(http, other["access_token"])
    assert (await rp.refresh(http, other["refresh_token"])).status_code == 200


@pytest.mark.requirement("oauth-12-1")
async def test_access_token_is_revoked_alone_until_it_expires(rp, browser, http, service, clock):
    tokens = await rp.tokens(http, browser)
    clock.advance(seconds=600)
    await ended(rp, http, tokens["access_token"])
    assert not await opens(http, tokens["access_token"])
    assert not await is_active(rp, http, tokens["access_token"])
    redis, token_id = internals.redis(service), claims(tokens["access_token"])["jti"]
    keys = [key async for key in redis.client.scan_iter(match=f"*revoked:*{token_id}")]
    assert len(keys) == 1
    assert 2940 < await redis.client.ttl(keys[0]) <= 3000
    refreshed = await rp.refresh(http, tokens["refresh_token"])
    assert refreshed.status_code == 200
    assert await opens(http, refreshed.json()["access_token"])


async def test_revocation_may_be_repeated(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    for _ in range(2):
        await ended(rp, http, tokens["access_token"])
    for _ in range(2):
        await ended(rp, http, tokens["refresh_token"])


@pytest.mark.parametrize("hint", ["access_token", "refresh_token", "magic", ""])
async def test_hint_changes_nothing(rp, browser, http, hint):
    tokens = await rp.tokens(http, browser)
    await ended(rp, http, tokens["access_token"], token_type_hint=hint)
    assert not await opens(http, tokens["access_token"])
    await ended(rp, http, tokens["refresh_token"], token_type_hint=hint)
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 400


@pytest.mark.parametrize("token", ["x", "a.b.c", "..", "a" * 20_000, "é", "eyJhbGciOiJub25lIn0.e30."])
async def test_unknown_token_gets_the_same_response(rp, http, token):
    await ended(rp, http, token)


async def test_changed_tokens_revoke_nothing(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    head, body, signature = tokens["access_token"].split(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    await ended(rp, http, f"{head}.{body}.{flipped}")
    await ended(rp, http, tokens["refresh_token"][:32] + new_secret(24))
    assert await opens(http, tokens["access_token"])
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200


async def test_expired_access_token_stores_no_revocation(rp, browser, http, service, clock):
    token = (await rp.tokens(http, browser))["access_token"]
    clock.advance(seconds=3601)
    await ended(rp, http, token)
    token_id = claims(token)["jti"]
    assert [key async for key in internals.redis(service).client.scan_iter(match=f"*revoked:*{token_id}")] == []


async def test_id_token_cannot_be_revoked(rp, browser, http):
    token = (await rp.tokens(http, browser))["id_token"]
    refused(await revoke(rp, http, token), 400, "unsupported_token_type", "unsupported_token_type")
    assert await is_active(rp, http, token)


async def test_rotated_token_revokes_its_successor(rp, browser, http):
    await rp.configure_tenant(jwtConfiguration={"refreshTokenUsagePolicy": "OneTimeUse"})
    first = await rp.tokens(http, browser)
    second = (await rp.refresh(http, first["refresh_token"])).json()
    await ended(rp, http, first["refresh_token"])
    assert (await rp.refresh(http, second["refresh_token"])).status_code == 400
    assert not await opens(http, second["access_token"])


@pytest.mark.requirement("oauth-12-1")
@pytest.mark.parametrize("kind", ["access_token", "refresh_token", "id_token"])
async def test_attack_30_token_of_another_client_is_not_revoked(rp, browser, http, api, kind):
    other = await relying_party.make(api, tenant=rp.tenant)
    tokens = await other.tokens(http, browser)
    refused(await revoke(rp, http, tokens[kind]), 401, "invalid_client", "client_id_mismatch")
    assert await opens(http, tokens["access_token"])
    assert (await other.refresh(http, tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize("kind", ["access_token", "refresh_token", "id_token"])
async def test_attack_30_token_of_another_tenant_is_not_revoked(rp, browser, http, api, kind):
    other = await relying_party.make(api)
    tokens = await other.tokens(http, browser)
    await ended(rp, http, tokens[kind])
    assert await opens(http, tokens["access_token"])
    assert (await other.refresh(http, tokens["refresh_token"])).status_code == 200


async def test_policy_decides_whether_the_client_has_to_authenticate(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    answer = await revoke(rp, http, tokens["access_token"], client_secret=None)
    refused(answer, 401, "invalid_client", "client_authentication_missing")
    answer = await revoke(rp, http, tokens["access_token"], client_secret="wrong")
    refused(answer, 401, "invalid_client", "invalid_client_authentication")
    assert await opens(http, tokens["access_token"])
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    await ended(rp, http, tokens["access_token"], client_secret=None)
    assert not await opens(http, tokens["access_token"])
    await ended(rp, http, tokens["refresh_token"], client_secret=None)
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 400


async def test_public_client_can_revoke_tokens_obtained_by_pkce(rp, browser, http):
    await rp.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    code = await rp.code(browser, **PKCE)
    tokens = (await rp.exchange(http, code, code_verifier=VERIFIER, client_secret=None)).json()
    await ended(rp, http, tokens["access_token"], client_secret=None)
    assert not await opens(http, tokens["access_token"])
    await ended(rp, http, tokens["refresh_token"], client_secret=None)
    refused(await rp.refresh(http, tokens["refresh_token"]), 400, "invalid_grant", "refresh_token_not_found")
    confidential = (await rp.exchange(http, await rp.code(browser))).json()
    answer = await revoke(rp, http, confidential["refresh_token"], client_secret=None)
    refused(answer, 401, "invalid_client", "client_authentication_missing")
    assert (await rp.refresh(http, confidential["refresh_token"])).status_code == 200


async def test_attacks_24_and_25_authentication_is_that_of_the_token_endpoint(rp, http):
    refused(await revoke(rp, http, "x", client_secret=""), 401, "invalid_client", "missing_client_secret")
    refused(await revoke(rp, http, "x", client_id=None), 400, "invalid_request", "missing_client_id")
    refused(await revoke(rp, http, "x", client_id=new_id()), 401, "invalid_client", "invalid_client_id")
    auth = (rp.client_id, rp.secret)
    answer = await http.post("/oauth2/revoke", data={"token": "x", "client_secret": "other"}, auth=auth)
    refused(answer, 401, "invalid_client", "invalid_client_authentication")
    answer = await http.post("/oauth2/revoke", data={"token": "x", "client_id": new_id()}, auth=auth)
    refused(answer, 401, "invalid_client", "client_id_mismatch")
    answer = await http.post("/oauth2/revoke", data={"token": "x"}, headers={"Authorization": "Bearer x"})
    refused(answer, 401, "invalid_client", "invalid_client_authentication_scheme")
    assert (await http.post("/oauth2/revoke", data={"token": "x"}, auth=auth)).status_code == 200


async def test_request_is_a_form_by_post_with_a_token(rp, browser, http, api):
    for token in (None, ""):
        refused(await revoke(rp, http, token), 400, "invalid_request", "missing_token")
    token = (await rp.tokens(http, browser))["access_token"]
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    refused(await http.post("/oauth2/revoke", json=form), 400, "invalid_request", "unknown")
    answer = await http.post("/oauth2/revoke", data={**form, "token": [token, token]})
    refused(answer, 400, "invalid_request", "unknown")
    assert (await http.get("/oauth2/revoke", params=form)).status_code == 405
    assert await opens(http, token)
    other = (await relying_party.make(api)).tenant["id"]
    refused(await revoke(rp, http, token, tenantId=other), 400, "invalid_request", "invalid_tenant_id")
    await ended(rp, http, token, path=f"/{rp.tenant['id']}")
    assert not await opens(http, token)


@pytest.mark.parametrize("query", [{"hardDelete": "true"}, {}])
async def test_attack_29_token_of_a_deleted_user_can_be_revoked(rp, browser, http, api, query):
    tokens = await rp.tokens(http, browser)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", params=query, headers=headers)).status_code == 200
    for kind in ("access_token", "refresh_token"):
        await ended(rp, http, tokens[kind])


async def test_attack_29_inactive_client_revokes_nothing(rp, browser, http, api):
    token = (await rp.tokens(http, browser))["access_token"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/application/{rp.client_id}", headers=headers)).status_code == 200
    refused(await revoke(rp, http, token), 401, "invalid_client", "invalid_client_id")


async def test_revocation_sends_one_event(rp, browser, http, receiver):
    tokens = await rp.tokens(http, browser)
    await asyncio.gather(*(revoke(rp, http, tokens["refresh_token"]) for _ in range(8)))
    await revoke(rp, http, (await rp.tokens(http, browser))["access_token"])
    last = await rp.tokens(http, browser)
    await revoke(rp, http, last["refresh_token"])
    requests = await receiver.wait_for(2)
    received = {request.event["refreshToken"]["id"]: request.event for request in requests}
    assert received.keys() == {tokens["refresh_token_id"], last["refresh_token_id"]}
    event = received[tokens["refresh_token_id"]]
    assert (event["type"], event["tenantId"]) == (EVENT, rp.tenant["id"])
    assert event["applicationId"] == rp.client_id
    assert event["applicationTimeToLiveInSeconds"] == {rp.client_id: 3600}
    assert event["userId"] == event["user"]["id"] == rp.user["id"]
    assert "token" not in event["refreshToken"]
    assert "private" not in event["refreshToken"]


async def test_tokens_are_not_logged(rp, browser, http, capsys):
    tokens = await rp.tokens(http, browser)
    for kind in ("access_token", "refresh_token"):
        await ended(rp, http, tokens[kind])
    out, err = capsys.readouterr()
    for secret in (rp.secret, tokens["access_token"], tokens["refresh_token"]):
        assert secret not in out + err
