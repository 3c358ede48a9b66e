"""The system configuration in memory: read once, again after a change, and retained during an outage."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from identity.ids import new_id
from identity.schemas import Schemas
from identity.store.cache import ChangeStreamStatus
from identity.store.documents import Documents
from identity.store.mongo import Database
from identity.store.system_settings import DOCUMENT_ID, SystemSettingsCache
from identity.store.vault import Vault


def configuration(zone: str) -> dict[str, Any]:
    wanted = {"systemConfiguration": {"reportTimezone": zone}}
    read = Schemas()["api/system-configuration.json"].read(wanted)["systemConfiguration"]
    return {**read, "id": DOCUMENT_ID, "insertInstant": 1, "lastUpdateInstant": 1}


@pytest.fixture
async def documents(database: Database, vault: Vault) -> Documents:
    stream_status = ChangeStreamStatus()
    stream_status.is_streaming = True
    made = Documents(database, f"system_{new_id()[:8]}", vault, stream_status, tenant_scoped=False)
    await made.insert(None, configuration("Europe/Paris"))
    return made


async def away(*_: object) -> None:
    raise AutoReconnect("gone")


async def test_settings_are_unavailable_before_the_first_refresh(documents: Documents) -> None:
    cache = SystemSettingsCache(documents)
    assert not cache.is_fresh
    with pytest.raises(LookupError):
        _ = cache.settings


async def test_settings_are_fresh_until_they_change(documents: Documents) -> None:
    cache = SystemSettingsCache(documents)
    await cache.refresh()
    assert cache.is_fresh
    before = cache.settings
    assert before.report_timezone == "Europe/Paris"
    await cache.refresh()
    assert cache.settings is before
    await documents.replace(None, {**configuration("Asia/Tokyo"), "lastUpdateInstant": 2}, 1)
    assert not cache.is_fresh
    await cache.refresh()
    assert cache.is_fresh
    assert cache.settings.report_timezone == "Asia/Tokyo"


async def test_last_known_settings_are_used_during_an_outage(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = SystemSettingsCache(documents)
    await cache.refresh()
    documents.invalidate_all()
    monkeypatch.setattr(documents, "find_cached", away)
    await cache.refresh()
    assert not cache.is_fresh
    assert cache.settings.report_timezone == "Europe/Paris"


async def test_first_refresh_raises_an_outage(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "find_cached", away)
    with pytest.raises(AutoReconnect):
        await SystemSettingsCache(documents).refresh()


async def test_first_refresh_of_an_empty_instance_finds_nothing(database: Database, vault: Vault) -> None:
    empty = Documents(database, f"system_{new_id()[:8]}", vault, ChangeStreamStatus(), tenant_scoped=False)
    cache = SystemSettingsCache(empty)
    await cache.refresh()
    assert not cache.is_fresh
