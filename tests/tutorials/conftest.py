"""Fixtures of the tutorials: a tenant that clients find by discovery, a user of it, and a browser without scripts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from identity import app
from tests import relying_party
from tests.conftest import SUPER_KEY, checking_client
from tests.relying_party import CHEAP, RelyingParty
from tests.tutorials.walkthrough import Instance, Program, Tutorial, Visitor, running

DOWNLOADS = "TUTORIALS" in os.environ
"""Whether the tutorials run with everything that they install: `make tutorials`."""

needs_downloads = pytest.mark.skipif(not DOWNLOADS, reason="downloads packages: `make tutorials` runs it")

Registered = Callable[[], Awaitable[RelyingParty]]
Start = Callable[[str], AbstractAsyncContextManager[Program]]


@pytest.fixture
async def tutorial_tenant(api: httpx.AsyncClient, service: app.Service) -> dict[str, Any]:
    made = await relying_party.make_tenant(api, passwordEncryptionConfiguration=CHEAP)
    made["issuer"] = f"{service.base_url}/{made['id']}"
    answer = await api.patch(f"/api/tenant/{made['id']}", json={"tenant": {"issuer": made["issuer"]}})
    assert answer.status_code == 200, answer.text
    return made


@pytest.fixture
async def user(api: httpx.AsyncClient, tutorial_tenant: dict[str, Any]) -> dict[str, Any]:
    """A user of the tenant, without a registration."""
    return await relying_party.make_user(api, tutorial_tenant["id"])


@pytest.fixture
def start(service: app.Service, tutorial_tenant: dict[str, Any], tmp_path: Path) -> Start:
    """Runs the commands of a tutorial, up to and including its program."""
    instance = Instance(service.base_url, tutorial_tenant, tmp_path)
    return lambda name: running(Tutorial(name), instance, downloads=DOWNLOADS)


@pytest.fixture
async def visitor(user: dict[str, Any]) -> AsyncIterator[Visitor]:
    async with httpx.AsyncClient(trust_env=False, follow_redirects=True, timeout=120) as http:
        yield Visitor(http, user["email"])


@pytest.fixture
async def registered(
    service: app.Service, tutorial_tenant: dict[str, Any], user: dict[str, Any]
) -> AsyncIterator[Registered]:
    """Returns the application that the commands of a page created, as the relying party that it is."""
    headers = {"Authorization": SUPER_KEY, "X-FusionAuth-TenantId": tutorial_tenant["id"]}
    async with checking_client(service.base_url, headers=headers) as key:

        async def find() -> RelyingParty:
            (application,) = (await key.get("/api/application")).json()["applications"]
            return RelyingParty(tutorial_tenant, application, user, key)

        yield find
