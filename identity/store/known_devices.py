"""What a browser keeps of the users who logged in with it: proofs that only we can make, so that nothing is stored."""

from __future__ import annotations

from identity.ids import TenantId, UserId, same_secret
from identity.instants import Instant
from identity.store.vault import Vault


class KnownDevices:
    """Proofs of the form `<instant of its end>.<keyed hash>`, good for one user."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def issue(self, tenant_id: TenantId, user_id: UserId, expires: Instant) -> str:
        """A proof that a user logged in at the device that keeps it."""
        return f"{expires}.{self._proof(tenant_id, user_id, str(expires))}"

    def expires(self, tenant_id: TenantId, user_id: UserId, value: str) -> Instant | None:
        """When a proof ends, or ended; None for one that is not this user's."""
        end, _, proof = value.partition(".")
        if not (end.isascii() and end.isdigit() and len(end) < 16):
            return None
        return Instant(int(end)) if same_secret(proof, self._proof(tenant_id, user_id, end)) else None

    def _proof(self, tenant_id: TenantId, user_id: UserId, end: str) -> str:
        return self._vault.fingerprint(f"known-device {tenant_id} {user_id} {end}")
