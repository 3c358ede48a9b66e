"""Internal failures reveal no details in the management API."""

from __future__ import annotations

import pytest

from identity.operations import status
from tests import plain_http


@pytest.mark.requirement("contract-errors-3", "core-3-10", "design-state-26")
async def test_internal_failure_is_500_without_details(service, monkeypatch):
    async def broken(*_arguments: object, **_named: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(status, "status", broken)
    async with plain_http.client(service.base_url) as client:
        answer = await client.get("/api/status")
    assert (answer.status_code, answer.content) == (500, b"")
    assert "secret" not in str(answer.headers)
