"""A veto leaves everything as it was: a webhook that must agree fails, and what is kept of the tenant is compared."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests.veto import unchanged

USER = {"email": "reader@example.com", "password": "correct horse battery staple"}


async def test_comparison_sees_what_changed(service, tenant_api, tenant):
    with pytest.raises(AssertionError, match="users"):
        async with unchanged(service, tenant["id"]):
            await tenant_api.post("/api/user", json={"user": USER})


async def test_comparison_sees_what_redis_keeps(service, tenant_api, tenant):
    with pytest.raises(AssertionError, match="redis"):
        async with unchanged(service, tenant["id"]):
            await service.services.tickets.issue(tenant["id"], "verify-email", new_id(), {}, 60)
