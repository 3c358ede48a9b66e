"""The device pages in a real browser: by keyboard, narrow and wide, light and dark."""

from __future__ import annotations

import itertools

import httpx
import pytest

from identity.ids import new_id
from tests.hosted.test_browser import MEASURE, fill_in, wait_for_text
from tests.oauth2.devices import Device, device_client

ENTER = "\ue007"


@pytest.fixture
async def device(api: httpx.AsyncClient, http: httpx.AsyncClient, service) -> Device:
    """A device that waits, of an application that uses our own page."""
    rp = await device_client(api)
    await rp.configure(deviceVerificationURL=f"{service.base_url}/oauth2/device?client_id={rp.client_id}")
    shown = {"metaData.device.name": "Kitchen TV", "metaData.device.description": f"serial number {new_id()}"}
    return await Device.begin(rp, http, scope="openid email offline_access", **shown)


@pytest.mark.requirement("contract-device-6")
async def test_device_is_connected_on_pages_that_fit_and_can_be_read(chromium, device):
    await chromium.go(device.given["verification_uri"])
    await measured(chromium, least=4)
    await chromium.press("XXXXXX" + ENTER)
    await wait_for_text(chromium, "incorrect")
    state = await chromium.run(
        "const f = document.activeElement, e = document.getElementById('code-error');"
        "return [f.id, f.getAttribute('aria-describedby'), f.getAttribute('aria-invalid'), e.getAttribute('role')]"
    )
    assert state == ["interactive_user_code", "code-error", "true", "alert"]
    await measured(chromium, least=5)
    await chromium.go(device.given["verification_uri_complete"])
    await chromium.click("button[type=submit]")
    await wait_for_text(chromium, "Sign in")
    await fill_in(chromium, device.rp.login_id)
    await chromium.click("button[type=submit]")
    await wait_for_text(chromium, "Connect this device?")
    await measured(chromium, least=8)
    heights = await chromium.run("return [...document.querySelectorAll('button')].map((e) => e.offsetHeight)")
    assert len(heights) == 2
    assert min(heights) >= 44
    await chromium.click("button[value=allow]")
    await wait_for_text(chromium, "Your device is connected")
    await measured(chromium, least=2)
    assert (await device.tokens())["userId"] == device.rp.user["id"]


async def measured(chromium, *, least: int) -> None:
    """The page that is open fits, and can be read, narrow and wide, in light and in darkness."""
    for width, scheme in itertools.product((320, 1200), ("light", "dark")):
        await chromium.look(width, scheme)
        assert await chromium.run("return document.documentElement.scrollWidth") <= width
        found = await chromium.run(MEASURE)
        assert len(found) >= least
        for element, contrast in found:
            assert contrast >= 4.5, (element, width, scheme)


async def test_device_pages_need_no_script(chromium, device):
    await chromium.emulate("Emulation.setScriptExecutionDisabled", value=True)
    try:
        await chromium.go(device.given["verification_uri_complete"])
        await chromium.click("button[type=submit]")
        await fill_in(chromium, device.rp.login_id)
        await chromium.click("button[type=submit]")
        await chromium.click("button[value=cancel]")
        await wait_for_text(chromium, "not connected")
    finally:
        await chromium.emulate("Emulation.setScriptExecutionDisabled", value=False)
    assert (await device.poll()).json()["error"] == "access_denied"
