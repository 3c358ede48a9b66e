"""The console in a real browser, as the administrator that the shipped kickstart file creates.

With SCREENSHOTS, a folder, the screens are written there, light and dark, 360 and 1280 pixels wide.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest

from identity import app
from identity.ids import new_id
from tests import plain_http
from tests.conftest import ROOT, Build
from tests.console import example_data
from tests.hosted.chromium import Chromium
from tests.hosted.test_accessibility import Examiner, axe
from tests.receiver import receiving, until

__all__ = ["axe"]


@pytest.fixture(scope="module")
async def shipped(build: Build) -> AsyncIterator[app.Service]:
    """A service with the shipped kickstart file."""
    async with build(kickstart=(ROOT / "config" / "kickstart.yaml").read_text()) as service:
        yield service


@pytest.fixture
async def signed_in(chromium: Chromium, shipped: app.Service) -> Chromium:
    """A browser in which the printed administrator is signed in."""
    await chromium.go(f"{shipped.base_url}/admin")
    await chromium.type("#loginId", shipped.announcement["Administrator"])
    await chromium.type("#password", shipped.announcement["Password"])
    await chromium.click("button[type=submit]")
    await chromium.find("#navigation")
    return chromium


async def wait_for_text(chromium: Chromium, text: str) -> None:
    async def is_shown() -> bool:
        return text in await chromium.text()

    await until(is_shown)


async def submit(chromium: Chromium, selector: str = "main button[type=submit]") -> None:
    """Press a button, and wait for the next page."""
    await chromium.run("window.isEarlier = true")
    await chromium.click(selector)

    async def is_next() -> bool:
        return bool(await chromium.run("return !window.isEarlier && document.readyState === 'complete'"))

    await until(is_next)


async def check(chromium: Chromium, selector: str) -> None:
    """Select a check box."""
    await chromium.run("document.querySelector(arguments[0]).click()", selector)


@pytest.mark.requirement("oauth-12-23")
@pytest.mark.requirement("console-1")
async def test_printed_administrator_signs_in_and_out(signed_in: Chromium, shipped: app.Service) -> None:
    await wait_for_text(signed_in, "First Administrator (admin@example.com)")
    await signed_in.click(".person button")
    await wait_for_text(signed_in, "signed out")
    await signed_in.go(f"{shipped.base_url}/admin")
    await signed_in.find("#password")


@pytest.mark.requirement("oauth-12-23")
async def test_application_is_created_and_tried(signed_in: Chromium, shipped: app.Service) -> None:
    await signed_in.go(f"{shipped.base_url}/admin/applications/new")
    await submit(signed_in, "a[href$='kind=server']")
    await signed_in.type("[name='application.name']", f"Shop {new_id()}")
    await signed_in.type(
        "[name='application.oauthConfiguration.authorizedRedirectURLs']", "https://shop.example.com/callback"
    )
    await submit(signed_in)
    await wait_for_text(signed_in, "Created.")
    await submit(signed_in, ".tabs a[href$='/try']")
    await submit(signed_in, "main form button")
    await wait_for_text(signed_in, "4. Token response")
    assert '"preferred_username"' in await signed_in.text() or '"email"' in await signed_in.text()


@pytest.mark.requirement("oauth-12-23")
async def test_webhook_is_created_and_its_delivery_seen(signed_in: Chromium, shipped: app.Service) -> None:
    async with receiving() as receiver:
        await signed_in.go(f"{shipped.base_url}/admin/webhooks/new")
        name = f"Customers {new_id()}"
        for field, text in (("url", receiver.url), ("description", name), ("connectTimeout", "1000")):
            await signed_in.type(f"[name='webhook.{field}']", text)
        await signed_in.type("[name='webhook.readTimeout']", "2000")
        await check(signed_in, "[name='webhook.global']")
        await check(signed_in, "[value='user.create']")
        await submit(signed_in)
        await wait_for_text(signed_in, "Created.")
        await signed_in.go(f"{shipped.base_url}/admin/users/new")
        await signed_in.type("[name='user.email']", f"{new_id()}@example.com")
        await signed_in.type("[name='user.password']", "a long password")
        await submit(signed_in)
        await wait_for_text(signed_in, "Created.")

        async def is_delivered() -> bool:
            await signed_in.go(f"{shipped.base_url}/admin/webhook-log?eventType=user.create")
            return "Succeeded" in await signed_in.text()

        await until(is_delivered)
        await submit(signed_in, "tbody th a")
        await wait_for_text(signed_in, "user.create")


async def test_script_asks_before_changes_are_lost_and_confirms_deletions(
    signed_in: Chromium, shipped: app.Service
) -> None:
    async with plain_http.client(shipped.base_url) as api:
        headers = {"Authorization": shipped.announcement["API key"]}
        body = {"group": {"name": f"Group {new_id()}"}}
        group = (await api.post("/api/group", json=body, headers=headers)).json()["group"]
    await signed_in.go(f"{shipped.base_url}/admin/groups/{group['id']}/delete")
    assert await signed_in.run("return document.querySelector('main button').disabled") is True
    await signed_in.type("#name", group["name"])
    assert await signed_in.run("return document.querySelector('main button').disabled") is False
    await submit(signed_in)
    await wait_for_text(signed_in, "Deleted.")


@pytest.fixture(scope="module")
async def screens(shipped: app.Service) -> list[tuple[str, str]]:
    """The screens to look at, with their paths."""
    return list((await example_data.create(shipped.base_url, shipped.announcement["API key"])).items())


@pytest.mark.skipif(shutil.which("npm") is None, reason="the pages are examined where npm is installed")
@pytest.mark.requirement("console-15")
@pytest.mark.parametrize("part", range(3))
async def test_screens_are_accessible_and_fit_narrow_windows(
    signed_in: Chromium, shipped: app.Service, axe: str, screens: list[tuple[str, str]], part: int
) -> None:
    examiner = Examiner(signed_in, shipped.base_url, axe)
    for name, path in screens[part::3]:
        await signed_in.go(shipped.base_url + path)
        await examiner.examine(name)
    assert examiner.problems == []
