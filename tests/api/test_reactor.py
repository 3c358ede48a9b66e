"""/api/reactor and /api/system/reindex: compatible responses without function."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from identity.operations.configuration import reactor
from identity.schemas import FOLDER
from tests.conftest import SUPER_KEY, checking_client


def test_features_follow_settings() -> None:
    features = json.loads((FOLDER / "config.json").read_text())["properties"]["license"]["properties"]["features"]
    assert list(reactor.FEATURES) == features["anyOf"][1]["propertyNames"]["enum"]


@pytest.mark.requirement("core-15-28")
async def test_every_feature_that_exists_is_enabled_by_default(api: httpx.AsyncClient) -> None:
    status = (await api.get("/api/reactor")).json()["status"]
    features = {**dict.fromkeys(reactor.FEATURES, "ACTIVE"), "tenantManagerApplication": "DISABLED"}
    assert status == {"licensed": True, **features}
    assert (await api.get("/api/tenant-manager")).status_code == 404


@pytest.mark.requirement("core-15-28")
async def test_disabled_feature_is_shown_as_disabled(build: Any) -> None:
    async with (
        build(license__features='{"scimServer": false, "webAuthn": true}') as limited,
        checking_client(limited.base_url, headers={"Authorization": SUPER_KEY}) as client,
    ):
        status = (await client.get("/api/reactor")).json()["status"]
    assert status["scimServer"] == "DISABLED"
    assert {name for name, value in status.items() if value == "DISABLED"} == {"scimServer", "tenantManagerApplication"}
    assert status["licensed"] is True


@pytest.mark.requirement("audit-b6-reactor", "core-15-28")
async def test_license_cannot_be_activated_renewed_or_removed(api: httpx.AsyncClient) -> None:
    activated = await api.post("/api/reactor", json={"licenseId": "any", "license": "text"})
    assert (activated.status_code, activated.content) == (200, b"")
    renewed = await api.put("/api/reactor")
    assert (renewed.status_code, renewed.content) == (200, b"")
    given_back = await api.delete("/api/reactor")
    assert (given_back.status_code, given_back.content) == (200, b"")
    assert (await api.get("/api/reactor")).json()["status"]["licensed"] is True


@pytest.mark.requirement("core-15-28")
async def test_metrics_are_empty(api: httpx.AsyncClient) -> None:
    assert (await api.get("/api/reactor/metrics")).json() == {"metrics": {"breachedPasswordMetrics": {}}}


@pytest.mark.requirement("core-14-4", "core-15-27")
@pytest.mark.parametrize("index", ["fusionauth_user", "fusionauth_entity"])
async def test_reindex_is_accepted_and_completes_immediately(api: httpx.AsyncClient, index: str) -> None:
    started = await api.post("/api/system/reindex", json={"index": index})
    assert (started.status_code, started.content) == (202, b"")
    assert (await api.get("/api/system/reindex")).status_code == 404


@pytest.mark.requirement("core-15-27")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "[blank]index"),
        ({"index": ""}, "[blank]index"),
        ({"index": "other"}, "[invalid]index"),
        ({"index": 5}, "[invalid]index"),
        ({"index": ["fusionauth_user"]}, "[invalid]index"),
    ],
)
async def test_reindex_of_unknown_index_is_refused(api: httpx.AsyncClient, body: Any, code: str) -> None:
    answer = await api.post("/api/system/reindex", json=body)
    assert answer.status_code == 400
    assert [error["code"] for error in answer.json()["fieldErrors"]["index"]] == [code]
