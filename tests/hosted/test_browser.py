"""The pages in a real browser: a whole login against the example application, by mouse and by keyboard."""

from __future__ import annotations

import pytest

from tests.hosted.chromium import Chromium
from tests.receiver import until
from tests.relying_party import PASSWORD

TAB, ENTER = "\ue004", "\ue007"


async def wait_for_text(chromium: Chromium, text: str) -> None:
    """Wait until the page says something."""

    async def is_shown() -> bool:
        return text in await chromium.text()

    await until(is_shown)


async def fill_in(chromium: Chromium, login_id: str, password: str = PASSWORD) -> None:
    await chromium.type("#loginId", login_id)
    await chromium.type("#password", password)


@pytest.mark.requirement("certification-authorize-11", "demo-1")
async def test_login_at_the_example_application_completes_and_ends(chromium, example_url, user, service):
    await chromium.go(example_url)
    await chromium.click("#login")
    await wait_for_text(chromium, "Sign in")
    assert (await chromium.url()).startswith(f"{service.base_url}/oauth2/authorize")
    await fill_in(chromium, user["email"])
    await chromium.click("button[type=submit]")
    await wait_for_text(chromium, "Signed in")
    assert await chromium.url() == f"{example_url}/"
    found = await chromium.text()
    assert user["id"] in found
    assert "Ada Lovelace" in found
    await chromium.click("#logout")
    await wait_for_text(chromium, "Example application")
    await chromium.click("#login")
    await wait_for_text(chromium, "Sign in")
    await chromium.find("#password")


async def test_session_makes_the_second_login_silent(chromium, example_url, user):
    await chromium.go(f"{example_url}/login")
    await fill_in(chromium, user["email"])
    await chromium.click("button[type=submit]")
    await wait_for_text(chromium, "Signed in")
    await chromium.go(f"{example_url}/login")
    await wait_for_text(chromium, "Signed in")


@pytest.mark.requirement("service-26")
async def test_login_needs_no_mouse_and_says_what_was_wrong(chromium, example_url, user):
    await chromium.go(f"{example_url}/login")
    await chromium.find("#loginId")
    await chromium.press(user["email"] + TAB + "wrong" + ENTER)
    await wait_for_text(chromium, "Incorrect email, username or password")
    state = await chromium.run(
        "const f = document.activeElement, e = document.getElementById('login-error');"
        "return [f.id, f.getAttribute('aria-describedby'), f.getAttribute('aria-invalid'), e.getAttribute('role')]"
    )
    assert state == ["password", "login-error", "true", "alert"]
    await chromium.press(PASSWORD + ENTER)
    await wait_for_text(chromium, "Signed in")


@pytest.mark.requirement("service-27")
async def test_login_needs_no_script(chromium, example_url, user):
    await chromium.emulate("Emulation.setScriptExecutionDisabled", value=True)
    try:
        await chromium.go(f"{example_url}/login")
        await fill_in(chromium, user["email"])
        await chromium.click("button[type=submit]")
        await chromium.find("#logout")
    finally:
        await chromium.emulate("Emulation.setScriptExecutionDisabled", value=False)


MEASURE = """
const luminance = (color) => {
  const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((v) => {
    const c = v / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor;
    if (!color.startsWith("rgba(0, 0, 0, 0") && color !== "transparent") return color;
  }
  return "rgb(255, 255, 255)";
};
return [...document.querySelectorAll("h1, p, label, input, button, strong, a")]
  .filter((e) => e.type !== "hidden" && e.offsetParent)
  .map((e) => {
    const [one, two] = [luminance(getComputedStyle(e).color), luminance(ground(e))].sort((x, y) => y - x);
    return [e.tagName + "#" + e.id, (one + 0.05) / (two + 0.05)];
  });
"""


@pytest.mark.requirement("service-25")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1200])
async def test_login_page_fits_and_can_be_read(chromium, example_url, user, scheme, width):
    await chromium.look(width, scheme)
    await chromium.go(f"{example_url}/login")
    await fill_in(chromium, user["email"], "wrong")
    await chromium.click("button[type=submit]")
    await wait_for_text(chromium, "Incorrect email, username or password")
    assert await chromium.run("return document.documentElement.scrollWidth") <= width
    measured = await chromium.run(MEASURE)
    assert len(measured) >= 8
    for element, contrast in measured:
        assert contrast >= 4.5, element
    heights = await chromium.run(
        "return [...document.querySelectorAll('#loginId, #password, button')].map((e) => e.offsetHeight)"
    )
    assert min(heights) >= 44
    labels = await chromium.run(
        "return [...document.querySelectorAll('input:not([type=hidden])')].map((e) => e.labels.length)"
    )
    assert labels == [1, 1, 1]


@pytest.mark.requirement("service-27")
async def test_no_page_breaks_its_own_policy_or_loads_from_elsewhere(chromium, example_url, service):
    await chromium.go(f"{example_url}/login")
    await chromium.find("#loginId")
    loaded = await chromium.run("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert loaded
    assert all(name.startswith(service.base_url) for name in loaded)
    assert await chromium.run("return getComputedStyle(document.querySelector('button')).borderRadius") == "8px"
