"""DPoP nonces: valid for a period and a tenant, in every process with the same keys."""

from __future__ import annotations

import pytest

from identity.ids import TenantId, new_id
from identity.instants import Instant, later
from identity.store.signed_values import DPOP_NONCE_SECONDS, DpopNonces
from identity.store.vault import Vault

KEYS = {"one": b"k" * 32}
NOW = Instant(1_700_000_100_000)


@pytest.mark.requirement("oauth-12-20")
def test_nonce_is_accepted_for_two_periods():
    nonces, tenant_id = DpopNonces(Vault(KEYS, b"f" * 32)), TenantId(new_id())
    nonce = nonces.current(tenant_id, NOW)
    assert nonces.is_fresh(tenant_id, nonce, NOW)
    assert nonces.is_fresh(tenant_id, nonce, later(NOW, seconds=DPOP_NONCE_SECONDS))
    assert not nonces.is_fresh(tenant_id, nonce, later(NOW, seconds=2 * DPOP_NONCE_SECONDS))
    assert not nonces.is_fresh(tenant_id, nonce, later(NOW, seconds=-DPOP_NONCE_SECONDS))
    assert nonces.current(tenant_id, later(NOW, seconds=DPOP_NONCE_SECONDS)) != nonce


def test_nonce_of_another_tenant_or_instance_is_rejected():
    nonces, tenant_id = DpopNonces(Vault(KEYS, b"f" * 32)), TenantId(new_id())
    nonce = nonces.current(tenant_id, NOW)
    assert not nonces.is_fresh(TenantId(new_id()), nonce, NOW)
    assert not DpopNonces(Vault(KEYS, b"g" * 32)).is_fresh(tenant_id, nonce, NOW)
    assert DpopNonces(Vault({"two": b"l" * 32}, b"f" * 32)).is_fresh(tenant_id, nonce, NOW)


def test_invalid_nonce_is_not_fresh():
    nonces, tenant_id = DpopNonces(Vault(KEYS, b"f" * 32)), TenantId(new_id())
    for text in ("", "x", "é", nonces.current(tenant_id, NOW) + "x"):
        assert not nonces.is_fresh(tenant_id, text, NOW)
