"""What each operation costs in MongoDB and Redis: docs/scaling.md calculates with these numbers.

Counted are the commands of a request whose configuration is cached, without background work. An operation that needs
more commands than stated here fails the test; update the table and docs/scaling.md together.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import bson
import pytest

from identity import app, request_facts
from identity.errors import StartupError
from identity.ids import new_id
from identity.store import redis_clients, telemetry
from identity.store.cli_queries import SHARD_KEYS
from tests import internals
from tests.relying_party import PASSWORD


@dataclasses.dataclass
class Costs:
    """The commands of requests, and their bytes in both directions."""

    mongodb: list[str] = dataclasses.field(default_factory=list)
    redis: list[str] = dataclasses.field(default_factory=list)
    mongodb_bytes: int = 0
    filters: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    """The collection of each command with what it looks for, or the document that it inserts."""

    def clear(self) -> None:
        self.mongodb.clear()
        self.redis.clear()
        self.mongodb_bytes = 0


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Costs:
    """Count the commands that run in the context of a request."""
    counted = Costs()
    started, succeeded = telemetry.MongoCommands.started, telemetry.MongoCommands.succeeded
    execute = redis_clients.Client.execute_command

    def on_start(self: Any, event: Any) -> None:
        started(self, event)
        if request_facts._current.get() is not None:
            counted.mongodb.append(event.command_name)
            counted.filters += filters(event.command)
            counted.mongodb_bytes += len(bson.encode(event.command))

    def on_success(self: Any, event: Any) -> None:
        succeeded(self, event)
        if request_facts._current.get() is not None:
            counted.mongodb_bytes += len(bson.encode(event.reply))

    async def on_command(self: Any, *args: Any, **options: Any) -> Any:
        # Counts for charts are written by a task that inherits the context of the first request.
        if request_facts._current.get() is not None and ":activity:" not in str(args):
            counted.redis.append(args[0])
        return await execute(self, *args, **options)

    monkeypatch.setattr(telemetry.MongoCommands, "started", on_start)
    monkeypatch.setattr(telemetry.MongoCommands, "succeeded", on_success)
    monkeypatch.setattr(redis_clients.Client, "execute_command", on_command)
    return counted


def filters(command: Any) -> list[tuple[str, Any]]:
    name = next(iter(command))
    if name == "insert":
        found = command["documents"]
    elif name in {"update", "delete"}:
        found = [one["q"] for one in command[f"{name}s"]]
    else:
        found = [command.get("filter") or command.get("query") or {}]
    return [(str(command[name]), one) for one in found]


async def measured(costs: Costs, operation: Any) -> Costs:
    """The costs of an operation that ran before."""
    await operation()
    await operation()
    costs.clear()
    await operation()
    return costs


def check(costs: Costs, mongodb: int, redis: int) -> None:
    print(f"MongoDB {costs.mongodb} {costs.mongodb_bytes} bytes, Redis {costs.redis}")
    assert len(costs.mongodb) <= mongodb, costs.mongodb
    assert len(costs.redis) <= redis, costs.redis
    for collection, wanted in costs.filters:
        if wanted.keys() == {"_id"}:
            continue  # a read by the cache: it goes to all shards, once per process and change
        branches = wanted.get("$or", [wanted])
        for branch in branches:
            assert SHARD_KEYS.get(collection, {}).keys() <= {*wanted, *branch}, (collection, wanted)


@pytest.mark.requirement("operate-10")
async def test_password_login(costs, key, rp):
    login = {"loginId": rp.login_id, "password": PASSWORD, "applicationId": rp.client_id}
    check(await measured(costs, lambda: key.post("/api/login", json=login)), mongodb=3, redis=4)


@pytest.mark.requirement("operate-10")
async def test_authorization_code_flow(costs, http, browser, rp):
    async def flow() -> None:
        browser.cookies.clear()
        await rp.tokens(http, browser)

    check(await measured(costs, flow), mongodb=7, redis=12)


@pytest.mark.requirement("operate-10")
async def test_introspection_and_userinfo(costs, http, browser, rp):
    token = (await rp.tokens(http, browser))["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    check(await measured(costs, lambda: http.get("/oauth2/userinfo", headers=bearer)), mongodb=0, redis=1)


@pytest.mark.requirement("operate-10")
async def test_refresh(costs, http, browser, rp):
    token = (await rp.tokens(http, browser, scope="openid offline_access"))["refresh_token"]
    form = {
        "grant_type": "refresh_token", "refresh_token": token, "client_id": rp.client_id,
        "client_secret": rp.secret,
    }  # fmt: skip

    async def refresh() -> None:
        assert (await http.post("/oauth2/token", data=form)).status_code == 200

    check(await measured(costs, refresh), mongodb=3, redis=2)


@pytest.mark.requirement("operate-10")
async def test_creation_of_a_user(costs, key, rp):
    async def create() -> None:
        body = {
            "user": {"username": new_id(), "password": PASSWORD},
            "registration": {"applicationId": rp.client_id},
        }
        assert (await key.post("/api/user/registration", json=body)).status_code == 200

    check(await measured(costs, create), mongodb=5, redis=2)


@pytest.mark.requirement("operate-11")
async def test_unique_indexes_begin_with_the_shard_key(service, rp):
    for name, key in SHARD_KEYS.items():
        indexes = await internals.database(service).motor[name].index_information()
        for index in indexes.values():
            fields = [field for field, _ in index["key"]]
            assert not index.get("unique") or fields[: len(key)] == list(key), (name, fields)


@pytest.mark.requirement("operate-11")
async def test_shard_command_prints_commands_and_runs_them_on_a_mongos_only(service):
    settings = service.services.config
    commands = app.shard_commands(settings)
    assert commands[0] == {"enableSharding": settings.mongodb.database}
    assert {"shardCollection": f"{settings.mongodb.database}.users", "key": {"tenantId": 1}} in commands
    with pytest.raises(StartupError, match="not the address of a mongos"):
        await app.shard(settings)
