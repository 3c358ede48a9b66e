"""Every route while a store hangs: a response within its deadline, with 503 unless a table lists another status.

The servers are suspended (SIGSTOP), so that connections stay open without responses.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import prometheus_client
import pytest

from identity import app
from identity.ids import new_id
from identity.store.embedded.stores import EmbeddedStores
from identity.web import application
from identity.web.base_handlers import Route
from tests import internals, plain_http, relying_party
from tests.conftest import DEFAULT_TENANT, MANAGER_KEY, SUPER_KEY, Build
from tests.relying_party import RelyingParty

MONGODB: Final = "mongod"
REDIS: Final = "redis"
DEADLINE_SECONDS: Final = {MONGODB: 25.0, REDIS: 20.0}
"""An operation of MongoDB has 5 seconds and one for the queue, a command of Redis 2; the rest is for a busy machine."""
AT_ONCE_SECONDS: Final = 5.0
_AT_A_TIME: Final = 64

ROUTES = [
    (route, method)
    for route in application.routes(prometheus_client.CollectorRegistry())
    for method in route.handler.SUPPORTED_METHODS
    if hasattr(getattr(route.handler, method.lower()), "endpoint")
]

KEY_SET_AND_METADATA: Final = (
    "/.well-known/jwks.json",
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server",
    f"/.well-known/oauth-authorization-server/{DEFAULT_TENANT}",
    f"/{DEFAULT_TENANT}/.well-known/jwks.json",
    f"/{DEFAULT_TENANT}/.well-known/openid-configuration",
    "/api/jwt/public-key",
)

FROM_MEMORY: Final = {
    "/.well-known/jwks.json",
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/{tenant_id}",
    "/{tenant_id}/.well-known/jwks.json",
    "/{tenant_id}/.well-known/openid-configuration",
    "/api/jwt/public-key",
    "/api/openapi.json",
}
"""The requests that still succeed with 200."""

WITHOUT_STORES: Final = {
    "GET /.well-known/change-password",
    "GET /api/docs",
    "GET /api/docs/reference.css",
    "GET /api/health/live",
    "GET /favicon.ico",
    "GET /oauth2/webauthn",
    "GET /{tenant_id}/oauth2/webauthn",
    "POST /oauth2/callback",
}
"""Redirects, static files, liveness, the API reference, and a page that forwards a form."""

OF_HEALTH: Final = {
    "/api/health": {MONGODB: 500, REDIS: 500},
    "/api/status": {MONGODB: 452, REDIS: 500},
}
"""Where the published status codes say which store is away."""

OF_DEEP_REQUESTS: Final[dict[str, dict[str, int]]] = {
    MONGODB: {"login page": 302, "session": 302},
    REDIS: {
        "API refresh": 200,
        "create user": 200,
        "login page": 302,
        "patch user": 200,
        "ping": 200,
        "read user": 200,
        "refresh": 200,
        "search users": 200,
        "session": 302,
        "unknown key": 401,
    },
}
"""What is answered with something else than 503; the redirects say server_error to the client."""

Ask = Callable[[], Awaitable[httpx.Response]]
Connect = Callable[..., httpx.AsyncClient]


@dataclasses.dataclass(frozen=True)
class Answered:
    """A request, its answer, and how long it took."""

    name: str
    answer: httpx.Response
    seconds: float


@pytest.fixture(scope="module")
async def own_stores() -> AsyncIterator[EmbeddedStores]:
    """Stores that may be stopped, because no other test uses them."""
    folder = Path(tempfile.mkdtemp(prefix="identity-test-"))
    running = await EmbeddedStores.start(folder, mongodb=True, redis=True)
    yield running
    await running.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
async def service(own_stores: EmbeddedStores, build: Build) -> AsyncIterator[app.Service]:
    """A service on those stores."""
    addresses = {"mongodb__uri": own_stores.mongodb_uri, "redis__url": own_stores.redis_url}
    async with build(**addresses) as running:
        yield running


@pytest.fixture
async def connect(service: app.Service) -> AsyncIterator[Connect]:
    """Creates clients with separate cookies and these headers."""
    async with AsyncExitStack() as stack:

        def connected(**headers: str) -> httpx.AsyncClient:
            made = plain_http.client(service.base_url, timeout=60, headers=headers)
            stack.push_async_callback(made.aclose)
            return made

        yield connected


@pytest.fixture
def client(connect: Connect) -> httpx.AsyncClient:
    """A client without credentials."""
    return connect()


@contextmanager
def stopped(stores: EmbeddedStores, name: str) -> Iterator[None]:
    """One of the two servers hangs inside the block."""
    pid = stores.pids()[(MONGODB, REDIS).index(name)]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def recovered(client: httpx.AsyncClient) -> None:
    """Wait until both stores answer again."""
    while (await client.get("/api/health")).status_code != 200:
        await asyncio.sleep(0.1)


async def timed(name: str, ask: Ask) -> Answered:
    began = time.monotonic()
    answer = await ask()
    return Answered(name, answer, time.monotonic() - began)


async def all_at_a_time(asked: dict[str, Ask]) -> list[Answered]:
    """Send every request, a few at a time: a deadline is measured from when a request is sent."""
    turn = asyncio.Semaphore(_AT_A_TIME)

    async def one(name: str, ask: Ask) -> Answered:
        async with turn:
            return await timed(name, ask)

    return list(await asyncio.gather(*(one(name, ask) for name, ask in asked.items())))


def too_slow(found: list[Answered], store: str) -> list[str]:
    return [f"{one.name}: {one.seconds:.1f} s" for one in found if one.seconds > DEADLINE_SECONDS[store]]


def route_request(client: httpx.AsyncClient, route: Route, method: str) -> Ask:
    """A request of a route by a caller who may make it, about objects that do not exist."""
    path = re.sub(r"\{(\w+)\}", lambda found: DEFAULT_TENANT if found[1] == "tenant_id" else new_id(), route.template)
    options: dict[str, Any] = {}
    if route.template.startswith("/api"):
        is_of_keys = route.template.startswith("/api/api-key")
        key = MANAGER_KEY if is_of_keys else SUPER_KEY
        options["headers"] = {"Authorization": key, "X-FusionAuth-TenantId": DEFAULT_TENANT}
        if method in {"POST", "PUT", "PATCH"}:
            options["json"] = {}
    elif method == "POST":
        options["data"] = {"client_id": new_id(), "client_secret": "x", "token": "x", "user_code": "x"}
    return lambda: client.request(method, path, **options)


def is_as_stated(route: Route, name: str, status: int, store: str) -> bool:
    """Whether a status is one of the route's table while the store hangs."""
    if route.template in OF_HEALTH:
        return status == OF_HEALTH[route.template][store]
    if route.template in FROM_MEMORY:
        return status == 200
    if store == MONGODB:
        # The store is not needed to refuse many a request, and pages and redirects may need cached documents only.
        is_page = name.startswith("GET ") and not route.template.startswith("/api/")
        return status == 503 or 400 <= status < 500 or (is_page and status in {200, 302})
    return status == 503 or status < 500


@pytest.mark.requirement("audit-d5")
@pytest.mark.parametrize("store", [MONGODB, REDIS])
async def test_every_route_is_answered_in_time_with_a_status_of_its_table(own_stores, client, store) -> None:
    asked = {f"{method} {route.template}": route_request(client, route, method) for route, method in ROUTES}
    routes = {f"{method} {route.template}": route for route, method in ROUTES}
    with stopped(own_stores, store):
        found = await all_at_a_time(asked)
    await recovered(client)
    wrong = [
        f"{one.name}: {one.answer.status_code} {one.answer.text[:80]}"
        for one in found
        if one.name not in WITHOUT_STORES
        and not is_as_stated(routes[one.name], one.name, one.answer.status_code, store)
    ]
    assert wrong == []
    assert too_slow(found, store) == []


@pytest.fixture
async def rp(connect: Connect) -> RelyingParty:
    """A relying party with every login method."""
    return await relying_party.make_for_every_login(connect(Authorization=SUPER_KEY))


@pytest.fixture
async def bystander(connect: Connect) -> RelyingParty:
    """A relying party whose users do nothing that could end their sessions."""
    return await relying_party.make(connect(Authorization=SUPER_KEY))


async def deep_requests(rp: RelyingParty, connect: Connect) -> dict[str, Ask]:
    """Requests that would succeed, and that reach as far as they can: each needs several answers of the stores."""
    http = connect()
    key = connect(**{"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": rp.tenant["id"]})
    tokens = [await rp.tokens(http, connect()) for _ in range(3)]
    code = await rp.code(connect())
    login = connect()
    login_page = await rp.authorize(login, prompt="login")
    session = connect()
    await rp.code(session)
    to_log_in = {"applicationId": rp.client_id, "loginId": rp.login_id}
    started = (await key.post("/api/passwordless/start", json=to_log_in)).json()
    forgot = {"loginId": rp.login_id, "sendForgotPasswordEmail": False}
    change_id = (await key.post("/api/user/forgot-password", json=forgot)).json()["changePasswordId"]
    by_api = (await rp.log_in_by_api(key)).json()
    bearer = {"Authorization": f"Bearer {tokens[0]['access_token']}"}
    user = {"email": f"{new_id()}@example.com", "password": relying_party.PASSWORD}
    user_path = f"/api/user/{rp.user['id']}"
    form = {"client_id": rp.client_id, "client_secret": rp.secret}
    return {
        "login": lambda: rp.log_in_by_api(key),
        "wrong login": lambda: rp.log_in_by_api(key, password="wrong", ipAddress="198.51.100.1"),
        "ping": lambda: key.put(f"/api/login/{rp.user['id']}/{rp.client_id}"),
        "password grant": lambda: rp.token(
            http, grant_type="password", username=rp.login_id, password=relying_party.PASSWORD
        ),
        "code": lambda: rp.exchange(http, code),
        "refresh": lambda: rp.refresh(http, tokens[0]["refresh_token"]),
        "API refresh": lambda: http.post("/api/jwt/refresh", json={"refreshToken": by_api["refreshToken"]}),
        "introspect": lambda: http.post("/oauth2/introspect", data={**form, "token": tokens[1]["access_token"]}),
        "revoke": lambda: http.post("/oauth2/revoke", data={**form, "token": tokens[2]["refresh_token"]}),
        "userinfo": lambda: http.get("/oauth2/userinfo", headers=bearer),
        "validate": lambda: http.get("/api/jwt/validate", headers=bearer),
        "login page": lambda: rp.submit(login, login_page),
        "session": lambda: rp.authorize(session),
        "logout": lambda: session.get("/oauth2/logout"),
        "API logout": lambda: http.post("/api/logout", json={"refreshToken": by_api["refreshToken"]}),
        "passwordless start": lambda: key.post("/api/passwordless/start", json=to_log_in),
        "passwordless login": lambda: http.post("/api/passwordless/login", json={"code": started["code"]}),
        "forgot password": lambda: key.post("/api/user/forgot-password", json=forgot),
        "change id": lambda: http.get(f"/api/user/change-password/{change_id}"),
        "change password": lambda: http.post(
            f"/api/user/change-password/{change_id}", json={"password": "another long password"}
        ),
        "two-factor start": lambda: key.post("/api/two-factor/start", json={"userId": rp.user["id"]}),
        "create user": lambda: key.post("/api/user", json={"user": user}),
        "read user": lambda: key.get(user_path),
        "patch user": lambda: key.patch(user_path, json={"user": {"firstName": "Ada"}}),
        "search users": lambda: key.get("/api/user/search", params={"queryString": "*"}),
        "deactivate user": lambda: key.delete(user_path),
        "unknown key": lambda: http.get("/api/webhook", headers={"Authorization": new_id()}),
    }


@pytest.mark.requirement("audit-d5")
@pytest.mark.parametrize("store", [MONGODB, REDIS])
async def test_requests_that_need_both_stores_are_answered_in_time(
    own_stores, connect, client, rp, bystander, store
) -> None:
    """Each in the form of its endpoint. What hung works afterwards, with the tokens of before."""
    asked = await deep_requests(rp, connect)
    http = connect()
    tokens = await bystander.tokens(http, http)
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    with stopped(own_stores, store):
        found = await asyncio.gather(*(timed(name, ask) for name, ask in asked.items()))
        again = await all_at_a_time(asked) if store == MONGODB else []
    await recovered(client)
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 200
    assert (await bystander.refresh(http, tokens["refresh_token"])).status_code == 200
    expected = {name: OF_DEEP_REQUESTS[store].get(name, 503) for name in asked}
    assert {one.name: one.answer.status_code for one in found} == expected
    for one in found:
        if one.answer.status_code == 302:
            assert relying_party.response(one.answer)["error"] == "server_error", one.name
        if one.answer.status_code == 503:
            assert_form(one)
    assert too_slow(list(found), store) == []
    assert [one.name for one in again if one.seconds > AT_ONCE_SECONDS] == []


def assert_form(answered: Answered) -> None:
    """Assert that a 503 has the form of its endpoint: a page, an OAuth error or the errors of the API."""
    path, answer = answered.answer.request.url.path, answered.answer
    if path == "/oauth2/logout":
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    elif path.startswith("/oauth2"):
        assert answer.json()["error"] == "server_error", answered.name
    else:
        assert answer.json()["generalErrors"][0]["code"] == "[Unavailable]", answered.name


@pytest.mark.requirement("audit-d5")
async def test_key_set_and_metadata_come_from_memory(own_stores, connect, client, service) -> None:
    """Also of a tenant whose metadata no client has requested yet, and long after the caches have expired."""
    api = connect(Authorization=SUPER_KEY)
    wanted = {"tenant": {"name": f"New {new_id()}", "issuer": f"https://{new_id()}.example.com"}}
    tenant = (await api.post("/api/tenant", json=wanted)).json()["tenant"]
    await prefetched(service, tenant["id"])
    paths = (*KEY_SET_AND_METADATA, f"/{tenant['id']}/.well-known/openid-configuration")
    before = {path: (await client.get(path)).content for path in KEY_SET_AND_METADATA}
    with stopped(own_stores, MONGODB):
        for pause in (0, 8):
            await asyncio.sleep(pause)
            found = [await timed(path, functools.partial(client.get, path)) for path in paths]
            assert [(one.name, one.answer.status_code) for one in found if one.answer.status_code != 200] == []
            assert [(one.name, one.seconds) for one in found if one.seconds > AT_ONCE_SECONDS] == []
            assert {one.name: one.answer.content for one in found[:-1]} == before
            assert found[-1].answer.json()["issuer"] == tenant["issuer"]
    await recovered(client)


async def prefetched(service: app.Service, tenant_id: str) -> None:
    """Wait until the process has prefetched the tenant."""
    while internals.store(service, "tenants").peek(tenant_id) is None:
        await asyncio.sleep(0.1)
    await asyncio.sleep(1)  # the rest of what it reads of the tenant follows at once
