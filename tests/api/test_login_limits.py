"""Failed login limits do not block users of a backend or the owner of an account."""

from __future__ import annotations

import httpx
import pytest

from identity.operations.limits import failed_login_limits
from tests import relying_party, two_factor
from tests.conftest import UNKNOWN_ID
from tests.relying_party import RelyingParty

BACKEND = "203.0.113.10"
USER = "198.51.100.20"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits failures per address to two."""
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 3)


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    made = await relying_party.make(api)
    members = {
        "loginConfiguration": {"generateRefreshTokens": True, "requireAuthentication": False},
        "passwordlessConfiguration": {"enabled": True},
    }
    await made.patch(f"/api/application/{made.client_id}", {"application": members})
    return made


@pytest.fixture
def backend(key: httpx.AsyncClient) -> httpx.AsyncClient:
    """A caller with an API key, at an address of its own."""
    key.headers["X-Forwarded-For"] = BACKEND
    return key


@pytest.fixture
def anonymous(http: httpx.AsyncClient, rp: RelyingParty) -> httpx.AsyncClient:
    """A caller without a key, at another address."""
    http.headers.update({"X-Forwarded-For": "192.0.2.30", "X-FusionAuth-TenantId": rp.tenant["id"]})
    return http


async def fail(client: httpx.AsyncClient, rp: RelyingParty, times: int, **members: object) -> None:
    for number in range(times):
        given = {"loginId": f"user-{number}@example.com", "password": "wrong", **members}
        assert (await rp.log_in_by_api(client, **given)).status_code == 404


@pytest.mark.requirement("audit-a4")
async def test_failed_logins_by_backend_do_not_block_its_users(backend, rp) -> None:
    await fail(backend, rp, 6)
    assert (await rp.log_in_by_api(backend)).status_code == 200


@pytest.mark.requirement("audit-a4")
async def test_address_stated_by_backend_is_limited(backend, anonymous, rp) -> None:
    await fail(backend, rp, 3, ipAddress=USER)
    assert (await rp.log_in_by_api(backend, ipAddress=USER)).status_code == 503
    assert (await rp.log_in_by_api(backend, eventInfo={"ipAddress": USER})).status_code == 503
    assert (await rp.log_in_by_api(backend, ipAddress="198.51.100.21")).status_code == 200
    assert (await rp.log_in_by_api(backend)).status_code == 200
    assert (await rp.log_in_by_api(anonymous)).status_code == 200


@pytest.mark.requirement("audit-a4")
async def test_ipv6_addresses_stated_by_backend_count_by_network(backend, rp) -> None:
    await fail(backend, rp, 3, ipAddress="2001:DB8::1")
    assert (await rp.log_in_by_api(backend, ipAddress="2001:db8:0:0:ffff::2")).status_code == 503
    assert (await rp.log_in_by_api(backend, ipAddress="2001:db8:0:1::2")).status_code == 200


@pytest.mark.requirement("audit-a4")
async def test_anonymous_caller_counts_by_connection_address(anonymous, rp) -> None:
    for number in range(3):
        await fail(anonymous, rp, 1, ipAddress=f"198.51.100.{number}", eventInfo={"ipAddress": f"198.51.100.{number}"})
    assert (await rp.log_in_by_api(anonymous, ipAddress=USER)).status_code == 503


@pytest.mark.requirement("audit-a4")
async def test_invalid_key_at_public_route_is_ignored(anonymous, rp) -> None:
    anonymous.headers["Authorization"] = "not a key"
    for number in range(3):
        body = {"code": f"guess-{number}", "ipAddress": f"198.51.100.{number}"}
        assert (await anonymous.post("/api/passwordless/login", json=body)).status_code == 404
    assert (await anonymous.post("/api/passwordless/login", json={"code": "guess"})).status_code == 503


@pytest.mark.requirement("audit-a4")
async def test_wrong_second_factors_by_backend_do_not_block_its_users(backend, rp, clock) -> None:
    secret = {"twoFactor": {"methods": [{"method": "authenticator", "secret": two_factor.SECRET}]}}
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": secret})

    async def code(shown: str, **members: object) -> int:
        two_factor_id = (await rp.log_in_by_api(backend)).json()["twoFactorId"]
        body = {"twoFactorId": two_factor_id, "code": shown, **members}
        return (await backend.post("/api/two-factor/login", json=body)).status_code

    wrong = two_factor.wrong_code(clock.now())
    assert [await code(wrong) for _ in range(4)] == [421] * 4
    assert [await code(wrong, ipAddress=USER) for _ in range(3)] == [421] * 3
    assert await code(two_factor.code(clock.now()), ipAddress=USER) == 503
    assert await code(two_factor.code(clock.now())) == 200


@pytest.mark.requirement("audit-a4")
async def test_wrong_codes_by_backend_do_not_block_its_users(backend, anonymous, rp) -> None:
    async def guess(client: httpx.AsyncClient, **members: str) -> int:
        return (await client.post("/api/passwordless/login", json={"code": "guess", **members})).status_code

    assert [await guess(backend) for _ in range(4)] == [404] * 4
    assert [await guess(backend, ipAddress=USER) for _ in range(4)] == [404] * 3 + [503]
    assert [await guess(anonymous) for _ in range(4)] == [404] * 3 + [503]


@pytest.mark.requirement("audit-a4")
async def test_wrong_change_ids_by_backend_do_not_block_its_users(backend, rp) -> None:
    body = {"loginId": rp.login_id, "sendForgotPasswordEmail": False}
    change_id = (await backend.post("/api/user/forgot-password", json=body)).json()["changePasswordId"]

    async def read_change_id(value: str, **query: str) -> int:
        return (await backend.get(f"/api/user/change-password/{value}", params=query)).status_code

    assert [await read_change_id("guess") for _ in range(4)] == [404] * 4
    assert [await read_change_id("guess", ipAddress=USER) for _ in range(4)] == [404] * 3 + [503]
    assert await read_change_id(change_id, ipAddress=USER) == 503
    assert await read_change_id(change_id) == 200
    change = {"password": "another long password", "eventInfo": {"ipAddress": USER}}
    assert (await backend.post(f"/api/user/change-password/{change_id}", json=change)).status_code == 503
    del change["eventInfo"]
    assert (await backend.post(f"/api/user/change-password/{change_id}", json=change)).status_code == 200


@pytest.mark.requirement("audit-a4")
async def test_refused_federated_logins_by_backend_do_not_block_its_users(backend, anonymous, rp) -> None:
    wanted = {
        "type": "ExternalJWT",
        "name": f"Provider {rp.client_id}",
        "enabled": True,
        "tenantId": rp.tenant["id"],
        "applicationConfiguration": {rp.client_id: {"enabled": True}},
        "uniqueIdentityClaim": "sub",
    }
    made = await backend.post("/api/identity-provider", json={"identityProvider": wanted})
    assert made.status_code == 200, made.text

    async def log_in(client: httpx.AsyncClient, **members: str) -> int:
        body = {
            "applicationId": rp.client_id,
            "identityProviderId": made.json()["identityProvider"]["id"],
            "encodedJWT": "no.jwt.atall",
            **members,
        }
        return (await client.post("/api/identity-provider/login", json=body)).status_code

    refused = await log_in(backend)
    assert refused in {400, 401}
    assert [await log_in(backend) for _ in range(3)] == [refused] * 3
    assert [await log_in(backend, ipAddress=USER) for _ in range(4)] == [refused] * 3 + [503]
    assert [await log_in(anonymous) for _ in range(4)] == [refused] * 3 + [503]


@pytest.mark.requirement("audit-a4")
async def test_failed_password_grants_by_client_do_not_block_its_users(http, api) -> None:
    rp = await relying_party.make(api, enabledGrants=["password"], clientAuthenticationPolicy="NotRequired")
    http.headers["X-Forwarded-For"] = "192.0.2.40"

    async def error(password: str, **form: str | None) -> str:
        form = {"grant_type": "password", "username": rp.login_id, "password": password, **form}
        return str((await rp.token(http, **form)).json().get("error_description"))

    for _ in range(4):
        assert "Too many" not in await error("wrong")
    assert await error(relying_party.PASSWORD) == "None"
    for _ in range(3):
        assert "Too many" not in await error("wrong", client_secret=None)
    assert "Too many" in await error(relying_party.PASSWORD, client_secret=None)
    assert await error(relying_party.PASSWORD) == "None"


@pytest.mark.requirement("audit-a4")
@pytest.mark.parametrize("is_keyed", [True, False])
async def test_fifty_wrong_passwords_do_not_block_owner(backend, anonymous, rp, monkeypatch, is_keyed) -> None:
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 500)
    client = backend if is_keyed else anonymous
    await fail(client, rp, 50, loginId=rp.login_id)
    assert (await rp.log_in_by_api(client)).status_code == 200


@pytest.mark.requirement("audit-a4")
async def test_many_failures_limit_guessing_networks_but_not_owner(backend, anonymous, rp, monkeypatch) -> None:
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 500)
    monkeypatch.setattr(failed_login_limits, "ACCOUNT_FAILURES", 2)
    monkeypatch.setattr(failed_login_limits, "NETWORK_FAILURES", 3)
    for account in (rp.login_id, "unknown@example.com"):
        await fail(anonymous, rp, 5, loginId=account)
        assert (await rp.log_in_by_api(anonymous, loginId=account, password="wrong")).status_code == 503
    assert (await rp.log_in_by_api(anonymous)).status_code == 503
    assert (await rp.log_in_by_api(backend, ipAddress=USER)).status_code == 200
    assert (await rp.log_in_by_api(backend)).status_code == 200
    anonymous.headers["X-Forwarded-For"] = USER
    assert (await rp.log_in_by_api(anonymous)).status_code == 200


@pytest.mark.requirement("audit-a4")
async def test_tenant_failure_limit_locks_account_for_any_caller(backend, rp) -> None:
    limit = {"enabled": True, "limit": 2, "timePeriodInSeconds": 60}
    await rp.configure_tenant(rateLimitConfiguration={"failedLogin": limit})
    await fail(backend, rp, 2, loginId=rp.login_id)
    assert (await rp.log_in_by_api(backend)).status_code == 503
    assert (await rp.log_in_by_api(backend, ipAddress=USER)).status_code == 503


@pytest.mark.requirement("audit-a4")
async def test_wrong_current_passwords_count_by_stated_address(backend, rp) -> None:
    async def change(**members: object) -> int:
        body = {"loginId": rp.login_id, "currentPassword": "wrong", "password": "a new password", **members}
        return (await backend.post("/api/user/change-password", json=body)).status_code

    assert [await change() for _ in range(4)] == [400] * 4
    stated = {"eventInfo": {"ipAddress": USER}}
    assert [await change(**stated) for _ in range(4)] == [400] * 3 + [503]
    assert await change(currentPassword=relying_party.PASSWORD) == 200


@pytest.mark.requirement("audit-a4")
async def test_key_of_another_tenant_is_ignored_at_public_route(api, manager, rp, anonymous) -> None:
    other = (await api.post("/api/tenant", json={"tenant": {"name": f"Other {rp.client_id}"}})).json()["tenant"]
    made = await manager.post("/api/api-key", json={"apiKey": {"tenantId": other["id"]}})
    assert made.status_code == 200, made.text
    anonymous.headers["Authorization"] = made.json()["apiKey"]["key"]
    assert (await anonymous.post("/api/passwordless/login", json={"code": UNKNOWN_ID})).status_code == 404
