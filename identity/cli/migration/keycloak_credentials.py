"""Credentials in exports of Keycloak: passwords, one-time password devices, passkeys.

Each has two JSON strings, `credentialData` with its parameters and `secretData` with its secret.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.cli.migration.export import Export, Json, without_empty
from identity.domain.passwords import phc_strings
from identity.domain.webauthn import public_keys
from identity.ids import base64url

_SCHEMES: Final[Mapping[tuple[str, int], str]] = {
    ("pbkdf2-sha256", 32): "salted-pbkdf2-hmac-sha256",
    ("pbkdf2-sha256", 64): "salted-pbkdf2-hmac-sha256-512",
    ("pbkdf2-sha512", 64): "salted-pbkdf2-hmac-sha512-512",
}
"""Algorithm and bytes of the hash -> published scheme; all other hashes become PHC strings."""

_ARGON2_VERSIONS: Final = {"1.0": "16", "1.3": "19"}
_PASSKEYS: Final = {"webauthn": "webAuthnPolicy", "webauthn-passwordless": "webAuthnPolicyPasswordless"}
"""Type of credential -> prefix of the realm's settings for it."""

_MAXIMUM_PERIOD_SECONDS: Final = 300
_HASHES: Final = frozenset({"HmacSHA1", "HmacSHA256", "HmacSHA512"})
_MALFORMED: Final = (AttributeError, KeyError, TypeError, ValueError, binascii.Error)


@dataclasses.dataclass(frozen=True, slots=True)
class PasskeyPolicy:
    """A WebAuthn policy of the realm: the relying party id, and what all its passkeys can do."""

    relying_party_id: str
    is_user_verified: bool
    is_discoverable: bool

    @classmethod
    def of(cls, realm: Json, prefix: str, relying_party_id: str | None) -> PasskeyPolicy:
        """Return a policy; a realm without a relying party id uses the host name of Keycloak, which is given."""
        return cls(
            str(relying_party_id or realm.get(f"{prefix}RpId") or ""),
            realm.get(f"{prefix}UserVerificationRequirement") == "required",
            realm.get(f"{prefix}RequireResidentKey") == "Yes",
        )


def passkey_policies(realm: Json, relying_party_id: str | None) -> dict[str, PasskeyPolicy]:
    """Return the policies of a realm by the type of credential."""
    return {kind: PasskeyPolicy.of(realm, prefix, relying_party_id) for kind, prefix in _PASSKEYS.items()}


def members(
    export: Export, name: str, user_id: str, credentials: Sequence[Json], policies: Mapping[str, PasskeyPolicy]
) -> Json:
    """Return the password and the second factors of a user; add the passkeys, and what is skipped, to the export."""
    found: Json = {}
    methods: list[Json] = []
    for credential in credentials:
        kind = str(credential.get("type"))
        try:
            if kind == "password":
                found |= _password(credential)
            elif kind in {"otp", "totp"}:
                methods.append(_authenticator(credential))
            elif kind in _PASSKEYS:
                passkey = _passkey(credential, user_id, policies[kind])
                export.passkeys.setdefault(user_id, []).append(passkey)
            else:
                export.skip("credential", name, f"credentials of the type {kind} are not imported")
        except NotImportableError as error:
            export.skip("password" if kind == "password" else "credential", name, str(error))
        except _MALFORMED:
            export.skip(
                "password" if kind == "password" else "credential",
                name,
                "the credential is not in the form of Keycloak",
            )
    return {**found, **({"twoFactor": {"methods": methods}} if methods else {})}


class NotImportableError(Exception):
    """A credential that this service does not support; the message is the reason."""


def _parts(credential: Json) -> tuple[Json, Json]:
    """Return the parameters and the secret of a credential."""
    return json.loads(credential["credentialData"]), json.loads(credential["secretData"])


def _password(credential: Json) -> Json:
    settings, secret = _parts(credential)
    salt, value = (base64.b64decode(secret[member], validate=True) for member in ("salt", "value"))
    algorithm, iterations = settings["algorithm"], int(settings["hashIterations"])
    if scheme := _SCHEMES.get((algorithm, len(value))):
        password = {"factor": iterations, "salt": secret["salt"], "password": secret["value"]}
        return {"encryptionScheme": scheme, **password}
    if algorithm == "argon2":
        head = _argon2(settings.get("additionalParameters", {}), iterations)
    elif algorithm in {"pbkdf2", "pbkdf2-sha256", "pbkdf2-sha512"}:
        head = f"{algorithm}$i={iterations},l={len(value)}"
    else:
        raise NotImportableError(f"hashes of {algorithm} cannot be verified")
    text = "$".join(["", head, *(base64.b64encode(raw).decode().rstrip("=") for raw in (salt, value))])
    try:
        phc_strings.parse(text)
    except ValueError as error:
        raise NotImportableError(f"the hash of {algorithm} {error}") from error
    return {"encryptionScheme": phc_strings.SCHEME, "password": text}


def _argon2(parameters: Json, passes: int) -> str:
    """Return the algorithm and the parameters of a PHC string."""
    given = {name: value[0] for name, value in parameters.items()}
    version = _ARGON2_VERSIONS[given.get("version", "1.3")]
    lanes, memory = int(given.get("parallelism", 1)), int(given["memory"])
    return f"argon2{given['type']}$v={version}$m={memory},t={passes},p={lanes}"


def _authenticator(credential: Json) -> Json:
    """Return an authenticator app. Keycloak's secret is a string whose bytes are the key, unless it says otherwise."""
    settings, secret = _parts(credential)
    if settings.get("subType", "totp") != "totp":
        raise NotImportableError("one-time passwords by counter (HOTP) are not supported")
    period, digits, algorithm = int(settings["period"]), int(settings["digits"]), settings["algorithm"]
    if not 1 <= period <= _MAXIMUM_PERIOD_SECONDS or not 6 <= digits <= 8 or algorithm not in _HASHES:
        raise NotImportableError(f"one-time passwords of {digits} digits, {period} s and {algorithm} are not supported")
    text = secret["value"]
    raw = base64.b32decode(text) if settings.get("secretEncoding") == "BASE32" else text.encode()
    return without_empty(
        {
            "method": "authenticator",
            "secret": base64.b64encode(raw).decode(),
            "authenticator": {"algorithm": algorithm, "codeLength": digits, "timeStep": period},
            "name": credential.get("userLabel"),
        }
    )


def _passkey(credential: Json, user_id: str, policy: PasskeyPolicy) -> Json:
    settings, _ = _parts(credential)
    if not policy.relying_party_id:
        raise NotImportableError("the realm names no relying party id for passkeys: give --relying-party-id")
    try:
        pem, algorithm = public_keys.to_pem(_raw(settings["credentialPublicKey"]))
    except Exception as error:
        raise NotImportableError("the public key of the passkey is not supported") from error
    label = str(credential.get("userLabel") or "Passkey")[:255]
    return without_empty(
        {
            "algorithm": algorithm,
            "credentialId": base64url(_raw(settings["credentialId"])),
            "displayName": label,
            "insertInstant": credential.get("createdDate"),
            "name": label,
            "publicKey": pem,
            "relyingPartyId": policy.relying_party_id,
            "transports": [str(transport).lower() for transport in settings.get("transports", [])],
            "userId": user_id,
        }
    ) | {
        "authenticatorSupportsUserVerification": policy.is_user_verified,
        "discoverable": policy.is_discoverable,
        "signCount": int(settings.get("counter", 0)),
    }


def _raw(text: Any) -> bytes:
    """Return the bytes of Base64, standard or base64url, with or without padding."""
    plain = text.rstrip("=").replace("+", "-").replace("/", "_")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)
