"""The tutorials of web applications: each runs by the commands of its page, and its user signs in and out."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.relying_party import PASSWORD
from tests.tutorials.conftest import Registered, Start, needs_downloads
from tests.tutorials.walkthrough import Visitor

pytestmark = pytest.mark.timeout(900)

SHORT = {"jwtConfiguration": {"enabled": True, "timeToLiveInSeconds": 30}}
"""Access tokens that the applications refresh at the next use."""


async def sign_in(visitor: Visitor, url: str) -> str:
    """Sign in as the page describes it."""
    assert "Sign in" in await visitor.open(url)
    await visitor.follow()
    if "loginId" not in visitor.answer.text:  # NextAuth's page with its providers
        await visitor.submit()
    return await visitor.log_in()


async def is_signed_out(visitor: Visitor, url: str) -> bool:
    """Whether neither the application nor the service has a session."""
    shown = visitor.text
    await visitor.open(url)
    await visitor.follow()
    if "loginId" not in visitor.answer.text:
        await visitor.submit()
    return "Sign in" in shown and 'name="password"' in visitor.answer.text


@pytest.mark.requirement("ship-18")
@pytest.mark.parametrize(
    "name",
    [
        "flask",
        "django",
        *(pytest.param(name, marks=needs_downloads) for name in ("express", "nextjs", "spring-boot", "go")),
    ],
)
async def test_user_signs_in_and_out(name: str, start: Start, visitor: Visitor, user: dict[str, Any]) -> None:
    async with start(name) as program:
        await program.until_ready()
        assert f"Signed in as {user['email']}" in await sign_in(visitor, program.url)
        program.report_login(name)
        assert f"Signed in as {user['email']}" in await visitor.open(program.url)
        await visitor.submit()
        assert await is_signed_out(visitor, program.url)


@pytest.mark.requirement("ship-18")
@pytest.mark.parametrize("name", ["flask", pytest.param("go", marks=needs_downloads)])
async def test_api_accepts_only_access_tokens(
    name: str, start: Start, registered: Registered, http: httpx.AsyncClient, user: dict[str, Any]
) -> None:
    async with start(name) as program, httpx.AsyncClient(trust_env=False) as caller:
        await program.until_ready()
        party = await registered()
        await party.configure(enabledGrants=["password"])
        credentials = {"username": party.login_id, "password": PASSWORD}
        given = (await party.token(http, grant_type="password", scope="openid", **credentials)).json()
        url = f"{program.url}/api/orders"
        accepted = await caller.get(url, headers={"Authorization": f"Bearer {given['access_token']}"})
        assert (accepted.status_code, accepted.json()) == (200, {"orders": [], "user": user["id"]})
        assert (await caller.get(url)).status_code == 401
        for value in ("invalid", given["id_token"], given["access_token"][:-8] + "AAAAAAAA"):
            refused = await caller.get(url, headers={"Authorization": f"Bearer {value}"})
            assert refused.status_code == 401, value


@pytest.mark.requirement("ship-18")
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("django", "/profile/"),
        *(pytest.param(name, "/profile", marks=needs_downloads) for name in ("express", "spring-boot")),
    ],
)
async def test_access_token_is_refreshed(
    name: str, path: str, start: Start, registered: Registered, visitor: Visitor, user: dict[str, Any]
) -> None:
    async with start(name) as program:
        await program.until_ready()
        party = await registered()
        await party.patch(f"/api/application/{party.client_id}", {"application": SHORT})
        await sign_in(visitor, program.url)
        await visitor.open(program.url + path)
        assert visitor.answer.json()["sub"] == user["id"]
        await party.api.delete("/api/jwt/refresh", params={"userId": user["id"]})
        # Only a request that uses the refresh token notices that it was revoked.
        with pytest.raises(AssertionError):
            await visitor.open(program.url + path)


@pytest.mark.requirement("ship-18")
@needs_downloads
async def test_nextjs_api_requires_a_session(start: Start, visitor: Visitor, user: dict[str, Any]) -> None:
    async with start("nextjs") as program:
        await program.until_ready()
        async with httpx.AsyncClient(trust_env=False, timeout=120) as http:
            assert (await http.get(f"{program.url}/api/orders")).status_code == 401
        await sign_in(visitor, program.url)
        await visitor.open(f"{program.url}/api/orders")
        assert visitor.answer.json() == {"user": user["email"], "orders": []}
