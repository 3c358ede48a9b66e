"""Second factors by the risk of a login and by MFARequirement lambdas, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party, two_factor
from tests.conftest import SUPER_KEY, checking_client
from tests.receiver import receiving
from tests.relying_party import RelyingParty
from tests.subscriber import Subscriber

Document = dict[str, Any]

IN_BERLIN = {"location": {"city": "Berlin", "latitude": 52.52, "longitude": 13.405}}
IN_SYDNEY = {"location": {"city": "Sydney", "latitude": -33.87, "longitude": 151.21}}
EVENTS = ("user.login.suspicious", "user.two-factor.challenge", "user.two-factor.success")


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    found = await relying_party.make_for_every_login(api)
    await found.patch(f"/api/application/{found.client_id}", {"application": {"loginConfiguration": {
        "generateRefreshTokens": True, "requireAuthentication": False}}})  # fmt: skip
    return found


@pytest.fixture
async def subscriber(api: httpx.AsyncClient, rp: RelyingParty) -> AsyncIterator[Subscriber]:
    async with receiving() as receiver:
        found = Subscriber(api, receiver, rp.tenant["id"])
        await found.subscribe(EVENTS)
        yield found


async def add_method(rp: RelyingParty) -> None:
    body = {"user": {"twoFactor": {"methods": [two_factor.authenticator()], "recoveryCodes": []}}}
    await rp.patch(f"/api/user/{rp.user['id']}", body)


async def set_policy(rp: RelyingParty, policy: str, **risk: bool) -> None:
    await rp.configure_tenant(multiFactorConfiguration={"loginPolicy": policy}, clientRiskConfiguration=risk)


async def add_lambda(api: httpx.AsyncClient, rp: RelyingParty, statements: str, *, owner: str = "tenant") -> str:
    body = f"function checkRequired(result, user, registration, context) {{ {statements} }}"
    wanted = {"lambda": {"name": new_id(), "type": "MFARequirement", "body": body, "debug": True}}
    made = await api.post("/api/lambda", json=wanted)
    assert made.status_code == 200, made.text
    lambda_id = str(made.json()["lambda"]["id"])
    setting = {"lambdaConfiguration": {"multiFactorRequirementId": lambda_id}}
    if owner == "tenant":
        await rp.configure_tenant(**setting)
    else:
        await rp.patch(f"/api/application/{rp.client_id}", {"application": setting})
    return lambda_id


async def status_of(key: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> int:
    answer = await rp.log_in_by_api(key, **members)
    return answer.status_code


async def required(key: httpx.AsyncClient, rp: RelyingParty, **members: Any) -> int:
    body = {"userId": rp.user["id"], "applicationId": rp.client_id, **members}
    return (await key.post("/api/two-factor/status", json=body)).status_code


async def logged(api: httpx.AsyncClient, lambda_id: str) -> list[str]:
    found = await api.post("/api/system/event-log/search", json={"search": {"message": f"*{lambda_id}*"}})
    return [entry["message"] for entry in found.json()["eventLogs"]]


async def records(key: httpx.AsyncClient, rp: RelyingParty) -> list[Document]:
    answer = await key.get("/api/user/recent-login", params={"userId": rp.user["id"]})
    return list(answer.json()["logins"])


# Risk


@pytest.mark.requirement("users-10-23")
async def test_high_risk_policy_challenges_risky_logins_only(subscriber, key, rp, clock) -> None:
    await add_method(rp)
    await set_policy(rp, "ChallengeOnHighRisk")
    assert await status_of(key, rp, eventInfo=IN_BERLIN) == 200
    assert await status_of(key, rp, eventInfo=IN_BERLIN, newDevice=True) == 200, "MEDIUM is not HIGH"
    answer = await rp.log_in_by_api(key, eventInfo=IN_SYDNEY)
    assert answer.status_code == 242, answer.text
    (challenge,) = await subscriber.received("user.two-factor.challenge")
    assert challenge["clientRisk"] == "HIGH"
    code = two_factor.code(clock.now())
    body = {"twoFactorId": answer.json()["twoFactorId"], "code": code, "eventInfo": IN_SYDNEY}
    completed = await key.post("/api/two-factor/login", json=body)
    assert (completed.status_code, completed.json()["threatsDetected"]) == (200, ["ImpossibleTravel"])
    suspicious, success = await subscriber.received("user.login.suspicious", "user.two-factor.success")
    assert (suspicious["threatsDetected"], success["clientRisk"]) == (["ImpossibleTravel"], "HIGH")
    newest, medium, low, *_ = await records(key, rp)
    assert (newest["clientRisk"], newest["riskReasons"]) == ("HIGH", ["ImpossibleTravel", "UntrustedDevice"])
    assert (medium["clientRisk"], medium["riskReasons"]) == ("MEDIUM", ["UnrecognizedDevice", "UntrustedDevice"])
    assert (low["clientRisk"], low["riskReasons"]) == ("LOW", ["UntrustedDevice"])


@pytest.mark.requirement("users-10-23")
async def test_medium_risk_policy_challenges_new_devices_but_not_users_without_a_method(key, rp) -> None:
    await set_policy(rp, "ChallengeOnMediumRisk")
    assert await status_of(key, rp) == 200
    assert await status_of(key, rp, newDevice=True) == 200
    await add_method(rp)
    assert await status_of(key, rp) == 200
    assert await status_of(key, rp, newDevice=True) == 242


@pytest.mark.requirement("users-10-23")
async def test_tenant_switches_signals_off(key, rp) -> None:
    await add_method(rp)
    await set_policy(rp, "ChallengeOnMediumRisk", unrecognizedDevice=False)
    assert await status_of(key, rp) == 200
    assert await status_of(key, rp, newDevice=True) == 200


@pytest.mark.requirement("users-10-23")
async def test_failed_logins_add_to_the_risk(key, rp) -> None:
    await add_method(rp)
    await set_policy(rp, "ChallengeOnMediumRisk")
    assert await status_of(key, rp) == 200
    for _ in range(10):
        assert (await rp.log_in_by_api(key, password="wrong password")).status_code == 404
    assert await status_of(key, rp) == 242


@pytest.mark.requirement("users-10-23")
async def test_enabled_signals_are_threats_and_are_off_by_default(subscriber, key, rp) -> None:
    assert await status_of(key, rp) == 200
    assert "threatsDetected" not in (await rp.log_in_by_api(key, newDevice=True)).json()
    assert all("clientRisk" not in record for record in await records(key, rp))
    await set_policy(rp, "Enabled", enabled=True)
    answer = await rp.log_in_by_api(key, newDevice=True)
    assert (answer.status_code, answer.json()["threatsDetected"]) == (200, ["UnrecognizedDevice"])
    (suspicious,) = await subscriber.received("user.login.suspicious")
    assert suspicious["threatsDetected"] == ["UnrecognizedDevice"]


@pytest.mark.requirement("users-10-23")
async def test_trusted_device_is_challenged_at_a_high_risk(key, rp, clock) -> None:
    await add_method(rp)
    waiting = (await rp.log_in_by_api(key, eventInfo=IN_BERLIN)).json()
    body = {"twoFactorId": waiting["twoFactorId"], "code": two_factor.code(clock.now()), "trustComputer": True}
    done = await key.post("/api/two-factor/login", json={**body, "eventInfo": IN_BERLIN})
    trust = {"twoFactorTrustId": done.json()["twoFactorTrustId"]}
    assert await status_of(key, rp, eventInfo=IN_BERLIN, **trust) == 200
    await set_policy(rp, "ChallengeOnHighRisk")
    assert await status_of(key, rp, eventInfo=IN_BERLIN, **trust) == 200
    assert await status_of(key, rp, eventInfo=IN_SYDNEY, **trust) == 242


@pytest.mark.requirement("users-10-23")
async def test_addresses_of_the_operators_lists_are_challenged(build, tmp_path) -> None:
    (tmp_path / "bad.txt").write_text("203.0.113.0/24 # scanners\n")
    list_id = new_id()
    settings = {"client_risk__blocklist_files": [str(tmp_path / "bad.txt")], "client_risk__blocklist_ids": [list_id]}
    headers = {"Authorization": SUPER_KEY}
    async with build(**settings) as service, checking_client(service.base_url, headers=headers) as api:
        rp = await relying_party.make_for_every_login(api)
        await add_method(rp)
        await set_policy(rp, "ChallengeOnHighRisk")
        assert await status_of(api, rp, ipAddress="198.51.100.7") == 200
        assert await status_of(api, rp, ipAddress="203.0.113.7") == 242
        entries = [
            {"action": "Allow", "startIPAddress": "*"},
            {"action": "Block", "startIPAddress": "198.51.100.0", "endIPAddress": "198.51.100.255"},
        ]
        body = {"ipAccessControlList": {"name": "Reputation", "entries": entries}}
        assert (await api.post(f"/api/ip-acl/{list_id}", json=body)).status_code == 200
        assert await status_of(api, rp, ipAddress="198.51.100.7") == 242
        assert await status_of(api, rp, ipAddress="192.0.2.7") == 200


async def test_token_of_a_login_that_was_not_challenged_opens_no_stricter_application(api, key, rp) -> None:
    other = await api.post(
        "/api/application",
        json={"application": {"name": new_id(), "multiFactorConfiguration": {"loginPolicy": "Required"}}},
        headers={"X-FusionAuth-TenantId": rp.tenant["id"]},
    )
    other_id = other.json()["application"]["id"]
    await key.post(f"/api/user/registration/{rp.user['id']}", json={"registration": {"applicationId": other_id}})
    await add_method(rp)
    await set_policy(rp, "ChallengeOnHighRisk")
    token = (await rp.log_in_by_api(key)).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    async with checking_client(str(api.base_url), headers=headers) as bearer:
        answer = await bearer.get("/api/jwt/issue", params={"applicationId": other_id})
    assert answer.status_code == 401, answer.text


@pytest.mark.requirement("users-10-23")
async def test_assessment_alone_changes_no_decision(key, rp, clock) -> None:
    await add_method(rp)
    await set_policy(rp, "Enabled", enabled=True)
    answer = await rp.log_in_by_api(key)
    assert answer.status_code == 242
    body = {"twoFactorId": answer.json()["twoFactorId"], "code": two_factor.code(clock.now()), "trustComputer": True}
    trust_id = (await key.post("/api/two-factor/login", json=body)).json()["twoFactorTrustId"]
    assert await status_of(key, rp, twoFactorTrustId=trust_id) == 200
    newest, *_ = await records(key, rp)
    assert newest["clientRisk"] == "LOW" and "riskReasons" not in newest
    key.cookies.clear()
    assert await status_of(key, rp) == 242
    await set_policy(rp, "Required", enabled=True)
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": [], "recoveryCodes": []}}})
    assert await status_of(key, rp, twoFactorTrustId=trust_id) == 242


# Lambdas


@pytest.mark.requirement("core-18-lambdas-35")
async def test_token_opens_no_application_whose_lambda_requires_a_second_factor(api, key, rp) -> None:
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    other = await api.post("/api/application", json={"application": {"name": new_id()}}, headers=headers)
    other_id = other.json()["application"]["id"]
    await key.post(f"/api/user/registration/{rp.user['id']}", json={"registration": {"applicationId": other_id}})
    await set_policy(rp, "Disabled")
    await add_method(rp)
    token = (await rp.log_in_by_api(key)).json()["token"]
    async with checking_client(str(api.base_url), headers={"Authorization": f"Bearer {token}"}) as bearer:
        assert (await bearer.get("/api/jwt/issue", params={"applicationId": other_id})).status_code == 200
        lambda_id = await add_lambda(api, rp, "result.required = true;", owner="application")
        setting = {"lambdaConfiguration": {"multiFactorRequirementId": lambda_id}}
        await rp.patch(f"/api/application/{other_id}", {"application": setting})
        await rp.patch(
            f"/api/application/{rp.client_id}",
            {"application": {"lambdaConfiguration": {"multiFactorRequirementId": None}}},
        )
        assert (await bearer.get("/api/jwt/issue", params={"applicationId": other_id})).status_code == 401


@pytest.mark.requirement("core-18-lambdas-35")
async def test_lambda_requires_and_waives_second_factors(api, key, rp) -> None:
    lambda_id = await add_lambda(api, rp, "result.required = context.eventInfo.ipAddress !== '203.0.113.7';")
    await rp.configure_tenant(multiFactorConfiguration={"authenticator": {"enabled": True}})
    answer = await rp.log_in_by_api(key, ipAddress="198.51.100.7")
    assert (answer.status_code, answer.json()["configurableMethods"]) == (242, ["authenticator"])
    await add_method(rp)
    assert await status_of(key, rp, ipAddress="198.51.100.7") == 242
    assert await status_of(key, rp, ipAddress="203.0.113.7") == 200
    assert await required(key, rp) == 242
    assert await logged(api, lambda_id) == []


@pytest.mark.requirement("core-18-lambdas-35")
async def test_lambda_of_the_application_takes_precedence(api, key, rp) -> None:
    await add_method(rp)
    await add_lambda(api, rp, "result.required = true;")
    await add_lambda(api, rp, "result.required = false;", owner="application")
    assert await status_of(key, rp) == 200


@pytest.mark.requirement("core-18-lambdas-35")
async def test_lambda_receives_the_published_arguments(api, key, rp, clock) -> None:
    await add_method(rp)
    waiting = (await rp.log_in_by_api(key)).json()
    body = {"twoFactorId": waiting["twoFactorId"], "code": two_factor.code(clock.now()), "trustComputer": True}
    trust_id = (await key.post("/api/two-factor/login", json=body)).json()["twoFactorTrustId"]
    lambda_id = await add_lambda(
        api, rp, "console.log(JSON.stringify([result, user.id, registration.applicationId, context]));"
    )
    assert await status_of(key, rp, twoFactorTrustId=trust_id, newDevice=True, ipAddress="203.0.113.7") == 200
    (message,) = await logged(api, lambda_id)
    for expected in (
        '{"required":false,"sendSuspiciousLoginEvent":false}',
        f'"{rp.user["id"]}","{rp.client_id}"',
        '"action":"login"',
        '"authenticationThreats":["UnrecognizedDevice"]',
        '"clientRisk":"MEDIUM"',
        '"ipAddress":"203.0.113.7"',
        '"mfaTrust":{',
        '"tenantLoginPolicy":"Enabled"',
    ):
        assert expected in message
    for secret in (trust_id, two_factor.SECRET, "clientSecret"):
        assert secret not in message


@pytest.mark.requirement("core-18-lambdas-35")
async def test_lambda_decides_about_other_actions_and_receives_the_access_token(api, key, rp) -> None:
    token = (await rp.log_in_by_api(key)).json()["token"]
    await add_method(rp)
    await add_lambda(
        api, rp, "result.required = context.action !== 'stepUp' || !context.jwt || context.jwt.sub !== user.id;"
    )
    assert await required(key, rp, action="changePassword") == 242
    assert await required(key, rp, action="stepUp") == 242
    assert await required(key, rp, action="stepUp", accessToken=token) == 200
    assert await required(key, rp, action="stepUp", accessToken=token + "x") == 242


@pytest.mark.requirement("core-18-lambdas-35")
async def test_suspicious_login_is_announced_once(api, subscriber, key, rp, clock) -> None:
    await add_lambda(api, rp, "result.sendSuspiciousLoginEvent = true;")
    assert await status_of(key, rp) == 200
    (suspicious,) = await subscriber.received("user.login.suspicious")
    assert suspicious["threatsDetected"] == []
    await add_method(rp)
    answer = await rp.log_in_by_api(key)
    assert answer.status_code == 242
    await subscriber.received("user.login.suspicious", "user.two-factor.challenge")
    body = {"twoFactorId": answer.json()["twoFactorId"], "code": two_factor.code(clock.now())}
    assert (await key.post("/api/two-factor/login", json=body)).status_code == 200
    await subscriber.received("user.two-factor.success")


@pytest.mark.requirement("core-18-lambdas-35")
async def test_passwordless_logins_and_password_changes_ask_the_lambda(api, key, rp) -> None:
    await add_method(rp)
    await add_lambda(api, rp, "result.required = context.action !== 'login';")
    start = await key.post("/api/passwordless/start", json={"applicationId": rp.client_id, "loginId": rp.user["email"]})
    answer = await key.post("/api/passwordless/login", json={"code": start.json()["code"]})
    assert answer.status_code == 200, answer.text
    change = {"loginId": rp.user["email"]}
    checked = await key.get("/api/user/change-password", params=change)
    assert (checked.status_code, checked.json()["generalErrors"][0]["code"]) == (400, "[TrustTokenRequired]")
    await add_lambda(api, rp, "result.required = context.action === 'login';")
    assert (await key.get("/api/user/change-password", params=change)).status_code == 200
    start = await key.post("/api/passwordless/start", json={"applicationId": rp.client_id, "loginId": rp.user["email"]})
    answer = await key.post("/api/passwordless/login", json={"code": start.json()["code"]})
    assert answer.status_code == 242, answer.text


@pytest.mark.requirement("core-18-lambdas-36")
@pytest.mark.parametrize(
    "statements", ["throw new Error('unreachable service');", "result.required = 'no';", "delete result.required;"]
)
async def test_failing_lambda_exempts_no_user_with_a_method(api, key, rp, statements) -> None:
    await set_policy(rp, "Disabled")
    lambda_id = await add_lambda(api, rp, statements)
    assert await status_of(key, rp) == 200
    await add_method(rp)
    assert await status_of(key, rp) == 242
    messages = await logged(api, lambda_id)
    assert len(messages) == 2 and all(f"[{lambda_id}] failed: " in message for message in messages)
