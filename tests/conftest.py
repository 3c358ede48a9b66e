"""Fixtures of the whole suite: real stores once a session, a running service, clients that check what always holds.

Inside everything is real; only the clock is ours.
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
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import structlog

from identity import app, config
from identity.domain.configuration import key_rotation
from identity.ids import new_id
from identity.instants import Instant, SystemClock
from identity.store.embedded.stores import EmbeddedStores
from identity.store.outages import OUTAGES
from tests import doors, openapi, relying_party
from tests.loopback import Loopback
from tests.receiver import Receiver, receiving
from tests.relying_party import RelyingParty

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent

SUPER_KEY = "a-super-key-of-the-test-suite-0123456789"
MANAGER_KEY = "a-key-manager-of-the-test-suite-0123456789"

EMAIL_TEMPLATE = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0002"
"""An email template that every service of the tests has, for objects that have to name one."""

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

NOBODY = "00000000-0000-4000-8000-00000000dead"
"""The id of nothing at all, where a parameter needs one: random ones would name tests differently in each process."""


class ShiftedClock:
    """The machine's clock, which a test may move; it goes back afterwards."""

    def __init__(self) -> None:
        self.offset = 0
        self._system = SystemClock()

    def now(self) -> Instant:
        return Instant(self._system.now() + self.offset)

    def advance(self, *, seconds: float) -> None:
        self.offset += round(seconds * 1000)


Build = Callable[..., AbstractAsyncContextManager[app.Service]]


def pytest_configure() -> None:
    """Let processes keep compiled modules, and end a run on SIGTERM and SIGHUP as on Ctrl-C, so that fixtures end."""
    gc.set_threshold(10_000, 20, 20)  # as run.py does: thousands of tests are collected, and stay
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6_000_000_000


def _place() -> Path | None:
    """Memory, where it has room for the stores of every worker: a disk that others keep busy stalls for seconds.

    None for the usual place of temporary files. What outlives a crash is tested on the disk, in tests/operator.
    """
    has_room = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES
    return _MEMORY if has_room else None


@pytest.fixture(scope="session")
async def stores() -> AsyncIterator[EmbeddedStores]:
    """A real mongod and a real Redis server, for the whole session."""
    folder = Path(tempfile.mkdtemp(prefix="identity-test-", dir=_place()))
    try:
        running = await EmbeddedStores.start(folder, mongodb=True, redis=True)
        yield running
        await running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def session_clock() -> ShiftedClock:
    """The one clock of the shared service; take `clock` instead, which puts it back."""
    return ShiftedClock()


@pytest.fixture
def clock(session_clock: ShiftedClock) -> Any:
    """The clock of the service, to be moved forward by a test."""
    before = session_clock.offset
    yield session_clock
    session_clock.offset = before


@pytest.fixture
def publication_lag() -> int:
    """The milliseconds for which a new signing key waits for other processes, for tests about them."""
    return key_rotation.LAG_MS


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A temporary folder with a short path: a Unix socket in it may have about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def brief_lag(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let new signing keys wait for nothing where there is one process: each takes 1.25 s otherwise."""
    if "service" not in request.fixturenames or "publication_lag" in request.fixturenames:
        yield
        return
    before, key_rotation.LAG_MS = key_rotation.LAG_MS, 20
    yield
    key_rotation.LAG_MS = before


@pytest.fixture(scope="session")
def configured(stores: EmbeddedStores) -> Callable[..., config.Config]:
    """A configuration on the stores of the session, in a database of its own unless one is named."""

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
            # Many tests count rows of the audit log and events.
            "IDENTITY__AUDIT__API_WRITES": "false",
            "IDENTITY__KICKSTART__FILE": "null" if kickstart is None else "kickstart.yaml",
            "IDENTITY__MONGODB__URI": str(stores.mongodb_uri),
            "IDENTITY__MONGODB__DATABASE": database or f"test_{new_id()[:13].replace('-', '')}",
            "IDENTITY__REDIS__URL": str(stores.redis_url),
            "IDENTITY__IDENTITY_PROVIDERS__ALLOWED_NETWORKS": '["127.0.0.0/8", "::1/128"]',
            "IDENTITY__EMAIL__ALLOWED_NETWORKS": '["127.0.0.0/8"]',
            "IDENTITY__EMAIL__PLAINTEXT_AUTH_HOSTS": '["127.0.0.1"]',
            "IDENTITY__CLIENT_KEYS__ALLOWED_NETWORKS": '["127.0.0.0/8", "::1/128"]',
            "IDENTITY__WEBHOOKS__ALLOWED_NETWORKS": '["127.0.0.0/8", "::1/128"]',
            **{f"IDENTITY__{name.upper()}": str(value) for name, value in settings.items()},
        }
        return config.load(folder, {**_plain_environment(), **environ})

    return load


@pytest.fixture(scope="session")
def build(configured: Callable[..., config.Config]) -> Build:
    """Builds and starts a service of a test's own; database and data folder go with it unless they were named."""

    @asynccontextmanager
    async def running(*, clock: Any = None, role: str = "all", **settings: Any) -> AsyncIterator[app.Service]:
        given_folder = settings.pop("data_dir", None)
        data_dir = Path(given_folder or tempfile.mkdtemp(prefix="identity-test-"))
        is_own = "database" not in settings
        loaded = configured(data_dir, **{"kickstart": KICKSTART, **settings})
        service = await app.build(loaded, role=role, clock=clock)
        try:
            await service.start()
            yield service
        finally:
            if is_own:
                await doors.database(service).drop()
            await service.stop()
            relying_party.DEFAULT_KEY_IDS.clear()
            if given_folder is None:
                shutil.rmtree(data_dir, ignore_errors=True)

    return running


# With the packages for tests comes one that lets a traceback show every variable: seconds for each, and secrets.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

_SHARED: list[app.Service] = []


@pytest.fixture(scope="module", autouse=True)
def spared_heap() -> None:
    """Take what earlier files left out of the garbage collector's sight, as `run.py` does with what stays.

    A session keeps millions of objects, reports above all; one look through all of them stops the service for seconds.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
async def unspent_address() -> None:
    """Let what tests did from this machine's one address, wrong codes above all, not count in the next file."""
    for running in _SHARED:
        await _patiently(functools.partial(_forget_address, running))


async def _forget_address(running: app.Service) -> None:
    redis = doors.redis(running)
    keys = [key async for key in redis.client.scan_iter(match=redis.key("limit", "*address*"), count=10_000)]
    if keys:
        await redis.client.delete(*keys)


@pytest.fixture(scope="module", autouse=True)
async def unheard() -> AsyncIterator[None]:
    """Remove the webhooks that the tests of a file made: hundreds, which every later event would be routed around."""
    before = {running: await _patiently(functools.partial(_webhook_ids, running)) for running in _SHARED}
    yield
    for running in _SHARED:
        await _patiently(functools.partial(_forget_webhooks, running, before.get(running, set())))


async def _webhook_ids(running: app.Service) -> set[str]:
    return {webhook["id"] for webhook in await doors.store(running, "webhooks").find_all(None)}


async def _forget_webhooks(running: app.Service, but: set[str]) -> None:
    for webhook_id in await _webhook_ids(running) - but:
        await doors.store(running, "webhooks").delete(None, webhook_id)


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    """What comes of it once the stores answer.

    In files whose tests have no loop the shared service stands still, for minutes: it finds its stores away then, until
    it has looked for them.
    """
    async with asyncio.timeout(60):
        while True:
            try:
                return await work()
            except OUTAGES:
                await asyncio.sleep(0.1)


@pytest.fixture(scope="session")
async def service(build: Build, session_clock: ShiftedClock) -> AsyncIterator[app.Service]:
    """The running service that most tests share; each test makes the tenants and objects that it needs."""
    async with build(clock=session_clock) as running:
        _SHARED.append(running)
        yield running


@pytest.fixture
async def http(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client without credentials, which checks what holds for every answer."""
    async with checking_client(service.base_url) as client:
        yield client


@pytest.fixture
async def api(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that may do everything; the default tenant where a tenant is needed."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def key(service: app.Service, rp: RelyingParty) -> AsyncIterator[httpx.AsyncClient]:
    """A caller with an API key and the relying party's tenant."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": rp.tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def manager(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key-manager key."""
    async with checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as client:
        yield client


@pytest.fixture
async def tenant(api: httpx.AsyncClient) -> dict[str, Any]:
    """A fresh tenant."""
    return await relying_party.make_tenant(api)


@pytest.fixture
async def tenant_api(service: app.Service, tenant: dict[str, Any]) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the super key inside the fresh tenant."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as client:
        yield client


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    """An application with the product's defaults, in a tenant of its own, with a registered user."""
    return await relying_party.make(api)


@pytest.fixture
async def browser(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client that keeps cookies and follows no redirect."""
    async with checking_client(service.base_url) as client:
        yield client


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A webhook receiver that takes everything, until a test says otherwise."""
    async with receiving() as running:
        yield running


def checking_client(
    base_url: str, *, transport: httpx.AsyncBaseTransport | None = None, **settings: Any
) -> httpx.AsyncClient:
    """An httpx client that asserts, of every answer, what always holds; over HTTP unless another way is given."""
    way = transport or Loopback()
    return httpx.AsyncClient(
        base_url=base_url, timeout=30, event_hooks={"response": [_check]}, transport=way, **settings
    )


async def _check(answer: httpx.Response) -> None:
    await answer.aread()
    path = answer.request.url.path
    assert answer.status_code < 500 or answer.status_code in {503, 504, 512}, (
        f"{answer.request.method} {path}: {answer.status_code}"
    )
    assert answer.headers.get("X-Content-Type-Options") == "nosniff", path
    openapi.check(answer)
    if not path.startswith("/api/"):
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


def _check_errors(body: dict[str, Any]) -> None:
    assert body.keys() <= {"fieldErrors", "generalErrors"}
    assert body
    entries = [entry for field in body.get("fieldErrors", {}).values() for entry in field]
    for entry in [*entries, *body.get("generalErrors", [])]:
        assert entry["code"].startswith("[")
        assert entry["message"]


def _plain_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("IDENTITY__")}
