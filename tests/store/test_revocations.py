"""The deny list of access tokens."""

from __future__ import annotations

import pytest

from identity.ids import TenantId, new_id
from identity.store.revocations import Revocations


async def test_revoked_token_is_denied_by_any_of_its_ids(redis):
    revocations, tenant_id = Revocations(redis), TenantId(new_id())
    await revocations.revoke(tenant_id, ["one", "two"], 60)
    assert await revocations.is_revoked(tenant_id, ["one"])
    assert await revocations.is_revoked(tenant_id, ["other", "two"])
    assert not await revocations.is_revoked(tenant_id, ["other"])
    assert not await revocations.is_revoked(tenant_id, [])


@pytest.mark.requirement("design-state-27")
async def test_revocation_applies_to_its_tenant_only(redis):
    revocations, tenant_id = Revocations(redis), TenantId(new_id())
    await revocations.revoke(tenant_id, ["one"], 60)
    assert not await revocations.is_revoked(TenantId(new_id()), ["one"])


async def test_revocation_lives_no_longer_than_the_token(redis):
    revocations, tenant_id = Revocations(redis), TenantId(new_id())
    await revocations.revoke(tenant_id, ["one"], 60)
    assert 0 < await redis.client.ttl(redis.key("revoked", f"{{{tenant_id}}}", "one")) <= 60


async def test_very_many_ids_are_revoked_in_batches(redis):
    revocations, tenant_id = Revocations(redis), TenantId(new_id())
    await revocations.revoke(tenant_id, (str(number) for number in range(2001)), 60)
    for number in (0, 999, 1000, 2000):
        assert await revocations.is_revoked(tenant_id, [str(number)])
    assert not await revocations.is_revoked(tenant_id, ["2001"])
