"""Userinfo: token transport, claims, and errors."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests import relying_party
from tests.relying_party import claims


def refused(answer, reason: str) -> None:
    assert answer.status_code == 401, answer.text
    assert (answer.json()["error"], answer.json()["error_reason"]) == ("invalid_token", reason)
    expected = "Bearer" if reason == "access_token_required" else 'Bearer error="invalid_token"'
    bearer, _, bound = answer.headers["WWW-Authenticate"].partition(", DPoP algs=")
    assert bearer == expected
    assert "ES256" in bound


async def get_userinfo(http, token: str):
    return await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})


@pytest.mark.requirement(
    "certification-token-7", "contract-userinfo-1", "contract-userinfo-9", "oauth-4.2-1", "service-14"
)
async def test_token_is_accepted_in_header_or_form(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    for answer in (
        await http.get("/oauth2/userinfo", headers=headers),
        await http.post("/oauth2/userinfo", headers=headers),
        await http.post("/oauth2/userinfo", data={"access_token": token}),
    ):
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"sub": rp.user["id"]}


@pytest.mark.requirement("oauth-4.2-1")
async def test_token_in_the_query_is_ignored(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    refused(await http.get("/oauth2/userinfo", params={"access_token": token}), "access_token_required")


async def test_token_must_not_be_sent_twice(rp, browser, http):
    token = (await rp.tokens(http, browser))["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    answer = await http.post("/oauth2/userinfo", data={"access_token": token}, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.requirement("contract-authentication-9", "oauth-4.2-3", "reason-access_token_required")
async def test_no_token_and_another_scheme_are_refused(http):
    refused(await http.get("/oauth2/userinfo"), "access_token_required")
    refused(await http.get("/oauth2/userinfo", headers={"Authorization": "Basic eDp5"}), "access_token_required")


@pytest.mark.requirement("contract-userinfo-6", "contract-userinfo-7", "contract-userinfo-8", "oauth-4.2-2")
async def test_scopes_determine_the_claims(rp, browser, http, api):
    members = {
        "firstName": "Ada", "lastName": "Lovelace", "birthDate": "1815-12-10", "preferredLanguages": ["en_GB"],
        "timezone": "Europe/London", "data": {"nickname": "Countess", "address": {"country": "UK"}},
        "imageUrl": "https://example.com/ada.png", "mobilePhone": "+441234567890",
    }  # fmt: skip
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id, **members)
    token = (await rp.tokens(http, browser, scope="openid profile email phone address"))["access_token"]
    userinfo = (await get_userinfo(http, token)).json()
    assert userinfo["sub"] == rp.user["id"]
    assert userinfo["given_name"] == "Ada"
    assert userinfo["name"] == "Ada Lovelace"
    assert userinfo["birthdate"] == "1815-12-10"
    assert userinfo["email"] == rp.login_id
    assert userinfo["email_verified"] is True
    assert userinfo["phone_number"] == "+441234567890"
    assert userinfo["address"] == {"country": "UK"}
    assert userinfo["nickname"] == "Countess"
    assert isinstance(userinfo["updated_at"], int)
    assert "roles" not in userinfo
    only_email = (
        await get_userinfo(http, (await rp.tokens(http, browser, scope="openid email"))["access_token"])
    ).json()
    assert only_email.keys() == {"sub", "email", "email_verified"}


@pytest.mark.requirement("contract-userinfo-5", "oauth-4.2-2")
async def test_compatible_application_gets_the_published_claims(rp, browser, http):
    await rp.configure(scopeHandlingPolicy="Compatibility", unknownScopePolicy="Allow")
    tokens = await rp.tokens(http, browser, scope=None)
    userinfo = (await get_userinfo(http, tokens["access_token"])).json()
    assert userinfo["applicationId"] == rp.client_id
    assert userinfo["roles"] == []
    assert userinfo["email"] == rp.login_id
    assert not userinfo.keys() & {"aud", "exp", "iat", "iss", "jti", "sid", "tid", "scope", "auth_time", "gty", "tty"}


@pytest.mark.requirement("contract-userinfo-3", "oauth-4.2-10", "reason-missing_required_scope")
async def test_strict_application_needs_the_scope_openid(rp, browser, http):
    refused(
        await get_userinfo(http, (await rp.tokens(http, browser, scope="email"))["access_token"]),
        "missing_required_scope",
    )


@pytest.mark.requirement("attack-27", "contract-userinfo-3", "oauth-4.2-9", "reason-id_token_invalid")
async def test_attack_27_id_token_is_no_access_token(rp, browser, http):
    refused(await get_userinfo(http, (await rp.tokens(http, browser))["id_token"]), "id_token_invalid")


@pytest.mark.requirement("oauth-4.2-4", "reason-access_token_malformed")
@pytest.mark.parametrize("token", ["x", "a.b.c", "a" * 20_000, "é.x.y"])
async def test_malformed_token_is_rejected(http, token):
    answer = await http.post("/oauth2/userinfo", data={"access_token": token})
    refused(answer, "access_token_malformed")


@pytest.mark.requirement("oauth-4.2-5")
async def test_changed_token_is_invalid(rp, browser, http):
    head, body, signature = (await rp.tokens(http, browser))["access_token"].split(".")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    refused(await get_userinfo(http, f"{head}.{body}.{flipped}"), "access_token_invalid")


@pytest.mark.requirement("oauth-4.2-6", "reason-access_token_expired")
async def test_expired_token_is_rejected_with_its_reason(rp, browser, http, clock):
    token = (await rp.tokens(http, browser))["access_token"]
    clock.advance(seconds=3601)
    refused(await get_userinfo(http, token), "access_token_expired")


@pytest.mark.requirement("oauth-4.2-11")
@pytest.mark.parametrize(("query", "reason"), [({"hardDelete": "true"}, "user_not_found"), ({}, "user_locked")])
async def test_attack_29_token_of_a_deleted_user_is_rejected_immediately(rp, browser, http, api, query, reason):
    token = (await rp.tokens(http, browser))["access_token"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", params=query, headers=headers)).status_code == 200
    refused(await get_userinfo(http, token), reason)


@pytest.mark.requirement("contract-userinfo-2", "reason-access_token_invalid")
async def test_attack_29_token_of_an_inactive_client_is_rejected_immediately(rp, browser, http, api):
    token = (await rp.tokens(http, browser))["access_token"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/application/{rp.client_id}", headers=headers)).status_code == 200
    refused(await get_userinfo(http, token), "access_token_invalid")


@pytest.mark.requirement("attack-29")
async def test_attack_29_token_of_a_deleted_tenant_is_rejected_immediately(rp, browser, http, api):
    token = (await rp.tokens(http, browser))["access_token"]
    assert (await api.delete(f"/api/tenant/{rp.tenant['id']}", params={"async": "true"})).status_code in {200, 202}
    answer = await get_userinfo(http, token)
    assert answer.status_code == 401


async def test_token_has_its_audience(rp, browser, http):
    token = claims((await rp.tokens(http, browser))["access_token"])
    assert token["aud"] == rp.client_id
    assert token["tid"] == rp.tenant["id"]
    assert token["tty"] == "at"
    assert token["jti"] != new_id()
