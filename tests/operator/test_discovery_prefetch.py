"""What a process reads ahead of requests for key sets, in instances of few and of very many tenants."""

from __future__ import annotations

import pytest

from identity.operations.api import discovery
from identity.workers import discovery_prefetch
from identity.workers.discovery_prefetch import DiscoveryPrefetch


@pytest.mark.parametrize(("limit", "reads_all"), [(1, False), (1_000_000, True)])
async def test_keys_of_all_tenants_are_read_ahead_only_if_there_are_few(service, monkeypatch, limit, reads_all):
    calls = []

    async def public_pems(*arguments):
        calls.append(arguments)

    monkeypatch.setattr(discovery_prefetch, "MAXIMUM_TENANTS", limit)
    monkeypatch.setattr(discovery, "public_pems", public_pems)
    service.services.configuration.tenants.invalidate_all()
    prefetch = DiscoveryPrefetch(service.services)
    await prefetch.start()
    await prefetch.stop()
    service.services.configuration.tenants.invalidate_all()
    assert bool(calls) is reads_all
