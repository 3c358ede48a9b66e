"""Fixtures of the console: browsers with and without a session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from identity import app
from tests.console import administrator
from tests.console.administrator import Browser
from tests.hosted.conftest import chromium, chromium_process

__all__ = ["chromium", "chromium_process"]

SignIn = Callable[..., Awaitable[Browser]]


@pytest.fixture
async def browser(service: app.Service) -> AsyncIterator[Browser]:
    """A browser without cookies."""
    async with httpx.AsyncClient(base_url=service.base_url, timeout=30, trust_env=False) as http:
        yield Browser(http)


@pytest.fixture
async def as_role(service: app.Service, api: httpx.AsyncClient) -> AsyncIterator[SignIn]:
    """Signs in a new user with the roles that it is called with."""
    opened: list[httpx.AsyncClient] = []

    async def sign_in(*roles: str, **options: object) -> Browser:
        user = await administrator.make(api, *roles, **options)  # type: ignore[arg-type]
        http = httpx.AsyncClient(base_url=service.base_url, timeout=30, trust_env=False)
        opened.append(http)
        browser = Browser(http)
        await browser.sign_in(user["email"])
        return browser

    yield sign_in
    for http in opened:
        await http.aclose()


@pytest.fixture
async def admin(as_role: SignIn) -> Browser:
    """The browser of an administrator who is signed in."""
    return await as_role("admin")
