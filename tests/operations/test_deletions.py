"""Deletions and what happens at the same time."""

from __future__ import annotations

from typing import Any

import pytest

from identity import app
from identity.call import Call, Nobody, Origin
from identity.errors import Conflict
from identity.operations import tenants


async def test_update_that_read_before_does_not_bring_a_deleted_tenant_back(
    service: app.Service, tenant: dict[str, Any]
) -> None:
    services = service.services
    call = Call(None, Nobody(), services.clock.now(), Origin("127.0.0.1", "", "", service.base_url))
    stored = await services.tenants.get(None, tenant["id"])
    await tenants.delete(services, call, tenant["id"])
    with pytest.raises(Conflict):
        await services.tenants.replace(None, {**stored, "name": "Back"}, stored["lastUpdateInstant"])
    await tenants.finish_deletions(services)
    assert await services.tenants.find(None, tenant["id"]) is None
