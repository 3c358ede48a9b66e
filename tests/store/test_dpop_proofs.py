"""Used proofs: each counts once, for its tenant and key, and is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import TenantId, new_id
from identity.store.dpop_proofs import DpopProofs


@pytest.fixture
def proofs(redis) -> DpopProofs:
    return DpopProofs(redis)


async def test_attack_40_of_64_racing_uses_of_one_proof_one_counts(proofs):
    tenant_id = TenantId(new_id())
    used = await asyncio.gather(*(proofs.use(tenant_id, "key", "jti", 30) for _ in range(64)))
    assert sum(used) == 1
    assert not await proofs.use(tenant_id, "key", "jti", 30)


async def test_proofs_of_another_tenant_key_or_name_are_others(proofs):
    tenant_id = TenantId(new_id())
    assert await proofs.use(tenant_id, "key", "jti", 30)
    assert await proofs.use(TenantId(new_id()), "key", "jti", 30)
    assert await proofs.use(tenant_id, "another key", "jti", 30)
    assert await proofs.use(tenant_id, "key", "another jti", 30)


async def test_use_is_forgotten_and_names_nobody(proofs, redis):
    tenant_id = TenantId(new_id())
    await proofs.use(tenant_id, "the-key", "the-jti", 30)
    keys = [key async for key in redis.client.scan_iter(redis.key("dpop-proof", tenant_id, "*"))]
    assert len(keys) == 1
    assert "the-" not in keys[0]
    assert 0 < await redis.client.ttl(keys[0]) <= 30
