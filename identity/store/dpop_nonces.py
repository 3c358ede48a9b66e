"""Server-provided nonces for DPoP proofs (RFC 9449 section 8), derived from the time and a key; nothing is stored."""

from __future__ import annotations

from typing import Final

from identity.ids import TenantId, same_secret
from identity.instants import Instant, numeric_date
from identity.store.vault import Vault

PERIOD_SECONDS: Final = 300
"""How long a nonce is issued. It is accepted for another period."""


class DpopNonces:
    """Issues and verifies nonces, which are the same in every process of an instance."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def current(self, tenant_id: TenantId, now: Instant) -> str:
        """The nonce of the current period."""
        return self._nonce(tenant_id, numeric_date(now) // PERIOD_SECONDS)

    def is_fresh(self, tenant_id: TenantId, nonce: str, now: Instant) -> bool:
        """Whether a nonce belongs to the current or the previous period."""
        period = numeric_date(now) // PERIOD_SECONDS
        return nonce.isascii() and any(same_secret(nonce, self._nonce(tenant_id, period - age)) for age in (0, 1))

    def _nonce(self, tenant_id: TenantId, period: int) -> str:
        return self._vault.fingerprint(f"dpop-nonce {tenant_id} {period}")
