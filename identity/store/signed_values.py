"""Values that the service issues and later verifies by a keyed hash; nothing is stored."""

from __future__ import annotations

from typing import Final

from identity.ids import TenantId, UserId, same_secret
from identity.instants import Instant, numeric_date
from identity.store.vault import Vault

DPOP_NONCE_SECONDS: Final = 300
"""How long a nonce is issued. It is accepted for another period."""


class DpopNonces:
    """Server-provided nonces for DPoP proofs (RFC 9449 section 8), the same in every process of an instance."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def current(self, tenant_id: TenantId, now: Instant) -> str:
        """The nonce of the current period."""
        return self._nonce(tenant_id, numeric_date(now) // DPOP_NONCE_SECONDS)

    def is_fresh(self, tenant_id: TenantId, nonce: str, now: Instant) -> bool:
        """Whether a nonce belongs to the current or the previous period."""
        period = numeric_date(now) // DPOP_NONCE_SECONDS
        return nonce.isascii() and any(same_secret(nonce, self._nonce(tenant_id, period - age)) for age in (0, 1))

    def _nonce(self, tenant_id: TenantId, period: int) -> str:
        return self._vault.fingerprint(f"dpop-nonce {tenant_id} {period}")


class KnownDevices:
    """Tokens that identify a browser in which a user has logged in before: `<expiry instant>.<keyed hash>`."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def issue(self, tenant_id: TenantId, user_id: UserId, expires: Instant) -> str:
        """A token for the browser in which the user has just logged in."""
        return f"{expires}.{self._signature(tenant_id, user_id, str(expires))}"

    def expires(self, tenant_id: TenantId, user_id: UserId, token: str) -> Instant | None:
        """When a token expires or has expired; None if it is not a token of this user."""
        expires, _, signature = token.partition(".")
        if not (expires.isascii() and expires.isdigit() and len(expires) < 16):
            return None
        is_valid = same_secret(signature, self._signature(tenant_id, user_id, expires))
        return Instant(int(expires)) if is_valid else None

    def _signature(self, tenant_id: TenantId, user_id: UserId, expires: str) -> str:
        return self._vault.fingerprint(f"known-device {tenant_id} {user_id} {expires}")
