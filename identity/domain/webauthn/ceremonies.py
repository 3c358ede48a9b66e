"""Verification of what authenticators return (WebAuthn sections 7.1 and 7.2), by py_webauthn.

The checks that the library leaves to its callers are here: cross-origin frames, the attestation format, the credential
id, the backup eligibility and the signature counter.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
from types import ModuleType
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from identity.call import Document
from identity.domain.webauthn import public_keys
from identity.errors import Invalid
from identity.ids import base64url, unbase64url

CREATE: Final = "webauthn.create"
GET: Final = "webauthn.get"

CLIENT_DATA: Final = "credential.response.clientDataJSON"
_ATTESTATION: Final = "credential.response.attestationObject"
_AUTHENTICATOR_DATA: Final = "credential.response.authenticatorData"
_SIGNATURE: Final = "credential.response.signature"

_MAXIMUM_ID_BYTES: Final = 1023


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """The values a response must match: the challenge in base64url, the origin, and the settings of the ceremony."""

    challenge: str
    origin: str
    relying_party_id: str
    requires_user_verification: bool


@dataclasses.dataclass(frozen=True, slots=True)
class NewCredential:
    """A verified registration; `public_key` is in PEM, `attestation_type` is none, self or basic."""

    credential_id: str
    public_key: str
    algorithm: int
    attestation_type: str
    sign_count: int
    is_user_verified: bool
    is_backup_eligible: bool
    is_backed_up: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Assertion:
    """A verified authentication."""

    sign_count: int
    is_user_verified: bool
    is_backed_up: bool


def read_challenge(client_data_json: str) -> str:
    """Return the challenge that the browser signed, in base64url. Raises Invalid."""
    challenge = _client_data(client_data_json).get("challenge")
    if not isinstance(challenge, str) or not challenge.isascii():
        raise _invalid(CLIENT_DATA, "The client data has no challenge.")
    return challenge.rstrip("=")


def verify_registration(credential: Document, expected: Expected) -> NewCredential:
    """Verify the response of `navigator.credentials.create()` (section 7.1). Raises Invalid."""
    from webauthn.helpers.exceptions import InvalidRegistrationResponse  # noqa: PLC0415  see _library
    from webauthn.helpers.structs import CredentialDeviceType  # noqa: PLC0415

    response = credential["response"]
    _check_client_data(response["clientDataJSON"], CREATE, expected)
    try:
        verified = _library().verify_registration_response(
            credential=_as_json(credential, "attestationObject"),
            expected_challenge=_from_base64url(expected.challenge),
            expected_rp_id=expected.relying_party_id,
            expected_origin=expected.origin,
            require_user_verification=expected.requires_user_verification,
            supported_pub_key_algs=list(public_keys.ALGORITHMS),
        )
        attestation_type = _attestation_type(verified.attestation_object)
        public_key, algorithm = public_keys.to_pem(verified.credential_public_key)
    except InvalidRegistrationResponse as error:
        raise _invalid(_ATTESTATION, f"The registration is not valid: {error}.") from error
    except Exception as error:
        # The parsers raise errors of many kinds for malformed CBOR, keys and certificates.
        raise _invalid(_ATTESTATION, "The attestation object cannot be read.", error) from error
    credential_id = base64url(verified.credential_id)
    if credential_id != credential["id"].rstrip("=") or len(verified.credential_id) > _MAXIMUM_ID_BYTES:
        raise _invalid("credential.id", "The [credential.id] is not that of the attestation object.")
    return NewCredential(
        credential_id,
        public_key,
        algorithm,
        attestation_type,
        verified.sign_count,
        verified.user_verified,
        verified.credential_device_type is CredentialDeviceType.MULTI_DEVICE,
        verified.credential_backed_up,
    )


def verify_assertion(credential: Document, stored: Document, expected: Expected) -> Assertion:
    """Verify the response of `navigator.credentials.get()` with a stored credential (section 7.2). Raises Invalid.

    The signature counter is not compared; see `is_cloned`.
    """
    from webauthn.helpers import parse_authenticator_data  # noqa: PLC0415  see _library
    from webauthn.helpers.exceptions import InvalidAuthenticationResponse  # noqa: PLC0415

    response = credential["response"]
    _check_client_data(response["clientDataJSON"], GET, expected)
    try:
        verified = _library().verify_authentication_response(
            credential=_as_json(credential, "authenticatorData", "signature"),
            expected_challenge=_from_base64url(expected.challenge),
            expected_rp_id=expected.relying_party_id,
            expected_origin=expected.origin,
            credential_public_key=public_keys.to_cose(stored["publicKey"], stored["algorithm"]),
            credential_current_sign_count=0,
            require_user_verification=expected.requires_user_verification,
        )
        flags = parse_authenticator_data(_from_base64url(response["authenticatorData"])).flags
    except InvalidAuthenticationResponse as error:
        raise _invalid(_SIGNATURE, f"The authentication is not valid: {error}.") from error
    except Exception as error:
        raise _invalid(_AUTHENTICATOR_DATA, "The authenticator data cannot be read.", error) from error
    if stored.get("backupEligible") not in {None, flags.be}:
        raise _invalid(_AUTHENTICATOR_DATA, "The backup eligibility of a passkey cannot change.")
    return Assertion(verified.new_sign_count, verified.user_verified, verified.credential_backed_up)


def is_cloned(stored_count: int, sign_count: int) -> bool:
    """Whether a signature counter indicates a copy of the authenticator (section 6.1.1).

    The counter has to increase, unless the authenticator has none, which returns 0 each time.
    """
    return max(stored_count, sign_count) > 0 and sign_count <= stored_count


def cloned_error() -> Invalid:
    """Return the error of an assertion whose signature counter did not increase."""
    return _invalid(_AUTHENTICATOR_DATA, "The signature counter of the passkey did not increase.")


@functools.cache
def _library() -> ModuleType:
    """Return py_webauthn with ES384, which its table of elliptic curve signatures lacks.

    Loading it takes 0.1 s, and many services have no passkeys.
    """
    import webauthn  # noqa: PLC0415

    signatures: Any = importlib.import_module("webauthn.helpers.verify_signature")
    find = signatures.get_ec2_sig_alg

    def find_with_es384(algorithm: int) -> ec.EllipticCurveSignatureAlgorithm:
        found: ec.EllipticCurveSignatureAlgorithm = (
            ec.ECDSA(hashes.SHA384()) if algorithm == public_keys.ES384 else find(algorithm)
        )
        return found

    signatures.get_ec2_sig_alg = find_with_es384
    return webauthn


def _from_base64url(text: str) -> bytes:
    """Return the bytes of base64url with or without padding. Raises ValueError."""
    return unbase64url(text.rstrip("="))


def _client_data(text: str) -> dict[str, Any]:
    try:
        found = json.loads(_from_base64url(text))
    except (ValueError, RecursionError) as error:
        raise _invalid(CLIENT_DATA, "The client data cannot be read.", error) from error
    if not isinstance(found, dict):
        raise _invalid(CLIENT_DATA, "The client data is not an object.")
    return found


def _check_client_data(text: str, kind: str, expected: Expected) -> None:
    """Raise Invalid for client data of another ceremony or origin, or of a frame inside a page of another origin."""
    found = _client_data(text)
    if found.get("type") != kind:
        raise _invalid(CLIENT_DATA, f"The type of the client data is not {kind}.")
    if found.get("origin") != expected.origin:
        raise _invalid(CLIENT_DATA, "The origin of the client data is not the expected one.")
    if found.get("crossOrigin") or found.get("topOrigin") is not None:
        raise _invalid(CLIENT_DATA, "Passkeys cannot be used in a frame of another origin.")


def _as_json(credential: Document, *members: str) -> Document:
    """Return the credential as the library reads it: with `rawId`, and with the members of the ceremony alone."""
    credential_id, response = credential["id"].rstrip("="), credential["response"]
    chosen = {name: response[name] for name in ("clientDataJSON", *members)}
    return {"id": credential_id, "rawId": credential_id, "type": credential["type"], "response": chosen}


def _attestation_type(attestation_object: bytes) -> str:
    """Return the attestation type (section 6.5.4). Raises InvalidRegistrationResponse for an unsupported format.

    Certificates are not verified against the roots of manufacturers.
    """
    from webauthn.helpers import parse_attestation_object  # noqa: PLC0415  see _library
    from webauthn.helpers.exceptions import InvalidRegistrationResponse  # noqa: PLC0415

    parsed = parse_attestation_object(attestation_object)
    if parsed.fmt not in {"none", "packed"}:
        raise InvalidRegistrationResponse(f'Unsupported attestation format "{parsed.fmt}"')
    if parsed.fmt == "none":
        return "none"
    return "basic" if parsed.att_stmt.x5c else "self"


def _invalid(path: str, message: str, cause: Exception | None = None) -> Invalid:
    error = Invalid.field("invalid", path, message)
    if cause is not None:
        error.log_detail = f"{path}: {type(cause).__name__}"
    return error
