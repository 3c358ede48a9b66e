"""Standard Webhooks 1.0: what is signed, and how signatures and secrets are written.

Source: its sections "Signature scheme" and "Secret and key serialization".

    webhook-signature   the signatures of one attempt, separated by blanks: `v1,<base64>` is HMAC-SHA256 under a shared
                        secret, `v1a,<base64>` is Ed25519
    whsec_<base64>      a shared secret
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from identity.call import Document
from identity.ids import Secret
from identity.instants import Instant, later

SECRET_BYTES = 32
SECRET_PREFIX = "whsec_"  # noqa: S105 (the mark of one, not one)
MAXIMUM_PREVIOUS_SECRETS = 10
DEFAULT_OVERLAP_SECONDS = 86_400

VERSIONS: Mapping[str, str] = {"HS256": "v1", "Ed25519": "v1a"}
"""The algorithm of a signing key -> the version of the signatures that it makes; other keys make none."""


def signed_content(event_id: str, timestamp: int, body: bytes) -> bytes:
    """The octets that a signature covers; neither id nor timestamp has a full stop in it."""
    return f"{event_id}.{timestamp}.".encode() + body


def serialized(version: str, signature: bytes) -> str:
    """One signature as it stands in the header."""
    return f"{version},{base64.b64encode(signature).decode()}"


def secret_text(octets: bytes) -> Secret:
    """A shared secret as it is given to a receiver."""
    return Secret(f"{SECRET_PREFIX}{base64.b64encode(octets).decode()}")


def hmac_signature(secret: str, content: bytes) -> str:
    """The v1 signature under a shared secret."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    return serialized("v1", hmac.new(key, content, hashlib.sha256).digest())


def with_new_secret(private: Document, secret: str, now: Instant, overlap_seconds: int) -> Document:
    """The private members of a webhook after its secret changed: the old one signs along until the overlap is over.

    `previousSecrets` may be one more then than the `MAXIMUM_PREVIOUS_SECRETS`.
    """
    kept = [old for old in private.get("previousSecrets", []) if old["endInstant"] > now]
    current = private.get("secret")
    if current is not None and overlap_seconds > 0:
        kept.insert(0, {"secret": current, "endInstant": later(now, seconds=overlap_seconds)})
    return {**private, "secret": secret, "previousSecrets": kept}


def without_secret(private: Document) -> Document:
    """The private members of a webhook that is to have no shared secret any more."""
    return {name: value for name, value in private.items() if name not in {"secret", "previousSecrets"}}


def live_secrets(private: Document, now: Instant) -> Sequence[str]:
    """The shared secrets that sign at this instant, the current one first."""
    if "secret" not in private:
        return ()
    return (
        private["secret"],
        *(old["secret"] for old in private.get("previousSecrets", []) if old["endInstant"] > now),
    )


def live_keys(signature_configuration: Document, now: Instant) -> Sequence[str]:
    """The ids of the keys that sign at this instant: the webhook's own, and the one before it while both are valid."""
    if not signature_configuration.get("enabled"):
        return ()
    current = [signature_configuration["signingKeyId"]]
    previous = signature_configuration.get("previousSigningKeyId")
    if previous is not None and signature_configuration.get("previousSigningKeyEndInstant", 0) > now:
        current.append(previous)
    return tuple(dict.fromkeys(current))
