"""Stores that answer and cannot execute commands now: 503 with Retry-After, and nothing else; elections are awaited."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import shutil
import tempfile
import urllib.parse
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pymongo
import pytest
import redis.asyncio
import structlog
from pymongo import AsyncMongoClient, helpers_shared

from identity import app, logs
from identity.ids import new_id
from identity.store import outages, store_circuit_breaker
from identity.store.embedded.mongod import Mongod
from identity.store.embedded.stores import EmbeddedStores
from identity.store.store_circuit_breaker import time_limit
from identity.web.base_handlers import BaseHandler
from tests import plain_http, relying_party, webhooks
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, Build
from tests.ports import free_port
from tests.relying_party import RelyingParty
from tests.resp_relay import RespRelay, relaying

_KEY: Final = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
_COMMANDS: Final = ("aggregate", "find", "findAndModify", "insert", "update", "delete")
_SHORT_SECONDS: Final = 0.2
_AWAY_SECONDS: Final = 7
"""Longer than an operation waits for a server, and shorter than an election with the defaults of MongoDB."""


class Stores:
    """The servers of this module, with what an administrator can do to them."""

    def __init__(self, folder: Path, embedded: EmbeddedStores) -> None:
        self.embedded = embedded
        uri = pymongo.uri_parser.parse_uri(str(embedded.mongodb_uri))
        host, port = uri["nodelist"][0]
        self.administrator: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            host, port, directConnection=True, username="__system", authSource="local",
            password=(folder / "mongodb" / "keyfile").read_text(), appname="administrator",
        )  # fmt: skip
        self.redis = redis.asyncio.Redis.from_url(str(embedded.redis_url))

    @contextlib.asynccontextmanager
    async def failing(self, mode: object = "alwaysOn", **data: object) -> AsyncIterator[None]:
        """Let commands of the service fail in MongoDB during the block."""
        data = {"appName": "identity", "failCommands": _COMMANDS, **data}
        command = self.administrator.admin.command
        await command("configureFailPoint", "failCommand", mode=mode, data=data)
        try:
            yield
        finally:
            await command("configureFailPoint", "failCommand", mode="off")

    async def close(self) -> None:
        await self.administrator.close()
        await self.redis.aclose()


@pytest.fixture(scope="module")
async def own() -> AsyncIterator[Stores]:
    folder = Path(tempfile.mkdtemp(prefix="identity-test-"))
    ordinary = Mongod.command
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mongod, "command", lambda server: [*ordinary(server), "--setParameter", "enableTestCommands=1"])
        embedded = await EmbeddedStores.start(folder, mongodb=True, redis=True)
    stores = Stores(folder, embedded)
    yield stores
    await stores.close()
    await embedded.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
async def relay(own: Stores) -> AsyncIterator[tuple[RespRelay, str]]:
    async with relaying(urllib.parse.unquote(str(own.embedded.redis_url).removeprefix("unix://"))) as running:
        yield running


@pytest.fixture(scope="module")
async def service(own: Stores, relay: tuple[RespRelay, str], build: Build) -> AsyncIterator[app.Service]:
    async with build(database="patient", mongodb__uri=own.embedded.mongodb_uri, redis__url=relay[1]) as running:
        yield running


@pytest.fixture
async def api(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_http.client(service.base_url, timeout=60, headers=_KEY) as client:
        yield client


@pytest.fixture(scope="module")
async def rp(service: app.Service) -> RelyingParty:
    async with plain_http.client(service.base_url, timeout=60, headers={"Authorization": SUPER_KEY}) as client:
        return await relying_party.make_for_every_login(client)


def assert_unavailable(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.json()["generalErrors"][0]["code"] == "[Unavailable]"
    assert int(answer.headers["Retry-After"]) >= 1


def new_user() -> dict[str, Any]:
    return {"user": {"email": f"{new_id()}@example.com", "password": "correct horse battery"}}


@pytest.fixture
async def impatient(api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> httpx.AsyncClient:
    """A client whose requests give up after a fraction of a second what the driver would repeat for five."""
    ordinary = BaseHandler.run_counted

    async def run_shortly(handler: BaseHandler, *arguments: Any) -> None:
        with time_limit(_SHORT_SECONDS):
            await ordinary(handler, *arguments)

    monkeypatch.setattr(BaseHandler, "run_counted", run_shortly)
    monkeypatch.setattr(store_circuit_breaker, "ELECTION_SECONDS", _SHORT_SECONDS)
    return api


@pytest.mark.requirement("operate-12")
async def test_every_code_of_mongodb_that_means_later_is_503(own: Stores, impatient: httpx.AsyncClient) -> None:
    for code in outages.MONGODB_CODES:
        async with own.failing(errorCode=code):
            answer = await impatient.get("/api/system/audit-log/search")
        assert answer.status_code == 503, (code, answer.status_code, answer.text)
        assert_unavailable(answer)
    await answering(impatient)
    assert (await impatient.get("/api/system/audit-log/search")).status_code == 200


@pytest.mark.requirement("operate-12")
@pytest.mark.parametrize("code", [100, 189, 251, 262, 365])
async def test_write_with_such_a_code_is_503(own: Stores, impatient: httpx.AsyncClient, code: int) -> None:
    async with own.failing(errorCode=code):
        assert_unavailable(await impatient.post("/api/user", json=new_user()))
    await answering(impatient)


@pytest.mark.requirement("operate-12")
async def test_write_that_is_not_acknowledged_is_503(own: Stores, impatient: httpx.AsyncClient) -> None:
    """As with too few members for the write concern; the caller may repeat it."""
    unacknowledged = {"code": 100, "errmsg": "Not enough data-bearing nodes"}
    body = {"webhook": {"url": "https://example.com/hook", "connectTimeout": 1000, "readTimeout": 1000}}
    async with own.failing(writeConcernError=unacknowledged, failCommands=("insert", "update", "commitTransaction")):
        assert_unavailable(await impatient.post("/api/webhook", json=body))
        assert_unavailable(await impatient.post("/api/user", json=new_user()))
    await answering(impatient)


@pytest.mark.requirement("operate-12")
async def test_commit_whose_result_stays_unknown_is_503(own: Stores, api: httpx.AsyncClient, rp: RelyingParty) -> None:
    """It is repeated for five seconds. The webhook makes the creation of a user a transaction."""
    await webhooks.subscribe(api, rp.tenant, f"http://127.0.0.1:{free_port()}/", ["user.create"])
    api.headers["X-FusionAuth-TenantId"] = rp.tenant["id"]
    async with own.failing(errorCode=262, failCommands=("commitTransaction",)):
        assert_unavailable(await api.post("/api/user", json=new_user()))
    async with own.failing({"times": 3}, errorCode=262, failCommands=("commitTransaction",)):
        assert (await api.post("/api/user", json=new_user())).status_code == 200


async def test_another_error_of_mongodb_stays_a_fault_of_the_service(own: Stores, impatient: httpx.AsyncClient) -> None:
    async with own.failing(errorCode=2):  # BadValue
        answer = await impatient.get("/api/system/audit-log/search")
    assert (answer.status_code, answer.content) == (500, b"")
    assert "Retry-After" not in answer.headers
    await answering(impatient)


async def answering(client: httpx.AsyncClient) -> None:
    """Wait until both stores answer."""
    async with asyncio.timeout(30):
        while (await client.get("/api/health")).status_code != 200:
            await asyncio.sleep(0.05)


async def _busy(own: Stores) -> Callable[[], Any]:
    await own.redis.config_set("busy-reply-threshold", 1)
    other = redis.asyncio.Redis.from_url(str(own.embedded.redis_url))
    endless = asyncio.ensure_future(other.eval("while true do end", 0))
    await asyncio.sleep(0.2)

    async def end() -> None:
        await own.redis.script_kill()
        with pytest.raises(redis.asyncio.RedisError):
            await endless
        await other.aclose()

    return end


async def _without_disk(own: Stores) -> Callable[[], Any]:
    """A snapshot fails because a folder has the name of its file."""
    snapshot = Path((await own.redis.config_get("dir"))["dir"]) / "dump.rdb"
    snapshot.mkdir()
    await own.redis.config_set("save", "3600 1")
    await own.redis.bgsave()
    async with asyncio.timeout(20):
        while (await own.redis.info("persistence"))["rdb_last_bgsave_status"] != "err":
            await asyncio.sleep(0.02)

    async def end() -> None:
        snapshot.rmdir()
        await own.redis.config_set("save", "")

    return end


async def _replica(own: Stores) -> Callable[[], Any]:
    await own.redis.execute_command("REPLICAOF", "127.0.0.1", "9")

    async def end() -> None:
        await own.redis.execute_command("REPLICAOF", "NO", "ONE")

    return end


async def _configured(own: Stores, name: str, value: int) -> Callable[[], Any]:
    await own.redis.config_set(name, value)
    return lambda: own.redis.config_set(name, 0)


_PROVOKED: Final[dict[str, Callable[[Stores], Any]]] = {
    "BUSY": _busy,
    "MISCONF": _without_disk,
    "NOREPLICAS": lambda own: _configured(own, "min-replicas-to-write", 1),
    "OOM": lambda own: _configured(own, "maxmemory", 1),
    "READONLY": _replica,
}
"""What makes a real server refuse commands with this code; the relay answers with the others."""


@contextlib.asynccontextmanager
async def refusing(own: Stores, relay: RespRelay, code: str) -> AsyncIterator[None]:
    """Redis refuses commands with this code during the block."""
    if code not in _PROVOKED:
        relay.refusal = f"{code} for a test".encode()
        yield
        relay.refusal = None
        return
    end = await _PROVOKED[code](own)
    try:
        yield
    finally:
        await end()


@pytest.mark.requirement("operate-12", "operate-13")
@pytest.mark.parametrize("code", outages.REDIS_CODES)
async def test_redis_that_refuses_commands_is_503_and_health_has_the_reason(
    own: Stores, relay: tuple[RespRelay, str], api: httpx.AsyncClient, rp: RelyingParty, code: str
) -> None:
    begin = {"applicationId": rp.client_id, "loginId": rp.login_id}
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    async with refusing(own, relay[0], code):
        assert_unavailable(await api.post("/api/passwordless/start", json=begin, headers=headers))
        health = await api.get("/api/health")
        assert_unavailable(health)
        assert health.json()["generalErrors"][0]["message"] == f"Redis refuses writes ({code})."
        status = await api.get("/api/status")
        assert status.status_code == 503
        assert status.json()["redis"] == f"{code}: {outages.REDIS_CODES[code]}"
        assert status.json()["mongodb"] == "ok"
    await answering(api)
    assert (await api.post("/api/passwordless/start", json=begin, headers=headers)).status_code == 200


@pytest.mark.requirement("operate-12")
async def test_unknown_error_of_redis_stays_a_fault_of_the_service(
    relay: tuple[RespRelay, str], api: httpx.AsyncClient, rp: RelyingParty
) -> None:
    relay[0].refusal = b"ERR unknown command"
    answer = await api.post(
        "/api/passwordless/start",
        json={"applicationId": rp.client_id, "loginId": rp.login_id},
        headers={"X-FusionAuth-TenantId": rp.tenant["id"]},
    )
    relay[0].refusal = None
    assert (answer.status_code, answer.content) == (500, b"")
    await asyncio.sleep(0)
    await answering(api)


@pytest.mark.requirement("operate-14")
async def test_requests_wait_for_the_election_of_a_primary(own: Stores, api: httpx.AsyncClient, service) -> None:
    """Reads, single writes and transactions that arrive while there is no primary all succeed."""
    user = (await api.post("/api/user", json=new_user())).json()["user"]["id"]
    step_down = {"replSetStepDown": _AWAY_SECONDS, "secondaryCatchUpPeriodSecs": 0, "force": True}
    await own.administrator.admin.command(step_down)
    database = service.services.runtime.database
    with contextlib.suppress(httpx.HTTPError):
        while database.has_primary():
            await asyncio.sleep(0.02)
    created = [new_user() for _ in range(20)]
    answers = await asyncio.gather(
        *(api.get(f"/api/user/{user}") for _ in range(20)),
        *(api.post("/api/user", json=body) for body in created),
        *(api.patch(f"/api/user/{user}", json={"user": {"data": {"number": n}}}) for n in range(5)),
    )
    assert [answer.status_code for answer in answers if answer.status_code != 200] == []
    found = [await api.get("/api/user", params={"email": body["user"]["email"]}) for body in created]
    assert all(answer.status_code == 200 for answer in found)


@pytest.mark.requirement("operate-15")
async def test_log_has_one_entry_about_an_outage_and_not_one_for_each_request(
    relay: tuple[RespRelay, str], api: httpx.AsyncClient, rp: RelyingParty
) -> None:
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    # The loggers of modules would keep this configuration, also for the tests after this one.
    structlog.configure(cache_logger_on_first_use=False)
    try:
        relay[0].refusal = b"CLUSTERDOWN for a test"
        body = {"applicationId": rp.client_id, "loginId": rp.login_id}
        headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
        answers = await asyncio.gather(
            *(api.post("/api/passwordless/start", json=body, headers=headers) for _ in range(50))
        )
        relay[0].refusal = None
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**before)
    assert {answer.status_code for answer in answers} == {503}
    text = stream.getvalue()
    assert text.count('"a store is unavailable"') <= 1
    assert "Traceback" not in text
    await answering(api)


def test_table_contains_every_code_that_the_driver_repeats() -> None:
    assert outages.MONGODB_CODES.keys() >= helpers_shared._RETRYABLE_ERROR_CODES
