"""Signed tokens that identify a browser in which a user has logged in before; nothing is stored.

The token `<expiry instant>.<keyed hash>` is valid for one user.
"""

from __future__ import annotations

from identity.ids import TenantId, UserId, same_secret
from identity.instants import Instant
from identity.store.vault import Vault


class KnownDevices:
    """Issues and verifies known-device tokens."""

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
