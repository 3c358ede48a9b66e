"""Credentials of Keycloak exports: which are carried over, in which form, and why others are not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from identity.cli.migration import keycloak_credentials
from identity.cli.migration.export import Export
from identity.domain.passwords import phc_strings
from identity.ids import base64url
from tests.authenticator import EDDSA, ES256, RS256, Passkey

SALT = base64.b64encode(bytes(range(16))).decode()
HASH = base64.b64encode(bytes(32)).decode()

Document = dict[str, Any]


def credential(kind: str, settings: Document, secret: Document | None = None, **members: Any) -> Document:
    return {
        "type": kind, "credentialData": json.dumps(settings), "secretData": json.dumps(secret or {}), **members
    }  # fmt: skip


def password(algorithm: str, iterations: int = 5, value: str = HASH, **parameters: list[str]) -> Document:
    settings = {"algorithm": algorithm, "hashIterations": iterations, "additionalParameters": parameters}
    return credential("password", settings, {"value": value, "salt": SALT})


def otp(**settings: Any) -> Document:
    usual = {"subType": "totp", "digits": 6, "counter": 0, "period": 30, "algorithm": "HmacSHA1"}
    return credential("otp", {**usual, **settings}, {"value": "JBSWY3DP"})


def read(*credentials: Document, realm: Document | None = None, given: str | None = None) -> tuple[Document, Export]:
    export = Export()
    policies = keycloak_credentials.passkey_policies(realm or {}, given)
    return keycloak_credentials.members(export, "user1", "the-id", credentials, policies), export


@pytest.mark.requirement("migrate-3")
@pytest.mark.parametrize(
    ("stored", "algorithm", "parameters"),
    [
        (
            password("argon2", type=["id"], version=["1.3"], memory=["7168"], parallelism=["1"], hashLength=["32"]),
            "argon2id",
            {"m": 7168, "t": 5, "p": 1, "v": 19},
        ),
        (
            password("argon2", type=["d"], version=["1.0"], memory=["1024"], parallelism=["2"]),
            "argon2d",
            {"m": 1024, "t": 5, "p": 2, "v": 16},
        ),
        (password("pbkdf2", 1_300_000, base64.b64encode(bytes(64)).decode()), "pbkdf2", {"i": 1_300_000}),
        (password("pbkdf2-sha512", 210_000), "pbkdf2-sha512", {"i": 210_000}),
    ],
)
def test_hashes_become_phc_strings(stored, algorithm, parameters) -> None:
    found, export = read(stored)
    assert export.skipped == []
    parsed = phc_strings.parse(found["password"])
    assert (found["encryptionScheme"], parsed.algorithm, parsed.parameters) == ("phc", algorithm, parameters)
    assert parsed.salt == bytes(range(16))


@pytest.mark.requirement("migrate-3")
@pytest.mark.parametrize(
    ("algorithm", "size", "scheme"),
    [
        ("pbkdf2-sha256", 32, "salted-pbkdf2-hmac-sha256"),
        ("pbkdf2-sha256", 64, "salted-pbkdf2-hmac-sha256-512"),
        ("pbkdf2-sha512", 64, "salted-pbkdf2-hmac-sha512-512"),
    ],
)
def test_hashes_of_published_schemes_keep_them(algorithm, size, scheme) -> None:
    found, _ = read(password(algorithm, 27_500, base64.b64encode(bytes(size)).decode()))
    assert (found["encryptionScheme"], found["factor"], found["salt"]) == (scheme, 27_500, SALT)


@pytest.mark.requirement("migrate-3")
@pytest.mark.parametrize("encoding", [None, "BASE32"])
def test_the_secret_of_an_authenticator_app_is_a_string_or_base32(encoding) -> None:
    found, _ = read(
        otp(digits=8, period=60, algorithm="HmacSHA512", **({"secretEncoding": encoding} if encoding else {}))
    )
    (method,) = found["twoFactor"]["methods"]
    raw = base64.b64decode(method["secret"])
    assert raw == (b"JBSWY3DP" if encoding is None else base64.b32decode("JBSWY3DP"))
    assert method["authenticator"] == {"algorithm": "HmacSHA512", "codeLength": 8, "timeStep": 60}


@pytest.mark.requirement("migrate-3")
@pytest.mark.parametrize("algorithm", [ES256, EDDSA, RS256])
@pytest.mark.parametrize("encode", [base64url, lambda raw: base64.b64encode(raw).decode()])
def test_passkeys_have_pem_keys_and_the_policy_of_the_realm(algorithm, encode) -> None:
    device = Passkey(algorithm)
    settings = {
        "credentialId": encode(device.credential_id),
        "counter": 7,
        "credentialPublicKey": encode(device.cose()),
    }
    realm = {
        "webAuthnPolicyPasswordlessRpId": "id.example.com",
        "webAuthnPolicyPasswordlessUserVerificationRequirement": "required",
        "webAuthnPolicyPasswordlessRequireResidentKey": "Yes",
    }
    stored = credential("webauthn-passwordless", {**settings, "transports": ["USB"]}, userLabel="Key")
    _, export = read(stored, realm=realm)
    assert export.passkeys == {
        "the-id": [
            {
                "algorithm": algorithm,
                "authenticatorSupportsUserVerification": True,
                "credentialId": device.id,
                "discoverable": True,
                "displayName": "Key",
                "name": "Key",
                "publicKey": device.pem(),
                "relyingPartyId": "id.example.com",
                "signCount": 7,
                "transports": ["usb"],
                "userId": "the-id",
            }
        ]
    }
    _, export = read({**stored, "type": "webauthn"}, realm=realm, given="login.example.com")
    (second_factor,) = export.passkeys["the-id"]
    assert second_factor["relyingPartyId"] == "login.example.com"
    assert second_factor["authenticatorSupportsUserVerification"] is False


@pytest.mark.requirement("migrate-4")
@pytest.mark.parametrize(
    ("stored", "kind", "reason"),
    [
        (password("bcrypt"), "password", "hashes of bcrypt"),
        (
            password("argon2", type=["id"], version=["1.3"], memory=["1048576"], parallelism=["1"]),
            "password",
            "costs more",
        ),
        (password("argon2", type=["id"]), "password", "not in the form"),
        (password("pbkdf2", value="!"), "password", "not in the form"),
        (credential("password", {}), "password", "not in the form"),
        ({"type": "password", "credentialData": "[]", "secretData": "[]"}, "password", "not in the form"),
        ({"type": "otp"}, "credential", "not in the form"),
        (otp(subType="hotp"), "credential", "HOTP"),
        (otp(period=600), "credential", "600 s"),
        (otp(algorithm="HmacMD5"), "credential", "HmacMD5"),
        (
            credential("webauthn", {"credentialId": "AA==", "credentialPublicKey": "AA"}),
            "credential",
            "--relying-party",
        ),
        (credential("recovery-authn-codes", {}), "credential", "recovery-authn-codes"),
        (credential("password-history", {}), "credential", "password-history"),
    ],
)
def test_other_credentials_are_reported(stored, kind, reason) -> None:
    found, export = read(stored)
    assert found == {}
    assert export.passkeys == {}
    (skipped,) = export.skipped
    assert (skipped.kind, skipped.name, reason in skipped.reason) == (kind, "user1", True), skipped


@pytest.mark.requirement("migrate-4")
def test_unsupported_key_of_a_passkey_is_reported() -> None:
    _, export = read(credential("webauthn", {"credentialId": "AA==", "credentialPublicKey": "AA"}), given="example.com")
    assert [skipped.reason for skipped in export.skipped] == ["the public key of the passkey is not supported"]
