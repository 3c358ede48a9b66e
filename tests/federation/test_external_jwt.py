"""Logins with an external JWT, in the current and the deprecated form."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from identity.ids import base64url, new_id
from tests import relying_party
from tests.fake_provider import make_key, signed, unsigned
from tests.federation.conftest import Scenario

Document = dict[str, Any]


@pytest.fixture(scope="module")
async def key() -> Document:
    return await make_key("RS256", kid="theirs")


@pytest.fixture
async def external(scenario: Scenario, key: Document) -> Scenario:
    """A scene whose provider has one PEM with the name `theirs`."""
    await scenario.add_provider(type="ExternalJWT", keys={"theirs": key["publicKey"]})
    return scenario


@pytest.fixture
def claims(session_clock: Any) -> Document:
    now = session_clock.now() // 1000
    return {
        "sub": new_id(), "email": f"{new_id()}@example.com", "email_verified": True, "exp": now + 300, "iat": now,
    }  # fmt: skip


async def log_in(scenario: Scenario, token: str | None, **members: Any) -> Any:
    return await scenario.log_in(encodedJWT=token, **members)


@pytest.mark.requirement("core-11-39")
async def test_a_signed_token_logs_in(external, key, claims) -> None:
    answer = await log_in(external, await signed(key, claims))
    assert answer.status_code == 200, answer.text
    user = answer.json()["user"]
    assert user["email"] == claims["email"]
    token = relying_party.claims(answer.json()["token"])
    assert token["authenticationType"] == "FEDERATED_JWT"
    (link,) = await external.links(user["id"])
    assert link["identityProviderUserId"] == claims["sub"]
    assert link["identityProviderType"] == "ExternalJWT"
    assert "token" not in link
    again = await external.log_in(data={"token": await signed(key, claims)})
    assert again.json()["user"]["id"] == user["id"]


@pytest.mark.requirement("core-11-36")
@pytest.mark.parametrize("with_application", [True, False])
async def test_deprecated_endpoint_logs_in(external, key, claims, http, with_application) -> None:
    body = {"encodedJWT": await signed(key, claims), "identityProviderId": external.provider["id"]}
    if with_application:
        body["applicationId"] = external.application["id"]
    answer = await http.post("/api/jwt/reconcile", json=body)
    if with_application:
        assert answer.status_code == 200, answer.text
        assert answer.json()["user"]["email"] == claims["email"]
        assert "token" in answer.json()
    else:
        assert list(answer.json()["fieldErrors"]) == ["applicationId"]


@pytest.mark.requirement("core-11-36")
async def test_deprecated_endpoint_accepts_external_jwt_only(federated, http) -> None:
    body = {
        "encodedJWT": "x",
        "identityProviderId": federated.provider["id"],
        "applicationId": federated.application["id"],
    }
    answer = await http.post("/api/jwt/reconcile", json=body)
    assert answer.json()["fieldErrors"]["identityProviderId"][0]["code"] == "[invalid]identityProviderId"


async def test_token_is_required(external) -> None:
    answer = await log_in(external, None)
    assert answer.json()["fieldErrors"]["encodedJWT"][0]["code"] == "[blank]encodedJWT"


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512"])
async def test_rsa_key_accepts_several_digests(external, key, claims, algorithm) -> None:
    assert (await log_in(external, await signed({**key, "algorithm": algorithm}, claims))).status_code == 200


@pytest.mark.parametrize(
    "changes", [{"sub": None}, {"exp": None}, {"exp": 1_700_000_000}, {"email": None}, {"email_verified": False}]
)
async def test_missing_or_invalid_claim_is_401(external, key, claims, changes) -> None:
    changed = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    answer = await log_in(external, await signed(key, changed))
    assert (answer.status_code, answer.content) == (401, b"")
    assert await external.count_users() == 0


async def test_token_not_yet_valid_by_more_than_a_minute_is_401(external, key, claims) -> None:
    later = {**claims, "nbf": claims["iat"] + 120}
    assert (await log_in(external, await signed(key, later))).status_code == 401
    soon = {**claims, "nbf": claims["iat"] + 20}
    assert (await log_in(external, await signed(key, soon))).status_code == 200


async def test_the_wrong_key_is_401(external, claims) -> None:
    assert (await log_in(external, await signed(await make_key("RS256", kid="theirs"), claims))).status_code == 401


@pytest.mark.parametrize("kid", ["unknown", "../theirs", "theirs\x00", "x" * 10_000, {"$ne": None}, 7, ["theirs"]])
async def test_unknown_key_is_401(external, key, claims, kid) -> None:
    token = await signed({**key, "kid": None}, claims, kid=kid)
    assert (await log_in(external, token)).status_code == 401


@pytest.mark.requirement("core-11-22")
async def test_token_without_key_id_requires_a_default_key(external, key, claims, api) -> None:
    token = await signed({**key, "kid": None}, claims)
    assert (await log_in(external, token)).status_code == 401
    wanted = {"name": new_id(), "type": "RSA", "publicKey": key["publicKey"], "kid": new_id()}
    ours = (await api.post("/api/key/import", json={"key": wanted})).json()["key"]
    await external.change(defaultKeyId=ours["id"])
    assert (await log_in(external, token)).status_code == 200
    unknown = await signed({**key, "kid": "unknown"}, claims)
    assert (await log_in(external, unknown)).status_code == 401, "a key that is named is not any key"


@pytest.mark.requirement("core-11-22")
@pytest.mark.parametrize("by", ["kid", "id"])
@pytest.mark.parametrize("member", ["defaultKeyId", "verificationKeyIds"])
async def test_stored_keys_are_found_by_kid_or_id(external, key, claims, api, by, member) -> None:
    wanted = {"name": new_id(), "type": "RSA", "publicKey": key["publicKey"], "kid": new_id()}
    ours = (await api.post("/api/key/import", json={"key": wanted})).json()["key"]
    await external.change(keys={}, **{member: ours["id"] if member == "defaultKeyId" else [ours["id"]]})
    assert (await log_in(external, await signed({**key, "kid": ours[by]}, claims))).status_code == 200
    assert (await log_in(external, await signed({**key, "kid": new_id()}, claims))).status_code == 401


@pytest.mark.requirement("core-11-22")
async def test_header_parameter_is_configurable(external, key, claims) -> None:
    await external.change(headerKeyParameter="x5t")
    assert (await log_in(external, await signed({**key, "kid": None}, claims, x5t="theirs"))).status_code == 200
    assert (await log_in(external, await signed(key, claims))).status_code == 401


async def test_certificate_is_accepted_as_key(external, key, claims) -> None:
    await external.change(keys={"theirs": key["certificate"]})
    assert (await log_in(external, await signed(key, claims))).status_code == 200


async def test_stored_hmac_key_verifies_hmac_only(external, claims, api) -> None:
    secret = "a secret of more than thirty-two bytes, known to both"
    wanted = {"name": new_id(), "type": "HMAC", "algorithm": "HS256", "secret": secret, "kid": new_id()}
    ours = (await api.post("/api/key/import", json={"key": wanted})).json()["key"]
    await external.change(verificationKeyIds=[ours["id"]])
    shared = {**wanted, "id": new_id()}
    assert (await log_in(external, await signed(shared, claims))).status_code == 200
    other = await make_key("ES256", kid=ours["kid"])
    assert (await log_in(external, await signed(other, claims))).status_code == 401


@pytest.mark.requirement("core-11-22")
@pytest.mark.parametrize("form", ["publicKey", "certificate"])
async def test_pem_is_not_used_as_hmac_secret(external, key, claims, form) -> None:
    for text in (key[form], key[form] + "\n", key[form].replace("\n", "")):
        head = base64url(json.dumps({"alg": "HS256", "kid": "theirs"}).encode())
        body = base64url(json.dumps(claims).encode())
        mac = hmac.new(text.encode(), f"{head}.{body}".encode(), hashlib.sha256).digest()
        assert (await log_in(external, f"{head}.{body}.{base64url(mac)}")).status_code == 401
    assert await external.count_users() == 0


@pytest.mark.parametrize("algorithm", ["none", "NoNe", "", None, "ES256", "PS256", 7])
async def test_key_determines_the_algorithm(external, claims, algorithm) -> None:
    assert (await log_in(external, unsigned(claims, alg=algorithm, kid="theirs"))).status_code == 401


@pytest.mark.parametrize("token", ["x", "a.b.c", "a" * 30_000, "ü.ü.ü"])
async def test_malformed_token_is_401(external, token) -> None:
    assert (await log_in(external, token)).status_code == 401


async def test_overlong_token_is_not_parsed(external) -> None:
    answer = await log_in(external, "a" * 40_000)
    assert answer.json()["fieldErrors"]["encodedJWT"][0]["code"] == "[tooLong]encodedJWT"


@pytest.mark.requirement("core-11-24")
async def test_provider_authenticates_only_its_domains(external, key, claims) -> None:
    domain = f"{new_id()}.example.com"
    await external.change(domains=[domain])
    assert (await log_in(external, await signed(key, claims))).status_code == 401
    assert (await log_in(external, await signed(key, {**claims, "email": f"a@sub.{domain}"}))).status_code == 401
    unknown_user = {name: value for name, value in claims.items() if name != "email"}
    assert (await log_in(external, await signed(key, unknown_user))).status_code == 401
    assert (await log_in(external, await signed(key, {**claims, "email": f"A@{domain.upper()}"}))).status_code == 200


@pytest.mark.requirement("core-11-24")
async def test_deprecated_name_of_the_email_claim_is_accepted(external, key, claims) -> None:
    await external.change(uniqueIdentityClaim="mail")
    mail = f"{new_id()}@example.com"
    answer = await log_in(external, await signed(key, {**claims, "mail": mail}))
    assert answer.json()["user"]["email"] == mail
    assert external.provider["oauth2"]["emailClaim"] == "email"


@pytest.mark.requirement("core-11-23")
async def test_a_claim_map_fills_the_user_and_the_registration(external, key, claims) -> None:
    claim_map = {
        "born": "birthDate",
        "department": "UserData",
        "first": "firstName",
        "last": "lastName",
        "level": "RegistrationData",
        "middle": "middleName",
        "name": "fullName",
        "phone": "mobilePhone",
        "photo": "imageUrl",
        "tz": "timezone",
    }
    await external.change(claimMap=claim_map)
    said = {
        "born": "1815-12-10", "department": {"name": "Engines"}, "first": "Ada", "last": "Lovelace", "level": 7,
        "middle": "King", "name": "Ada Lovelace", "phone": "+44 20 7946 0000", "photo": "https://example.com/ada.png",
        "tz": "Europe/London",
    }  # fmt: skip
    user = (await log_in(external, await signed(key, {**claims, **said}))).json()["user"]
    for claim, field in claim_map.items():
        if field not in {"UserData", "RegistrationData"}:
            assert user[field] == said[claim]
    assert user["data"] == {"department": {"name": "Engines"}}
    assert user["registrations"][0]["data"] == {"level": 7}
    less = {"first": "Augusta", "born": "long ago", "tz": 7, "department": "Tables"}
    user = (await log_in(external, await signed(key, {**claims, **less}))).json()["user"]
    assert (user["firstName"], user["birthDate"], user["timezone"]) == ("Augusta", "1815-12-10", "Europe/London")
    assert user["data"] == {"department": "Tables"}
    assert user["registrations"][0]["data"] == {"level": 7}


@pytest.mark.requirement("core-11-9")
async def test_reconcile_lambda_receives_the_token(external, key, claims) -> None:
    body = "function reconcile(user, registration, jwt) { user.fullName = jwt.sub; registration.data.iat = jwt.iat; }"
    reconcile = await external.make_lambda(body, "ExternalJWTReconcile")
    await external.change(lambdaConfiguration={"reconcileId": reconcile})
    user = (await log_in(external, await signed(key, claims))).json()["user"]
    assert user["fullName"] == claims["sub"]
    assert user["registrations"][0]["data"] == {"iat": claims["iat"]}


async def test_claims_that_cannot_be_stored_are_401(external, key, claims) -> None:
    assert (await log_in(external, await signed(key, {**claims, "a": {"b\x00": 1}}))).status_code == 401
    assert await external.count_users() == 0
