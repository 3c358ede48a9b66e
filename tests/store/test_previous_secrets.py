"""Previous client secrets."""

from __future__ import annotations

from identity.ids import TenantId, new_id
from identity.store.previous_secrets import PreviousSecrets


async def test_previous_secret_is_accepted_for_its_client_until_it_expires(redis):
    secrets, tenant_id = PreviousSecrets(redis), TenantId(new_id())
    await secrets.keep(tenant_id, "client", "old", 60)
    assert await secrets.is_accepted(tenant_id, "client", "old")
    assert not await secrets.is_accepted(tenant_id, "client", "other")
    assert not await secrets.is_accepted(tenant_id, "another", "old")
    assert not await secrets.is_accepted(TenantId(new_id()), "client", "old")
    key = redis.key("previous-secret", tenant_id, "client")
    assert 0 < await redis.client.ttl(key) <= 60
    assert "old" not in await redis.client.get(key)
    await secrets.remove(TenantId(new_id()), "client")
    assert await secrets.is_accepted(tenant_id, "client", "old")
    await secrets.keep(tenant_id, "client", "newer", 60)
    assert not await secrets.is_accepted(tenant_id, "client", "old")
    await secrets.remove(tenant_id, "client")
    assert not await secrets.is_accepted(tenant_id, "client", "newer")
