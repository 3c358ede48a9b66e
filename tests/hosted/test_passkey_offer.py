"""The offer to add a passkey after a login with a password: once, to who has none, and the login goes on either way."""

from __future__ import annotations

import asyncio
import html
import json
import urllib.parse
from typing import Any

import httpx
import pytest

from tests import relying_party
from tests.authenticator import Passkey
from tests.conftest import checking_client
from tests.hosted.test_account import enter
from tests.relying_party import RelyingParty, page, response

Document = dict[str, Any]

ON = {"enabled": True}
PATH = "/oauth2/webauthn-reauth-enable"


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    party = await relying_party.make(api)
    await party.configure_tenant(webAuthnConfiguration={"enabled": True, "reauthenticationWorkflow": ON})
    return party


@pytest.fixture
def passkey(service) -> Passkey:
    return Passkey(origin=service.base_url, relying_party="localhost")


async def offered(rp: RelyingParty, browser: httpx.AsyncClient, **changes: str) -> httpx.Response:
    """The page after a login with the password."""
    halted = await rp.submit(browser, await rp.authorize(browser, **changes))
    assert urllib.parse.urlsplit(halted.headers["Location"]).path == PATH
    shown = await browser.get(halted.headers["Location"])
    assert shown.status_code == 200, shown.text
    return shown


def created(shown: httpx.Response, passkey: Passkey) -> str:
    options = json.loads(html.unescape(shown.text.partition('data-options="')[2].partition('"')[0]))
    return json.dumps(passkey.create(options)["credential"])


async def send(browser: httpx.AsyncClient, shown: httpx.Response, **fields: str) -> httpx.Response:
    form = page(shown).forms[0]
    return await browser.post(form["action"], data={**form["fields"], **fields})


async def owned(key: httpx.AsyncClient, rp: RelyingParty) -> list[Document]:
    return list((await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"])


@pytest.mark.requirement("passkeys-15")
async def test_a_passkey_is_added_and_the_login_goes_on(rp, browser, passkey, key, http):
    shown = await offered(rp, browser)
    assert "Sign in faster" in page(shown).text
    answer = await send(browser, shown, credential=created(shown, passkey))
    tokens = (await rp.exchange(http, response(answer)["code"])).json()
    assert relying_party.claims(tokens["id_token"])["authenticationType"] == "PASSWORD"
    (credential,) = await owned(key, rp)
    assert (credential["displayName"], credential["credentialId"]) == ("My passkey", passkey.id)
    (cookie,) = [one for one in browser.cookies.jar if one.name.startswith("fusionauth.webauthn-reauth.")]
    assert str(cookie.value).startswith(rp.user["id"])
    assert response(await rp.submit(browser, await rp.authorize(browser, prompt="login")))["code"]


@pytest.mark.requirement("passkeys-15")
async def test_the_offer_is_declined_once(rp, browser, key):
    shown = await offered(rp, browser)
    assert response(await send(browser, shown, action="skip"))["code"]
    assert response(await rp.submit(browser, await rp.authorize(browser, prompt="login")))["code"]
    assert await owned(key, rp) == []


async def test_a_rejected_passkey_can_be_created_again(rp, browser, passkey, key):
    shown = await offered(rp, browser)
    elsewhere = Passkey(origin="https://evil.example.com", relying_party="localhost")
    for text in ("", "[]", created(shown, elsewhere)):
        shown = await send(browser, shown, credential=text)
        assert "The passkey could not be added." in page(shown).text
    refused = await send(browser, shown, credential=created(shown, passkey), csrf_token="x")
    assert refused.status_code == 403
    assert await owned(key, rp) == []
    assert response(await send(browser, refused, credential=created(refused, passkey)))["code"]


async def test_of_16_concurrent_forms_one_continues(rp, browser):
    shown = await offered(rp, browser)
    answers = await asyncio.gather(*(send(browser, shown, action="skip") for _ in range(16)))
    assert sorted(answer.status_code for answer in answers) == [302] + [400] * 15


async def test_the_page_belongs_to_its_browser(rp, browser, service):
    shown = await offered(rp, browser)
    async with checking_client(service.base_url) as other:
        assert (await other.get(str(shown.request.url))).status_code == 400
        assert (await send(other, shown, action="skip")).status_code == 400


async def test_consent_follows_the_offer(rp, browser):
    await rp.configure(relationship="ThirdParty", consentMode="AlwaysPrompt")
    shown = await offered(rp, browser, scope="openid email")
    answer = await send(browser, shown, action="skip")
    assert urllib.parse.urlsplit(answer.headers["Location"]).path == "/oauth2/consent"
    assert (await browser.get(answer.headers["Location"])).status_code == 200


async def test_the_login_goes_on_where_passkeys_were_disabled_meanwhile(rp, browser):
    shown = await offered(rp, browser)
    await rp.configure_tenant(webAuthnConfiguration={"enabled": False})
    answer = await browser.get(str(shown.request.url))
    assert response(answer)["code"]


@pytest.mark.requirement("passkeys-15")
async def test_logins_of_which_no_offer_follows(rp, browser, passkey, service):
    assert "Your account" in page(await enter(rp, browser)).text
    assert response(await rp.authorize(browser))["code"]
    async with checking_client(service.base_url.replace("localhost", "127.0.0.1")) as by_address:
        assert response(await rp.submit(by_address, await rp.authorize(by_address)))["code"]
    await rp.configure_tenant(webAuthnConfiguration={"reauthenticationWorkflow": {"enabled": False}})
    async with checking_client(service.base_url) as other:
        assert response(await rp.submit(other, await rp.authorize(other)))["code"]
