"""Screenshots of the console: `pytest tests/console/screenshots.py` writes them to build/screenshots/.

Light and dark, 360 and 1280 pixels wide; the folder is not part of the repository.
"""

from __future__ import annotations

import os

from tests.conftest import ROOT, Build
from tests.console import example_data
from tests.hosted.chromium import Chromium

FOLDER = ROOT / "build" / "screenshots"


async def test_take_screenshots(chromium: Chromium, build: Build) -> None:
    wanted = os.environ.get("SCREENS", "").split()
    kickstart = (ROOT / "config" / "kickstart.yaml").read_text()
    async with build(kickstart=kickstart, audit__api_writes="true") as service:
        printed = service.announcement
        screens = await example_data.create(service.base_url, printed["API key"])
        FOLDER.mkdir(parents=True, exist_ok=True)
        await chromium.go(f"{service.base_url}/admin")
        await chromium.find("#password")
        await chromium.screenshot(FOLDER / "login.png")
        await chromium.type("#loginId", printed["Administrator"])
        await chromium.type("#password", printed["Password"])
        await chromium.click("button[type=submit]")
        await chromium.find("#navigation")
        for name, path in screens.items():
            if wanted and name not in wanted:
                continue
            for width, scheme in ((1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")):
                await chromium.look(width, scheme)
                await chromium.go(service.base_url + path)
                height = await chromium.run("return document.documentElement.scrollHeight")
                assert await chromium.run("return document.documentElement.scrollWidth <= innerWidth"), (name, width)
                await chromium.emulate(
                    "Emulation.setDeviceMetricsOverride",
                    width=width, height=min(int(height), 2400), deviceScaleFactor=1, mobile=False,
                )  # fmt: skip
                await chromium.screenshot(FOLDER / f"{name}-{width}-{scheme}.png")
