"""/api/login and /api/logout over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id
from identity.instants import later
from tests import relying_party
from tests.conftest import EMAIL_TEMPLATE, UNKNOWN_ID
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, RelyingParty
from tests.subscriber import check_event
from tests.webhooks import subscribe

Document = dict[str, Any]

EVENTS = ("user.login.success", "user.login.failed", "user.login.new-device", "jwt.refresh-token.revoke")


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    found = await relying_party.make(api)
    await change(found, loginConfiguration={"generateRefreshTokens": True, "allowTokenRefresh": True})
    return found


async def change(rp: RelyingParty, **members: Any) -> None:
    await rp.patch(f"/api/application/{rp.client_id}", {"application": members})


async def log_in(client: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> httpx.Response:
    return await rp.log_in_by_api(client, **members)


def codes(answer: httpx.Response) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.text
    return {
        path: [entry["code"].partition("]")[0][1:] for entry in found]
        for path, found in answer.json().get("fieldErrors", {}).items()
    }


# Logging in


@pytest.mark.requirement("users-5-4", "users-5-7")
async def test_registered_user_gets_tokens_in_body_and_cookies(key, rp, clock) -> None:
    before = clock.now()
    device = {"name": "Phone", "type": "MOBILE"}
    answer = await log_in(key, rp, metaData={"device": device})
    assert answer.status_code == 200
    body = answer.json()
    assert body.keys() == {"user", "token", "tokenExpirationInstant", "refreshToken", "refreshTokenId"}
    claims = relying_party.claims(body["token"])
    assert (claims["sub"], claims["aud"], claims["authenticationType"]) == (rp.user["id"], rp.client_id, "PASSWORD")
    assert claims["sid"] == body["refreshTokenId"]
    assert body["tokenExpirationInstant"] // 1000 == claims["exp"]
    cookies = {cookie.name: cookie for cookie in answer.cookies.jar}
    assert cookies["access_token"].value == body["token"] and cookies["access_token"].expires is None
    assert cookies["refresh_token"].value == body["refreshToken"] and cookies["refresh_token"].expires is not None
    assert all(cookie.has_nonstandard_attr("HttpOnly") for cookie in cookies.values())
    stored = (await key.get(f"/api/jwt/refresh/{body['refreshTokenId']}")).json()["refreshToken"]
    assert {name: stored["metaData"]["device"][name] for name in device} == device
    assert (await key.get(f"/api/user/{rp.user['id']}")).json()["user"]["lastLoginInstant"] >= before


@pytest.mark.requirement("users-5-4")
async def test_no_tokens_or_cookies_with_no_jwt(key, rp) -> None:
    answer = await log_in(key, rp, noJWT=True)
    assert answer.json().keys() == {"user"}
    assert not answer.cookies


@pytest.mark.requirement("core-3-3", "users-5-8")
async def test_unregistered_user_is_202_without_refresh_token(key, rp) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"])
    answer = await log_in(key, rp, loginId=user["email"])
    assert answer.status_code == 202
    assert answer.json().keys() == {"user", "token", "tokenExpirationInstant"}
    assert "roles" not in relying_party.claims(answer.json()["token"])


@pytest.mark.requirement("users-5-3")
async def test_login_without_application_returns_token(key, rp) -> None:
    answer = await log_in(key, rp, applicationId=None)
    assert answer.status_code == 200
    claims = relying_party.claims(answer.json()["token"])
    assert claims["sub"] == rp.user["id"] and "aud" not in claims and claims["tid"] == rp.tenant["id"]
    assert (await log_in(key, rp, applicationId=None, noJWT=True)).json().keys() == {"user"}


@pytest.mark.requirement("users-5-2")
async def test_login_id_types_limit_lookup(key, rp) -> None:
    name = f"name-{new_id()}"
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id, username=name)
    assert (await log_in(key, rp, loginId=name)).json()["user"]["id"] == user["id"]
    assert (await log_in(key, rp, loginId=name, loginIdTypes=["username"])).status_code == 200
    assert (await log_in(key, rp, loginId=name, loginIdTypes=["email", "phoneNumber"])).status_code == 404
    assert codes(await log_in(key, rp, loginIdTypes=["shoe size"])) == {"loginIdTypes[0]": ["invalid"]}


@pytest.mark.requirement("users-5-12")
async def test_unknown_user_wrong_password_and_other_tenant_answer_the_same(key, rp, api) -> None:
    other = await relying_party.make(api)
    for members in ({"password": "wrong"}, {"loginId": f"{new_id()}@example.com"}, {"loginId": other.login_id}):
        answer = await log_in(key, rp, **members)
        assert (answer.status_code, answer.content) == (404, b"")


@pytest.mark.requirement("users-5-2")
async def test_missing_members_are_reported_together(key, rp) -> None:
    assert codes(await key.post("/api/login", json={})) == {"loginId": ["blank"], "password": ["blank"]}
    for wrong, kind in (("no id", "couldNotConvert"), (UNKNOWN_ID, "invalid")):
        assert codes(await log_in(key, rp, applicationId=wrong)) == {"applicationId": [kind]}


@pytest.mark.requirement("users-5-3")
async def test_application_of_another_tenant_is_unknown(key, rp, api) -> None:
    other = await relying_party.make(api)
    assert codes(await log_in(key, rp, applicationId=other.client_id)) == {"applicationId": ["invalid"]}


@pytest.mark.requirement("users-5-1")
async def test_api_key_requirement_follows_application_and_tenant(http, rp) -> None:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"loginId": rp.login_id, "password": PASSWORD}
    of_application = {**body, "applicationId": rp.client_id}
    assert (await http.post("/api/login", json=of_application)).status_code == 401
    assert (await http.post("/api/login", json=body, headers=headers)).status_code == 401
    await change(rp, loginConfiguration={"requireAuthentication": False})
    assert (await http.post("/api/login", json=of_application)).status_code == 200
    assert (await http.post("/api/login", json=body, headers=headers)).status_code == 401
    await rp.configure_tenant(loginConfiguration={"requireAuthentication": False})
    assert (await http.post("/api/login", json=body, headers=headers)).status_code == 200
    wrong = await http.post("/api/login", json=of_application, headers={"Authorization": "no key of ours"})
    assert wrong.status_code == 401


@pytest.mark.requirement("core-3-3", "users-5-12", "users-5-14", "users-5-9")
@pytest.mark.parametrize(
    ("members", "status", "expected_error"),
    [
        ({"passwordChangeRequired": True}, 203, {"changePasswordReason": "Administrative"}),
        ({"expiry": 1}, 410, None),
        ({"active": False}, 423, None),
    ],
)
async def test_login_obstacles_are_revealed_for_correct_password_only(key, rp, members, status, expected_error) -> None:
    user = await relying_party.make_user(rp.api, rp.tenant["id"], rp.client_id)
    if "active" in members:
        await key.delete(f"/api/user/{user['id']}")
    else:
        await rp.patch(f"/api/user/{user['id']}", {"user": members})
    answer = await log_in(key, rp, loginId=user["email"])
    assert answer.status_code == status
    body = answer.json() if answer.content else None
    if status == 203:
        assert len(body.pop("changePasswordId")) == 43
    assert body == expected_error
    assert not answer.cookies
    assert (await log_in(key, rp, loginId=user["email"], password="wrong")).status_code == 404


@pytest.mark.requirement("core-3-3", "users-5-10")
async def test_unverified_users_and_registrations_are_gated(key, rp) -> None:
    await rp.configure_tenant(
        emailConfiguration={
            "verifyEmail": True,
            "verificationEmailTemplateId": EMAIL_TEMPLATE,
            "unverified": {"behavior": "Gated"},
        }
    )
    made = await key.post("/api/user", json={"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}})
    user = made.json()["user"]
    answer = await log_in(key, rp, loginId=user["email"])
    assert (answer.status_code, answer.json().keys()) == (212, {"user"})
    await rp.configure_tenant(emailConfiguration={"verifyEmail": False})
    await change(
        rp, verifyRegistration=True, verificationEmailTemplateId=EMAIL_TEMPLATE, unverified={"behavior": "Gated"}
    )
    await key.post(f"/api/user/registration/{user['id']}", json={"registration": {"applicationId": rp.client_id}})
    answer = await log_in(key, rp, loginId=user["email"])
    assert (answer.status_code, answer.json().keys()) == (213, {"user"})


@pytest.mark.requirement("core-3-3", "users-5-11")
async def test_second_factor_challenge_hides_secret(key, rp) -> None:
    method = {"method": "authenticator", "secret": "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA="}
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": [method]}}})
    answer = await log_in(key, rp)
    assert answer.status_code == 242
    (shown,) = answer.json()["methods"]
    assert shown["method"] == "authenticator" and "secret" not in shown


@pytest.mark.requirement("core-3-12", "users-5-15")
async def test_locked_account_after_failures_is_503(key, rp) -> None:
    limits = {"failedLogin": {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}}
    await rp.configure_tenant(rateLimitConfiguration=limits)
    assert (await log_in(key, rp, password="wrong")).status_code == 404
    answer = await log_in(key, rp)
    assert answer.status_code == 503
    assert answer.json()["generalErrors"][0]["code"] == "[Unavailable]"


@pytest.mark.requirement("users-5-4")
async def test_login_events_of_success_new_device_and_failure(key, rp) -> None:
    async with receiving() as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, EVENTS)
        await log_in(key, rp, newDevice=True, ipAddress="203.0.113.7")
        await log_in(key, rp, password="wrong")
        events = {request.event["type"]: request.event for request in await receiver.wait_for(3)}
    assert events.keys() == {"user.login.success", "user.login.new-device", "user.login.failed"}
    for event in events.values():
        check_event(event)
    for name in ("user.login.success", "user.login.new-device"):
        assert events[name]["authenticationType"] == "PASSWORD"
        assert events[name]["applicationId"] == rp.client_id
        assert events[name]["info"]["ipAddress"] == "203.0.113.7"
    assert events["user.login.failed"]["reason"] == {"code": "credentials"}


@pytest.mark.requirement("users-5-16")
async def test_vetoed_login_issues_and_records_nothing(key, rp) -> None:
    before = (await key.get(f"/api/user/{rp.user['id']}")).json()
    async with receiving(answers(500)) as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, EVENTS, "AbsoluteMajority")
        answer = await log_in(key, rp)
    assert answer.status_code == 504
    assert not answer.cookies
    assert (await key.get(f"/api/user/{rp.user['id']}")).json() == before
    assert (await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})).json() == {"refreshTokens": []}


# Ping


@pytest.mark.requirement("users-5-17")
async def test_ping_records_activity(key, rp, clock) -> None:
    await log_in(key, rp)
    clock.advance(seconds=3600)
    before = clock.now()
    answer = await key.put(f"/api/login/{rp.user['id']}/{rp.client_id}", params={"ipAddress": "203.0.113.7"})
    assert answer.status_code == 200
    assert answer.json().keys() == {"user", "token", "tokenExpirationInstant"}
    assert relying_party.claims(answer.json()["token"])["authenticationType"] == "PING"
    user = (await key.get(f"/api/user/{rp.user['id']}")).json()["user"]
    assert user["lastLoginInstant"] == user["registrations"][0]["lastLoginInstant"] >= before


@pytest.mark.requirement("users-5-17")
async def test_ping_accepts_body_and_optional_application(key, rp) -> None:
    answer = await key.put("/api/login", json={"userId": rp.user["id"], "applicationId": rp.client_id})
    assert answer.status_code == 200
    quiet = {"userId": rp.user["id"], "noJWT": True}
    assert (await key.put("/api/login", json=quiet)).json().keys() == {"user"}
    answer = await key.put(f"/api/login/{rp.user['id']}")
    assert "aud" not in relying_party.claims(answer.json()["token"])
    assert codes(await key.put("/api/login", json={})) == {"userId": ["missing"]}


@pytest.mark.requirement("users-5-17")
async def test_ping_of_unknown_unregistered_and_locked_user(key, rp, api, clock) -> None:
    other = await relying_party.make(api)
    for unknown in (UNKNOWN_ID, other.user["id"]):
        assert (await key.put(f"/api/login/{unknown}/{rp.client_id}")).status_code == 404
    user = await relying_party.make_user(rp.api, rp.tenant["id"])
    assert (await key.put(f"/api/login/{user['id']}/{rp.client_id}")).status_code == 202
    await rp.patch(f"/api/user/{user['id']}", {"user": {"expiry": later(clock.now(), seconds=-1)}})
    assert (await key.put(f"/api/login/{user['id']}")).status_code == 410
    await key.delete(f"/api/user/{user['id']}")
    assert (await key.put(f"/api/login/{user['id']}")).status_code == 423


# Logging out


@pytest.mark.requirement("users-5-18")
async def test_logout_revokes_cookie_token_and_clears_cookies(key, http, rp) -> None:
    first, second = [(await log_in(key, rp)).json() for _ in range(2)]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"], "Cookie": f"refresh_token={first['refreshToken']}"}
    answer = await http.post("/api/logout", headers=headers)
    assert (answer.status_code, answer.content) == (200, b"")
    ended = [line for line in answer.headers.get_list("Set-Cookie") if "Max-Age=0" in line]
    assert sorted(line.partition("=")[0] for line in ended) == ["access_token", "refresh_token"]
    left = (await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})).json()["refreshTokens"]
    assert [record["id"] for record in left] == [second["refreshTokenId"]]
    revoked = await http.get("/api/jwt/validate", headers={"Authorization": f"Bearer {first['token']}"})
    assert revoked.status_code == 401


@pytest.mark.requirement("users-5-18")
async def test_global_logout_revokes_all_and_body_precedes_cookie(key, http, rp) -> None:
    first, _second = [(await log_in(key, rp)).json() for _ in range(2)]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"], "Cookie": "refresh_token=unknown"}
    answer = await http.post(
        "/api/logout", json={"global": True, "refreshToken": first["refreshToken"]}, headers=headers
    )
    assert answer.status_code == 200
    assert (await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})).json() == {"refreshTokens": []}


@pytest.mark.requirement("users-5-18")
async def test_logout_without_own_token_is_200_and_revokes_nothing(key, http, rp, api) -> None:
    mine = (await log_in(key, rp)).json()
    other = await relying_party.make(api)
    headers = {"X-FusionAuth-TenantId": other.tenant["id"]}
    for query in ({}, {"refreshToken": "unknown"}, {"refreshToken": mine["refreshToken"], "global": "true"}):
        assert (await http.post("/api/logout", params=query, headers=headers)).status_code == 200
    left = (await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})).json()["refreshTokens"]
    assert len(left) == 1


@pytest.mark.requirement("users-5-18")
async def test_rotated_refresh_token_cannot_log_out(key, http, rp) -> None:
    await rp.configure_tenant(jwtConfiguration={"refreshTokenUsagePolicy": "OneTimeUse"})
    old = (await log_in(key, rp)).json()["refreshToken"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await http.post("/api/jwt/refresh", json={"refreshToken": old}, headers=headers)).status_code == 200
    http.cookies.clear()
    for everywhere in ("false", "true"):
        query = {"refreshToken": old, "global": everywhere}
        assert (await http.post("/api/logout", params=query, headers=headers)).status_code == 200
    assert len((await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})).json()["refreshTokens"]) == 1


@pytest.mark.requirement("event-jwt.refresh-token.revoke-3", "users-5-18")
async def test_vetoed_logout_revokes_nothing(key, http, rp) -> None:
    mine = (await log_in(key, rp)).json()
    async with receiving(answers(500)) as receiver:
        await subscribe(rp.api, rp.tenant, receiver.url, EVENTS, "AbsoluteMajority")
        headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
        answer = await http.post("/api/logout", params={"refreshToken": mine["refreshToken"]}, headers=headers)
    assert answer.status_code == 504
    (event,) = [request.event for request in receiver.requests]
    check_event(event)
    assert (event["type"], event["refreshToken"]["id"]) == ("jwt.refresh-token.revoke", mine["refreshTokenId"])
    assert len((await key.get("/api/jwt/refresh", params={"userId": rp.user["id"]})).json()["refreshTokens"]) == 1
