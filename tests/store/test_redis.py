"""The Redis client: commands of one loop iteration are sent together, and fail separately."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from redis import exceptions

from identity.ids import new_id
from identity.store import redis as redis_module
from identity.store.redis import Redis


async def calls_of(redis, command: str) -> int:
    """How often the server executed a command."""
    return int((await redis.client.info("commandstats")).get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def test_each_command_of_a_batch_gets_its_own_reply(redis):
    keys = [redis.key("together", new_id()) for _ in range(100)]
    await asyncio.gather(*(redis.client.set(key, key, ex=60) for key in keys))
    assert await asyncio.gather(*(redis.client.get(key) for key in keys)) == keys


async def test_commands_of_one_loop_iteration_are_one_batch(redis, monkeypatch):
    batches = []
    execute_batch = redis.client._execute_batch

    async def counted(asked):
        batches.append([one.command[0] for one in asked])
        return await execute_batch(asked)

    monkeypatch.setattr(redis.client, "_execute_batch", counted)
    key = redis.key("batch", new_id())
    assert await asyncio.gather(redis.client.exists(key), redis.client.get(key)) == [0, None]
    assert await redis.client.exists(key) == 0
    assert batches == [["EXISTS", "GET"], ["EXISTS"]]


async def test_a_command_that_fails_fails_alone(redis):
    text, other = redis.key("text", new_id()), redis.key("other", new_id())
    await redis.client.set(text, "no list", ex=60)
    failed, fine = await asyncio.gather(redis.client.lpush(text, "1"), redis.client.get(text), return_exceptions=True)
    assert isinstance(failed, exceptions.ResponseError) and fine == "no list"
    assert await redis.client.get(other) is None


@pytest.mark.parametrize("unencodable", ["half of a pair \ud800", None])
async def test_unencodable_argument_fails_only_its_command(redis, unencodable):
    key = redis.key("other", new_id())
    refused, fine = await asyncio.gather(
        redis.client.set(key, unencodable), redis.client.exists(key), return_exceptions=True
    )
    assert isinstance(refused, UnicodeEncodeError | exceptions.DataError) and fine == 0


async def test_cancelled_caller_does_not_affect_the_others(redis):
    key = redis.key("gone", new_id())
    leaving, staying = asyncio.ensure_future(redis.client.get(key)), asyncio.ensure_future(redis.client.exists(key))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == 0
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_closed_client_leaves_no_connection_of_cancelled_callers(stores):
    closing = Redis(str(stores.redis_url), f"test_{new_id()}")
    leaving = [asyncio.ensure_future(closing.client.get(closing.key(name))) for name in ("one", "other")]
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
    await closing.close()
    assert not any(connection.is_connected for connection in closing.client.connection_pool._available_connections)
    assert not closing.client.connection_pool._in_use_connections


async def test_outage_fails_all_commands_of_the_batch(redis, monkeypatch):
    async def away(_asked):
        raise exceptions.ConnectionError("away")

    with monkeypatch.context() as patch:
        patch.setattr(redis.client, "_execute_batch", away)
        failures = await asyncio.gather(*(redis.client.get("any") for _ in range(3)), return_exceptions=True)
    assert [type(failure) for failure in failures] == [exceptions.ConnectionError] * 3
    assert await redis.client.get(redis.key("back", new_id())) is None


async def test_script_that_the_server_has_lost_is_sent_again(redis):
    counters = [redis.key("count", new_id()) for _ in range(3)]
    assert await redis.run("counter_increment", counters[:1], 60) == 1
    await redis.client.script_flush()
    before = await calls_of(redis, "eval")
    runs = [redis.run("counter_increment", [counter], 60) for counter in counters]
    assert await asyncio.gather(*runs) == [2, 1, 1]
    assert await calls_of(redis, "eval") > before


def test_each_lua_script_exists_and_is_used():
    store = Path(redis_module.__file__).parent
    used = {name for file in store.glob("*.py") for name in re.findall(r'\.run\(\s*"(\w+)"', file.read_text())}
    assert used == {file.stem for file in store.glob("lua/*.lua")}
