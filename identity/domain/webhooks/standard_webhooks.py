"""Standard Webhooks 1.0: signed content, and the serialization of signatures and secrets.

Source: its sections "Signature scheme" and "Secret and key serialization".

    webhook-signature   the signatures of one attempt, separated by spaces: `v1,<base64>` is HMAC-SHA256 under a shared
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
SECRET_PREFIX = "whsec_"  # noqa: S105 (a prefix, not a secret)
MAX_PREVIOUS_SECRETS = 10
DEFAULT_OVERLAP_SECONDS = 86_400

VERSIONS: Mapping[str, str] = {"HS256": "v1", "Ed25519": "v1a"}
"""Signature version by algorithm of the signing key; keys of other algorithms make no such signature."""


def signed_content(event_id: str, timestamp: int, body: bytes) -> bytes:
    """The octets that a signature covers; neither id nor timestamp contains a full stop."""
    return f"{event_id}.{timestamp}.".encode() + body


def serialize_signature(version: str, signature: bytes) -> str:
    """One signature in the form of the header."""
    return f"{version},{base64.b64encode(signature).decode()}"


def serialize_secret(octets: bytes) -> Secret:
    """A shared secret in the form that receivers configure."""
    return Secret(f"{SECRET_PREFIX}{base64.b64encode(octets).decode()}")


def hmac_signature(secret: str, content: bytes) -> str:
    """The v1 signature under a shared secret."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    return serialize_signature("v1", hmac.new(key, content, hashlib.sha256).digest())


def replace_secret(private: Document, secret: str, now: Instant, overlap_seconds: int) -> Document:
    """The private members of a webhook with a new secret; the previous one also signs during the overlap.

    `previousSecrets` may then exceed `MAX_PREVIOUS_SECRETS` by one.
    """
    previous = [old for old in private.get("previousSecrets", []) if old["endInstant"] > now]
    current = private.get("secret")
    if current is not None and overlap_seconds > 0:
        previous.insert(0, {"secret": current, "endInstant": later(now, seconds=overlap_seconds)})
    return {**private, "secret": secret, "previousSecrets": previous}


def remove_secret(private: Document) -> Document:
    """The private members of a webhook without any shared secret."""
    return {name: value for name, value in private.items() if name not in {"secret", "previousSecrets"}}


def active_secrets(private: Document, now: Instant) -> Sequence[str]:
    """The shared secrets to sign with at this instant, the current one first."""
    if "secret" not in private:
        return ()
    return (
        private["secret"],
        *(old["secret"] for old in private.get("previousSecrets", []) if old["endInstant"] > now),
    )


def active_key_ids(signature_configuration: Document, now: Instant) -> Sequence[str]:
    """The ids of the keys to sign with at this instant: the current one, then the previous one during the overlap."""
    if not signature_configuration.get("enabled"):
        return ()
    current = [signature_configuration["signingKeyId"]]
    previous = signature_configuration.get("previousSigningKeyId")
    if previous is not None and signature_configuration.get("previousSigningKeyEndInstant", 0) > now:
        current.append(previous)
    return tuple(dict.fromkeys(current))
