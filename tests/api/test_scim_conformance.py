"""The public conformance checks of SCIM servers: scim2-tester."""

from __future__ import annotations

import asyncio

import httpx
import httpx2
import pytest
import scim2_tester
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import Status

from identity import app
from tests import scim

GOOD = {Status.SUCCESS, Status.COMPLIANT, Status.SKIPPED}


@pytest.mark.requirement("scim-11")
async def test_scim2_tester_finds_no_error(service: app.Service, api: httpx.AsyncClient) -> None:
    client = await scim.make_client(service.base_url, api)
    headers = {"Authorization": f"Bearer {client.token}"}
    with httpx2.Client(base_url=f"{service.base_url}{scim.ROOT}", headers=headers, timeout=60) as http:
        results = await asyncio.to_thread(scim2_tester.check_server, SyncSCIMClient(http))
    await scim.close(client)
    bad = [
        f"{one.status.name} {one.resource_type} {one.title}: {one.reason}" for one in results if one.status not in GOOD
    ]
    assert bad == []
    checked = {one.resource_type for one in results if one.status is Status.SUCCESS}
    assert checked == {None, "User", "EnterpriseUser", "Group"}
