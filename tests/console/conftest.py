"""Fixtures of the console: browsers with and without a session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from identity import app
from identity.domain.configuration import administrator_roles
from tests import plain_http
from tests.conftest import SUPER_KEY, Build, ShiftedClock, shared
from tests.console import administrator
from tests.console.administrator import Browser
from tests.hosted.conftest import chromium, chromium_process

__all__ = ["chromium", "chromium_process"]

SignIn = Callable[..., Awaitable[Browser]]


@pytest.fixture(scope="session")
async def service(build: Build, session_clock: ShiftedClock) -> AsyncIterator[app.Service]:
    """A service of the console's tests: its pages list and count objects, and other tests create tens of thousands."""
    async with build(clock=session_clock) as running:
        with shared(running):
            yield running


@pytest.fixture
async def browser(service: app.Service) -> AsyncIterator[Browser]:
    """A browser without cookies."""
    async with plain_http.client(service.base_url, timeout=30) as http:
        yield Browser(http)


@pytest.fixture
async def as_role(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[SignIn]:
    """Signs in a new user with the roles that it is called with."""
    opened: list[httpx.AsyncClient] = []

    async def sign_in(*roles: str, **options: object) -> Browser:
        user = await administrator.make(api, *roles, **options)  # type: ignore[arg-type]
        http = plain_http.client(service.base_url, timeout=30)
        opened.append(http)
        browser = Browser(http)
        await browser.sign_in(user["email"], administrator.QUIET)
        return browser

    yield sign_in
    for http in opened:
        await http.aclose()


@pytest.fixture
async def admin(as_role: SignIn) -> Browser:
    """The browser of a new administrator who is signed in."""
    return await as_role("admin")


@pytest.fixture(scope="session")
async def roles(service: app.Service) -> AsyncIterator[dict[str, Browser]]:
    """A signed-in browser for each role; its session must not be ended."""
    async with plain_http.client(service.base_url, headers={"Authorization": SUPER_KEY}, timeout=30) as api:
        found = {}
        for role in administrator_roles.DESCRIPTIONS:
            user = await administrator.make(api, role)
            http = plain_http.client(service.base_url, timeout=30)
            found[role] = Browser(http)
            await found[role].sign_in(user["email"], administrator.QUIET)
        yield found
        for browser in found.values():
            await browser.http.aclose()


@pytest.fixture
async def every_tenant(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """The API with a key for all tenants, and without a tenant header."""
    headers = {"Authorization": SUPER_KEY}
    async with plain_http.client(service.base_url, headers=headers, timeout=30) as client:
        yield client
