"""Nonces for DPoP proofs (RFC 9449 section 8), made of the time under a key: nothing has to be kept of them."""

from __future__ import annotations

from typing import Final

from identity.ids import TenantId, same_secret
from identity.instants import Instant, numeric_date
from identity.store.vault import Vault

PERIOD_SECONDS: Final = 300
"""How long one nonce is given out; it is good for as long again."""


class DpopNonces:
    """The nonces of all tenants, the same in every process of an instance."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def current(self, tenant_id: TenantId, now: Instant) -> str:
        """The nonce of this time."""
        return self._of(tenant_id, numeric_date(now) // PERIOD_SECONDS)

    def is_fresh(self, tenant_id: TenantId, nonce: str, now: Instant) -> bool:
        """Whether it is the nonce of this time, or of the time before."""
        period = numeric_date(now) // PERIOD_SECONDS
        return nonce.isascii() and any(same_secret(nonce, self._of(tenant_id, period - age)) for age in (0, 1))

    def _of(self, tenant_id: TenantId, period: int) -> str:
        return self._vault.fingerprint(f"dpop-nonce {tenant_id} {period}")
