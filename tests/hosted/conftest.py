"""Fixtures of the page tests: a relying party, a cookie jar, a real browser, the example application."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from types import ModuleType

import httpx
import pytest
import tornado.netutil

from identity import app
from identity.ids import new_id
from tests import relying_party
from tests.conftest import DEFAULT_TENANT, ROOT
from tests.hosted.chromium import Chromium, browsing


@pytest.fixture(scope="session")
async def chromium_process() -> AsyncIterator[Chromium]:
    """One Chromium for all tests; take `chromium` instead, which is without cookies."""
    async with browsing() as running:
        yield running


@pytest.fixture
async def chromium(chromium_process: Chromium) -> Chromium:
    """A real browser without cookies, 1200 pixels wide, in a light room."""
    await chromium_process.remove_scripts()
    await chromium_process.go("about:blank")
    await chromium_process.forget()
    await chromium_process.look(1200, "light")
    return chromium_process


@pytest.fixture(scope="session")
def example() -> ModuleType:
    """The module of the example application."""
    spec = importlib.util.spec_from_file_location("example_login", ROOT / "examples" / "login" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def example_url(service: app.Service, api: httpx.AsyncClient, example: ModuleType) -> AsyncIterator[str]:
    """The running example application, a client of the default tenant, whose issuer is the base URL."""
    (socket,) = tornado.netutil.bind_sockets(0, "127.0.0.1")
    base_url = f"http://localhost:{socket.getsockname()[1]}"
    tenant = {"id": DEFAULT_TENANT, "issuer": service.base_url}
    # A second published key, of another kind: the application has to find the right one.
    key = {"algorithm": "ES256", "name": f"key {new_id()}"}
    assert (await api.post("/api/key/generate", json={"key": key})).status_code == 200
    urls = [f"{base_url}/callback", f"{base_url}/"]
    settings = {"authorizedRedirectURLs": urls, "proofKeyForCodeExchangePolicy": "Required"}
    client = await relying_party.make(api, tenant=tenant, **settings)
    provider = example.Provider(service.base_url, client.client_id, client.secret, base_url)
    server = tornado.httpserver.HTTPServer(example.application(provider))
    server.add_sockets([socket])
    yield base_url
    server.stop()
    await server.close_all_connections()


@pytest.fixture
async def user(api: httpx.AsyncClient) -> dict:
    """A user of the default tenant."""
    return await relying_party.make_user(api, DEFAULT_TENANT, firstName="Ada", lastName="Lovelace")
