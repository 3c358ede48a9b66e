"""The public keys of clients: an application's `jwks`, or the key set at its `jwksURI`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cachetools import LRUCache

from identity.call import Document
from identity.domain.clients import security_profiles
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.ids import TenantId
from identity.instants import Instant
from identity.outbound.client_key_fetch import ClientKeyFetcher
from identity.tokens.client_certificates import Authorities
from identity.tokens.external_keys import CLIENT_ALGORITHMS, KeySet
from identity.tokens.signing_keys import SigningKey

_MAXIMUM_SETS: Final = 1000


class ClientKeys:
    """Finds the key that a client signed with; the parsed key sets are cached.

    `authorities` issue client certificates, `statement_issuers` sign software statements (issuer -> keys).
    """

    def __init__(
        self,
        published: ClientKeyFetcher,
        authorities: Authorities = (),
        statement_issuers: Mapping[str, KeySet] | None = None,
    ) -> None:
        self.authorities = authorities
        self.statement_issuers = statement_issuers or {}
        self._published = published
        self._sets: LRUCache[str, tuple[Document, KeySet]] = LRUCache(_MAXIMUM_SETS)

    async def find(
        self, tenant_id: TenantId, application: Document, header: Mapping[str, Any], now: Instant
    ) -> SigningKey | None:
        """Return the application's key for a token with this header, or None.

        An unknown kid fetches the published key set again, at most once a minute. Raises ClientKeysError if the key set
        cannot be fetched.
        """
        oauth = OAuthSettings.of(application)
        algorithm = header.get("alg")
        if algorithm not in CLIENT_ALGORITHMS or not security_profiles.is_algorithm_allowed(oauth, algorithm):
            return None
        if oauth.jwks is not None:
            return self._find_in(application["id"], oauth.jwks, header)
        if (url := oauth.jwks_uri) is None:
            return None
        key = self._find_in(application["id"], await self._published.get(tenant_id, url, now), header)
        if key is None:
            key = self._find_in(application["id"], await self._published.get(tenant_id, url, now, refetch=True), header)
        return key

    async def find_set(self, tenant_id: TenantId, application: Document, now: Instant) -> Document | None:
        """Return the application's key set, or None without one. Raises ClientKeysError."""
        oauth = OAuthSettings.of(application)
        if oauth.jwks is not None or oauth.jwks_uri is None:
            return oauth.jwks
        return await self._published.get(tenant_id, oauth.jwks_uri, now)

    async def close(self) -> None:
        """Close every connection."""
        await self._published.close()

    def _find_in(self, application_id: str, jwks: Document, header: Mapping[str, Any]) -> SigningKey | None:
        known = self._sets.get(application_id)
        # The caches return the same document object until the key set changes.
        if known is None or known[0] is not jwks:
            known = (jwks, KeySet(jwks))
            self._sets[application_id] = known
        return known[1].find(header, CLIENT_ALGORITHMS)
