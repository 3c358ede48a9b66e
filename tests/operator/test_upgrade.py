"""An upgrade from 0.1.0: today's service starts on data that the first version wrote, and goes on with it."""

from __future__ import annotations

import datetime
import gzip
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bson import json_util

from identity import app
from identity.errors import StartupError
from identity.ids import new_id
from identity.instants import SystemClock
from identity.store import migrations
from identity.store.migrations import Migration, SchemaVersion
from identity.store.mongo import Database
from tests import internals
from tests.conftest import checking_client
from tests.receiver import receiving

DUMP = Path(__file__).parent / "data" / "data-0.1.0.json.gz"
URL = "http://127.0.0.1:18999/hook"
EPOCH_MS = 1_500_000_000_000
"""Larger numbers of the dump are instants."""


def shifted(value: Any, ms: int) -> Any:
    """The value with all instants moved, so that nothing in it has expired since."""
    if isinstance(value, dict):
        return {name: shifted(inner, ms) for name, inner in value.items()}
    if isinstance(value, list):
        return [shifted(inner, ms) for inner in value]
    if isinstance(value, datetime.datetime):
        return value + datetime.timedelta(milliseconds=ms)
    is_instant = isinstance(value, int) and not isinstance(value, bool) and value > EPOCH_MS
    return value + ms if is_instant else value


async def restored(database: Database, receiver_url: str) -> dict[str, Any]:
    """Write the dump into a database, with a webhook at another address."""
    text = gzip.decompress(DUMP.read_bytes()).decode().replace(URL, receiver_url)
    found = json_util.loads(text)
    for name, documents in shifted(found["collections"], SystemClock().now() - found["takenAt"]).items():
        for index in found["indexes"][name]:
            options = {key: value for key, value in index.items() if key not in {"key", "name"}}
            if index["name"] != "_id_":
                await database.motor[name].create_index(list(index["key"].items()), name=index["name"], **options)
        if documents:
            await database.motor[name].insert_many(documents)
    return dict(found)


@pytest.fixture(scope="module")
async def upgraded(build: Any, stores: Any, tmp_path_factory: Any) -> AsyncIterator[tuple[app.Service, dict[str, Any]]]:
    folder, name = tmp_path_factory.mktemp("upgrade"), f"test_{new_id()[:8]}"
    database = Database(str(stores.mongodb_uri), name)
    (folder / "data").mkdir()
    async with receiving() as receiver:
        found = await restored(database, receiver.url)
        (folder / "data" / "master.key").write_text(found["masterKey"])
        (folder / "data" / "master.key").chmod(0o600)
        async with build(data_dir=folder / "data", database=name, kickstart=None) as service:
            yield service, {**found, "receiver": receiver}
    await database.drop()
    database.close()
    shutil.rmtree(folder)


@pytest.mark.requirement("operate-7")
async def test_users_of_the_first_version_log_in(upgraded):
    service, found = upgraded
    login = {"loginId": "old@example.com", "password": "old password 1", "applicationId": found["applicationId"]}
    async with checking_client(service.base_url, headers={"Authorization": found["apiKey"]}) as api:
        answer = await api.post("/api/login", json=login)
        assert answer.status_code == 200, answer.text
        assert answer.json()["user"]["id"] == found["userId"]
        assert (await api.post("/api/login", json={**login, "password": "wrong"})).status_code == 404


@pytest.mark.requirement("operate-7")
async def test_refresh_tokens_of_the_first_version_are_exchanged(upgraded):
    service, found = upgraded
    form = {
        "grant_type": "refresh_token", "refresh_token": found["refreshToken"],
        "client_id": found["applicationId"], "client_secret": "old-client-secret",
    }  # fmt: skip
    async with checking_client(service.base_url) as client:
        answer = await client.post("/oauth2/token", data=form)
        assert answer.status_code == 200, answer.text
        bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        assert (await client.get("/oauth2/userinfo", headers=bearer)).json()["sub"] == found["userId"]


@pytest.mark.requirement("operate-7")
async def test_events_of_the_first_version_are_delivered(upgraded):
    _, found = upgraded
    received = await found["receiver"].wait_for(2)
    assert {"user.create.complete", "user.login.success"} >= {one.event["type"] for one in received[:2]}


@pytest.mark.requirement("operate-7")
async def test_schema_version_is_recorded(upgraded):
    service, _ = upgraded
    stored = await internals.database(service).motor["instance"].find_one({"_id": "schema"})
    assert stored["version"] == migrations.SCHEMA_VERSION


@pytest.mark.requirement("operate-8")
async def test_interrupted_migration_is_repeated(stores):
    database = Database(str(stores.mongodb_uri), f"test_{new_id()[:8]}")
    schema, runs = SchemaVersion(database, "9.0.0"), []

    async def first() -> None:
        runs.append("first")

    async def second() -> None:
        runs.append("second")
        if len(runs) == 2:
            raise ConnectionError("interrupted")

    steps = [Migration(2, 1, first), Migration(3, 2, second)]
    with pytest.raises(ConnectionError):
        await schema.migrate(steps)
    await schema.migrate(steps)
    await schema.migrate(steps)
    assert runs == ["first", "second", "second"]
    assert await database.motor["instance"].find_one({"_id": "schema"}) == {
        "_id": "schema", "version": 3, "readableFrom": 2, "release": "9.0.0",
    }  # fmt: skip
    await database.drop()
    database.close()


@pytest.mark.requirement("operate-8")
async def test_new_database_has_nothing_to_migrate(stores):
    database = Database(str(stores.mongodb_uri), f"test_{new_id()[:8]}")
    schema, runs = SchemaVersion(database, "9.0.0"), []

    async def step() -> None:
        runs.append("step")

    steps = [Migration(migrations.SCHEMA_VERSION, migrations.READABLE_FROM, step)]
    await schema.record_new_database()
    await schema.migrate(steps)
    assert runs == []
    await database.motor["instance"].delete_many({})
    await database.motor["instance"].insert_one({"_id": "instance"})
    await schema.record_new_database()
    await schema.migrate(steps)
    assert runs == ["step"]
    await database.drop()
    database.close()


@pytest.mark.requirement("operate-8")
async def test_older_release_refuses_data_that_it_does_not_understand(build, configured, stores, tmp_path):
    name = f"test_{new_id()[:8]}"
    database = Database(str(stores.mongodb_uri), name)
    later = {"_id": "schema", "version": 99, "readableFrom": 98, "release": "9.0.0"}
    await database.motor["instance"].insert_one(later)
    with pytest.raises(StartupError, match=r"Install version 9\.0\.0 or a later one, or restore the backup"):
        async with build(database=name):
            pass
    fault = await app.mongodb_fault(configured(tmp_path, database=name))
    assert "was upgraded by version 9.0.0" in fault
    assert await database.motor.list_collection_names() == ["instance"]
    await database.motor["instance"].update_one({"_id": "schema"}, {"$set": {"readableFrom": 1}})
    assert await app.mongodb_fault(configured(tmp_path, database=name)) is None
    await database.drop()
    database.close()
