"""A login at a second running instance through the hosted login page, over HTTP and in a real browser."""

from __future__ import annotations

import urllib.parse
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests import relying_party
from tests.federation.conftest import Scenario
from tests.federation.hosted import CALLBACK
from tests.hosted.test_browser import MEASURE, fill_in, wait_for_text
from tests.receiver import until
from tests.relying_party import PASSWORD, RelyingParty


@pytest.fixture
async def here(
    tenant: dict[str, Any], api: httpx.AsyncClient, tenant_api: httpx.AsyncClient, there: RelyingParty, service: Any
) -> RelyingParty:
    """Our application, whose users may log in at the other instance, which knows our callback."""
    party = await relying_party.make(api, tenant=tenant)
    base_urls = (service.base_url, service.base_url.replace("localhost", "127.0.0.1"))
    await there.configure(authorizedRedirectURLs=[f"{url}{CALLBACK}" for url in base_urls])
    oauth2 = {"issuer": there.tenant["issuer"], "client_id": there.client_id, "client_secret": there.secret}
    scenario = Scenario(tenant, party.application, tenant_api, tenant_api)
    members = {"buttonText": "Sign in with the other instance", "oauth2": {**oauth2, "scope": "openid email"}}
    await scenario.add_provider(type="OpenIDConnect", **members)
    return party


@pytest.mark.requirement("core-11-15")
async def test_redirects_of_both_instances_make_one_login(here, there, browser, browser_there, http) -> None:
    shown = await here.authorize(browser)
    form = relying_party.page(shown).forms[0]
    (provider_id,) = [part.split('"')[0] for part in shown.text.split('name="identityProviderId" value="')[1:]]
    gone = await browser.post(form["action"], data={**form["fields"], "identityProviderId": provider_id})
    assert gone.headers["Location"].startswith(f"{there.tenant['issuer']}/oauth2/authorize?")
    at_provider = await browser_there.get(gone.headers["Location"])
    came = await there.submit(browser_there, at_provider)
    assert urllib.parse.urlsplit(came.headers["Location"]).path == CALLBACK
    answer = relying_party.response(await browser.get(came.headers["Location"]))
    tokens = (await here.exchange(http, answer["code"])).json()
    assert relying_party.claims(tokens["id_token"])["sub"] == tokens["userId"]
    headers = {"X-FusionAuth-TenantId": here.tenant["id"]}
    user = (await here.api.get(f"/api/user/{tokens['userId']}", headers=headers)).json()["user"]
    assert user["email"] == there.user["email"]
    assert user["id"] != there.user["id"]


@pytest.mark.requirement("core-11-12")
async def test_login_through_a_provider_works_in_chromium(chromium, here, there, service, http, tmp_path) -> None:
    # Another name of this machine, so that the cookies of the two instances are those of two sites.
    base_url = service.base_url.replace("localhost", "127.0.0.1")
    # Chromium asks the policy of the provider's login page about every redirect that follows its form: without TLS the
    # only place that it knows is our callback.
    redirect_uri = f"{base_url}/"
    await here.configure(authorizedRedirectURLs=[redirect_uri])
    query = here.query(redirect_uri=redirect_uri, state=new_id())
    await chromium.look(320, "dark")
    await chromium.go(f"{base_url}/oauth2/authorize?{urllib.parse.urlencode(query)}")
    await wait_for_text(chromium, "Sign in with the other instance")
    assert await chromium.run("return document.documentElement.scrollWidth") <= 320
    for element, contrast in await chromium.run(MEASURE):
        assert contrast >= 4.5, element
    await chromium.screenshot(tmp_path / "dark.png")
    await chromium.look(1200, "light")
    await chromium.screenshot(tmp_path / "light.png")
    await chromium.click(".provider")

    async def is_at_provider() -> bool:
        return (await chromium.url()).startswith(f"{there.tenant['issuer']}/oauth2/authorize?")

    await until(is_at_provider)
    await fill_in(chromium, there.user["email"], PASSWORD)
    await chromium.click("button[type=submit]")

    async def is_back() -> bool:
        return (await chromium.url()).startswith(f"{redirect_uri}?code=")

    await until(is_back)
    given = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(await chromium.url()).query))
    assert given["state"] == query["state"]
    tokens = await here.exchange(http, given["code"], redirect_uri=redirect_uri)
    assert tokens.status_code == 200, tokens.text
    claims = relying_party.claims(tokens.json()["access_token"])
    assert claims["authenticationType"] == "OPENID_CONNECT"
