"""Applications and tenants as the command line reads them."""

from __future__ import annotations

import pytest
from pymongo.errors import OperationFailure

from identity.errors import StartupError
from identity.ids import new_id
from identity.store import cli_queries
from tests import internals, relying_party


async def test_active_applications_come_with_their_own_tenants_and_without_secrets(api, service):
    one, other = await relying_party.make(api), await relying_party.make(api)
    gone = await relying_party.make(api)
    await api.delete(f"/api/application/{gone.client_id}", headers={"X-FusionAuth-TenantId": gone.tenant["id"]})
    found = {
        application["id"]: (tenant, application)
        for tenant, application, _ in await cli_queries.active_clients_across_tenants(internals.database(service))
    }
    assert gone.client_id not in found
    for rp in (one, other):
        tenant, application = found[rp.client_id]
        assert (tenant["id"], application["name"]) == (rp.tenant["id"], rp.application["name"])
        assert "clientSecret" not in application["oauthConfiguration"]
        assert "private" not in application


async def test_refused_query_is_a_startup_error(service, monkeypatch):
    def refused(*_arguments: object) -> None:
        raise OperationFailure(f"not authorized on {new_id()} to execute command, full error: {{}}", 13)

    monkeypatch.setattr(type(internals.database(service)), "collection", refused)
    with pytest.raises(StartupError, match=r"let applications be read.*not authorized on .* to execute command$"):
        await cli_queries.active_clients_across_tenants(internals.database(service))
