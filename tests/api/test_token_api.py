"""/api/jwt over HTTP: validation, issue for another application, vending, refresh, and revocation."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from identity.instants import numeric_date
from tests import relying_party, two_factor
from tests.conftest import EMAIL_TEMPLATE, SUPER_KEY, UNKNOWN_ID, checking_client
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, RelyingParty
from tests.subscriber import check_event
from tests.webhooks import subscribe

Document = dict[str, Any]


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    return await with_refresh_tokens(await relying_party.make(api))


async def with_refresh_tokens(rp: RelyingParty) -> RelyingParty:
    configuration = {"generateRefreshTokens": True, "allowTokenRefresh": True}
    await rp.patch(f"/api/application/{rp.client_id}", {"application": {"loginConfiguration": configuration}})
    return rp


async def login(key: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> Document:
    answer = await rp.log_in_by_api(key, **members)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def ids_of(key: httpx.AsyncClient, user_id: str) -> set[str]:
    answer = await key.get("/api/jwt/refresh", params={"userId": user_id})
    return {record["id"] for record in answer.json()["refreshTokens"]}


def bearer(token: str) -> Document:
    return {"Authorization": f"Bearer {token}"}


def codes(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 400, answer.text
    return [entry["code"] for found in answer.json()["fieldErrors"].values() for entry in found]


async def other_application(key: httpx.AsyncClient, rp: RelyingParty, *, registered: bool) -> str:
    configuration = {"generateRefreshTokens": True}
    body = {"application": {"name": f"Other {new_id()}", "loginConfiguration": configuration}}
    application_id = str((await key.post("/api/application", json=body)).json()["application"]["id"])
    if registered:
        place = {"registration": {"applicationId": application_id}}
        made = await key.post(f"/api/user/registration/{rp.user['id']}", json=place)
        # The one of a login is meant, not that which comes with the registration.
        await key.delete(f"/api/jwt/refresh/{made.json()['refreshTokenId']}")
    return application_id


async def issue(http: httpx.AsyncClient, application_id: str, token: str) -> httpx.Response:
    return await http.get("/api/jwt/issue", params={"applicationId": application_id}, headers=bearer(token))


async def set_policy(rp: RelyingParty, application_id: str, policy: str) -> None:
    """Set the two-factor policy of the application."""
    await rp.patch(
        f"/api/application/{application_id}", {"application": {"multiFactorConfiguration": {"loginPolicy": policy}}}
    )


async def other_user(key: httpx.AsyncClient, rp: RelyingParty) -> Document:
    """Another registered user, without refresh tokens."""
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    await key.delete("/api/jwt/refresh", params={"userId": user["id"]})
    return dict(user)


# Validating


@pytest.mark.requirement("core-4-3", "users-6-6")
async def test_valid_token_in_header_or_cookie_returns_claims(key, http, rp) -> None:
    token = (await login(key, rp))["token"]
    for headers in (bearer(token), {"Authorization": f"JWT {token}"}, {"Cookie": f"access_token={token}"}):
        answer = await http.get("/api/jwt/validate", headers=headers)
        assert answer.status_code == 200
        assert answer.json()["jwt"] == relying_party.claims(token)


@pytest.mark.requirement("users-6-6")
async def test_invalid_expired_or_revoked_token_is_401_without_body(key, http, rp, clock) -> None:
    first, second = [await login(key, rp) for _ in range(2)]
    await key.delete(f"/api/jwt/refresh/{first['refreshTokenId']}")
    for headers in ({}, bearer("no token"), bearer(first["token"]), {"Authorization": SUPER_KEY}):
        answer = await http.get("/api/jwt/validate", headers=headers)
        assert (answer.status_code, answer.content) == (401, b"")
    clock.advance(seconds=4000)
    assert (await http.get("/api/jwt/validate", headers=bearer(second["token"]))).status_code == 401


# Issuing for another application


@pytest.mark.requirement("users-6-7")
async def test_issued_token_expires_with_presented_token(key, http, rp, clock) -> None:
    first = await login(key, rp)
    application_id = await other_application(key, rp, registered=True)
    clock.advance(seconds=600)
    query = {"applicationId": application_id}
    answer = await http.get("/api/jwt/issue", params=query, headers=bearer(first["token"]))
    assert answer.status_code == 200
    assert answer.json().keys() == {"token"}
    claims, shown = relying_party.claims(answer.json()["token"]), relying_party.claims(first["token"])
    assert (claims["aud"], claims["sub"]) == (application_id, rp.user["id"])
    assert claims["authenticationType"] == "JWT_SSO"
    assert abs(claims["exp"] - shown["exp"]) <= 1


@pytest.mark.requirement("users-6-7")
async def test_issued_refresh_token_inherits_start_from_presented_refresh_token(key, http, rp, clock) -> None:
    first = await login(key, rp)
    application_id = await other_application(key, rp, registered=True)
    clock.advance(seconds=600)
    query = {"applicationId": application_id, "refreshToken": first["refreshToken"]}
    answer = (await http.get("/api/jwt/issue", params=query, headers=bearer(first["token"]))).json()
    assert answer.keys() == {"token", "refreshToken"}
    records = (await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})).json()["refreshTokens"]
    starts = {record["token"]: record["startInstant"] for record in records}
    assert starts[answer["refreshToken"]] == starts[first["refreshToken"]]
    stranger = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    theirs = await login(key, rp, loginId=stranger["email"])
    for wrong in ("unknown", theirs["refreshToken"]):
        query = {"applicationId": application_id, "refreshToken": wrong}
        assert (await http.get("/api/jwt/issue", params=query, headers=bearer(first["token"]))).status_code == 401


@pytest.mark.requirement("users-6-7")
@pytest.mark.parametrize("policy", ["Fixed", "SlidingWindowWithMaximumLifetime"])
async def test_detour_through_another_application_does_not_extend_refresh_token(key, http, rp, clock, policy) -> None:
    window = {"maximumTimeToLiveInMinutes": 60}
    lives = {"refreshTokenTimeToLiveInMinutes": 60, "refreshTokenSlidingWindowConfiguration": window}
    await rp.configure_tenant(jwtConfiguration={**lives, "refreshTokenExpirationPolicy": policy})
    shown = await login(key, rp)
    application_id = await other_application(key, rp, registered=True)
    for wanted in (application_id, rp.client_id):
        clock.advance(seconds=1200)
        query = {"applicationId": wanted, "refreshToken": shown["refreshToken"]}
        shown = (await http.get("/api/jwt/issue", params=query, headers=bearer(shown["token"]))).json()
    key.cookies.clear()
    refreshed = await key.post("/api/jwt/refresh", json={"refreshToken": shown["refreshToken"]})
    assert refreshed.status_code == 200
    clock.advance(seconds=1201)
    last = {"refreshToken": refreshed.json()["refreshToken"]}
    assert codes(await key.post("/api/jwt/refresh", json=last)) == ["[invalid]refreshToken"]


@pytest.mark.requirement("users-6-7")
async def test_unregistered_user_gets_202_without_refresh_token(key, http, rp) -> None:
    first = await login(key, rp)
    application_id = await other_application(key, rp, registered=False)
    query = {"applicationId": application_id, "refreshToken": first["refreshToken"]}
    answer = await http.get("/api/jwt/issue", params=query, headers=bearer(first["token"]))
    assert (answer.status_code, answer.json().keys()) == (202, {"token"})
    assert "roles" not in relying_party.claims(answer.json()["token"])


@pytest.mark.requirement("users-6-7")
async def test_unknown_application_or_application_of_another_tenant(key, http, rp, api) -> None:
    headers = bearer((await login(key, rp))["token"])
    other = await relying_party.make(api)
    for wrong in (UNKNOWN_ID, other.client_id):
        answer = await http.get("/api/jwt/issue", params={"applicationId": wrong}, headers=headers)
        assert codes(answer) == ["[invalid]applicationId"]
    assert codes(await http.get("/api/jwt/issue", headers=headers)) == ["[missing]applicationId"]
    answer = await http.get("/api/jwt/issue", params={"applicationId": "x"}, headers=headers)
    assert codes(answer) == ["[couldNotConvert]applicationId"]
    assert (await http.get("/api/jwt/issue", params={"applicationId": rp.client_id})).status_code == 401


@pytest.mark.requirement("users-6-7")
async def test_action_preventing_login_prevents_token_for_that_application(key, http, rp) -> None:
    first = await login(key, rp)
    closed, open_one = [await other_application(key, rp, registered=True) for _ in range(2)]
    wanted = {"name": new_id(), "temporal": True, "preventLogin": True}
    definition = (await key.post("/api/user-action", json={"userAction": wanted})).json()["userAction"]
    who = {"actioneeUserId": rp.user["id"], "actionerUserId": rp.user["id"], "userActionId": definition["id"]}
    taken = {**who, "applicationIds": [closed], "expiry": 2**63 - 1}
    assert (await key.post("/api/user/action", json={"action": taken})).status_code == 200
    assert (await issue(http, closed, first["token"])).status_code == 401
    assert (await issue(http, open_one, first["token"])).status_code == 200


@pytest.mark.requirement("users-6-7")
async def test_token_without_second_factor_does_not_reach_application_requiring_one(key, http, rp) -> None:
    await set_policy(rp, rp.client_id, "Disabled")
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}})
    first = await login(key, rp)
    application_id = await other_application(key, rp, registered=False)
    assert (await issue(http, application_id, first["token"])).status_code == 401
    await set_policy(rp, application_id, "Disabled")
    assert (await issue(http, application_id, first["token"])).status_code == 202
    # The token of an application that requires a second factor was issued after one.
    await set_policy(rp, application_id, "Required")
    await set_policy(rp, rp.client_id, "Enabled")
    assert (await issue(http, application_id, first["token"])).status_code == 202


@pytest.mark.requirement("users-6-7")
async def test_unverified_registration_gets_no_token_if_login_is_gated(key, http, rp) -> None:
    first = await login(key, rp)
    application_id = await other_application(key, rp, registered=False)
    gate = {"verifyRegistration": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    gated = {"application": {**gate, "unverified": {"behavior": "Gated"}}}
    await rp.patch(f"/api/application/{application_id}", gated)
    place = {"registration": {"applicationId": application_id}}
    assert (await key.post(f"/api/user/registration/{rp.user['id']}", json=place)).status_code == 200
    assert (await issue(http, application_id, first["token"])).status_code == 401
    await rp.patch(f"/api/application/{application_id}", {"application": {"unverified": {"behavior": "Allow"}}})
    assert (await issue(http, application_id, first["token"])).status_code == 200


# Signing for the caller


@pytest.mark.requirement("users-6-8")
async def test_claims_are_signed_and_reserved_claims_preserved(key, http, clock) -> None:
    wanted = {"sub": "anybody", "exp": 1, "iat": 1, "jti": "mine", "nested": {"a": [1]}}
    before = numeric_date(clock.now())
    answer = await key.post("/api/jwt/vend", json={"claims": wanted, "timeToLiveInSeconds": 90})
    claims = relying_party.claims(answer.json()["token"])
    assert (claims["sub"], claims["nested"]) == ("anybody", {"a": [1]})
    assert claims["exp"] == claims["iat"] + 90 and claims["iat"] >= before and claims["jti"] != "mine"
    kid = relying_party.header(answer.json()["token"])["kid"]
    keys = (await http.get("/.well-known/jwks.json")).json()["keys"]
    assert kid in {entry["kid"] for entry in keys}


@pytest.mark.requirement("users-6-8")
async def test_vend_defaults_to_tenant_settings_and_accepts_key_id(key, api) -> None:
    answer = await key.post("/api/jwt/vend", json={})
    claims = relying_party.claims(answer.json()["token"])
    assert claims.keys() == {"exp", "iat", "jti"} and claims["exp"] - claims["iat"] == 3600
    made = await api.post("/api/key/generate", json={"key": {"algorithm": "ES256", "name": f"Key {new_id()}"}})
    named = await key.post("/api/jwt/vend", json={"keyId": made.json()["key"]["id"]})
    assert relying_party.header(named.json()["token"])["alg"] == "ES256"


@pytest.mark.requirement("users-6-8")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"keyId": UNKNOWN_ID}, "[invalid]keyId"),
        ({"keyId": "x"}, "[couldNotConvert]keyId"),
        ({"timeToLiveInSeconds": 0}, "[invalid]timeToLiveInSeconds"),
    ],
)
async def test_invalid_vend_requests(key, body, code) -> None:
    assert codes(await key.post("/api/jwt/vend", json=body)) == [code]


@pytest.mark.requirement("attack-52", "users-6-8")
async def test_tenant_key_vends_for_its_own_tenant_only(service, manager, http, rp, api) -> None:
    other = await relying_party.make(api)
    made = await manager.post("/api/api-key", json={"apiKey": {"tenantId": rp.tenant["id"]}})
    headers = {"Authorization": made.json()["apiKey"]["key"]}
    forged = {
        "aud": other.client_id, "sub": other.user["id"], "iss": other.tenant["issuer"], "tid": other.tenant["id"],
        "tty": "at", "scope": "openid",
    }  # fmt: skip
    answer = await http.post("/api/jwt/vend", json={"claims": forged}, headers=headers)
    claims = relying_party.claims(answer.json()["token"])
    assert (claims["tid"], claims["iss"]) == (rp.tenant["id"], rp.tenant["issuer"])
    assert (await http.get("/oauth2/userinfo", headers=bearer(answer.json()["token"]))).status_code == 401
    key = (await api.post("/api/key/generate", json={"key": {"algorithm": "ES256", "name": f"Key {new_id()}"}})).json()
    wanted = {"keyId": key["key"]["id"]}
    assert codes(await http.post("/api/jwt/vend", json=wanted, headers=headers)) == ["[invalid]keyId"]
    own = {"keyId": rp.tenant["jwtConfiguration"]["accessTokenKeyId"]}
    assert (await http.post("/api/jwt/vend", json=own, headers=headers)).status_code == 200


@pytest.mark.requirement("attack-27")
async def test_vended_token_is_neither_user_nor_entity_token(key, http, rp) -> None:
    shown = (await login(key, rp))["token"]
    for changes in ({}, {"tty": "id"}, {"gty": ["client_credentials"]}):
        claims = {**relying_party.claims(shown), **changes}
        vended = (await key.post("/api/jwt/vend", json={"claims": claims})).json()["token"]
        assert (await http.get("/api/jwt/validate", headers=bearer(shown))).status_code == 200
        assert (await http.get("/api/jwt/validate", headers=bearer(vended))).status_code == 401
        form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": vended}
        assert (await http.post("/oauth2/introspect", data=form)).json() == {"active": False}


# Third parties, and applications whose tokens come from the token endpoint alone


async def test_third_party_token_issues_none_for_another_application(key, http, rp) -> None:
    token = (await login(key, rp))["token"]
    application_id = await other_application(key, rp, registered=True)
    await rp.configure(relationship="ThirdParty")
    for wanted, status in ((application_id, 401), (rp.client_id, 200)):
        answer = await http.get("/api/jwt/issue", params={"applicationId": wanted}, headers=bearer(token))
        assert answer.status_code == status


@pytest.mark.parametrize(
    "setting",
    [{"dpopBoundAccessTokens": True}, {"profile": "strict"}],
    ids=["tokens are bound", "strict"],
)
async def test_no_api_issues_tokens_bypassing_token_endpoint(key, http, rp, api, setting) -> None:
    before = await login(key, rp)
    token = (await login(key, await relying_party.make(api, tenant=rp.tenant)))["token"]
    await (rp.configure_strict if "profile" in setting else rp.configure)(**setting)
    assert (await login(key, rp)).keys() == {"user"}
    refreshed = await key.post("/api/jwt/refresh", json={"refreshToken": before["refreshToken"]})
    assert codes(refreshed) == ["[invalid]refreshToken"]
    answer = await http.get("/api/jwt/issue", params={"applicationId": rp.client_id}, headers=bearer(token))
    assert codes(answer) == ["[invalid]applicationId"]
    user = {"email": f"{new_id()}@example.com", "password": PASSWORD}
    body = {"registration": {"applicationId": rp.client_id}, "user": user}
    assert "token" not in (await key.post("/api/user/registration", json=body)).json()


# Refresh tokens


@pytest.mark.requirement("users-6-2")
async def test_refresh_tokens_are_retrieved_by_id_and_by_user(key, rp) -> None:
    body = await login(key, rp)
    record = (await key.get(f"/api/jwt/refresh/{body['refreshTokenId']}")).json()["refreshToken"]
    assert record["token"] == body["refreshToken"]
    assert (record["userId"], record["applicationId"], record["tenantId"]) == (
        rp.user["id"], rp.client_id, rp.tenant["id"],
    )  # fmt: skip
    assert {"private", "expiresAt", "_id"}.isdisjoint(record)
    answer = await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})
    assert answer.json() == {"refreshTokens": [record]}
    assert codes(await key.get("/api/jwt/refresh")) == ["[missing]userId"]
    assert (await key.get("/api/jwt/refresh", params={"userId": UNKNOWN_ID})).json() == {"refreshTokens": []}


@pytest.mark.requirement("users-6-2")
async def test_another_tenant_cannot_read_or_revoke_refresh_token(service, key, rp, api) -> None:
    body = await login(key, rp)
    other = await relying_party.make(api)
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": other.tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as stranger:
        path = f"/api/jwt/refresh/{body['refreshTokenId']}"
        assert (await stranger.get(path)).status_code == (await stranger.delete(path)).status_code == 404
        assert await ids_of(stranger, rp.user["id"]) == set()
        names = {"token": body["refreshToken"], "userId": rp.user["id"], "applicationId": rp.client_id}
        for name, value in names.items():
            assert (await stranger.delete("/api/jwt/refresh", params={name: value})).status_code == 200
    assert await ids_of(key, rp.user["id"]) == {body["refreshTokenId"]}


@pytest.mark.requirement("users-6-3")
async def test_refresh_token_is_revoked_by_id_or_value_in_query_form_or_body(key, http, rp) -> None:
    kept, *ended = [await login(key, rp) for _ in range(5)]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    requests: list[Document] = [
        {"url": f"/api/jwt/refresh/{ended[0]['refreshTokenId']}"},
        {"url": "/api/jwt/refresh", "params": {"token": ended[1]["refreshToken"]}},
        {"url": "/api/jwt/refresh", "data": {"token": ended[2]["refreshToken"]}, "headers": form},
        {"url": "/api/jwt/refresh", "json": {"token": ended[3]["refreshToken"]}},
    ]
    for request in requests:
        assert (await key.request("DELETE", **request)).status_code == 200
    assert await ids_of(key, rp.user["id"]) == {kept["refreshTokenId"]}
    for body in ended:
        assert (await http.get("/api/jwt/validate", headers=bearer(body["token"]))).status_code == 401
    assert (await http.get("/api/jwt/validate", headers=bearer(kept["token"]))).status_code == 200
    assert (await key.request("DELETE", **requests[0])).status_code == 404
    assert (await key.request("DELETE", **requests[1])).status_code == 200


@pytest.mark.requirement("users-6-3")
async def test_refresh_tokens_are_revoked_by_user_application_or_both(key, http, rp, api) -> None:
    colleague = await other_user(key, rp)
    application_id = await other_application(key, rp, registered=True)
    here, there = await login(key, rp), await login(key, rp, applicationId=application_id)
    theirs = await login(key, rp, loginId=colleague["email"])
    await key.delete("/api/jwt/refresh", params={"userId": rp.user["id"], "applicationId": rp.client_id})
    assert await ids_of(key, rp.user["id"]) == {there["refreshTokenId"]}
    await key.delete("/api/jwt/refresh", params={"userId": rp.user["id"]})
    assert await ids_of(key, rp.user["id"]) == set()
    assert await ids_of(key, colleague["id"]) == {theirs["refreshTokenId"]}
    await key.delete("/api/jwt/refresh", params={"applicationId": rp.client_id})
    assert await ids_of(key, colleague["id"]) == set()
    for body in (here, there, theirs):
        assert (await http.get("/api/jwt/validate", headers=bearer(body["token"]))).status_code == 401
    for query in ({"userId": UNKNOWN_ID}, {"applicationId": UNKNOWN_ID}, {"applicationId": rp.client_id}):
        assert (await key.delete("/api/jwt/refresh", params=query)).status_code == 200
    assert codes(await key.delete("/api/jwt/refresh")) == ["[missing]token"]


async def refresh(http: httpx.AsyncClient, rp: RelyingParty, cookies: str = "", **body: Any) -> httpx.Response:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]} | ({"Cookie": cookies} if cookies else {})
    return await http.post("/api/jwt/refresh", json=body, headers=headers)


@pytest.mark.requirement("users-6-1")
async def test_refresh_returns_new_access_token_and_cookies(key, http, rp) -> None:
    body = await login(key, rp)
    answer = await refresh(http, rp, refreshToken=body["refreshToken"], timeToLiveInSeconds=60)
    assert answer.status_code == 200, answer.text
    fresh = answer.json()
    assert (fresh["refreshToken"], fresh["refreshTokenId"]) == (body["refreshToken"], body["refreshTokenId"])
    claims = relying_party.claims(fresh["token"])
    assert (claims["sub"], claims["sid"]) == (rp.user["id"], body["refreshTokenId"])
    assert claims["authenticationType"] == "REFRESH_TOKEN" and claims["exp"] - claims["iat"] == 60
    cookies = {cookie.name: cookie.value for cookie in answer.cookies.jar}
    assert cookies == {"access_token": fresh["token"], "refresh_token": fresh["refreshToken"]}


@pytest.mark.requirement("users-6-1")
async def test_cookie_precedes_body_and_one_time_token_is_rotated(key, http, rp) -> None:
    await rp.configure_tenant(jwtConfiguration={"refreshTokenUsagePolicy": "OneTimeUse"})
    body = await login(key, rp)
    first = await refresh(http, rp, f"refresh_token={body['refreshToken']}", refreshToken="unknown")
    assert first.status_code == 200
    assert first.json()["refreshToken"] != body["refreshToken"]
    http.cookies.clear()
    assert codes(await refresh(http, rp, refreshToken=body["refreshToken"])) == ["[invalid]refreshToken"]


@pytest.mark.requirement("users-6-1")
async def test_cookies_need_no_body(key, http, rp) -> None:
    body = await login(key, rp)
    cookies = f"refresh_token={body['refreshToken']}; access_token={body['token']}"
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"], "Cookie": cookies}
    answer = await http.post("/api/jwt/refresh", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["refreshTokenId"] == body["refreshTokenId"]


@pytest.mark.requirement("users-6-1")
async def test_invalid_refresh_requests(key, http, rp, api, clock) -> None:
    body = await login(key, rp)
    other = await relying_party.make(api)
    assert codes(await refresh(http, rp)) == ["[missing]refreshToken"]
    assert codes(await refresh(http, other, refreshToken=body["refreshToken"])) == ["[invalid]refreshToken"]
    too_long = await refresh(http, rp, refreshToken=body["refreshToken"], timeToLiveInSeconds=10_000)
    assert codes(too_long) == ["[invalid]timeToLiveInSeconds"]
    path, wanted = f"/api/application/{rp.client_id}", {"loginConfiguration": {"allowTokenRefresh": False}}
    await rp.patch(path, {"application": wanted})
    assert codes(await refresh(http, rp, refreshToken=body["refreshToken"])) == ["[invalid]refreshToken"]
    await rp.patch(path, {"application": {"loginConfiguration": {"allowTokenRefresh": True}}})
    await key.delete(f"/api/user/{rp.user['id']}")
    assert codes(await refresh(http, rp, refreshToken=body["refreshToken"])) == ["[invalid]refreshToken"]


@pytest.mark.requirement("event-jwt.refresh", "users-6-1")
async def test_refresh_emits_event_that_may_be_vetoed(key, http, rp) -> None:
    body = await login(key, rp)
    async with receiving(answers(500)) as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, ["jwt.refresh"], "AbsoluteMajority")
        answer = await refresh(http, rp, refreshToken=body["refreshToken"], token="the-old-one")
        (event,) = [request.event for request in await receiver.wait_for(1)]
        assert answer.status_code == 504
        assert not answer.cookies
        receiver.behaviour = answers(200)
        answer = await refresh(http, rp, refreshToken=body["refreshToken"])
        received = [request.event for request in await receiver.wait_for(2)][-1]
    for one in (event, received):
        check_event(one)
        assert (one["applicationId"], one["userId"], one["linkedObjectId"]) == (
            rp.client_id, rp.user["id"], rp.user["id"],
        )  # fmt: skip
        assert one["refreshToken"] == body["refreshToken"]
    assert (event["original"], "original" in received) == ("the-old-one", False)
    assert received["token"] == answer.json()["token"] != event["token"]


@pytest.mark.requirement("event-jwt.refresh-token.revoke-2", "users-6-5")
async def test_each_form_of_revocation_emits_one_event_that_may_be_vetoed(key, rp) -> None:
    kind = "jwt.refresh-token.revoke"
    bodies = [await login(key, rp) for _ in range(3)]
    async with receiving() as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, [kind])
        await key.delete(f"/api/jwt/refresh/{bodies[0]['refreshTokenId']}")
        (single,) = [request.event for request in await receiver.wait_for(1)]
        await key.delete("/api/jwt/refresh", params={"applicationId": rp.client_id})
        await key.delete("/api/jwt/refresh", params={"applicationId": rp.client_id})
        whole = [request.event for request in await receiver.wait_for(2)][-1]
    for event in (single, whole):
        check_event(event)
    assert single["refreshToken"]["id"] == bodies[0]["refreshTokenId"] and "token" not in single["refreshToken"]
    assert (single["userId"], single["user"]["id"]) == (rp.user["id"], rp.user["id"])
    assert whole["applicationTimeToLiveInSeconds"] == single["applicationTimeToLiveInSeconds"] == {rp.client_id: 3600}
    assert whole["applicationId"] == rp.client_id and {"user", "userId", "refreshToken"}.isdisjoint(whole)
    last = await login(key, rp)
    async with receiving(answers(500)) as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, [kind], "AbsoluteMajority")
        for query in ({"token": last["refreshToken"]}, {"userId": rp.user["id"]}, {"applicationId": rp.client_id}):
            assert (await key.delete("/api/jwt/refresh", params=query)).status_code == 504
    assert await ids_of(key, rp.user["id"]) == {last["refreshTokenId"]}


# Without a tenant in the request


@pytest.mark.requirement("users-6-4")
async def test_refresh_token_determines_tenant(key, http, rp, service) -> None:
    found = await login(key, rp)
    by_body = await http.post("/api/jwt/refresh", json={"refreshToken": found["refreshToken"]})
    assert by_body.status_code == 200
    assert relying_party.claims(by_body.json()["token"])["tid"] == rp.tenant["id"]
    async with checking_client(service.base_url, cookies={"refresh_token": found["refreshToken"]}) as browser:
        assert (await browser.post("/api/jwt/refresh")).status_code == 200
        assert (await browser.post("/api/logout")).status_code == 200
    assert await ids_of(key, rp.user["id"]) == set()
    http.cookies.clear()
    for value in (found["refreshToken"], "unknown"):
        assert codes(await http.post("/api/jwt/refresh", json={"refreshToken": value})) == ["[invalid]refreshToken"]


@pytest.mark.requirement("users-6-4")
async def test_global_logout_needs_no_tenant(key, http, rp) -> None:
    first, _ = await login(key, rp), await login(key, rp)
    body = {"refreshToken": first["refreshToken"], "global": True}
    assert (await http.post("/api/logout", json=body)).status_code == 200
    assert await ids_of(key, rp.user["id"]) == set()


# What owners end themselves


@pytest.mark.requirement("users-6-4")
async def test_user_application_and_value_determine_tenant(service, key, http, rp) -> None:
    first, second = [await login(key, rp) for _ in range(2)]
    headers = {"Authorization": SUPER_KEY}
    user_id, of_application = rp.user["id"], {"applicationId": rp.client_id}
    async with checking_client(service.base_url, headers=headers) as client:
        assert (await client.put(f"/api/login/{user_id}")).status_code == 200
        assert (await client.put(f"/api/login/{UNKNOWN_ID}")).status_code == 404
        assert await ids_of(client, user_id) == await ids_of(key, user_id)
        assert await ids_of(client, UNKNOWN_ID) == set()
        for names, gone in (({"token": first["refreshToken"]}, first), ({"userId": user_id, **of_application}, second)):
            assert (await client.delete("/api/jwt/refresh", params=names)).status_code == 200
            assert gone["refreshTokenId"] not in await ids_of(key, user_id)
        assert await ids_of(key, user_id) == set()
        third = await login(key, rp)
        for other in (UNKNOWN_ID, rp.tenant["id"]):
            assert (await client.delete("/api/jwt/refresh", params={"applicationId": other})).status_code == 200
            assert (await client.delete("/api/jwt/refresh", params={"userId": other})).status_code == 200
        assert await ids_of(key, user_id) == {third["refreshTokenId"]}
        assert (await client.delete("/api/jwt/refresh", params=of_application)).status_code == 200
        assert await ids_of(key, user_id) == set()


@pytest.mark.requirement("core-4-3", "users-6-3")
async def test_owner_revokes_tokens_with_access_token(key, http, rp) -> None:
    async def fresh() -> Document:
        http.cookies.clear()
        return await login(key, rp)

    async def end(access_token: str, path: str = "/api/jwt/refresh", **query: str) -> int:
        return (await http.delete(path, params=query, headers=bearer(access_token))).status_code

    found = await fresh()
    assert await end(found["token"], f"/api/jwt/refresh/{found['refreshTokenId']}") == 200
    for name in ("token", "userId", "applicationId"):
        found = await fresh()
        values = {"token": found["refreshToken"], "userId": rp.user["id"], "applicationId": rp.client_id}
        assert await end(found["token"], **{name: values[name]}) == 200
        assert await ids_of(key, rp.user["id"]) == set(), name
    assert codes(await http.delete("/api/jwt/refresh", headers=bearer((await fresh())["token"]))) == ["[missing]token"]


@pytest.mark.requirement("users-6-3")
async def test_tokens_of_others_cannot_be_revoked(key, http, rp) -> None:
    other = await other_user(key, rp)
    mine, theirs = await login(key, rp), await login(key, rp, loginId=other["email"])
    http.cookies.clear()
    header = bearer(mine["token"])
    path = f"/api/jwt/refresh/{theirs['refreshTokenId']}"
    assert (await http.delete(path, headers=header)).status_code == 404
    assert (await http.delete("/api/jwt/refresh", params={"userId": other["id"]}, headers=header)).status_code == 401
    by_value = {"token": theirs["refreshToken"]}
    assert (await http.delete("/api/jwt/refresh", params=by_value, headers=header)).status_code == 200
    by_application = {"applicationId": rp.client_id}
    assert (await http.delete("/api/jwt/refresh", params=by_application, headers=header)).status_code == 200
    assert await ids_of(key, rp.user["id"]) == set()
    assert await ids_of(key, other["id"]) == {theirs["refreshTokenId"]}
    for headers in ({}, bearer("none")):
        assert (await http.delete("/api/jwt/refresh", params=by_value, headers=headers)).status_code == 401
        assert (await http.delete(path, headers=headers)).status_code == 401


@pytest.mark.requirement("users-6-3")
async def test_third_party_revokes_only_its_own_tokens(key, http, rp) -> None:
    found = await login(key, rp)
    other = await other_application(key, rp, registered=True)
    elsewhere = await login(key, rp, applicationId=other)
    await rp.configure(relationship="ThirdParty")
    http.cookies.clear()
    header = bearer(found["token"])
    path = f"/api/jwt/refresh/{elsewhere['refreshTokenId']}"
    assert (await http.delete(path, headers=header)).status_code == 401
    for query in ({"userId": rp.user["id"]}, {"applicationId": other}, {"token": elsewhere["refreshToken"]}):
        assert (await http.delete("/api/jwt/refresh", params=query, headers=header)).status_code == 401
    assert (
        await http.delete("/api/jwt/refresh", params={"applicationId": rp.client_id}, headers=header)
    ).status_code == 200
    assert await ids_of(key, rp.user["id"]) == {elsewhere["refreshTokenId"]}


# Pings by a token


@pytest.mark.requirement("core-4-3", "users-5-17")
async def test_ping_with_access_token_issues_no_new_token(key, http, rp, clock) -> None:
    token = (await login(key, rp))["token"]
    clock.advance(seconds=5)
    http.cookies.clear()
    answer = await http.put("/api/login", headers=bearer(token))
    assert (answer.status_code, answer.json().keys()) == (200, {"user"})
    assert answer.json()["user"]["registrations"][0]["lastLoginInstant"] > clock.now() - 4000
    named = {"userId": rp.user["id"].upper(), "applicationId": rp.client_id}
    assert (await http.put("/api/login", json=named, headers=bearer(token))).status_code == 200
    records = (await key.get("/api/user/recent-login", params={"userId": rp.user["id"]})).json()["logins"]
    assert len(records) == 4


@pytest.mark.requirement("users-5-17")
async def test_ping_with_token_is_limited_to_its_user(key, http, rp) -> None:
    other = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    token = (await login(key, rp))["token"]
    http.cookies.clear()
    assert (await http.put("/api/login", json={"userId": other["id"]}, headers=bearer(token))).status_code == 401
    assert (await http.put("/api/login", headers=bearer("none"))).status_code == 401
    assert (await http.put("/api/login", json={"userId": rp.user["id"]})).status_code == 401
    elsewhere = {"applicationId": await other_application(key, rp, registered=False)}
    assert (await http.put("/api/login", json=elsewhere, headers=bearer(token))).status_code == 202
    await rp.configure(relationship="ThirdParty")
    assert (await http.put("/api/login", json=elsewhere, headers=bearer(token))).status_code == 401
    assert codes(await key.put("/api/login", json={})) == ["[missing]userId"]


@pytest.mark.requirement("users-2-10")
async def test_user_is_retrieved_with_own_access_token(http, key, rp: RelyingParty) -> None:
    token = (await login(key, rp))["token"]
    for scheme in ("Bearer", "JWT"):
        answer = await http.get("/api/user", headers={"Authorization": f"{scheme} {token}"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["user"]["id"] == rp.user["id"] and "encryptionScheme" not in answer.json()["user"]
    others = (await http.get("/api/user?email=admin@example.com", headers=bearer(token))).json()["user"]
    assert others["id"] == rp.user["id"], "a token is for its own user, whoever is asked for"
    assert (await http.get("/api/user", headers=bearer("made.up.token"))).status_code == 401
    assert (await http.get("/api/user")).status_code == 401
