"""Passkeys on the account page: one's own, added and deleted after a recent login."""

from __future__ import annotations

import html
import json
from typing import Any

import httpx
import pytest

from tests import internals, relying_party
from tests.authenticator import RS256, Passkey
from tests.conftest import checking_client
from tests.hosted.test_account import enter, place
from tests.relying_party import RelyingParty, page

Document = dict[str, Any]

ENABLED = {"enabled": True, "bootstrapWorkflow": {"enabled": True}}
LIST, ADD, DELETE = "/account/webauthn", "/account/webauthn/add", "/account/webauthn/delete"


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    party = await relying_party.make(api)
    await party.configure_tenant(webAuthnConfiguration=ENABLED)
    return party


@pytest.fixture
def passkey(service) -> Passkey:
    return Passkey(origin=service.base_url, relying_party="localhost")


async def add_page(rp: RelyingParty, browser: httpx.AsyncClient) -> httpx.Response:
    await enter(rp, browser, LIST)
    return await enter(rp, browser, ADD)


def options_of(shown: httpx.Response) -> Document:
    return dict(json.loads(html.unescape(shown.text.partition('data-options="')[2].partition('"')[0])))


async def send(browser: httpx.AsyncClient, shown: httpx.Response, **fields: str) -> httpx.Response:
    form = page(shown).forms[0]
    return await browser.post(form["action"], data={**form["fields"], **fields})


async def submit(browser: httpx.AsyncClient, shown: httpx.Response, passkey: Passkey, **fields: str) -> httpx.Response:
    created = passkey.create(options_of(shown))["credential"]
    return await send(browser, shown, credential=json.dumps(created), **fields)


async def add(rp: RelyingParty, browser: httpx.AsyncClient, passkey: Passkey, name: str = "Laptop") -> httpx.Response:
    answer = await submit(browser, await add_page(rp, browser), passkey, displayName=name)
    assert answer.status_code == 302, answer.text
    return await browser.get(answer.headers["Location"])


async def owned(key: httpx.AsyncClient, rp: RelyingParty) -> list[Document]:
    return list((await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"])


@pytest.mark.requirement("self-service-20")
async def test_a_passkey_is_added_listed_and_deleted(rp, browser, passkey, key):
    home = await enter(rp, browser)
    assert LIST in home.text
    assert "You have no passkeys." in page(await enter(rp, browser, LIST)).text
    shown = await add_page(rp, browser)
    options = options_of(shown)
    assert (options["rp"]["id"], options["user"]["name"]) == ("localhost", rp.login_id)
    assert options["authenticatorSelection"] == {
        "requireResidentKey": True,
        "residentKey": "required",
        "userVerification": "required",
    }
    assert "script-src 'self'" in shown.headers["Content-Security-Policy"]
    added = await add(rp, browser, passkey, " My <laptop> ")
    text = page(added).text
    assert "The passkey was added." in text
    assert "My <laptop>" in text
    assert "Last used on" in text
    (credential,) = await owned(key, rp)
    assert (credential["displayName"], credential["name"]) == ("My <laptop>", rp.login_id)
    confirmation = await browser.get(DELETE, params={**place(rp), "passkeyId": credential["id"]})
    assert "sign in with My <laptop>" in page(confirmation).text
    gone = await send(browser, confirmation)
    assert "The passkey was deleted." in page(await browser.get(gone.headers["Location"])).text
    assert await owned(key, rp) == []


async def test_a_blank_name_is_replaced(rp, browser, passkey, key):
    await add(rp, browser, passkey, "  ")
    assert [one["displayName"] for one in await owned(key, rp)] == ["My passkey"]


async def test_changes_require_a_recent_login(rp, browser, passkey, clock, key):
    await add(rp, browser, passkey)
    (credential,) = await owned(key, rp)
    shown = await enter(rp, browser, ADD)
    confirmation = await browser.get(DELETE, params={**place(rp), "passkeyId": credential["id"]})
    clock.advance(seconds=901)
    for path in (ADD, DELETE):
        away = await browser.get(path, params={**place(rp), "passkeyId": credential["id"]})
        assert "max_age=900" in away.headers["Location"]
    assert "max_age=900" in (await submit(browser, shown, Passkey(RS256))).headers["Location"]
    assert "max_age=900" in (await send(browser, confirmation)).headers["Location"]
    assert await owned(key, rp) == [credential]
    assert (await browser.get(LIST, params=place(rp))).status_code == 200


async def test_responses_of_others_are_refused(rp, browser, passkey, service, key, api):
    shown = await add_page(rp, browser)
    refusal = "The passkey could not be added."
    for text in ("", "[]", "{", '{"id": "x"}'):
        assert refusal in page(await send(browser, shown, credential=text)).text
    assert (await submit(browser, shown, passkey, csrf_token="x")).status_code == 403
    assert (await submit(browser, shown, passkey, session="x")).status_code == 403
    stranger = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    theirs = RelyingParty(rp.tenant, rp.application, stranger, api)
    async with checking_client(service.base_url) as other:
        foreign = options_of(await add_page(theirs, other))
    created = passkey.create(foreign)["credential"]
    assert refusal in page(await send(browser, shown, credential=json.dumps(created))).text
    elsewhere = Passkey(origin="https://evil.example.com", relying_party="localhost")
    assert refusal in page(await submit(browser, await add_page(rp, browser), elsewhere)).text
    assert await owned(key, rp) == []


async def test_a_response_adds_one_passkey(rp, browser, passkey, key):
    shown = await add_page(rp, browser)
    assert (await submit(browser, shown, passkey)).status_code == 302
    again = await submit(browser, shown, Passkey(origin=passkey.origin, relying_party="localhost"))
    assert "The passkey could not be added." in page(again).text
    assert len(await owned(key, rp)) == 1


async def test_a_passkey_of_another_user_is_not_deleted(rp, browser, passkey, service, key, api):
    stranger = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    theirs = RelyingParty(rp.tenant, rp.application, stranger, api)
    async with checking_client(service.base_url) as other:
        await add(theirs, other, passkey)
    (credential,) = await owned(key, theirs)
    await add(rp, browser, Passkey(origin=passkey.origin, relying_party="localhost"))
    (own,) = await owned(key, rp)
    confirmation = await browser.get(DELETE, params={**place(rp), "passkeyId": own["id"]})
    assert (await browser.get(DELETE, params={**place(rp), "passkeyId": credential["id"]})).status_code == 302
    assert (await send(browser, confirmation, passkeyId=credential["id"])).status_code == 302
    assert await owned(key, theirs) == [credential]


@pytest.mark.requirement("passkeys-14")
async def test_the_only_way_to_sign_in_is_kept(rp, browser, passkey, key, service):
    second = Passkey(origin=passkey.origin, relying_party="localhost")
    await add(rp, browser, passkey)
    await add(rp, browser, second, "Phone")
    users = internals.store(service, "users")
    await users.update(rp.tenant["id"], {"_id": rp.user["id"]}, {"$unset": {"private.password": ""}})
    first, last = await owned(key, rp)
    for credential in (first, last):
        confirmation = await browser.get(DELETE, params={**place(rp), "passkeyId": credential["id"]})
        answer = await send(browser, confirmation)
    assert "This is your only way to sign in." in page(answer).text
    assert await owned(key, rp) == [last]


async def test_a_tenant_without_passkeys_offers_none(rp, browser, passkey, key):
    await add(rp, browser, passkey)
    await rp.configure_tenant(webAuthnConfiguration={"enabled": False})
    assert LIST not in (await enter(rp, browser)).text
    assert ADD not in (await enter(rp, browser, LIST)).text
    assert (await browser.get(ADD, params=place(rp))).status_code == 302
