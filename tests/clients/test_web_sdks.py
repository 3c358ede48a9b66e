"""The official SDKs for single-page applications, unmodified, in a real browser against the hosted backend `/app/*`."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import tornado.httpserver
import tornado.netutil
import tornado.web

from identity import app
from identity.ids import new_id
from tests import npm, relying_party
from tests.hosted.chromium import Chromium
from tests.hosted.conftest import chromium, chromium_process
from tests.receiver import until
from tests.relying_party import PASSWORD, RelyingParty

__all__ = ("chromium", "chromium_process")

HERE = Path(__file__).resolve().parent / "web"
PAGE = """<!doctype html><html lang="en"><head><title>started</title></head><body><div id="root"></div>
<script>window.CONFIG = {config}</script><script type="module" src="/bundle.js"></script></body></html>"""
SDKS = {"react": "react.jsx", "angular": "angular.js"}
SETTINGS = ("--bundle", "--format=esm", "--jsx=automatic", '--define:process.env.NODE_ENV="production"')

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or shutil.which("npm") is None,
    reason="the SDKs are tested where node is installed",
)


class Page(tornado.web.RequestHandler):
    """A single-page application: one page and its script."""

    def initialize(self, content: dict[str, str]) -> None:
        self.content = content

    def get(self, name: str) -> None:
        if name == "bundle.js":
            self.set_header("Content-Type", "text/javascript")
        self.finish(self.content.get(name, ""))


class Application:
    """The running application, in a browser."""

    def __init__(self, chromium: Chromium, url: str, party: RelyingParty) -> None:
        self.chromium = chromium
        self.url = url
        self.party = party

    async def shows(self, text: str) -> None:
        async def is_there() -> bool:
            return text in await self.chromium.text()

        try:
            await until(is_there)
        except TimeoutError:
            pytest.fail(f"{await self.chromium.url()} shows {await self.chromium.text()!r} and not {text!r}")

    async def cookies(self) -> dict[str, str]:
        """What scripts of the page can read."""
        text = await self.chromium.run("return document.cookie")
        return dict(pair.split("=", 1) for pair in text.split("; ") if pair)

    async def all_cookies(self) -> dict[str, dict[str, Any]]:
        """What the browser sends to the service, as its DevTools show it."""
        found = await self.chromium.emulate("Network.getCookies", urls=[self.url])
        return {cookie["name"]: cookie for cookie in found["cookies"]}


@pytest.fixture(scope="module")
def packages() -> None:
    """The packages that package-lock.json names."""
    npm.install(HERE)


@pytest.fixture(params=SDKS)
async def application(
    request: pytest.FixtureRequest,
    packages: None,
    service: app.Service,
    api: httpx.AsyncClient,
    chromium: Chromium,
    tmp_path: Path,
) -> AsyncIterator[Application]:
    bundle = tmp_path / "bundle.js"
    command = ["node_modules/.bin/esbuild", SDKS[request.param], *SETTINGS, f"--outfile={bundle}"]
    await asyncio.to_thread(subprocess.run, command, cwd=HERE, check=True, capture_output=True)
    (socket,) = tornado.netutil.bind_sockets(0, "127.0.0.1")
    # Cookies are shared by the ports of a host, as by the hosts of a domain.
    url = f"http://{urllib.parse.urlsplit(service.base_url).hostname}:{socket.getsockname()[1]}/"
    party = await relying_party.make(
        api,
        authorizedRedirectURLs=[url],
        clientAuthenticationPolicy="NotRequiredWhenUsingPKCE",
        proofKeyForCodeExchangePolicy="Required",
    )
    config = {
        "clientId": party.client_id,
        "redirectUri": url,
        "serverUrl": service.base_url,
        "scope": "openid offline_access email profile",
    }
    content = {"": PAGE.replace("{config}", json.dumps(config)), "bundle.js": bundle.read_text()}
    server = tornado.httpserver.HTTPServer(tornado.web.Application([("/(.*)", Page, {"content": content})]))
    server.add_sockets([socket])
    yield Application(chromium, url, party)
    server.stop()
    await server.close_all_connections()


async def log_in(application: Application) -> None:
    chromium = application.chromium
    await chromium.go(application.url)
    await application.shows("signed out")
    await chromium.click("#login")
    await chromium.type("#loginId", application.party.login_id)
    await chromium.type("#password", PASSWORD)
    await chromium.click("button[type=submit]")
    await application.shows(f"signed in as {application.party.login_id}")


@pytest.mark.requirement("audit-b3")
async def test_login_userinfo_refresh_and_logout(application: Application) -> None:
    chromium = application.chromium
    await log_in(application)
    assert await chromium.url() == f"{application.url}?state=the+state".replace("+", "%20")
    assert await chromium.run("return document.title") == "returned with the state"
    assert (await application.cookies()).keys() == {"app.at_exp", "app.idt"}
    before = await application.all_cookies()
    assert all(before[name]["httpOnly"] and before[name]["sameSite"] == "Lax" for name in ("app.at", "app.rt"))
    await chromium.click("#refresh")
    await application.shows("refreshed 200")
    assert (await application.all_cookies())["app.at"]["value"] != before["app.at"]["value"]
    await chromium.click("#logout")
    await application.shows("signed out")
    assert (await application.all_cookies()).keys().isdisjoint({"app.at", "app.rt", "app.idt", "app.at_exp"})
    await chromium.click("#login")
    await chromium.find("#password")


@pytest.mark.requirement("audit-b3")
async def test_registration(application: Application) -> None:
    chromium, party = application.chromium, application.party
    members = {"registrationConfiguration": {"enabled": True, "type": "basic"}}
    await party.patch(f"/api/application/{party.client_id}", {"application": members})
    await chromium.go(application.url)
    await chromium.click("#register")
    email = f"{new_id()}@example.com"
    await chromium.type('[id="user.email"]', email)
    await chromium.type('[id="user.password"]', PASSWORD)
    await chromium.click('button[type="submit"]')
    await application.shows(f"signed in as {email}")


@pytest.mark.requirement("audit-b3")
async def test_session_of_another_application_signs_in_silently(application: Application) -> None:
    """After the cookies are gone, the session at the service logs in without a page."""
    chromium = application.chromium
    await log_in(application)
    for name in ("app.at", "app.rt", "app.idt", "app.at_exp"):
        await chromium.emulate("Network.deleteCookies", name=name, url=application.url)
    await chromium.go(application.url)
    await application.shows("signed out")
    await chromium.click("#login")
    await application.shows(f"signed in as {application.party.login_id}")
