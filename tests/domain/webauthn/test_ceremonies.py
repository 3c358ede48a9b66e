"""Verification of authenticator responses: mismatched ceremonies, origins and keys are refused."""

from __future__ import annotations

import os
from typing import Any

import pytest
from webauthn.helpers import encode_cbor, parse_cbor

from identity.domain.webauthn import ceremonies, public_keys
from identity.domain.webauthn.ceremonies import Expected
from identity.errors import Invalid
from identity.ids import base64url, unbase64url
from tests.authenticator import BE, BS, EDDSA, ES256, ES384, ORIGIN, RELYING_PARTY, RS256, UP, UV, Passkey

CHALLENGE = base64url(b"c" * 32)
OPTIONS = {"challenge": CHALLENGE, "user": {"id": "dXNlcg"}}
EXPECTED = Expected(CHALLENGE, ORIGIN, RELYING_PARTY, requires_user_verification=True)


def stored(passkey: Passkey, **members: Any) -> dict[str, Any]:
    return {"publicKey": passkey.pem(), "algorithm": passkey.algorithm, "signCount": 0, **members}


def register(passkey: Passkey, expected: Expected = EXPECTED, **arguments: Any) -> ceremonies.NewCredential:
    return ceremonies.verify_registration(passkey.create(OPTIONS, **arguments)["credential"], expected)


def authenticate(passkey: Passkey, expected: Expected = EXPECTED, **client_data: Any) -> ceremonies.Assertion:
    credential = passkey.get(OPTIONS, **client_data)["credential"]
    return ceremonies.verify_assertion(credential, stored(passkey), expected)


def path_of(error: pytest.ExceptionInfo[Invalid]) -> str:
    (field,) = error.value.fields
    assert field.code == f"[invalid]{field.path}"
    return field.path.removeprefix("credential.").removeprefix("response.")


@pytest.mark.requirement("passkeys-1", "passkeys-2")
@pytest.mark.parametrize("attestation", ["none", "packed"])
@pytest.mark.parametrize("algorithm", [ES256, EDDSA, ES384, RS256])
def test_every_algorithm_registers_and_authenticates(algorithm, attestation) -> None:
    passkey = Passkey(algorithm, count=7)
    new = register(passkey, attestation=attestation)
    assert (new.credential_id, new.public_key, new.algorithm) == (passkey.id, passkey.pem(), algorithm)
    assert (new.attestation_type, new.sign_count) == ({"none": "none", "packed": "self"}[attestation], 7)
    assert authenticate(passkey) == ceremonies.Assertion(8, is_user_verified=True, is_backed_up=False)


@pytest.mark.requirement("passkeys-3")
@pytest.mark.parametrize(
    ("passkey", "client_data", "path"),
    [
        ({}, {"type": "webauthn.get"}, "clientDataJSON"),
        ({}, {"challenge": base64url(b"d" * 32)}, "attestationObject"),
        ({}, {"origin": "https://evil.example.com"}, "clientDataJSON"),
        ({}, {"origin": "http://auth.example.com"}, "clientDataJSON"),
        ({}, {"crossOrigin": True}, "clientDataJSON"),
        ({}, {"topOrigin": "https://evil.example.com"}, "clientDataJSON"),
        ({"relying_party": "example.com"}, {}, "attestationObject"),
        ({"flags": UP}, {}, "attestationObject"),
        ({"flags": UV}, {}, "attestationObject"),
        ({"flags": UP | UV | BS}, {}, "attestationObject"),
    ],
    ids=["type", "challenge", "origin", "scheme", "frame", "top origin", "party", "no uv", "no up", "backup state"],
)
def test_confused_registration_is_refused(passkey, client_data, path) -> None:
    with pytest.raises(Invalid) as error:
        register(Passkey(**passkey), **client_data)
    assert path_of(error) == path


@pytest.mark.requirement("passkeys-3")
@pytest.mark.parametrize(
    ("passkey", "client_data", "path"),
    [
        ({}, {"type": "webauthn.create"}, "clientDataJSON"),
        ({}, {"type": "payment.get"}, "clientDataJSON"),
        ({}, {"challenge": base64url(b"d" * 32)}, "signature"),
        ({}, {"origin": "https://evil.example.com"}, "clientDataJSON"),
        ({}, {"origin": ["https://auth.example.com"]}, "clientDataJSON"),
        ({}, {"crossOrigin": True}, "clientDataJSON"),
        ({"relying_party": "example.com"}, {}, "signature"),
        ({"flags": UP}, {}, "signature"),
        ({"flags": UV}, {}, "signature"),
        ({"flags": UP | UV | BS}, {}, "authenticatorData"),
    ],
    ids=["type", "payment", "challenge", "origin", "list", "frame", "party", "no uv", "no up", "backup state"],
)
def test_confused_authentication_is_refused(passkey, client_data, path) -> None:
    with pytest.raises(Invalid) as error:
        authenticate(Passkey(**passkey), **client_data)
    assert path_of(error) == path


def test_user_verification_is_optional_if_the_workflow_permits() -> None:
    passkey = Passkey(flags=UP)
    expected = Expected(CHALLENGE, ORIGIN, RELYING_PARTY, requires_user_verification=False)
    assert not register(passkey, expected).is_user_verified
    assert not authenticate(passkey, expected).is_user_verified


def test_signature_of_another_key_is_refused() -> None:
    credential = Passkey().get(OPTIONS)["credential"]
    for algorithm in (ES256, EDDSA, ES384, RS256):
        with pytest.raises(Invalid) as error:
            ceremonies.verify_assertion(credential, stored(Passkey(algorithm)), EXPECTED)
        assert path_of(error) in {"signature", "authenticatorData"}


def test_changed_data_is_refused() -> None:
    passkey = Passkey()
    credential = passkey.get(OPTIONS)["credential"]
    data = bytearray(unbase64url(credential["response"]["authenticatorData"]))
    data[-1] += 1
    credential["response"]["authenticatorData"] = base64url(bytes(data))
    with pytest.raises(Invalid):
        ceremonies.verify_assertion(credential, stored(passkey), EXPECTED)


def test_self_attestation_of_another_key_is_refused() -> None:
    passkey, other = Passkey(), Passkey()
    passkey.sign = other.sign  # type: ignore[method-assign]
    with pytest.raises(Invalid) as error:
        register(passkey, attestation="packed")
    assert path_of(error) == "attestationObject"


def test_attestation_of_another_format_is_refused() -> None:
    with pytest.raises(Invalid) as error:
        register(Passkey(), attestation="android-key")
    assert path_of(error) == "attestationObject"


def test_credential_id_is_that_of_the_authenticator() -> None:
    credential = Passkey().create(OPTIONS)["credential"]
    with pytest.raises(Invalid) as error:
        ceremonies.verify_registration({**credential, "id": base64url(b"another")}, EXPECTED)
    assert path_of(error) == "id"
    with pytest.raises(Invalid) as error:
        register(Passkey(credential_id=os.urandom(1024)))
    assert path_of(error) == "id"


@pytest.mark.requirement("passkeys-6")
def test_backup_flags_are_read_and_eligibility_cannot_change() -> None:
    synced = Passkey(flags=UP | UV | BE | BS)
    new = register(synced)
    assert (new.is_backup_eligible, new.is_backed_up) == (True, True)
    credential = synced.get(OPTIONS)["credential"]
    same = stored(synced, backupEligible=True)
    assert ceremonies.verify_assertion(credential, same, EXPECTED).is_backed_up
    with pytest.raises(Invalid) as error:
        ceremonies.verify_assertion(credential, {**same, "backupEligible": False}, EXPECTED)
    assert path_of(error) == "authenticatorData"


@pytest.mark.requirement("passkeys-5")
@pytest.mark.parametrize(
    ("stored_count", "sign_count", "is_cloned"),
    [(0, 0, False), (0, 1, False), (5, 6, False), (5, 5, True), (5, 4, True), (5, 0, True)],
)
def test_counter_has_to_increase(stored_count, sign_count, is_cloned) -> None:
    assert ceremonies.is_cloned(stored_count, sign_count) is is_cloned


MALFORMED = ["", "A", "!!!!", base64url(b"\xff\xfe"), base64url(b"[]"), base64url(b"1"), base64url(b"[" * 9000)]


@pytest.mark.parametrize("text", [*MALFORMED, base64url(b'{"challenge": 1}'), base64url(b"{}")])
def test_unreadable_client_data_is_refused(text) -> None:
    with pytest.raises(Invalid) as error:
        ceremonies.read_challenge(text)
    assert path_of(error) == "clientDataJSON"


@pytest.mark.parametrize(
    "value",
    [
        *MALFORMED[:6],
        base64url(encode_cbor({})),
        base64url(encode_cbor({"fmt": "none", "attStmt": {}, "authData": b""})),
        base64url(encode_cbor({"fmt": 1, "attStmt": 2, "authData": b"a" * 37})),
        base64url(encode_cbor({"fmt": "none", "attStmt": {}, "authData": b"\xff" * 80})),
        base64url(encode_cbor({"fmt": "packed", "attStmt": {"x5c": [b"a"], "sig": b"a", "alg": -7}, "authData": b""})),
        base64url(b"\x9f" * 5000),
    ],
)
def test_unreadable_attestation_and_authenticator_data_are_refused(value) -> None:
    passkey = Passkey()
    created = passkey.create(OPTIONS)["credential"]
    created["response"]["attestationObject"] = value
    with pytest.raises(Invalid):
        ceremonies.verify_registration(created, EXPECTED)
    for member in ("authenticatorData", "signature"):
        used = passkey.get(OPTIONS)["credential"]
        used["response"][member] = value
        with pytest.raises(Invalid):
            ceremonies.verify_assertion(used, stored(passkey), EXPECTED)


def test_public_keys_fit_their_algorithm() -> None:
    for algorithm in (ES256, EDDSA, ES384, RS256):
        passkey = Passkey(algorithm)
        assert parse_cbor(public_keys.to_cose(passkey.pem(), algorithm)) == parse_cbor(passkey.cose())
        assert public_keys.to_pem(passkey.cose()) == (passkey.pem(), algorithm)
        for other in {*public_keys.ALGORITHMS, -35, -37, 0} - {algorithm, -258, -259}:
            with pytest.raises(ValueError, match="algorithm"):
                public_keys.to_cose(passkey.pem(), other)
    with pytest.raises(ValueError, match=r"."):
        public_keys.to_cose("no key", ES256)
