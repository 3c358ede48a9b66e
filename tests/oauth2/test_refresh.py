"""The refresh grant: usage and expiration policies, rotation, reuse, scopes, events."""

from __future__ import annotations

import asyncio

import pytest

from tests import relying_party
from tests.relying_party import claims, header

NOT_FOUND = (400, "invalid_grant", "refresh_token_not_found")


def error_of(answer) -> tuple[int, str, str | None]:
    body = answer.json()
    return answer.status_code, body["error"], body.get("error_reason")


async def one_time(rp, *, grace: int = 0, revoke: bool = False) -> None:
    await rp.configure_tenant(
        jwtConfiguration={
            "refreshTokenUsagePolicy": "OneTimeUse",
            "refreshTokenOneTimeUseConfiguration": {"gracePeriodInSeconds": grace},
            "refreshTokenRevocationPolicy": {"onOneTimeTokenReuse": revoke},
        }
    )


@pytest.mark.requirement(
    "certification-authorize-5", "certification-token-4", "oauth-2.10-1", "oauth-2.2-17", "oauth-2.2-18", "service-13"
)
async def test_reusable_token_returns_new_tokens_and_remains_valid(rp, browser, http, clock):
    first = await rp.tokens(http, browser, nonce="n")
    clock.advance(seconds=100)
    for _ in range(2):
        answer = await rp.refresh(http, first["refresh_token"])
        assert answer.status_code == 200, answer.text
        tokens = answer.json()
        assert tokens.keys() == {"access_token", "expires_in", "id_token", "token_type", "userId"}
        access_token, id_token, original = (
            claims(tokens["access_token"]),
            claims(tokens["id_token"]),
            claims(first["id_token"]),
        )
        assert access_token["authenticationType"] == "REFRESH_TOKEN"
        assert access_token["sid"] == first["refresh_token_id"]
        assert header(tokens["access_token"])["gty"] == ["authorization_code", "refresh_token"]
        assert {name: id_token[name] for name in ("iss", "sub", "aud", "auth_time", "sid")} == {
            name: original[name] for name in ("iss", "sub", "aud", "auth_time", "sid")
        }
        assert id_token["iat"] >= original["iat"] + 100
        assert "nonce" not in id_token


@pytest.mark.requirement("oauth-2.2-17")
async def test_one_time_token_changes_its_value_and_keeps_its_id(rp, browser, http):
    await one_time(rp)
    first = await rp.tokens(http, browser)
    second = (await rp.refresh(http, first["refresh_token"])).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert second["refresh_token_id"] == first["refresh_token_id"]
    assert error_of(await rp.refresh(http, first["refresh_token"])) == NOT_FOUND
    assert (await rp.refresh(http, second["refresh_token"])).status_code == 200


@pytest.mark.requirement("attack-26", "audit-a8-refresh-reuse", "oauth-2.2-22")
async def test_attack_26_reuse_of_a_spent_token_revokes_the_family(rp, browser, http):
    await one_time(rp, revoke=True)
    first = await rp.tokens(http, browser)
    second = (await rp.refresh(http, first["refresh_token"])).json()
    third = (await rp.refresh(http, second["refresh_token"])).json()
    assert error_of(await rp.refresh(http, first["refresh_token"])) == NOT_FOUND
    assert error_of(await rp.refresh(http, third["refresh_token"])) == NOT_FOUND
    for token in (first["access_token"], second["access_token"], third["access_token"]):
        answer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401


@pytest.mark.requirement("attack-26", "oauth-2.2-22")
async def test_attack_26_one_of_64_racing_callers_rotates(rp, browser, http):
    await one_time(rp)
    value = (await rp.tokens(http, browser))["refresh_token"]
    answers = await asyncio.gather(*(rp.refresh(http, value) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 63
    fresh = next(answer.json()["refresh_token"] for answer in answers if answer.status_code == 200)
    assert (await rp.refresh(http, fresh)).status_code == 200


@pytest.mark.requirement("oauth-2.2-22")
async def test_grace_period_returns_the_current_value_until_it_ends(rp, browser, http, clock):
    await one_time(rp, grace=10, revoke=True)
    first = await rp.tokens(http, browser)
    second = (await rp.refresh(http, first["refresh_token"])).json()
    again = (await rp.refresh(http, first["refresh_token"])).json()
    assert again["refresh_token"] == second["refresh_token"]
    assert again["access_token"] != second["access_token"]
    clock.advance(seconds=11)
    assert error_of(await rp.refresh(http, first["refresh_token"])) == NOT_FOUND
    assert error_of(await rp.refresh(http, second["refresh_token"])) == NOT_FOUND


@pytest.mark.requirement("oauth-2.2-21")
async def test_fixed_token_expires_regardless_of_use(rp, browser, http, clock):
    await rp.configure_tenant(jwtConfiguration={"refreshTokenTimeToLiveInMinutes": 60})
    value = (await rp.tokens(http, browser))["refresh_token"]
    clock.advance(seconds=55 * 60)
    assert (await rp.refresh(http, value)).status_code == 200
    clock.advance(seconds=6 * 60)
    assert error_of(await rp.refresh(http, value)) == NOT_FOUND


@pytest.mark.requirement("oauth-2.2-21")
async def test_sliding_token_is_extended_by_use(rp, browser, http, clock):
    sliding = {"refreshTokenTimeToLiveInMinutes": 60, "refreshTokenExpirationPolicy": "SlidingWindow"}
    await rp.configure_tenant(jwtConfiguration=sliding)
    value = (await rp.tokens(http, browser))["refresh_token"]
    for _ in range(3):
        clock.advance(seconds=55 * 60)
        assert (await rp.refresh(http, value)).status_code == 200
    clock.advance(seconds=61 * 60)
    assert error_of(await rp.refresh(http, value)) == NOT_FOUND


@pytest.mark.requirement("oauth-2.2-21")
async def test_sliding_token_expires_at_its_maximum(rp, browser, http, clock):
    await rp.configure_tenant(
        jwtConfiguration={
            "refreshTokenTimeToLiveInMinutes": 60,
            "refreshTokenExpirationPolicy": "SlidingWindowWithMaximumLifetime",
            "refreshTokenSlidingWindowConfiguration": {"maximumTimeToLiveInMinutes": 120},
        }
    )
    value = (await rp.tokens(http, browser))["refresh_token"]
    for _ in range(2):
        clock.advance(seconds=55 * 60)
        assert (await rp.refresh(http, value)).status_code == 200
    clock.advance(seconds=11 * 60)
    assert error_of(await rp.refresh(http, value)) == NOT_FOUND


@pytest.mark.requirement("contract-token-11")
async def test_scope_may_be_narrowed_without_changing_the_token(rp, browser, http):
    value = (await rp.tokens(http, browser, scope="openid offline_access email profile"))["refresh_token"]
    narrowed = (await rp.refresh(http, value, scope="email")).json()
    assert narrowed["scope"] == "email"
    assert claims(narrowed["access_token"])["scope"] == "email"
    assert "id_token" not in narrowed
    whole = (await rp.refresh(http, value)).json()
    assert claims(whole["access_token"])["scope"] == "openid offline_access email profile"
    assert "scope" not in whole


@pytest.mark.requirement("attack-28", "oauth-2.2-14")
async def test_attack_28_scope_cannot_be_raised(rp, browser, http):
    value = (await rp.tokens(http, browser))["refresh_token"]
    assert error_of(await rp.refresh(http, value, scope="openid email")) == (400, "invalid_scope", "unknown_scope")


@pytest.mark.requirement("contract-states-3", "oauth-2.2-15")
async def test_token_with_scopes_that_became_unknown_is_revoked_under_reject(rp, browser, http):
    await rp.configure(unknownScopePolicy="Allow")
    value = (await rp.tokens(http, browser, scope="openid offline_access odd"))["refresh_token"]
    await rp.configure(unknownScopePolicy="Remove")
    assert claims((await rp.refresh(http, value)).json()["access_token"])["scope"] == "openid offline_access"
    await rp.configure(unknownScopePolicy="Reject")
    assert error_of(await rp.refresh(http, value)) == (400, "invalid_scope", "unknown_scope")
    await rp.configure(unknownScopePolicy="Allow")
    assert error_of(await rp.refresh(http, value)) == NOT_FOUND


@pytest.mark.requirement(
    "contract-token-11", "oauth-2.2-12", "reason-missing_refresh_token", "reason-refresh_token_not_found"
)
async def test_missing_and_unknown_tokens_are_refused(rp, http):
    assert error_of(await rp.refresh(http, "")) == (400, "invalid_request", "missing_refresh_token")
    assert error_of(await rp.refresh(http, "x" * 64)) == NOT_FOUND


@pytest.mark.requirement("certification-token-3", "oauth-2.2-12")
async def test_token_of_another_client_or_tenant_is_rejected_and_not_revoked(rp, browser, http, api):
    value = (await rp.tokens(http, browser))["refresh_token"]
    for other in (await relying_party.make(api, tenant=rp.tenant), await relying_party.make(api)):
        assert error_of(await other.refresh(http, value)) == NOT_FOUND
    assert (await rp.refresh(http, value)).status_code == 200


@pytest.mark.requirement("attack-27")
async def test_attack_27_other_tokens_are_rejected_as_refresh_tokens(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    for name in ("access_token", "id_token"):
        assert error_of(await rp.refresh(http, tokens[name])) == NOT_FOUND
    bearer = {"Authorization": f"Bearer {tokens['refresh_token']}"}
    answer = await http.get("/oauth2/userinfo", headers=bearer)
    assert error_of(answer) == (401, "invalid_token", "access_token_malformed")


@pytest.mark.requirement("oauth-2.2-16", "reason-invalid_expires_in")
async def test_access_token_lifetime_can_only_be_shortened(rp, browser, http):
    value = (await rp.tokens(http, browser))["refresh_token"]
    short = (await rp.refresh(http, value, expires_in="60")).json()
    assert short["expires_in"] == 60
    token = claims(short["access_token"])
    assert token["exp"] - token["iat"] == 60
    assert (await rp.refresh(http, value, expires_in="3600")).status_code == 200
    for wrong in ("0", "-1", "3601", "soon", "1.5"):
        assert error_of(await rp.refresh(http, value, expires_in=wrong)) == (
            400,
            "invalid_request",
            "invalid_expires_in",
        )


@pytest.mark.requirement("oauth-2.2-13", "reason-user_not_found")
@pytest.mark.parametrize(("query", "reasons"), [({"hardDelete": "true"}, {"user_not_found"}), ({}, {"user_locked"})])
async def test_attack_29_deleted_user_cannot_refresh(rp, browser, http, api, query, reasons):
    value = (await rp.tokens(http, browser))["refresh_token"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", params=query, headers=headers)).status_code == 200
    status, error, reason = error_of(await rp.refresh(http, value))
    assert (status, error) == (400, "invalid_grant")
    assert reason in {*reasons, "refresh_token_not_found"}


@pytest.mark.requirement("attack-29", "oauth-2.1-10")
async def test_attack_29_inactive_client_cannot_refresh(rp, browser, http, api):
    value = (await rp.tokens(http, browser))["refresh_token"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/application/{rp.client_id}", headers=headers)).status_code == 200
    assert error_of(await rp.refresh(http, value)) == (401, "invalid_client", "invalid_client_id")


async def test_grant_may_be_disabled(rp, browser, http):
    value = (await rp.tokens(http, browser))["refresh_token"]
    await rp.configure(enabledGrants=["authorization_code"])
    assert error_of(await rp.refresh(http, value)) == (400, "unauthorized_client", "grant_type_disabled")


@pytest.mark.requirement("oauth-2.2-20")
async def test_refreshed_token_has_current_roles(rp, browser, http, api):
    value = (await rp.tokens(http, browser))["refresh_token"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    role = await api.post(f"/api/application/{rp.client_id}/role", json={"role": {"name": "admin"}}, headers=headers)
    assert role.status_code == 200, role.text
    body = {"registration": {"applicationId": rp.client_id, "roles": ["admin"]}}
    changed = await api.put(f"/api/user/registration/{rp.user['id']}", json=body, headers=headers)
    assert changed.status_code == 200, changed.text
    assert claims((await rp.refresh(http, value)).json()["access_token"])["roles"] == ["admin"]
