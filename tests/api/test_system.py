"""Health, status, version and metrics: access, and content if a store is unavailable."""

from __future__ import annotations

import base64
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from identity.ids import new_id
from identity.store.embedded.stores import EmbeddedStores
from tests import plain_http
from tests.conftest import MANAGER_KEY, SUPER_KEY, Build

METRICS = "/api/prometheus/metrics"


def basic(name: str, key: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{key}".encode()).decode()}


@pytest.mark.requirement("core-14-1", "project-13")
async def test_health_is_public_without_details(http) -> None:
    answer = await http.get("/api/health")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.requirement("core-14-2", "core-4-2", "project-13")
async def test_status_is_detailed_for_global_keys(http, api) -> None:
    public = await http.get("/api/status")
    assert (public.status_code, public.json()) == (200, {})
    assert (await api.get("/api/status")).json() == {"version": "1.69.0", "mongodb": "ok", "redis": "ok"}
    assert (await http.get("/api/status", headers=basic("apikey", SUPER_KEY))).json()["version"] == "1.69.0"
    for broken in ("é", "!", "//8="):
        answer = await http.get("/api/status", headers={"Authorization": f"Basic {broken}".encode()})
        assert (answer.status_code, answer.content) == (200, public.content)


@pytest.mark.requirement("core-14-3", "project-13")
async def test_version_requires_api_key(http, api) -> None:
    assert (await http.get("/api/system/version")).status_code == 401
    assert (await api.get("/api/system/version")).json() == {"version": "1.69.0"}


async def test_tenant_keys_see_version_but_neither_status_nor_metrics(http, manager, tenant) -> None:
    made = await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})
    key = {"Authorization": made.json()["apiKey"]["key"]}
    assert (await http.get("/api/system/version", headers=key)).status_code == 200
    assert (await http.get("/api/status", headers=key)).status_code == 401
    assert (await http.get(METRICS, headers=key)).status_code == 401


async def test_keys_limited_to_one_endpoint(http, manager) -> None:
    permissions = {"endpoints": {METRICS: ["GET"]}}
    made = await manager.post("/api/api-key", json={"apiKey": {"permissions": permissions}})
    key = made.json()["apiKey"]["key"]
    afar = {"X-Forwarded-For": "203.0.113.9"}
    assert (await http.get(METRICS, headers={"Authorization": key, **afar})).status_code == 200
    assert (await http.get("/api/status", headers={"Authorization": key})).status_code == 401
    assert (await http.get("/api/system/version", headers={"Authorization": key})).status_code == 401


@pytest.mark.requirement("core-4-2", "core-4-5", "project-13")
async def test_metrics_require_local_address_or_key(http, api) -> None:
    near = await http.get(METRICS)
    assert near.status_code == 200
    assert near.headers["Content-Type"].startswith("text/plain")
    assert 'http_requests_total{method="GET",route="/api/' in near.text
    afar = {"X-Forwarded-For": "203.0.113.9"}
    assert (await http.get(METRICS, headers=afar)).status_code == 401
    assert (await api.get(METRICS, headers=afar)).status_code == 200
    assert (await http.get(METRICS, headers={**afar, **basic("apikey", SUPER_KEY)})).status_code == 200
    for bad in (
        basic("apikey", "wrong"),
        basic("user", SUPER_KEY),
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic /w=="},
        {"Authorization": f"Bearer {SUPER_KEY}"},
    ):
        assert (await http.get(METRICS, headers={**afar, **bad})).status_code == 401


async def test_metrics_do_not_contain_request_paths(http, api) -> None:
    """Labels come from route templates, so that the number of series is bounded."""
    mark = new_id()
    await api.get(f"/api/application/{mark}")
    await api.get(f"/nowhere/{mark}")
    await http.request("OPTIONS", f"/{mark}")
    text = (await http.get(METRICS)).text
    assert mark not in text
    assert 'route="/api/application/{object_id}"' in text
    assert 'route="none"' in text


async def test_metrics_can_be_disabled(build: Build) -> None:
    async with build(metrics__enabled="false") as service, plain_http.client(service.base_url) as client:
        assert (await client.get(METRICS, headers={"Authorization": SUPER_KEY})).status_code == 401


@pytest.fixture
async def mortal_stores() -> AsyncIterator[tuple[EmbeddedStores, EmbeddedStores]]:
    """A MongoDB and a Redis server of one test's own, each of which it may stop."""
    folder = Path(tempfile.mkdtemp(prefix="identity-test-"))
    database = await EmbeddedStores.start(folder / "one", mongodb=True, redis=False)
    cache = await EmbeddedStores.start(folder / "two", mongodb=False, redis=True)
    yield database, cache
    await cache.stop()
    await database.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.requirement("core-14-2", "core-3-11", "core-3-9")
async def test_unavailable_store_is_reported(build: Build, mortal_stores: Any) -> None:
    database, cache = mortal_stores
    settings = {
        "database": f"test_{new_id()[:13].replace('-', '')}",
        "mongodb__uri": database.mongodb_uri,
        "redis__url": cache.redis_url,
    }
    key = {"Authorization": SUPER_KEY}
    async with (
        build(**settings) as service,
        plain_http.client(service.base_url, timeout=30) as client,
    ):
        assert (await client.get("/api/health")).status_code == 200
        await cache.stop()
        answer = await client.get("/api/health")
        assert (answer.status_code, answer.content) == (500, b"")
        response = await client.get("/api/status", headers=key)
        assert (response.status_code, response.json()["redis"], response.json()["mongodb"]) == (500, "down", "ok")
        await database.stop()
        assert (await client.get("/api/health")).status_code == 500
        response = await client.get("/api/status", headers={"Authorization": MANAGER_KEY})
        assert (response.status_code, response.json()) == (452, {})
