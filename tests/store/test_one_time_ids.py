"""One-time ids."""

from __future__ import annotations

import asyncio

import pytest

from identity.ids import TenantId, fingerprint, new_id
from identity.store.one_time_ids import OneTimeIds


@pytest.mark.requirement("attack-40")
async def test_of_64_racing_uses_of_an_id_one_succeeds(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    answers = await asyncio.gather(*(ids.mark_used(tenant_id, "assertion", "owner", "jti", 60) for _ in range(64)))
    assert sorted(answers) == [False] * 63 + [True]


@pytest.mark.requirement("attack-40")
async def test_ids_are_separate_by_tenant_purpose_and_owner(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    assert await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)
    assert await ids.mark_used(TenantId(new_id()), "assertion", "owner", "jti", 60)
    assert await ids.mark_used(tenant_id, "proof", "owner", "jti", 60)
    assert await ids.mark_used(tenant_id, "assertion", "other", "jti", 60)
    assert await ids.mark_used(tenant_id, "assertion", "owner jti", "", 60)
    assert not await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)


async def test_finding_an_id_does_not_consume_it_and_respects_the_tenant(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    assert not await ids.is_used(tenant_id, "assertion", "owner", "jti")
    assert await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)
    assert await ids.is_used(tenant_id, "assertion", "owner", "jti")
    assert not await ids.is_used(TenantId(new_id()), "assertion", "owner", "jti")


async def test_used_id_is_stored_as_a_fingerprint_until_it_expires(redis):
    ids, tenant_id = OneTimeIds(redis), TenantId(new_id())
    assert await ids.mark_used(tenant_id, "assertion", "owner", "jti", 60)
    key = redis.key("used", "assertion", tenant_id, fingerprint("owner"), fingerprint("jti"))
    assert 0 < await redis.client.ttl(key) <= 60
    assert await ids.mark_used(tenant_id, "assertion", "owner", "ended", -5)
    assert (
        await redis.client.ttl(redis.key("used", "assertion", tenant_id, fingerprint("owner"), fingerprint("ended")))
        <= 1
    )
