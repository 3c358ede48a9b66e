"""The console in a real browser, as the administrator that the shipped kickstart file creates."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT, Build
from tests.hosted.chromium import Chromium
from tests.receiver import until


async def says(chromium: Chromium, text: str) -> None:
    async def is_said() -> bool:
        return text in await chromium.text()

    await until(is_said)


@pytest.mark.requirement("oauth-12-23")
async def test_printed_administrator_signs_in_and_out(chromium: Chromium, build: Build) -> None:
    kickstart = (ROOT / "config" / "kickstart.yaml").read_text()
    async with build(kickstart=kickstart) as service:
        printed = service.announcement
        await chromium.go(f"{service.base_url}/admin")
        await chromium.type("#loginId", printed["Administrator"])
        await chromium.type("#password", printed["Password"])
        await chromium.click("button[type=submit]")
        await says(chromium, "First Administrator (admin@example.com)")
        assert (await chromium.url()).startswith(f"{service.base_url}/admin")
        await chromium.click(".person button")
        await says(chromium, "signed out")
        await chromium.go(f"{service.base_url}/admin")
        await chromium.find("#password")
