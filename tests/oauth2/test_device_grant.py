"""The device grant (RFC 8628): codes, polling, tokens, and the user code API."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from identity.operations.authorization import device_authorization, device_grants
from tests import internals, relying_party
from tests.conftest import UNKNOWN_ID, checking_client
from tests.oauth2.devices import DEVICE_GRANT, URL, Device, device_client
from tests.receiver import answers, receiving
from tests.relying_party import RelyingParty, claims, half_hash
from tests.webhooks import subscribe

SHOWN = {"metaData.device.name": "TV", "metaData.device.type": "TV", "metaData.device.description": "In the kitchen"}


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """An application whose devices need no secret."""
    return await device_client(api)


def refused(answer: httpx.Response, error: str, reason: str | None, status: int = 400) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body = dict(answer.json())
    assert (body["error"], body.get("error_reason")) == (error, reason), body
    assert body["error_description"]
    assert answer.headers["Cache-Control"] == "no-store"
    return body


async def access_token(rp: RelyingParty, http: httpx.AsyncClient, scope: str = "openid", **form: str) -> str:
    """An access token of the user, by password."""
    form = {
        "grant_type": "password",
        "username": rp.login_id,
        "password": relying_party.PASSWORD,
        "scope": scope,
        **form,
    }
    answer = await rp.token(http, **form)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


async def approve(rp: RelyingParty, http: httpx.AsyncClient, user_code: str, **form: str | None) -> httpx.Response:
    merged: dict[str, str | None] = {
        "client_id": rp.client_id, "client_secret": rp.secret, "user_code": user_code, **form
    }  # fmt: skip
    if "token" not in merged:
        merged["token"] = await access_token(rp, http)
    return await http.post("/oauth2/device/approve", data={k: v for k, v in merged.items() if v is not None})


# Device authorization


@pytest.mark.requirement("contract-device-1", "contract-device-2")
async def test_device_authorization_returns_codes(rp, http):
    answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id, "scope": "openid"})
    assert answer.status_code == 200
    assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")
    given = answer.json()
    assert len(given.pop("device_code")) == 43
    user_code = given.pop("user_code")
    assert len(user_code) == 6
    assert set(user_code) <= set("BCDFGHJKLMNPQRSTVWXZ23456789")
    assert given == {
        "expires_in": 300, "interval": 5, "verification_uri": URL,
        "verification_uri_complete": f"{URL}?user_code={user_code}",
    }  # fmt: skip


@pytest.mark.requirement("contract-device-2")
async def test_tenant_configures_lifetime_and_form_of_codes(rp, http):
    await rp.configure(deviceVerificationURL=f"{URL}?lang=en")
    generator = {"type": "randomDigits", "length": 9}
    await rp.configure_tenant(
        externalIdentifierConfiguration={"deviceCodeTimeToLiveInSeconds": 77, "deviceUserCodeIdGenerator": generator}
    )
    device = await Device.begin(rp, http)
    assert device.given["expires_in"] == 77
    assert device.user_code.isdigit()
    assert len(device.user_code) == 9
    assert device.given["verification_uri_complete"] == f"{URL}?lang=en&user_code={device.user_code}"


@pytest.mark.requirement("oauth-3-3")
async def test_exhausted_user_codes_are_reported(rp, http, monkeypatch):
    monkeypatch.setattr(device_authorization, "generate_user_code", lambda _generator: "BCDFGH")
    await Device.begin(rp, http)
    answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id})
    refused(answer, "server_error", "unknown", 503)


@pytest.mark.requirement("contract-device-1", "oauth-3-1")
@pytest.mark.parametrize(
    ("form", "error", "reason"),
    [
        ({"client_id": ""}, "invalid_request", "missing_client_id"),
        ({"client_id": "unknown"}, "invalid_client", "invalid_client_id"),
        ({"client_secret": "wrong"}, "invalid_client", "invalid_client_authentication"),
        ({"client_secret": ""}, "invalid_client", "missing_client_secret"),
        ({"scope": "openid unheard-of"}, "invalid_scope", "unknown_scope"),
        ({"tenantId": UNKNOWN_ID}, "invalid_request", "invalid_tenant_id"),
    ],
)
async def test_device_authorization_errors_are_400(rp, http, form, error, reason):
    answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id, **form})
    refused(answer, error, reason)


@pytest.mark.requirement("oauth-3-2")
async def test_credentials_in_the_header_are_verified(rp, http):
    for secret, status in ((rp.secret, 200), ("wrong", 400)):
        answer = await http.post("/oauth2/device_authorize", data={"scope": "openid"}, auth=(rp.client_id, secret))
        assert answer.status_code == status


@pytest.mark.requirement("contract-device-1", "oauth-3-2")
@pytest.mark.parametrize(("profile", "status"), [("baseline", 200), ("strict", 400)])
async def test_strict_confidential_client_has_to_authenticate(api, http, profile, status):
    strict = {"profile": profile, "enabledGrants": [DEVICE_GRANT], "proofKeyForCodeExchangePolicy": "Required"}
    tokens = await relying_party.strict_tokens(api)
    rp = await device_client(api, clientAuthenticationPolicy="Required", tokens=tokens, **strict)
    answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id})
    assert answer.status_code == status
    if status == 400:
        refused(answer, "invalid_client", "client_authentication_missing")
    form = {"client_id": rp.client_id, "client_secret": rp.secret}
    assert (await http.post("/oauth2/device_authorize", data=form)).status_code == 200


@pytest.mark.requirement("oauth-3-1")
async def test_application_has_to_enable_the_grant(rp, http):
    device = await Device.begin(rp, http)
    await rp.configure(enabledGrants=["authorization_code"])
    answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id})
    refused(answer, "unauthorized_client", "grant_type_disabled")
    refused(await device.poll(), "unauthorized_client", "grant_type_disabled")


@pytest.mark.requirement("oauth-3-1", "reason-missing_verification_uri")
async def test_application_without_verification_url_is_rejected(rp, http, service):
    # The API refuses to enable the grant without a page, so that only the store can hold such an application.
    change = {"$unset": {"oauthConfiguration.deviceVerificationURL": ""}}
    await internals.store(service, "applications").update(rp.tenant["id"], {"_id": rp.client_id}, change)
    answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id})
    refused(answer, "invalid_request", "missing_verification_uri")


@pytest.mark.requirement("oauth-3-1")
async def test_unknown_scopes_are_dropped_or_kept_by_policy(rp, http):
    for policy, expected in (("Remove", "openid"), ("Allow", "openid unheard-of")):
        await rp.configure(unknownScopePolicy=policy)
        device = await Device.begin(rp, http, scope="openid unheard-of")
        await device.approved(http)
        assert (await device.tokens())["scope"] == expected


@pytest.mark.requirement("oauth-3-10")
async def test_device_description_is_limited(rp, http):
    long = {"client_id": rp.client_id, "metaData.device.name": "x" * 1000, "metaData.device.type": "y" * 24}
    assert (await http.post("/oauth2/device_authorize", data=long)).status_code == 200
    answer = await http.post("/oauth2/device_authorize", data={**long, "metaData.device.type": "y" * 25})
    assert "1024" in refused(answer, "invalid_request", "unknown")["error_description"]
    await rp.configure(unknownScopePolicy="Allow")
    for length, status in ((4096, 200), (4097, 400)):
        form = {"client_id": rp.client_id, "scope": "s" * length}
        answer = await http.post("/oauth2/device_authorize", data=form)
        assert answer.status_code == status
    refused(answer, "invalid_scope", "unknown_scope")


@pytest.mark.requirement("oauth-3-10")
async def test_device_authorizations_are_limited_by_address(rp, http, monkeypatch):
    monkeypatch.setattr(device_authorization, "MAXIMUM_PER_ADDRESS", 2)
    for _ in range(2):
        await Device.begin(rp, http)
    answer = await http.post("/oauth2/device_authorize", data={"client_id": rp.client_id})
    assert (
        "Too many device authorization requests" in refused(answer, "invalid_request", "unknown")["error_description"]
    )
    assert (
        await http.post("/oauth2/device_authorize", auth=(rp.client_id, rp.secret), data={"scope": "openid"})
    ).status_code == 200


# The token request


@pytest.mark.requirement("contract-token-10", "oauth-2.2-31")
async def test_approved_device_gets_tokens(rp, http, service):
    device = await Device.begin(rp, http, scope="openid offline_access email", **SHOWN)
    refused(await device.poll(), "authorization_pending", None)
    await device.approved(http)
    answer = await device.poll()
    assert answer.status_code == 200, answer.text
    assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")
    tokens = answer.json()
    assert tokens.keys() == {
        "access_token", "expires_in", "id_token", "refresh_token", "refresh_token_id", "scope", "token_type", "userId",
    }  # fmt: skip
    assert (tokens["expires_in"], tokens["token_type"], tokens["userId"]) == (3600, "Bearer", rp.user["id"])
    assert tokens["scope"] == "openid offline_access email"
    for name in ("access_token", "id_token"):
        token = claims(tokens[name])
        assert (token["iss"], token["aud"], token["sub"]) == (rp.tenant["issuer"], rp.client_id, rp.user["id"])
        assert token["gty"] == [DEVICE_GRANT]
        assert token["sid"] == tokens["refresh_token_id"]
        assert token["scope"] == tokens["scope"]
        assert token["iat"] - 60 < token["auth_time"] <= token["iat"]
    assert claims(tokens["id_token"])["at_hash"] == half_hash(tokens["access_token"])
    record = await internals.store(service, "refresh_tokens").find(rp.tenant["id"], tokens["refresh_token_id"])
    seen = record["metaData"]["device"]
    assert {name: seen[name] for name in ("description", "name", "type")} == {
        "description": "In the kitchen", "name": "TV", "type": "TV",
    }  # fmt: skip


async def test_scope_determines_the_tokens_of_a_device(rp, http):
    device = await Device.begin(rp, http)
    await device.approved(http)
    tokens = await device.tokens()
    assert tokens.keys() == {"access_token", "expires_in", "token_type", "userId"}
    assert "sid" not in claims(tokens["access_token"])


async def test_refresh_token_of_a_device_can_be_used(rp, http, clock):
    device = await Device.begin(rp, http, scope="openid offline_access")
    await device.approved(http)
    first = await device.tokens()
    clock.advance(seconds=100)
    form = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"], "client_id": rp.client_id}
    answer = await http.post("/oauth2/token", data=form)
    assert answer.status_code == 200, answer.text
    refreshed = claims(answer.json()["access_token"])
    assert refreshed["gty"] == [DEVICE_GRANT, "refresh_token"]
    assert refreshed["auth_time"] == claims(first["access_token"])["auth_time"]


@pytest.mark.requirement("oauth-2.2-33")
@pytest.mark.parametrize("policy", ["Required", "NotRequiredWhenUsingPKCE", "NotRequired"])
async def test_authentication_policy_applies_to_devices(rp, http, policy):
    await rp.configure(clientAuthenticationPolicy=policy)
    device = await Device.begin(rp, http, scope="offline_access")
    await device.approved(http)
    if policy == "Required":
        refused(await device.poll(), "invalid_client", "client_authentication_missing", 401)
        refused(await device.poll(client_secret="wrong"), "invalid_client", "invalid_client_authentication", 401)
        tokens = (await device.poll(client_secret=rp.secret)).json()
    else:
        tokens = await device.tokens()
    form = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": rp.client_id}
    answer = await http.post("/oauth2/token", data=form)
    assert answer.status_code == (401 if policy == "Required" else 200)


@pytest.mark.requirement(
    "contract-token-10", "oauth-2.2-31", "reason-invalid_device_code", "reason-missing_device_code"
)
async def test_unknown_device_code_is_rejected(rp, http, api):
    device = await Device.begin(rp, http)
    refused(await device.poll(device_code=None), "invalid_request", "missing_device_code")
    refused(await device.poll(device_code="x" * 43), "invalid_request", "invalid_device_code")
    await device.approved(http)
    sibling = await device_client(api, tenant=rp.tenant)
    refused(await device.poll(client_id=sibling.client_id), "invalid_request", "invalid_device_code")
    assert (await device.poll()).status_code == 200


@pytest.mark.requirement("attack-49", "contract-token-10", "error-slow_down")
async def test_attack_49_fast_polling_increases_the_interval(rp, http, clock):
    device = await Device.begin(rp, http)
    require_error = []
    for seconds in (0, 1, 8, 1, 15, 4, 21):
        clock.advance(seconds=seconds)
        require_error.append((await device.poll()).json()["error"])
    pending, slow_down = "authorization_pending", "slow_down"
    assert require_error == [pending, slow_down, pending, slow_down, pending, slow_down, pending]
    body = refused(await device.poll(), slow_down, None)
    assert body.keys() == {"error", "error_description"}


@pytest.mark.requirement("contract-errors-8", "contract-token-10", "error-expired_token", "oauth-2.2-31")
async def test_expired_device_code_is_rejected_with_its_reason(rp, http, clock):
    device, late = [await Device.begin(rp, http) for _ in range(2)]
    await device.approved(http)
    clock.advance(seconds=300)
    for each in (device, late):
        refused(await each.poll(), "expired_token", None)


@pytest.mark.requirement("oauth-2.2-31")
async def test_tokens_are_issued_once_and_reuse_revokes_them(rp, http):
    device = await Device.begin(rp, http, scope="openid offline_access")
    await device.approved(http)
    tokens = await device.tokens()
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 200
    refused(await device.poll(), "invalid_request", "invalid_device_code")
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401
    refused(await rp.refresh(http, tokens["refresh_token"]), "invalid_grant", "refresh_token_not_found")


@pytest.mark.requirement("oauth-2.2-32")
async def test_one_of_64_racing_callers_gets_tokens(rp, http):
    device = await Device.begin(rp, http, scope="openid")
    await device.approved(http)
    answers = await asyncio.gather(*(device.poll() for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 63
    for answer in answers:
        if answer.status_code == 400:
            refused(answer, "invalid_request", "invalid_device_code")


async def test_user_deleted_meanwhile_gets_no_device_tokens(rp, http, api):
    device = await Device.begin(rp, http)
    await device.approved(http)
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200
    refused(await device.poll(), "invalid_grant", "user_locked")
    refused(await device.poll(), "invalid_request", "invalid_device_code")


@pytest.mark.requirement("oauth-3-12")
async def test_device_codes_are_isolated_by_tenant(rp, http, api, monkeypatch):
    other = await device_client(api)
    monkeypatch.setattr(device_authorization, "generate_user_code", lambda _generator: "BCDFGH")
    device, foreign = await Device.begin(rp, http), await Device.begin(other, http)
    assert device.user_code == foreign.user_code
    await device.approved(http)
    refused(await foreign.poll(), "authorization_pending", None)
    refused(await foreign.poll(device_code=device.device_code), "invalid_request", "invalid_device_code")
    path = f"/{other.tenant['id']}/oauth2"
    refused(await device.poll(path=f"{path}/token"), "invalid_request", "invalid_tenant_id")
    begun = await http.post(f"{path}/device_authorize", data={"client_id": rp.client_id})
    refused(begun, "invalid_request", "invalid_tenant_id")
    assert (await device.poll(path=f"/{rp.tenant['id']}/oauth2/token")).status_code == 200


@pytest.mark.requirement("attack-28")
async def test_attack_28_device_gets_requested_scopes_only(rp, http):
    device = await Device.begin(rp, http, scope="openid")
    await device.approved(http)
    answer = await device.poll(scope="openid email offline_access")
    assert answer.json()["scope"] == "openid"
    assert "refresh_token" not in answer.json()


# Grants that approve a device


@pytest.mark.requirement("contract-token-9", "oauth-3-6")
async def test_password_grant_approves_a_device(rp, http):
    device = await Device.begin(rp, http, scope="openid email")
    await access_token(rp, http, user_code=device.user_code)
    tokens = await device.tokens()
    assert (tokens["userId"], tokens["scope"]) == (rp.user["id"], "openid email")
    assert claims(tokens["access_token"])["authenticationType"] == "PASSWORD"


@pytest.mark.requirement("contract-token-9")
async def test_wrong_password_approves_no_device(rp, http):
    device = await Device.begin(rp, http)
    form = {"username": rp.login_id, "password": "wrong", "user_code": device.user_code}
    refused(await rp.token(http, grant_type="password", **form), "invalid_grant", "invalid_user_credentials")
    refused(await device.poll(), "authorization_pending", None)


@pytest.mark.requirement("contract-token-12", "oauth-3-6")
async def test_refresh_token_approves_a_device(rp, http, clock):
    form = {"username": rp.login_id, "password": relying_party.PASSWORD, "scope": "openid offline_access"}
    first = (await rp.token(http, grant_type="password", **form)).json()
    clock.advance(seconds=1000)
    device = await Device.begin(rp, http, scope="openid email")
    answer = await rp.refresh(http, first["refresh_token"], user_code=device.user_code)
    assert answer.status_code == 200, answer.text
    tokens = await device.tokens()
    token = claims(tokens["access_token"])
    assert (tokens["userId"], tokens["scope"]) == (rp.user["id"], "openid email")
    assert (token["authenticationType"], token["gty"]) == ("REFRESH_TOKEN", [DEVICE_GRANT])
    assert token["auth_time"] == claims(first["access_token"])["auth_time"]
    again = await rp.refresh(http, first["refresh_token"], user_code=device.user_code)
    refused(again, "invalid_request", "invalid_user_code")
    late = await Device.begin(rp, http)
    clock.advance(seconds=300)
    expired = await rp.refresh(http, first["refresh_token"], user_code=late.user_code)
    refused(expired, "invalid_request", "user_code_expired")


@pytest.mark.requirement("contract-token-12")
async def test_failed_refresh_approves_no_device_and_wrong_code_consumes_nothing(rp, http):
    await rp.configure_tenant(
        jwtConfiguration={
            "refreshTokenUsagePolicy": "OneTimeUse",
            "refreshTokenRevocationPolicy": {"onOneTimeTokenReuse": False},
        }
    )
    form = {"username": rp.login_id, "password": relying_party.PASSWORD, "scope": "openid offline_access"}
    first = (await rp.token(http, grant_type="password", **form)).json()["refresh_token"]
    device = await Device.begin(rp, http)
    unknown = await rp.refresh(http, first, user_code="XXXXXX")
    refused(unknown, "invalid_request", "invalid_user_code")
    second = (await rp.refresh(http, first)).json()["refresh_token"]
    spent = await rp.refresh(http, first, user_code=device.user_code)
    refused(spent, "invalid_grant", "refresh_token_not_found")
    refused(await device.poll(), "authorization_pending", None)
    assert (await rp.refresh(http, second, user_code=device.user_code)).status_code == 200
    await device.tokens()


# User codes: asked about


@pytest.mark.requirement("contract-device-3")
async def test_client_can_describe_a_device(rp, http, clock):
    device = await Device.begin(rp, http, scope="openid email offline_access", **SHOWN)
    clock.advance(seconds=100)
    written = device.user_code.lower()[:3] + "-" + device.user_code[3:]
    for given in ({"data": {"client_id": rp.client_id}}, {"data": {}, "auth": (rp.client_id, rp.secret)}):
        given["data"]["user_code"] = written
        answer = await http.post("/oauth2/device/user-code", **given)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Pragma"] == "no-cache"
        assert 195 <= answer.json().pop("expires_in") <= 200
        assert {name: value for name, value in answer.json().items() if name != "expires_in"} == {
            "client_id": rp.client_id,
            "deviceInfo": {"description": "In the kitchen", "name": "TV", "type": "TV"},
            "scope": "email",
            "tenantId": rp.tenant["id"],
            "user_code": device.user_code,
        }


@pytest.mark.requirement("contract-device-3")
async def test_missing_device_members_are_omitted(rp, http):
    device = await Device.begin(rp, http, scope="openid")
    form = {"client_id": rp.client_id, "user_code": device.user_code}
    answer = await http.post("/oauth2/device/user-code", data=form)
    assert answer.json().keys() == {"client_id", "expires_in", "tenantId", "user_code"}


@pytest.mark.requirement("contract-device-3")
async def test_api_key_can_describe_devices_of_its_tenant(rp, http, api, manager):
    device = await Device.begin(rp, http)

    async def validate_with(key: str, **form: str) -> httpx.Response:
        form = {"user_code": device.user_code, **form}
        return await http.post("/oauth2/device/user-code", data=form, headers={"Authorization": key})

    async def new_key(**members: Any) -> str:
        made = await manager.post("/api/api-key", json={"apiKey": members})
        return str(made.json()["apiKey"]["key"])

    other = await device_client(api)
    own = await new_key(tenantId=rp.tenant["id"])
    granted = await new_key(permissions={"endpoints": {"/oauth2/device/user-code": ["POST"]}})
    elsewhere = await new_key(permissions={"endpoints": {"/api/user": ["GET"]}})
    foreign = await new_key(tenantId=other.tenant["id"])
    assert (await validate_with(own)).json()["client_id"] == rp.client_id
    assert (await validate_with(own, tenantId=rp.tenant["id"])).status_code == 200
    assert (await validate_with(granted, tenantId=rp.tenant["id"])).json()["client_id"] == rp.client_id
    refused(await validate_with(granted), "invalid_request", "missing_tenant_id")
    refused(await validate_with(granted, tenantId=other.tenant["id"]), "invalid_request", "invalid_user_code")
    refused(await validate_with(foreign), "invalid_request", "invalid_user_code")
    refused(await validate_with(own, user_code=""), "invalid_request", "missing_user_code")
    for answer in (
        await validate_with(elsewhere),
        await validate_with("unknown key"),
        await validate_with(own, tenantId=other.tenant["id"]),
    ):
        assert (answer.status_code, answer.content) == (401, b"")


@pytest.mark.requirement("contract-device-3", "reason-invalid_user_code", "reason-missing_user_code")
@pytest.mark.parametrize(
    ("form", "error", "reason", "status"),
    [
        ({"client_id": ""}, "invalid_request", "missing_client_id", 400),
        ({"client_id": "unknown"}, "invalid_client", "invalid_client_id", 401),
        ({"client_secret": "wrong"}, "invalid_client", "invalid_client_authentication", 401),
        ({"user_code": ""}, "invalid_request", "missing_user_code", 400),
        ({"user_code": "XXXXXX"}, "invalid_request", "invalid_user_code", 400),
    ],
)
async def test_invalid_user_code_requests_are_rejected(rp, http, form, error, reason, status):
    device = await Device.begin(rp, http)
    merged = {"client_id": rp.client_id, "user_code": device.user_code, **form}
    refused(await http.post("/oauth2/device/user-code", data=merged), error, reason, status)


@pytest.mark.requirement("contract-device-3")
async def test_confidential_client_describes_devices_with_its_secret(api, http):
    rp = await device_client(api, clientAuthenticationPolicy="Required")
    device = await Device.begin(rp, http)
    form = {"client_id": rp.client_id, "user_code": device.user_code}
    refused(
        await http.post("/oauth2/device/user-code", data=form), "invalid_client", "client_authentication_missing", 401
    )
    answer = await http.post("/oauth2/device/user-code", data={**form, "client_secret": rp.secret})
    assert answer.status_code == 200
    assert (await http.get("/oauth2/device/user-code", params=form)).status_code == 405


@pytest.mark.requirement("contract-device-4", "reason-user_code_expired")
async def test_user_code_is_validated(rp, http, api, clock):
    device = await Device.begin(rp, http)

    async def validate(**query: str) -> httpx.Response:
        query = {"client_id": rp.client_id, "user_code": device.user_code, **query}
        return await http.get("/oauth2/device/validate", params=query)

    answer = await validate()
    assert (answer.status_code, answer.content) == (200, b"")
    sibling = await device_client(api, tenant=rp.tenant)
    refused(await validate(client_id=""), "invalid_request", "missing_client_id")
    refused(await validate(client_id="unknown"), "invalid_request", "invalid_client_id")
    refused(await validate(user_code=""), "invalid_request", "missing_user_code")
    refused(await validate(user_code="XXXXXX"), "invalid_request", "invalid_user_code")
    refused(await validate(client_id=sibling.client_id), "invalid_request", "invalid_user_code")
    refused(await validate(tenantId=new_id()), "invalid_request", "invalid_tenant_id")
    clock.advance(seconds=300)
    refused(await validate(), "invalid_request", "user_code_expired")


# User codes: approved by an access token


@pytest.mark.requirement("contract-device-5", "contract-states-1")
async def test_access_token_approves_a_device(rp, http):
    device = await Device.begin(rp, http, scope="openid", **SHOWN)
    answer = await approve(rp, http, device.user_code)
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "deviceGrantStatus": "Approved",
        "deviceInfo": {"description": "In the kitchen", "name": "TV", "type": "TV"},
        "tenantId": rp.tenant["id"],
        "userId": rp.user["id"],
    }
    refused(await approve(rp, http, device.user_code), "invalid_request", "invalid_user_code")
    token = claims((await device.tokens())["access_token"])
    assert (token["sub"], token["authenticationType"]) == (rp.user["id"], "PASSWORD")


@pytest.mark.requirement("contract-device-5")
async def test_token_of_another_application_can_approve(rp, http, api):
    sibling = await device_client(api, tenant=rp.tenant)
    device = await Device.begin(rp, http)
    token = await access_token(sibling, http)
    assert (await approve(rp, http, device.user_code, token=token)).json()["userId"] == sibling.user["id"]


@pytest.mark.requirement("oauth-3-12")
async def test_token_of_another_tenant_cannot_approve(rp, http, api):
    other = await device_client(api)
    device = await Device.begin(rp, http)
    token = await access_token(other, http)
    refused(await approve(rp, http, device.user_code, token=token), "invalid_token", "access_token_invalid")
    refused(await device.poll(), "authorization_pending", None)


@pytest.mark.requirement("contract-device-5")
async def test_only_the_devices_client_can_approve(rp, http, api):
    sibling = await device_client(api, tenant=rp.tenant)
    device = await Device.begin(rp, http)
    refused(await approve(sibling, http, device.user_code), "invalid_request", "invalid_user_code")
    wrong = await approve(rp, http, device.user_code, client_secret="wrong")
    refused(wrong, "invalid_client", "invalid_client_authentication", 401)
    await rp.configure(clientAuthenticationPolicy="Required")
    missing = await approve(rp, http, device.user_code, client_secret=None, token="x")
    refused(missing, "invalid_client", "client_authentication_missing", 401)
    assert (await approve(rp, http, device.user_code)).status_code == 200


async def test_third_party_token_cannot_approve_devices_of_others(rp, http, api):
    third = await device_client(api, tenant=rp.tenant)
    token = await access_token(third, http)
    await third.configure(relationship="ThirdParty", consentMode="NeverPrompt")
    device, own = await Device.begin(rp, http), await Device.begin(third, http)
    refused(await approve(rp, http, device.user_code, token=token), "invalid_token", "access_token_invalid")
    assert (await approve(third, http, own.user_code, token=token)).status_code == 200


@pytest.mark.requirement("contract-device-5")
async def test_approval_reports_missing_parameters(rp, http):
    device = await Device.begin(rp, http)
    refused(await approve(rp, http, device.user_code, token=None), "invalid_request", "missing_token")
    refused(await approve(rp, http, ""), "invalid_request", "missing_user_code")
    refused(await approve(rp, http, "XXXXXX"), "invalid_request", "invalid_user_code")


async def test_late_approval_is_rejected(rp, http, clock):
    device = await Device.begin(rp, http)
    token = await access_token(rp, http)
    clock.advance(seconds=300)
    refused(await approve(rp, http, device.user_code, token=token), "invalid_request", "user_code_expired")


async def signed(rp, service, token: str, **changes: Any) -> str:
    """The claims of a token with changes, signed by the key of its tenant; None takes one out."""
    tenant = await internals.store(service, "tenants").get(None, rp.tenant["id"])
    merged = {**claims(token), **changes}
    wanted = {name: value for name, value in merged.items() if value is not None}
    return str(
        await internals.store(service, "issuer").sign(tenant["jwtConfiguration"]["accessTokenKeyId"], wanted, tenant)
    )


@pytest.mark.requirement(
    "contract-device-5", "reason-access_token_expired", "reason-invalid_user_id", "reason-missing_user_id"
)
async def test_invalid_tokens_are_rejected_with_their_reason(rp, http, service, clock):
    device = await Device.begin(rp, http)
    good = await access_token(rp, http)
    now = claims(good)["iat"]

    async def require_error(token: str, error: str, reason: str) -> None:
        refused(await approve(rp, http, device.user_code, token=token), error, reason)

    await require_error("x.y", "invalid_token", "access_token_malformed")
    await require_error(f"{good[:-4]}AAAA", "invalid_token", "access_token_invalid")
    await require_error(
        await signed(rp, service, good, nbf=now + 1000), "invalid_token", "access_token_unavailable_for_processing"
    )
    await require_error(await signed(rp, service, good, exp=now - 1), "invalid_token", "access_token_expired")
    await require_error(await signed(rp, service, good, tty="id"), "invalid_token", "id_token_invalid")
    await require_error(await signed(rp, service, good, cnf={"jkt": "x"}), "invalid_token", "access_token_invalid")
    await require_error(await signed(rp, service, good, sub=None), "invalid_request", "missing_user_id")
    await require_error(await signed(rp, service, good, sub="ada"), "invalid_request", "invalid_user_id")
    await require_error(await signed(rp, service, good, sub=new_id()), "invalid_grant", "user_not_found")
    await http.post("/oauth2/revoke", data={"client_id": rp.client_id, "client_secret": rp.secret, "token": good})
    await require_error(good, "invalid_token", "access_token_invalid")
    refused(await device.poll(), "authorization_pending", None)


async def test_token_changed_by_a_lambda_can_approve(rp, http, service):
    device = await Device.begin(rp, http)
    token = await signed(rp, service, await access_token(rp, http), auth_time=None, authenticationType=None)
    assert (await approve(rp, http, device.user_code, token=token)).status_code == 200
    given = claims((await device.tokens())["access_token"])
    assert (given["auth_time"], given["authenticationType"]) == (claims(token)["iat"], "PING")


async def test_webhook_may_veto_an_approval(rp, http, api):
    device = await Device.begin(rp, http)
    token = await access_token(rp, http)
    async with receiving(answers(500)) as receiver:
        await subscribe(api, rp.tenant, receiver.url, ["user.login.success"], "AbsoluteMajority")
        refused(await approve(rp, http, device.user_code, token=token), "invalid_grant", "login_prevented")
        refused(await device.poll(), "authorization_pending", None)
        receiver.behaviour = answers(200)
        assert (await approve(rp, http, device.user_code, token=token)).status_code == 200
    assert receiver.requests[-1].event["authenticationType"] == "PING"


@pytest.mark.requirement("contract-device-5", "oauth-3-11")
async def test_barred_user_cannot_approve(rp, http, api):
    device = await Device.begin(rp, http)
    token = await access_token(rp, http)

    async def require_error() -> None:
        refused(await approve(rp, http, device.user_code, token=token), "invalid_grant", "login_prevented")

    path = f"/api/user/{rp.user['id']}"
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    await rp.patch(path, {"user": {"passwordChangeRequired": True}})
    await require_error()
    await rp.patch(path, {"user": {"passwordChangeRequired": False, "expiry": 1}})
    await require_error()
    await rp.patch(path, {"user": {"expiry": None}})
    await rp.configure(requireRegistration=True)
    assert (
        await api.delete(f"/api/user/registration/{rp.user['id']}/{rp.client_id}", headers=headers)
    ).status_code == 200
    await require_error()
    await rp.configure(requireRegistration=False)
    assert (await api.delete(path, headers=headers)).status_code == 200
    await require_error()
    refused(await device.poll(), "authorization_pending", None)


@pytest.mark.requirement("oauth-3-8")
async def test_third_party_device_gets_consented_scopes_only(rp, http):
    await rp.configure(relationship="ThirdParty")
    device = await Device.begin(rp, http, scope="openid email")
    await device.approved(http)
    assert (await device.tokens())["scope"] == "openid"
    required = {"email": {"enabled": True, "required": True}}
    await rp.configure(providedScopePolicy=required)
    device = await Device.begin(rp, http, scope="openid email")
    body = refused(await approve(rp, http, device.user_code), "invalid_scope", "missing_required_scope")
    assert "email" in body["error_description"]


# Guessing


@pytest.mark.requirement("attack-49", "contract-errors-8")
@pytest.mark.parametrize("way", ["validate", "user-code", "approve", "password", "refresh", "authorize"])
async def test_attack_49_wrong_user_codes_are_limited_on_every_endpoint(rp, http, service, way):
    tokens = (await rp.token(http, grant_type="password", username=rp.login_id, password=relying_party.PASSWORD,
                             scope="openid offline_access")).json()  # fmt: skip
    device = await Device.begin(rp, http)
    headers = {"X-Forwarded-For": f"203.0.113.{len(way)}"}
    async with checking_client(service.base_url, headers=headers) as guesser:

        async def try_user_code(user_code: str) -> httpx.Response:
            form = {"client_id": rp.client_id, "user_code": user_code}
            token_form = {"password": {"username": rp.login_id, "password": relying_party.PASSWORD},
                          "refresh": {"refresh_token": tokens["refresh_token"]}}  # fmt: skip
            if way == "validate":
                return await guesser.get("/oauth2/device/validate", params=form)
            if way == "authorize":
                return await rp.authorize(guesser, user_code=user_code)
            if way in token_form:
                kind = {"password": "password", "refresh": "refresh_token"}[way]
                return await guesser.post("/oauth2/token", data={**form, "grant_type": kind, **token_form[way]})
            extra = {"token": tokens["access_token"]} if way == "approve" else {}
            return await guesser.post(f"/oauth2/device/{way}", data={**form, **extra})

        def reason(answer: httpx.Response) -> str:
            return (
                relying_party.response(answer)["error_reason"] if way == "authorize" else answer.json()["error_reason"]
            )

        require_error = [reason(await try_user_code("XXXXXX")) for _ in range(device_grants.ADDRESS_FAILURES)]
        assert set(require_error) == {"invalid_user_code"}
        limited = await try_user_code(device.user_code)
        assert reason(limited) == "unknown"
        elsewhere = await guesser.get(
            "/oauth2/device/validate", params={"client_id": rp.client_id, "user_code": device.user_code}
        )
        assert "Too many incorrect user codes" in refused(elsewhere, "invalid_request", "unknown")["error_description"]
    refused(await device.poll(), "authorization_pending", None)
    await device.approved(http)


async def test_correct_user_codes_are_not_counted(rp, http, service):
    device = await Device.begin(rp, http)
    query = {"client_id": rp.client_id, "user_code": device.user_code}
    async with checking_client(service.base_url, headers={"X-Forwarded-For": "203.0.113.77"}) as client:
        for _ in range(3 * device_grants.ADDRESS_FAILURES):
            assert (await client.get("/oauth2/device/validate", params=query)).status_code == 200


async def test_authenticated_client_has_a_higher_limit(rp, http, monkeypatch):
    monkeypatch.setattr(device_grants, "CALLER_FAILURES", 12)
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "user_code": "XXXXXX"}
    for _ in range(12):
        refused(await http.post("/oauth2/device/user-code", data=form), "invalid_request", "invalid_user_code")
    refused(await http.post("/oauth2/device/user-code", data=form), "invalid_request", "unknown")


# Metadata


@pytest.mark.requirement("contract-discovery-5")
async def test_grant_is_published(http):
    for path in ("openid-configuration", "oauth-authorization-server"):
        metadata = (await http.get(f"/.well-known/{path}")).json()
        assert DEVICE_GRANT in metadata["grant_types_supported"]
        assert metadata["device_authorization_endpoint"].endswith("/oauth2/device_authorize")


async def test_codes_are_not_logged(rp, http, capsys):
    await rp.configure(debug=True)
    device = await Device.begin(rp, http)
    await device.poll()
    await http.get("/oauth2/device/validate", params={"client_id": rp.client_id, "user_code": device.user_code})
    rows = (await rp.api.get("/api/system/event-log/search")).text
    out, err = capsys.readouterr()
    for secret in (device.device_code, device.user_code):
        assert secret not in out + err
        assert secret not in rows
