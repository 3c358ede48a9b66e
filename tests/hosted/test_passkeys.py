"""Passkeys on the login page: who is offered them, and which responses log in."""

from __future__ import annotations

import json
import urllib.parse
from typing import Any

import httpx
import pytest

from identity.ids import base64url
from tests import relying_party, two_factor
from tests.authenticator import Passkey
from tests.conftest import checking_client
from tests.relying_party import RelyingParty, page, response

Document = dict[str, Any]

ON, OFF = {"enabled": True}, {"enabled": False}


def settings(bootstrap: Document = ON, reauthentication: Document = ON, **members: Any) -> Document:
    workflows = {"bootstrapWorkflow": bootstrap, "reauthenticationWorkflow": reauthentication}
    return {"webAuthnConfiguration": {"enabled": True, **workflows, **members}}


@pytest.fixture
def origin(service) -> str:
    assert "//localhost:" in service.base_url
    return str(service.base_url)


@pytest.fixture
async def rp(api: httpx.AsyncClient) -> RelyingParty:
    party = await relying_party.make(api, authenticationMethodsEnabled=True)
    await party.configure_tenant(**settings())
    return party


async def add(key: httpx.AsyncClient, user_id: str, origin: str, **members: Any) -> Passkey:
    """A passkey of a user."""
    made = Passkey(origin=origin, relying_party="localhost", user_handle=base64url(user_id.encode()))
    row = {
        "algorithm": made.algorithm,
        "authenticatorSupportsUserVerification": True,
        "credentialId": made.id,
        "displayName": "Laptop",
        "name": "laptop",
        "publicKey": made.pem(),
        "relyingPartyId": "localhost",
        "userId": user_id,
        **members,
    }
    answer = await key.post("/api/webauthn/import", json={"credentials": [row]})
    assert answer.status_code == 200, answer.text
    return made


@pytest.mark.parametrize("name", ["ES256", "SHA256withECDSA"])
async def test_algorithm_is_imported_by_the_names_of_the_official_clients(rp, key, origin, name) -> None:
    made = await add(key, rp.user["id"], origin, algorithm=name)
    stored = (await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"]
    assert [(credential["credentialId"], credential["algorithm"]) for credential in stored] == [(made.id, -7)]


@pytest.fixture
async def passkey(rp: RelyingParty, key: httpx.AsyncClient, origin: str) -> Passkey:
    return await add(key, rp.user["id"], origin)


def form_of(shown: httpx.Response) -> Document | None:
    """The form of the login page that submits passkeys."""
    return next((form for form in page(shown).forms if form["action"].endswith("/webauthn")), None)


async def request_options(browser: httpx.AsyncClient, form: Document, **changes: str) -> httpx.Response:
    fields = {name: form["fields"].get(name, "") for name in ("client_id", "tenantId", "csrf_token")}
    headers = {"Accept": "application/json"}
    return await browser.post(f"{form['action']}/start", data={**fields, **changes}, headers=headers)


async def options_of(browser: httpx.AsyncClient, form: Document, **changes: str) -> Document:
    answer = await request_options(browser, form, **changes)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["options"])


async def submit(browser: httpx.AsyncClient, form: Document, body: Document, **fields: str) -> httpx.Response:
    credential = json.dumps(body["credential"])
    return await browser.post(form["action"], data={**form["fields"], "credential": credential, **fields})


async def shown_form(rp: RelyingParty, browser: httpx.AsyncClient, **changes: str) -> Document:
    form = form_of(await rp.authorize(browser, **changes))
    assert form is not None
    return form


async def log_in(rp: RelyingParty, browser: httpx.AsyncClient, passkey: Passkey, **changes: str) -> httpx.Response:
    form = await shown_form(rp, browser, **changes)
    return await submit(browser, form, passkey.get(await options_of(browser, form)))


def is_refused(answer: httpx.Response) -> bool:
    return (
        answer.status_code == 200 and "The passkey could not be used." in answer.text and 'role="alert">' in answer.text
    )


# Offer


@pytest.mark.requirement("passkeys-12")
async def test_only_pages_that_may_use_passkeys_offer_them(rp, browser, origin):
    shown = await rp.authorize(browser)
    assert form_of(shown) is not None
    policy = shown.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "connect-src 'self'" in policy
    async with checking_client(origin.replace("localhost", "127.0.0.1")) as by_address:
        assert form_of(await rp.authorize(by_address)) is None
    await rp.configure_tenant(**settings(relyingPartyId="example.com"))
    assert form_of(await rp.authorize(browser)) is None
    await rp.configure_tenant(webAuthnConfiguration=OFF)
    shown = await rp.authorize(browser)
    assert form_of(shown) is None
    assert "connect-src" not in shown.headers["Content-Security-Policy"]
    assert "passkey" not in shown.text


async def test_script_is_served_under_a_name_of_its_content(rp, browser):
    shown = await rp.authorize(browser)
    path = shown.text.partition('src="/static/passkey')[2].partition('"')[0]
    answer = await browser.get(f"/static/passkey{path}")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert "immutable" in answer.headers["Cache-Control"]
    assert (await browser.get("/static/passkey-0000.js")).status_code == 404


# Logins


@pytest.mark.requirement("passkeys-10")
@pytest.mark.parametrize("prefix", [False, True])
async def test_a_passkey_logs_in_without_a_login_id(rp, browser, passkey, http, prefix):
    if prefix:
        shown = await browser.get(f"/{rp.tenant['id']}/oauth2/authorize", params=rp.query())
        form = form_of(shown)
    else:
        form = await shown_form(rp, browser)
    options = await options_of(browser, form)
    assert (options["rpId"], options["allowCredentials"], options["userVerification"]) == ("localhost", [], "required")
    answer = await submit(browser, form, passkey.get(options), rememberDevice="true")
    found = response(answer)
    assert found["state"] == "the-state"
    tokens = (await rp.exchange(http, found["code"])).json()
    claims = relying_party.claims(tokens["id_token"])
    assert (claims["sub"], claims["authenticationType"], claims["amr"]) == (rp.user["id"], "WebAuthn", ["hwk"])
    assert abs(claims["auth_time"] - claims["iat"]) <= 2
    sso = next(cookie for cookie in browser.cookies.jar if cookie.name == "fusionauth.sso")
    assert sso.expires is not None
    assert response(await rp.authorize(browser))["code"]


async def test_a_response_is_accepted_once_and_from_its_browser_and_application(rp, browser, passkey, origin, api):
    form = await shown_form(rp, browser)
    used = passkey.get(await options_of(browser, form))
    async with checking_client(origin) as other:
        theirs = await shown_form(rp, other)
        assert is_refused(await submit(other, theirs, used))
    form = await shown_form(rp, browser)
    assert is_refused(await submit(browser, form, used))
    second = await relying_party.make(api, tenant=rp.tenant)
    of_second = await shown_form(second, browser)
    assert is_refused(await submit(browser, form, passkey.get(await options_of(browser, of_second))))
    used = passkey.get(await options_of(browser, form))
    assert response(await submit(browser, form, used))["code"]
    assert is_refused(await submit(browser, form, used))


async def test_challenges_of_pages_do_not_serve_the_api(rp, browser, passkey, http, key):
    form = await shown_form(rp, browser)
    used = passkey.get(await options_of(browser, form))
    for path in ("login", "assert"):
        assert (await http.post(f"/api/webauthn/{path}", json=used)).status_code == 400
    body = {"applicationId": rp.client_id, "userId": rp.user["id"], "workflow": "bootstrap"}
    options = (await key.post("/api/webauthn/start", json=body)).json()["options"]
    assert is_refused(await submit(browser, form, passkey.get(options)))


async def test_forms_without_a_token_are_refused(rp, browser, passkey):
    form = await shown_form(rp, browser)
    refused = await request_options(browser, form, csrf_token="x")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    used = passkey.get(await options_of(browser, form))
    answer = await submit(browser, form, used, csrf_token="x")
    assert answer.status_code == 403
    form = form_of(answer)
    assert response(await submit(browser, form, used))["code"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 9000, '{"id": 1, "type": "public-key", "response": {}}'])
async def test_unreadable_responses_are_refused(rp, browser, text):
    form = await shown_form(rp, browser)
    assert is_refused(await browser.post(form["action"], data={**form["fields"], "credential": text}))


async def test_a_passkey_without_its_user_handle_is_refused(rp, browser, passkey):
    passkey.user_handle = None
    assert is_refused(await log_in(rp, browser, passkey))


async def test_a_counter_that_does_not_increase_is_refused(rp, browser, passkey):
    assert response(await log_in(rp, browser, passkey))["code"]
    passkey.step = 0
    assert is_refused(await log_in(rp, browser, passkey, prompt="login"))


@pytest.mark.requirement("passkeys-13")
async def test_a_second_factor_follows(rp, browser, passkey, clock, http):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}})
    halted = await log_in(rp, browser, passkey)
    assert halted.headers["Location"].startswith("/oauth2/two-factor?")
    asked = await browser.get(halted.headers["Location"])
    form = page(asked).forms[0]
    answer = await browser.post(form["action"], data={**form["fields"], "code": two_factor.code(clock.now())})
    tokens = (await rp.exchange(http, response(answer)["code"])).json()
    assert relying_party.claims(tokens["id_token"])["amr"] == ["hwk", "otp", "mfa"]


async def test_a_deactivated_user_sees_why(rp, browser, passkey, key):
    await key.delete(f"/api/user/{rp.user['id']}")
    answer = await log_in(rp, browser, passkey)
    assert "locked" in answer.text


async def test_a_request_without_pages_is_answered_by_a_redirect(rp, browser, passkey):
    form = await shown_form(rp, browser)
    used = passkey.get(await options_of(browser, form))
    answer = await submit(browser, form, used, prompt="none")
    assert response(answer)["error"] == "login_required"


async def test_the_page_in_another_language_is_the_login_page(rp, browser):
    answer = await browser.get("/oauth2/webauthn", params=rp.query(locale="de"))
    assert answer.status_code == 302
    target = urllib.parse.urlsplit(answer.headers["Location"])
    assert (target.path, dict(urllib.parse.parse_qsl(target.query))) == ("/oauth2/authorize", rp.query(locale="de"))


# Re-authentication


@pytest.mark.requirement("passkeys-11")
async def test_a_session_is_confirmed_with_a_passkey_of_its_user_alone(rp, browser, passkey, key, api, origin):
    stranger = await relying_party.make_user(api, rp.tenant["id"], rp.client_id)
    theirs = await add(key, stranger["id"], origin)
    assert response(await log_in(rp, browser, passkey))["code"]
    form = await shown_form(rp, browser, prompt="login")
    options = await options_of(browser, form)
    assert [entry["id"] for entry in options["allowCredentials"]] == [passkey.id]
    assert is_refused(await submit(browser, form, theirs.get(options)))
    assert (await options_of(browser, form, mediation="conditional"))["allowCredentials"] == []
    assert response(await submit(browser, form, passkey.get(await options_of(browser, form))))["code"]


async def test_without_bootstrap_a_browser_is_recognized_first(rp, browser, passkey, origin):
    await rp.configure_tenant(**settings(OFF))
    assert form_of(await rp.authorize(browser)) is None
    await rp.log_in(browser)  # no offer follows, because the user has a passkey
    assert response(await log_in(rp, browser, passkey, prompt="login"))["code"]
    (cookie,) = [one for one in browser.cookies.jar if one.name.startswith("fusionauth.webauthn-reauth.")]
    browser.cookies.delete("fusionauth.sso")
    assert response(await log_in(rp, browser, passkey))["code"]
    async with checking_client(origin) as other:
        user_id, _, signed = str(cookie.value).partition(".")
        known = next(one for one in browser.cookies.jar if one.name.startswith("fusionauth.known-device."))
        for value in (f"{rp.client_id}.{signed}", f"{user_id}.{known.value}", f"{user_id}.1.x", user_id, "."):
            other.cookies.clear()
            other.cookies.set(cookie.name, value)
            assert form_of(await rp.authorize(other)) is None
        other.cookies.set(cookie.name, str(cookie.value))
        assert form_of(await rp.authorize(other)) is not None


async def test_a_session_whose_user_has_no_usable_passkey_begins_anew(rp, browser, key, origin):
    await add(key, rp.user["id"], origin, authenticatorSupportsUserVerification=False)
    await rp.log_in(browser)
    form = await shown_form(rp, browser, prompt="login")
    assert (await options_of(browser, form))["allowCredentials"] == []
    await rp.configure_tenant(**settings(OFF))
    assert form_of(await rp.authorize(browser, prompt="login")) is None


async def test_an_application_without_passkeys_starts_nothing(rp, browser):
    form = await shown_form(rp, browser)
    await rp.configure_tenant(**settings(OFF, OFF))
    answer = await request_options(browser, form)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
