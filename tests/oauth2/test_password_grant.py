"""The password grant: tokens, errors, uniform answers, and events that may be vetoed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.errors import Unavailable
from identity.ids import new_id
from identity.operations.limits import failed_login_limits
from identity.password_pool import PasswordPool
from tests import internals, relying_party, two_factor
from tests.conftest import EMAIL_TEMPLATE
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD, RelyingParty, claims, half_hash, header
from tests.webhooks import subscribe

LOGIN_EVENTS = ("user.login.failed", "user.login.success")


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """A relying party that may use the grant."""
    return await relying_party.make(api, enabledGrants=["password", "refresh_token"])


async def token_request(rp, http, **form: str | None) -> httpx.Response:
    return await rp.token(http, **{"grant_type": "password", "username": rp.login_id, "password": PASSWORD, **form})


async def token_response(rp, http, **form: str | None) -> dict[str, Any]:
    answer = await token_request(rp, http, **form)
    assert answer.status_code == 200, answer.text
    assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")
    return dict(answer.json())


def refused(answer: httpx.Response, error: str, reason: str | None, status: int = 400) -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["error"], body.get("error_reason")) == (error, reason), body
    assert body["error_description"]
    assert answer.headers["Cache-Control"] == "no-store"


async def change_user(rp, **members: Any) -> None:
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": members})


async def lock(rp, api) -> None:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200


async def test_password_grant_returns_tokens(rp, http):
    tokens = await token_response(rp, http, scope="openid offline_access")
    assert tokens.keys() == {
        "access_token", "expires_in", "id_token", "refresh_token", "refresh_token_id", "scope", "token_type", "userId",
    }  # fmt: skip
    assert (tokens["expires_in"], tokens["token_type"]) == (3600, "Bearer")
    assert tokens["scope"] == "openid offline_access"
    assert tokens["userId"] == rp.user["id"]
    access_token, id_token = claims(tokens["access_token"]), claims(tokens["id_token"])
    for token in (access_token, id_token):
        assert (token["iss"], token["aud"], token["sub"]) == (rp.tenant["issuer"], rp.client_id, rp.user["id"])
        assert token["gty"] == ["password"]
        assert token["sid"] == tokens["refresh_token_id"]
        assert token["iat"] - 5 <= token["auth_time"] <= token["iat"]
    assert header(tokens["access_token"])["gty"] == ["password"]
    assert access_token["authenticationType"] == "PASSWORD"
    assert (access_token["applicationId"], access_token["roles"]) == (rp.client_id, [])
    assert id_token["at_hash"] == half_hash(tokens["access_token"])
    assert not id_token.keys() & {"c_hash", "nonce"}
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).json() == {"sub": rp.user["id"]}


@pytest.mark.requirement("contract-token-7")
async def test_scope_determines_the_tokens(rp, http):
    assert (await token_response(rp, http)).keys() == {"access_token", "expires_in", "token_type", "userId"}
    with_email = await token_response(rp, http, scope="openid email")
    assert with_email.keys() == {"access_token", "expires_in", "id_token", "scope", "token_type", "userId"}
    assert claims(with_email["access_token"])["scope"] == with_email["scope"] == "openid email"
    offline = await token_response(rp, http, scope="offline_access")
    assert "id_token" not in offline
    assert claims(offline["access_token"])["sid"] == offline["refresh_token_id"]


async def test_refresh_token_can_be_used(rp, http, clock):
    first = await token_response(rp, http, scope="openid offline_access")
    clock.advance(seconds=100)
    answer = await rp.refresh(http, first["refresh_token"])
    assert answer.status_code == 200, answer.text
    refreshed = claims(answer.json()["access_token"])
    assert refreshed["gty"] == ["password", "refresh_token"]
    assert refreshed["auth_time"] == claims(first["access_token"])["auth_time"]
    assert refreshed["sid"] == first["refresh_token_id"]


async def test_application_without_refresh_tokens_issues_none(rp, http):
    await rp.configure(generateRefreshTokens=False)
    assert not (await token_response(rp, http, scope="offline_access")).keys() & {"refresh_token", "refresh_token_id"}


@pytest.mark.requirement("contract-token-8")
async def test_device_is_stored_with_the_refresh_token(rp, http, service):
    device = {"description": "Ada's phone", "name": "phone", "type": "FOLDABLE"}
    named = {f"metaData.device.{name}": value for name, value in device.items()}
    tokens = await token_response(rp, http, scope="offline_access", **named)
    record = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    seen = record["metaData"]["device"]
    assert {name: seen[name] for name in device} == device
    assert seen["lastAccessedAddress"] == "127.0.0.1"
    assert record["metaData"]["scopes"] == ["offline_access"]
    assert (record["applicationId"], record["userId"]) == (rp.client_id, rp.user["id"])


@pytest.mark.requirement("contract-token-6")
async def test_user_is_found_by_email_and_username_under_either_parameter(rp, http, api):
    name = f"Ada {new_id()}"
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id, username=name)
    for login_id in (rp.login_id, f" {rp.login_id.upper()} ", name, name.lower()):
        assert (await token_response(rp, http, username=login_id))["userId"] == rp.user["id"]
        assert (await token_response(rp, http, username=None, loginId=login_id))["userId"] == rp.user["id"]
    assert (await token_response(rp, http, loginId=rp.login_id))["userId"] == rp.user["id"]
    refused(await token_request(rp, http, loginId="unknown@example.com"), "invalid_request", "unknown")


async def test_password_is_not_trimmed(rp, http, api):
    password = " pässwörd + % & = \t"
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id, password=password)
    await token_response(rp, http, password=password)
    refused(await token_request(rp, http, password=password.strip()), "invalid_grant", "invalid_user_credentials")


@pytest.mark.requirement("contract-token-6", "oauth-2.2-10")
@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("name", ["username", "password"])
async def test_username_and_password_are_required(rp, http, name, value):
    answer = await token_request(rp, http, **{name: value})
    refused(answer, "invalid_request", "unknown")
    assert name in answer.json()["error_description"]


@pytest.mark.requirement("reason-grant_type_disabled")
async def test_grant_is_disabled_by_default(rp, http, api):
    other = await relying_party.make(api)
    refused(await token_request(other, http), "unauthorized_client", "grant_type_disabled")
    await rp.configure(enabledGrants=["authorization_code"])
    refused(await token_request(rp, http), "unauthorized_client", "grant_type_disabled")


@pytest.mark.requirement("contract-authentication-7")
async def test_policy_decides_whether_the_client_has_to_authenticate(rp, http):
    for policy in ("Required", "NotRequiredWhenUsingPKCE"):
        await rp.configure(clientAuthenticationPolicy=policy)
        refused(
            await token_request(rp, http, client_secret=None), "invalid_client", "client_authentication_missing", 401
        )
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    await token_response(rp, http, client_secret=None)
    refused(
        await token_request(rp, http, client_secret="wrong"), "invalid_client", "invalid_client_authentication", 401
    )
    refused(await token_request(rp, http, client_secret=""), "invalid_client", "missing_client_secret", 401)


async def test_refresh_token_of_a_password_does_not_authenticate_the_client(rp, http):
    await rp.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    tokens = await token_response(rp, http, scope="offline_access")
    answer = await rp.refresh(http, tokens["refresh_token"], client_secret=None)
    refused(answer, "invalid_client", "client_authentication_missing", 401)


@pytest.mark.requirement("oauth-2.2-10", "reason-invalid_user_credentials")
async def test_attack_44_unknown_user_and_wrong_password_get_the_same_response(rp, http, api):
    responses = []
    for form in ({"password": "wrong"}, {"username": "unknown@example.com"}, {"username": f"{new_id()}"}):
        answer = await token_request(rp, http, **form)
        refused(answer, "invalid_grant", "invalid_user_credentials")
        responses.append((answer.content, sorted(answer.headers.items())))
    stranger = await relying_party.make_user(api, (await relying_party.make(api)).tenant["id"])
    answer = await token_request(rp, http, username=stranger["email"])
    responses.append((answer.content, sorted(answer.headers.items())))
    assert len({content for content, _ in responses}) == 1
    assert (
        len({str([pair for pair in pairs if pair[0] not in {"date", "x-request-id"}]) for _, pairs in responses}) == 1
    )


async def test_attack_44_unknown_user_takes_the_time_of_a_wrong_password(rp, http, monkeypatch):
    compared: list[str] = []
    verify = PasswordPool.verify

    async def noted(self, password, stored, **named):
        compared.append(f"{stored.scheme} {stored.factor}")
        return await verify(self, password, stored, **named)

    monkeypatch.setattr(PasswordPool, "verify", noted)
    await token_request(rp, http, password="wrong")
    await token_request(rp, http, username="unknown@example.com")
    assert len(compared) == 2
    assert compared[0] == compared[1]


STATES = {
    "expired": ({"expiry": 1}, "invalid_grant", "user_expired"),
    "administrative": ({"passwordChangeRequired": True}, "change_password_required", "change_password_administrative"),
    "second factor": (
        {"twoFactor": {"methods": [{"method": "email", "email": "a@example.com"}]}}, "two_factor_required", None,
    ),
}  # fmt: skip


@pytest.mark.requirement("oauth-2.2-10", "reason-user_expired")
@pytest.mark.parametrize("state", STATES)
async def test_user_state_is_revealed_only_with_the_correct_password(rp, http, state):
    change, error, reason = STATES[state]
    await change_user(rp, **change)
    refused(await token_request(rp, http), error, reason)
    refused(await token_request(rp, http, password="wrong"), "invalid_grant", "invalid_user_credentials")


@pytest.mark.requirement("reason-user_locked")
async def test_attack_29_locked_user_gets_no_tokens(rp, http, api):
    await lock(rp, api)
    refused(await token_request(rp, http), "invalid_grant", "user_locked")
    refused(await token_request(rp, http, password="wrong"), "invalid_grant", "invalid_user_credentials")


async def test_attack_29_inactive_client_and_deleted_tenant_get_no_tokens(rp, http, api):
    other = await relying_party.make(api, tenant=rp.tenant, enabledGrants=["password"])
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/application/{rp.client_id}", headers=headers)).status_code == 200
    refused(await token_request(rp, http), "invalid_client", "invalid_client_id", 401)
    assert (await api.delete(f"/api/tenant/{rp.tenant['id']}", params={"async": "true"})).status_code in {200, 202}
    refused(await token_request(other, http), "invalid_client", "invalid_client_id", 401)


@pytest.mark.requirement(
    "error-change_password_required", "reason-change_password_administrative", "reason-change_password_breached"
)
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Breached", "change_password_breached"),
        ("Expired", "change_password_expired"),
        ("Validation", "change_password_validation"),
        (None, "change_password_administrative"),
    ],
)
async def test_reason_of_a_required_password_change_is_returned(rp, http, service, reason, expected):
    users = internals.store(service, "users")
    user = await users.find(rp.tenant["id"], rp.user["id"])
    marked = {**user, "passwordChangeRequired": True}
    if reason is not None:
        marked["passwordChangeReason"] = reason
    await users.replace(rp.tenant["id"], marked, user["lastUpdateInstant"])
    answer = await token_request(rp, http)
    refused(answer, "change_password_required", expected)
    assert "access_token" not in answer.json()


@pytest.mark.requirement("contract-errors-6", "oauth-0.1-11", "users-7-22")
async def test_returned_id_changes_the_password(rp, http):
    await change_user(rp, passwordChangeRequired=True)
    change_id = (await token_request(rp, http)).json()["change_password_id"]
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    new = {"password": "another horse battery"}
    changed = await http.post(f"/api/user/change-password/{change_id}", json=new, headers=headers)
    assert changed.status_code == 200
    assert "access_token" in (await token_request(rp, http, **new)).json()


@pytest.mark.requirement("reason-change_password_expired", "users-7-26")
async def test_expired_password_has_to_be_changed(rp, http, clock):
    await rp.configure_tenant(maximumPasswordAge={"enabled": True, "days": 1})
    await token_response(rp, http)
    clock.advance(seconds=86_401)
    refused(await token_request(rp, http), "change_password_required", "change_password_expired")


@pytest.mark.requirement("reason-change_password_validation", "users-7-26")
async def test_password_below_the_rules_has_to_be_changed(rp, http):
    await rp.configure_tenant(passwordValidationRules={"requireNumber": True, "validateOnLogin": True})
    refused(await token_request(rp, http), "change_password_required", "change_password_validation")


@pytest.mark.requirement("error-two_factor_required", "oauth-0.1-9")
async def test_second_factor_is_described_without_its_secret(rp, http):
    secret = "bm9ib2R5IG1heSBzZWUgdGhpcyE="
    methods = [
        {"method": "authenticator", "secret": secret, "authenticator": {}},
        {"method": "sms", "mobilePhone": "+14155550123"},
        {"method": "email", "email": "ada@example.com"},
    ]
    await change_user(rp, twoFactor={"methods": methods})
    answer = await token_request(rp, http)
    refused(answer, "two_factor_required", None)
    shown = {method["method"]: method for method in answer.json()["two_factor_methods"]}
    assert shown.keys() == {"authenticator", "sms", "email"}
    assert shown["sms"]["mobilePhone"] == "***23"
    assert shown["email"]["email"] == "a***@example.com"
    assert all(len(method["id"]) == 4 for method in shown.values())
    assert secret not in answer.text
    assert not answer.json().keys() & {"access_token", "refresh_token"}


@pytest.mark.requirement("oauth-0.1-10")
async def test_challenge_of_the_grant_is_completed_by_the_api(rp, http, clock):
    await change_user(rp, twoFactor={"methods": [two_factor.authenticator()]})
    refusal = await token_request(rp, http)
    refused(refusal, "two_factor_required", None)
    body = {"twoFactorId": refusal.json()["two_factor_id"], "code": two_factor.code(clock.now())}
    answer = await http.post("/api/two-factor/login", json=body)
    assert answer.status_code == 200, answer.text
    assert claims(answer.json()["token"])["sub"] == rp.user["id"]


@pytest.mark.requirement("oauth-2.2-10", "reason-email_verification_required")
async def test_verification_gates_are_reported(rp, http, api, service):
    gated = {
        "verifyRegistration": True,
        "verificationEmailTemplateId": EMAIL_TEMPLATE,
        "unverified": {"behavior": "Gated"},
    }
    await rp.patch(f"/api/application/{rp.client_id}", {"application": gated})
    await _unverify(rp, service, registration=True)
    refused(await token_request(rp, http), "invalid_grant", "registration_verification_required")
    await rp.configure_tenant(
        emailConfiguration={
            "verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE, "unverified": {"behavior": "Gated"},
        }
    )  # fmt: skip
    await _unverify(rp, service, registration=False)
    refused(await token_request(rp, http), "invalid_grant", "email_verification_required")
    refused(await token_request(rp, http, password="wrong"), "invalid_grant", "invalid_user_credentials")


async def _unverify(rp, service, *, registration: bool) -> None:
    users = internals.store(service, "users")
    user = await users.find(rp.tenant["id"], rp.user["id"])
    changed = {**user, "verified": registration}
    changed["registrations"] = [{**entry, "verified": False} for entry in user["registrations"]]
    await users.replace(rp.tenant["id"], changed, user["lastUpdateInstant"])


async def test_unregistered_user_gets_tokens_although_pages_require_registration(rp, http, api):
    await rp.configure(requireRegistration=True)
    rp.user = await relying_party.make_user(api, rp.tenant["id"])
    token = claims((await token_response(rp, http))["access_token"])
    assert not token.keys() & {"applicationId", "roles"}


@pytest.mark.parametrize("scope", ["openid magic", 'a"b', "x" * 3 + "\\"])
async def test_unknown_and_malformed_scopes_are_refused(rp, http, scope):
    refused(await token_request(rp, http, scope=scope), "invalid_scope", "unknown_scope")


async def test_policy_decides_about_unknown_scopes(rp, http):
    await rp.configure(unknownScopePolicy="Remove")
    assert (await token_response(rp, http, scope="openid magic"))["scope"] == "openid"
    await rp.configure(unknownScopePolicy="Allow")
    assert (await token_response(rp, http, scope="openid magic"))["scope"] == "openid magic"


@pytest.mark.requirement("reason-missing_required_scope")
async def test_third_party_gets_no_scopes_that_need_consent(rp, http):
    await rp.configure(relationship="ThirdParty", consentMode="AlwaysPrompt")
    for mode in ("AlwaysPrompt", "RememberDecision"):
        await rp.configure(consentMode=mode)
        refused(await token_request(rp, http, scope="openid email"), "invalid_scope", "missing_required_scope")
    assert (await token_response(rp, http, scope="openid offline_access"))["scope"] == "openid offline_access"
    await rp.configure(consentMode="NeverPrompt")
    assert (await token_response(rp, http, scope="openid email"))["scope"] == "openid email"
    await rp.configure(relationship="FirstParty", consentMode="AlwaysPrompt")
    assert (await token_response(rp, http, scope="openid email"))["scope"] == "openid email"


@pytest.mark.requirement("contract-token-9")
async def test_unknown_user_code_is_rejected_before_the_login(rp, http, service):
    refused(await token_request(rp, http, user_code="ABCDEF"), "invalid_request", "invalid_user_code")
    assert "lastLoginInstant" not in await internals.store(service, "users").find(rp.tenant["id"], rp.user["id"])


async def test_login_is_recorded(rp, http, service):
    await token_response(rp, http)
    user = await internals.store(service, "users").find(rp.tenant["id"], rp.user["id"])
    assert user["lastLoginInstant"] == user["registrations"][0]["lastLoginInstant"] > 0


async def test_user_of_another_tenant_is_unknown(rp, http, api):
    other = await relying_party.make(api, enabledGrants=["password"])
    refused(await token_request(rp, http, username=other.login_id), "invalid_grant", "invalid_user_credentials")
    refused(await token_request(rp, http, tenantId=other.tenant["id"]), "invalid_request", "invalid_tenant_id")


async def closes_after(rp, limit: int) -> None:
    failed = {"enabled": True, "limit": limit, "timePeriodInSeconds": 60}
    await rp.configure_tenant(rateLimitConfiguration={"failedLogin": failed})


async def test_attack_48_account_is_limited_regardless_of_headers(rp, http):
    await closes_after(rp, 3)
    for attempt in range(3):
        http.headers["X-Forwarded-For"] = f"203.0.113.{attempt}"
        http.headers["User-Agent"] = f"agent {attempt}"
        refused(await token_request(rp, http, password="wrong"), "invalid_grant", "invalid_user_credentials")
    answer = await token_request(rp, http)
    refused(answer, "invalid_grant", "unknown")
    assert "Too many attempts" in answer.json()["error_description"]


async def test_attack_48_success_of_others_resets_nothing(rp, http, api):
    await closes_after(rp, 2)
    victim = rp.login_id
    rp.user = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    for _ in range(2):
        refused(
            await token_request(rp, http, username=victim, password="wrong"),
            "invalid_grant",
            "invalid_user_credentials",
        )
        await token_response(rp, http)
    refused(await token_request(rp, http, username=victim), "invalid_grant", "unknown")


@pytest.mark.requirement("attack-48")
async def test_attack_48_pages_and_grant_share_the_limit(rp, http, browser):
    await closes_after(rp, 2)
    await rp.configure(enabledGrants=["authorization_code", "password"])
    await rp.submit(browser, await rp.authorize(browser), password="wrong")
    refused(await token_request(rp, http, password="wrong"), "invalid_grant", "invalid_user_credentials")
    refused(await token_request(rp, http), "invalid_grant", "unknown")


async def test_attacks_44_and_48_unknown_users_are_limited_like_known_ones(rp, http):
    await closes_after(rp, 1)
    descriptions = set()
    for login_id in (rp.login_id, "unknown@example.com"):
        refused(
            await token_request(rp, http, username=login_id, password="x"), "invalid_grant", "invalid_user_credentials"
        )
        answer = await token_request(rp, http, username=login_id)
        refused(answer, "invalid_grant", "unknown")
        descriptions.add(answer.json()["error_description"].partition(" in ")[0])
    assert len(descriptions) == 1


@pytest.mark.requirement("audit-a4")
async def test_attack_48_address_limit_applies_to_all_users(api, http, monkeypatch):
    rp = await relying_party.make(
        api, enabledGrants=["password", "refresh_token"], clientAuthenticationPolicy="NotRequired"
    )
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 2)
    for number in range(2):
        answer = await token_request(rp, http, username=f"user-{number}@example.com", client_secret=None)
        refused(answer, "invalid_grant", "invalid_user_credentials")
    refused(await token_request(rp, http, client_secret=None), "invalid_grant", "unknown")


async def test_attack_45_huge_passwords_are_rejected(rp, http):
    refused(await token_request(rp, http, password="x" * 60_000), "invalid_grant", "invalid_user_credentials")
    answer = await token_request(rp, http, password="x" * 70_000)
    assert answer.status_code == 413
    await token_response(rp, http)


async def test_attack_45_full_password_queue_is_reported(rp, http, monkeypatch):
    async def full(*_arguments: object, **_named: object) -> bool:
        raise Unavailable("Too many passwords wait.")

    monkeypatch.setattr(PasswordPool, "verify", full)
    refused(await token_request(rp, http), "server_error", "unknown", 503)


async def test_login_events_have_the_device_and_no_password(rp, http, api):
    device = {"description": "Ada's phone", "name": "phone", "type": "MOBILE"}
    named = {f"metaData.device.{name}": value for name, value in device.items()}
    async with receiving() as receiver:
        await subscribe(api, rp.tenant, receiver.url, LOGIN_EVENTS)
        await token_request(rp, http, username="unknown@example.com")
        await token_request(rp, http, password="a wrong one", **named)
        await token_response(rp, http, **named)
        requests = await receiver.wait_for(2)
    events = {request.event["type"]: request.event for request in requests}
    assert events.keys() == set(LOGIN_EVENTS)
    for event in events.values():
        assert (event["tenantId"], event["applicationId"]) == (rp.tenant["id"], rp.client_id)
        assert event["user"]["id"] == rp.user["id"]
        assert event["authenticationType"] == "PASSWORD"
        info = event["info"]
        assert (info["deviceDescription"], info["deviceName"], info["deviceType"]) == tuple(device.values())
        assert info["ipAddress"] == "127.0.0.1"
    assert events["user.login.failed"]["reason"] == {"code": "credentials"}
    assert all(b"a wrong one" not in request.body and PASSWORD.encode() not in request.body for request in requests)


@pytest.mark.requirement("oauth-2.2-10")
async def test_vetoed_login_gets_no_tokens_and_is_not_recorded(rp, http, api, service):
    async with receiving(answers(500)) as receiver:
        await subscribe(api, rp.tenant, receiver.url, LOGIN_EVENTS, "AbsoluteMajority")
        refused(await token_request(rp, http, scope="openid offline_access"), "invalid_grant", "unknown")
        user = await internals.store(service, "users").find(rp.tenant["id"], rp.user["id"])
        assert "lastLoginInstant" not in user
        assert await internals.store(service, "refresh_tokens").find_of_user(rp.tenant["id"], rp.user["id"], 0) == []
        refused(await token_request(rp, http, password="wrong"), "invalid_grant", "invalid_user_credentials")
        receiver.behaviour = answers(200)
        await token_response(rp, http, scope="openid offline_access")


async def test_tokens_of_a_password_can_be_introspected_and_revoked(rp, http):
    tokens = await token_response(rp, http, scope="openid offline_access")
    form = {"client_id": rp.client_id, "client_secret": rp.secret}
    for token, active in ((tokens["access_token"], True), (tokens["refresh_token"], False)):
        answer = await http.post("/oauth2/introspect", data={**form, "token": token})
        assert answer.json()["active"] is active
    await http.post("/oauth2/revoke", data={**form, "token": tokens["refresh_token"]})
    answer = await http.post("/oauth2/introspect", data={**form, "token": tokens["access_token"]})
    assert answer.json() == {"active": False}


async def test_grant_is_published(http):
    for path in ("openid-configuration", "oauth-authorization-server"):
        assert "password" in (await http.get(f"/.well-known/{path}")).json()["grant_types_supported"]


async def test_passwords_are_not_logged(rp, http, capsys):
    await token_response(rp, http, scope="offline_access")
    await token_request(rp, http, password="a-wrong-password")
    out, err = capsys.readouterr()
    for secret in (PASSWORD, "a-wrong-password", rp.secret):
        assert secret not in out + err
