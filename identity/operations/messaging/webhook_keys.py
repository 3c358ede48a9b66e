"""Keys for deliveries to webhooks and messengers: signing keys and client certificates."""

from __future__ import annotations

from collections.abc import Mapping

from identity.domain.configuration.key_usage import may_sign_deliveries
from identity.domain.webhooks import standard_webhooks
from identity.ids import Secret
from identity.store.documents import Documents
from identity.tokens import jws
from identity.tokens.signing_keys import KeyRing, SigningKey


class WebhookKeys:
    """Signs with, and reads, the keys of the instance. Raises LookupError for an unknown or unsuitable key."""

    def __init__(self, ring: KeyRing, keys: Documents) -> None:
        self._ring = ring
        self._keys = keys

    async def sign_jwt(self, key_id: str, claims: Mapping[str, object]) -> str:
        """A compact JWS of the claims."""
        return await jws.sign(await self._key(key_id), claims)

    async def sign_octets(self, key_id: str, content: bytes) -> str | None:
        """A Standard Webhooks signature, or None if the key's algorithm is not one of that specification."""
        key = await self._key(key_id)
        version = standard_webhooks.VERSIONS.get(key.algorithm)
        if version is None:
            return None
        if key.signer is None:
            raise LookupError(f"the key {key_id} has no private key")
        return standard_webhooks.serialize_signature(version, key.signer.sign(content))

    async def client_certificate(self, key_id: str) -> tuple[str, Secret]:
        """The certificate and the private key, as PEM."""
        return await self.certificate_of(self._keys, key_id)

    @staticmethod
    async def certificate_of(keys: Documents, key_id: str) -> tuple[str, Secret]:
        """As `client_certificate`, from the keys of the instance. Raises LookupError."""
        key = await keys.find_cached(None, key_id)
        if key is None or "certificate" not in key or "privateKey" not in key or not may_sign_deliveries(key):
            raise LookupError(f"there is no certificate with a private key {key_id}")
        return key["certificate"], Secret(key["privateKey"])

    async def _key(self, key_id: str) -> SigningKey:
        key = await self._ring.get(key_id, may_sign_deliveries)
        if key is None:
            raise LookupError(f"there is no signing key {key_id}")
        return key
