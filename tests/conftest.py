"""Fixtures of the whole suite: the stores of the session, the running service, and clients that check every response.

Everything is real except the clock.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import pytest
import structlog

from identity import app, config
from identity.domain.configuration import key_rotation
from identity.ids import new_id
from identity.instants import Instant, SystemClock
from identity.store.embedded.stores import EmbeddedStores
from identity.store.outages import OUTAGES
from tests import fake_social, internals, openapi, relying_party
from tests.databases import Databases
from tests.fake_social import FakeSocial
from tests.loopback import Loopback
from tests.receiver import Receiver, receiving
from tests.relying_party import RelyingParty

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent

SUPER_KEY = "a-super-key-of-the-test-suite-0123456789"
MANAGER_KEY = "a-key-manager-of-the-test-suite-0123456789"

EMAIL_TEMPLATE = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0002"
"""An email template of every test instance, for objects that require one."""

KICKSTART = f"""
variables:
  defaultTenantId: "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0001"
apiKeys:
  - {{key: "{SUPER_KEY}", description: "super key"}}
  - {{key: "{MANAGER_KEY}", description: "key manager", keyManager: true}}
requests:
  - method: PATCH
    url: "/api/tenant/#{{FUSIONAUTH_TENANT_ID}}"
    body: {{tenant: {{issuer: "#{{BASE_URL}}"}}}}
  - method: POST
    url: "/api/email/template/{EMAIL_TEMPLATE}"
    body:
      emailTemplate: {{name: Mail, defaultSubject: Mail, defaultHtmlTemplate: <p>Hello</p>, defaultTextTemplate: Hello}}
"""
DEFAULT_TENANT = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0001"

UNKNOWN_ID = "00000000-0000-4000-8000-00000000dead"
"""The id of no object. It is fixed, because xdist workers must generate the same test ids from parameters."""


class ShiftedClock:
    """The system clock with an offset that a test can change."""

    def __init__(self) -> None:
        self.offset = 0
        self._system = SystemClock()

    def now(self) -> Instant:
        return Instant(self._system.now() + self.offset)

    def advance(self, *, seconds: float) -> None:
        self.offset += round(seconds * 1000)


Build = Callable[..., AbstractAsyncContextManager[app.Service]]


def pytest_configure() -> None:
    """Write bytecode in child processes, and run the fixtures' teardown on SIGTERM and SIGHUP as on Ctrl-C."""
    gc.disable()  # until the tests are collected: they stay in memory
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, and collect as often as the service does."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


_LONG_TESTS: Final = ("tests/operator/", "tests/fuzz/", "tests/boundary/", "tests/bench/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the folders of the longest tests first: one that starts last would leave the other processes idle."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG_TESTS))


_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6_000_000_000


def _stores_folder() -> Path | None:
    """The folder of the stores: in memory if there is room, because a busy disk stalls for seconds.

    None for the default folder of temporary files. tests/operator tests durability on disk.
    """
    has_room = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES
    return _MEMORY if has_room else None


@pytest.fixture(scope="session")
async def stores() -> AsyncIterator[EmbeddedStores]:
    """A real mongod and a real Redis server, for the whole session."""
    folder = Path(tempfile.mkdtemp(prefix="identity-test-", dir=_stores_folder()))
    try:
        running = await EmbeddedStores.start(folder, mongodb=True, redis=True)
        yield running
        await running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def session_clock() -> ShiftedClock:
    """The clock of the shared service. Tests use `clock`, which resets it."""
    return ShiftedClock()


@pytest.fixture
def clock(session_clock: ShiftedClock) -> Any:
    """The clock of the shared service, reset after the test."""
    before = session_clock.offset
    yield session_clock
    session_clock.offset = before


@pytest.fixture
def publication_lag() -> int:
    """The production value of the publication lag of new signing keys, in milliseconds."""
    return key_rotation.LAG_MS


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A temporary folder with a short path: a Unix socket in it may have about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def short_publication_lag(request: pytest.FixtureRequest) -> Iterator[None]:
    """Shorten the publication lag of new signing keys from 1.25 s to 20 ms, unless a test uses `publication_lag`."""
    if "service" not in request.fixturenames or "publication_lag" in request.fixturenames:
        yield
        return
    before, key_rotation.LAG_MS = key_rotation.LAG_MS, 20
    yield
    key_rotation.LAG_MS = before


@pytest.fixture(scope="session")
def configured(stores: EmbeddedStores) -> Callable[..., config.Config]:
    """A function that loads a configuration with the stores of the session and, by default, a new database."""

    def load(
        data_dir: Path, *, database: str | None = None, kickstart: str | None = None, **settings: Any
    ) -> config.Config:
        folder = data_dir / "config"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / config.FILE_NAME).touch()
        if kickstart is not None:
            (folder / "kickstart.yaml").write_text(kickstart)
        environ = {
            "IDENTITY__DATA_DIR": str(data_dir),
            "IDENTITY__SERVER__PORT": "0",
            "IDENTITY__METRICS__WORKER_PORT": "0",
            # Many tests count audit log entries and events.
            "IDENTITY__AUDIT__API_WRITES": "false",
            "IDENTITY__KICKSTART__FILE": "null" if kickstart is None else "kickstart.yaml",
            "IDENTITY__MONGODB__URI": str(stores.mongodb_uri),
            "IDENTITY__MONGODB__DATABASE": database or f"test_{new_id()[:13].replace('-', '')}",
            "IDENTITY__REDIS__URL": str(stores.redis_url),
            "IDENTITY__IDENTITY_PROVIDERS__ALLOWED_NETWORKS": '["127.0.0.0/8", "::1/128"]',
            "IDENTITY__EMAIL__ALLOWED_NETWORKS": '["127.0.0.0/8"]',
            "IDENTITY__EMAIL__PLAINTEXT_AUTH_HOSTS": '["127.0.0.1"]',
            "IDENTITY__CONNECTORS__ALLOWED_NETWORKS": '["127.0.0.0/8", "::1/128"]',
            "IDENTITY__LAMBDAS__ALLOWED_NETWORKS": '["127.0.0.0/8"]',
            "IDENTITY__CLIENT_KEYS__ALLOWED_NETWORKS": '["127.0.0.0/8", "::1/128"]',
            "IDENTITY__WEBHOOKS__ALLOWED_NETWORKS": '["127.0.0.0/8", "::1/128"]',
            **{f"IDENTITY__{name.upper()}": str(value) for name, value in settings.items()},
        }
        return config.load(folder, {**_plain_environment(), **environ})

    return load


@pytest.fixture(scope="session")
async def databases(stores: EmbeddedStores) -> AsyncIterator[Databases]:
    """The databases of the services that tests start."""
    made = Databases(stores)
    yield made
    await made.close()


@pytest.fixture(scope="session")
def build(configured: Callable[..., config.Config], databases: Databases) -> Build:
    """A function that starts a separate service; it has a database and data folder of its own unless they are given."""

    @asynccontextmanager
    async def running(*, clock: Any = None, role: str = "all", **settings: Any) -> AsyncIterator[app.Service]:
        given_folder = settings.pop("data_dir", None)
        data_dir = Path(given_folder or tempfile.mkdtemp(prefix="identity-test-"))
        is_own = "database" not in settings
        database = settings.pop("database", None) or databases.take()
        loaded = configured(data_dir, database=database, **{"kickstart": KICKSTART, **settings})
        service = await app.build(loaded, role=role, clock=clock)
        try:
            await service.start()
            yield service
        finally:
            await service.stop()
            if is_own:
                await databases.give_back(database)
            relying_party.DEFAULT_KEY_IDS.clear()
            if given_folder is None:
                shutil.rmtree(data_dir, ignore_errors=True)

    return running


# The test packages include rich: its tracebacks show all variables, including secrets, and take seconds to render.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

_SHARED: list[app.Service] = []


@contextmanager
def shared(running: app.Service) -> Iterator[app.Service]:
    """Let the fixtures of modules below clean up after the tests of this service."""
    _SHARED.append(running)
    yield running
    _SHARED.remove(running)


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> None:
    """Exclude the objects of earlier modules from garbage collection.

    A session keeps millions of objects, mostly reports, and a full collection would stop the service for seconds.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
async def reset_address_limits() -> None:
    """Delete the address limits: all tests share one IP address, and failures of one module would count in the next."""
    for running in _SHARED:
        await _retry_during_outage(functools.partial(_delete_address_limits, running))


async def _delete_address_limits(running: app.Service) -> None:
    redis = internals.redis(running)
    keys = [key async for key in redis.client.scan_iter(match=redis.key("limit", "*address*"), count=10_000)]
    if keys:
        await redis.client.delete(*keys)


@pytest.fixture(scope="module", autouse=True)
async def delete_webhooks() -> AsyncIterator[None]:
    """Delete the webhooks that a module created: later events would be matched against hundreds of them."""
    before = {running: await _retry_during_outage(functools.partial(_webhook_ids, running)) for running in _SHARED}
    yield
    for running in _SHARED:
        await _retry_during_outage(functools.partial(_delete_webhooks, running, before.get(running, set())))


async def _webhook_ids(running: app.Service) -> set[str]:
    return {webhook["id"] for webhook in await internals.store(running, "webhooks").find_all(None)}


async def _delete_webhooks(running: app.Service, but: set[str]) -> None:
    for webhook_id in await _webhook_ids(running) - but:
        await internals.store(running, "webhooks").delete(None, webhook_id)


async def _retry_during_outage(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `work`, retried while the stores are unavailable.

    Modules of synchronous tests block the event loop of the shared service for minutes, and its connections time out.
    """
    async with asyncio.timeout(60):
        while True:
            try:
                return await work()
            except OUTAGES:
                await asyncio.sleep(0.1)


@pytest.fixture(scope="session")
async def social_providers(session_clock: ShiftedClock) -> AsyncIterator[FakeSocial]:
    """The published identity providers, which the shared service reaches; take `social` instead, which resets them."""
    async with fake_social.running(session_clock) as running:
        yield running


@pytest.fixture(scope="session")
async def service(
    build: Build, databases: Databases, session_clock: ShiftedClock, social_providers: FakeSocial
) -> AsyncIterator[app.Service]:
    """The service that most tests share. Each test creates its own tenants and objects."""
    settings = {"database": databases.take(), "identity_providers__endpoint_overrides": social_providers.overrides()}
    async with build(clock=session_clock, **settings) as running:
        _SHARED.append(running)
        yield running


@pytest.fixture
async def http(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client without credentials."""
    async with checking_client(service.base_url) as client:
        yield client


@pytest.fixture
async def api(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that has all permissions, for the default tenant."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def key(service: app.Service, rp: RelyingParty) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that has all permissions, for the tenant of the relying party."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": rp.tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def manager(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the key of a key manager."""
    async with checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as client:
        yield client


@pytest.fixture
async def tenant(api: httpx.AsyncClient) -> dict[str, Any]:
    """A new tenant."""
    return await relying_party.make_tenant(api)


@pytest.fixture
async def tenant_api(service: app.Service, tenant: dict[str, Any]) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that has all permissions, for the new tenant."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """An application with the default settings and a registered user, in a new tenant."""
    return await relying_party.make(api)


@pytest.fixture
async def browser(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client that keeps cookies and does not follow redirects."""
    async with checking_client(service.base_url) as client:
        yield client


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A webhook receiver that responds with 200 unless a test changes its behaviour."""
    async with receiving() as running:
        yield running


def checking_client(
    base_url: str, *, transport: httpx.AsyncBaseTransport | None = None, **settings: Any
) -> httpx.AsyncClient:
    """A client that checks every response: status, headers, error format, and the OpenAPI document."""
    return httpx.AsyncClient(
        base_url=base_url,
        timeout=30,
        event_hooks={"response": [_check]},
        transport=transport or Loopback(),
        **settings,
    )


async def _check(answer: httpx.Response) -> None:
    await answer.aread()
    path = answer.request.url.path
    assert answer.status_code < 500 or answer.status_code in {501, 503, 504, 512}, (
        f"{answer.request.method} {path}: {answer.status_code}"
    )
    assert answer.headers.get("X-Content-Type-Options") == "nosniff", path
    openapi.check(answer)
    if path.startswith("/api/scim/"):
        _check_scim(answer)
        return
    if not path.startswith("/api/") or path.startswith("/api/docs"):
        return
    if answer.content and answer.status_code == 200 and path.rstrip("/").endswith("/export"):
        assert answer.headers["Content-Type"] == "application/zip", path
    elif answer.content and "prometheus" not in path:
        assert answer.headers["Content-Type"] == "application/json", path
        answer.json()
    if answer.status_code == 400 and answer.request.method != "HEAD":
        _check_errors(answer.json())
    if answer.status_code in {401, 404, 405}:
        assert answer.content == b"", path


def _check_scim(answer: httpx.Response) -> None:
    if answer.content:
        assert answer.headers["Content-Type"] == "application/scim+json", answer.url
        assert "password" not in answer.json(), answer.url
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        assert answer.json()["status"] == str(answer.status_code)
        assert answer.json()["detail"]


def _check_errors(body: dict[str, Any]) -> None:
    assert body.keys() <= {"fieldErrors", "generalErrors"}
    assert body
    entries = [entry for field in body.get("fieldErrors", {}).values() for entry in field]
    for entry in [*entries, *body.get("generalErrors", [])]:
        assert entry["code"].startswith("[")
        assert entry["message"]


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("IDENTITY__")}
