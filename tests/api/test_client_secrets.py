"""Rotation of a client secret: during the overlap both secrets authenticate the client."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity.ids import new_id


async def authenticated(http: httpx.AsyncClient, client_id: str, secret: str) -> bool:
    answer = await http.post("/oauth2/introspect", data={"token": "x"}, auth=(client_id, secret))
    assert answer.status_code in {200, 401}
    return answer.status_code == 200


@pytest.fixture
async def client(rp: Any, api: httpx.AsyncClient) -> tuple[str, str, str]:
    """The path of the rotation, the client id and its secret."""
    await rp.configure(clientAuthenticationPolicy="Required")
    api.headers["X-FusionAuth-TenantId"] = rp.tenant["id"]
    answer = await api.get(f"/api/application/{rp.client_id}")
    secret = answer.json()["application"]["oauthConfiguration"]["clientSecret"]
    return f"/api/application/{rp.client_id}/client-secret", rp.client_id, secret


@pytest.mark.requirement("console-22")
async def test_both_secrets_are_accepted_during_the_overlap(http: httpx.AsyncClient, api: Any, client: Any) -> None:
    path, client_id, old = client
    rotated = (await api.post(path, json={"overlapInSeconds": 60})).json()
    new = rotated["clientSecret"]
    assert new != old
    assert rotated["overlapEndInstant"] > 0
    assert [await authenticated(http, client_id, secret) for secret in (old, new, "x")] == [True, True, False]
    newest = (await api.post(path, json={"overlapInSeconds": 60})).json()["clientSecret"]
    assert [await authenticated(http, client_id, each) for each in (old, new, newest)] == [False, True, True]
    final = (await api.post(path, json={"overlapInSeconds": 0})).json()
    assert "overlapEndInstant" not in final
    accepted = [await authenticated(http, client_id, each) for each in (new, newest, final["clientSecret"])]
    assert accepted == [False, False, True]


async def test_overlap_is_a_day_by_default_and_a_month_at_most(api: Any, client: Any) -> None:
    path, _, _ = client
    assert "overlapEndInstant" in (await api.post(path)).json()
    for invalid in (-1, 2_592_001, "x"):
        assert (await api.post(path, json={"overlapInSeconds": invalid})).status_code == 400
    assert (await api.post(f"/api/application/{new_id()}/client-secret")).status_code == 404


async def test_secret_of_another_tenant_is_not_rotated(
    http: httpx.AsyncClient, tenant_api: httpx.AsyncClient, client: Any
) -> None:
    path, client_id, secret = client
    assert (await tenant_api.post(path)).status_code == 404
    assert await authenticated(http, client_id, secret)
