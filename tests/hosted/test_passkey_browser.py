"""Passkeys in a real browser with a virtual authenticator (WebDriver extension of WebAuthn section 11)."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests import relying_party
from tests.authenticator import Passkey
from tests.hosted.chromium import Chromium
from tests.hosted.test_browser import ENTER, MEASURE, fill_in, wait_for_text
from tests.receiver import until
from tests.relying_party import PASSWORD, RelyingParty

ON = {"enabled": True}
ENABLED = {"enabled": True, "bootstrapWorkflow": ON, "reauthenticationWorkflow": ON}


class Authenticator:
    """A virtual authenticator of the browser: a platform authenticator that verifies its user."""

    def __init__(self, chromium: Chromium, authenticator_id: str) -> None:
        self._chromium, self._id = chromium, authenticator_id

    async def add(self, passkey: Passkey) -> None:
        """Put a passkey into the authenticator."""
        assert passkey.user_handle is not None
        credential = {
            "credentialId": base64.b64encode(passkey.credential_id).decode(),
            "isResidentCredential": True,
            "rpId": passkey.relying_party,
            "privateKey": base64.b64encode(passkey.pkcs8()).decode(),
            "userHandle": base64.b64encode(base64.urlsafe_b64decode(passkey.user_handle + "==")).decode(),
            "signCount": 0,
        }
        await self._chromium.emulate("WebAuthn.addCredential", authenticatorId=self._id, credential=credential)

    async def credentials(self) -> list[dict[str, Any]]:
        found = await self._chromium.emulate("WebAuthn.getCredentials", authenticatorId=self._id)
        return list(found["credentials"])

    async def respond(self, is_present: bool) -> None:
        """Let the user respond to requests, or ignore them."""
        await self._chromium.emulate(
            "WebAuthn.setAutomaticPresenceSimulation", authenticatorId=self._id, enabled=is_present
        )


@pytest.fixture
async def authenticator(chromium: Chromium) -> AsyncIterator[Authenticator]:
    await chromium.emulate("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": False,
    }
    made = await chromium.emulate("WebAuthn.addVirtualAuthenticator", options=options)
    yield Authenticator(chromium, made["authenticatorId"])
    await chromium.go("about:blank")
    await chromium.emulate("WebAuthn.removeVirtualAuthenticator", authenticatorId=made["authenticatorId"])
    await chromium.emulate("WebAuthn.disable")


@pytest.fixture
async def without_suggestions(chromium: Chromium) -> AsyncIterator[None]:
    """A browser that suggests no passkeys, so that only the button uses one."""
    source = "PublicKeyCredential.isConditionalMediationAvailable = async () => false"
    made = await chromium.emulate("Page.addScriptToEvaluateOnNewDocument", source=source)
    yield
    await chromium.emulate("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


@pytest.fixture
async def rp(api: httpx.AsyncClient, base_url: str) -> RelyingParty:
    party = await relying_party.make(api, authenticationMethodsEnabled=True)
    await party.configure(authorizedRedirectURLs=[f"{base_url}/callback"])
    await party.configure_tenant(webAuthnConfiguration=ENABLED)
    return party


@pytest.fixture
def base_url(service) -> str:
    """The service under a name that is a domain: browsers refuse relying parties that are addresses."""
    assert "//localhost:" in service.base_url
    return str(service.base_url)


@pytest.fixture
async def passkey(rp: RelyingParty, key: httpx.AsyncClient, authenticator: Authenticator) -> Passkey:
    """A passkey of the user in the authenticator."""
    made = Passkey(relying_party="localhost")
    made.user_handle = base64.urlsafe_b64encode(rp.user["id"].encode()).decode().rstrip("=")
    row = {
        "algorithm": made.algorithm,
        "authenticatorSupportsUserVerification": True,
        "credentialId": made.id,
        "displayName": "Laptop",
        "name": rp.login_id,
        "publicKey": made.pem(),
        "relyingPartyId": "localhost",
        "userId": rp.user["id"],
    }
    answer = await key.post("/api/webauthn/import", json={"credentials": [row]})
    assert answer.status_code == 200, answer.text
    await authenticator.add(made)
    return made


def login_url(base_url: str, rp: RelyingParty, **changes: str) -> str:
    query = rp.query(redirect_uri=f"{base_url}/callback", **changes)
    return f"{base_url}/oauth2/authorize?{urllib.parse.urlencode(query)}"


async def code(chromium: Chromium) -> str:
    """The code of the authorization response, once the browser arrives at the redirect URI."""
    found: list[str] = []

    async def has_arrived() -> bool:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(await chromium.url()).query)
        found.extend(query.get("code", []))
        return bool(found)

    await until(has_arrived)
    return found[0]


def claims(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(relying_party.claims(answer.json()["id_token"]))


async def exchange(http: httpx.AsyncClient, rp: RelyingParty, base_url: str, value: str) -> dict[str, Any]:
    """The claims of the ID token for a code."""
    return claims(await rp.exchange(http, value, redirect_uri=f"{base_url}/callback"))


@pytest.mark.usefixtures("without_suggestions")
@pytest.mark.requirement("passkeys-10")
async def test_button_logs_in_without_a_login_id(chromium, authenticator, passkey, rp, base_url, http):
    await chromium.go(login_url(base_url, rp))
    await chromium.find("#passkey:not([hidden])")
    assert await chromium.run("return document.getElementById('loginId').autocomplete") == "username webauthn"
    await authenticator.respond(True)
    await chromium.click("#passkey button")
    found = await exchange(http, rp, base_url, await code(chromium))
    assert (found["sub"], found["authenticationType"], found["amr"]) == (rp.user["id"], "WebAuthn", ["hwk"])


@pytest.mark.requirement("passkeys-10")
async def test_suggestion_logs_in_without_a_click(chromium, authenticator, passkey, rp, base_url, http):
    await authenticator.respond(True)
    await chromium.go(login_url(base_url, rp))
    found = await exchange(http, rp, base_url, await code(chromium))
    assert (found["sub"], found["authenticationType"]) == (rp.user["id"], "WebAuthn")


@pytest.mark.usefixtures("without_suggestions")
@pytest.mark.requirement("passkeys-11")
async def test_a_session_is_renewed_with_a_passkey_of_its_user(chromium, authenticator, passkey, rp, base_url, http):
    await authenticator.respond(True)
    await chromium.go(login_url(base_url, rp))
    await chromium.click("#passkey:not([hidden]) button")
    before = await exchange(http, rp, base_url, await code(chromium))
    await chromium.go(login_url(base_url, rp, prompt="login", state="again"))
    await chromium.click("#passkey:not([hidden]) button")
    after = await exchange(http, rp, base_url, await code(chromium))
    assert after["auth_time"] >= before["auth_time"]
    assert after["sid"] == before["sid"]


@pytest.mark.usefixtures("without_suggestions")
async def test_a_refused_passkey_leaves_the_password(chromium, authenticator, passkey, rp, base_url, key):
    assert (await key.delete("/api/webauthn", params={"userId": rp.user["id"]})).status_code == 200
    await chromium.go(login_url(base_url, rp))
    await authenticator.respond(True)
    await chromium.click("#passkey:not([hidden]) button")
    await wait_for_text(chromium, "The passkey could not be used.")
    await fill_in(chromium, rp.login_id, PASSWORD + ENTER)
    await chromium.click('button[name="action"][value="skip"]')
    assert await code(chromium)


@pytest.mark.requirement("passkeys-12")
async def test_the_page_works_without_script(chromium, rp, base_url):
    await chromium.emulate("Emulation.setScriptExecutionDisabled", value=True)
    try:
        await chromium.go(login_url(base_url, rp))
        await chromium.find("#passkey[hidden]")
        await fill_in(chromium, rp.login_id, PASSWORD + ENTER)
        await wait_for_text(chromium, "This browser does not support passkeys.")
        await chromium.click('button[name="action"][value="skip"]')
        assert await code(chromium)
    finally:
        await chromium.emulate("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.requirement("self-service-20")
async def test_a_passkey_is_added_on_the_account_page_and_signs_in(chromium, authenticator, rp, base_url, key, http):
    await authenticator.respond(True)
    query = urllib.parse.urlencode({"client_id": rp.client_id, "tenantId": rp.tenant["id"]})
    await chromium.go(f"{base_url}/account?{query}")
    await fill_in(chromium, rp.login_id, PASSWORD + ENTER)
    await chromium.click('a[href*="/account/webauthn"]')
    await wait_for_text(chromium, "You have no passkeys.")
    await chromium.click('a[href*="/account/webauthn/add"]')
    await chromium.find("#passkey-add:not([hidden])")
    assert [found for found in await chromium.run(MEASURE) if found[1] < 4.5] == []
    await chromium.click("#passkey-add button")
    await wait_for_text(chromium, "The passkey was added.")
    assert "My passkey" in await chromium.text()
    (made,) = await authenticator.credentials()
    assert (made["isResidentCredential"], made["rpId"]) == (True, "localhost")
    (credential,) = (await key.get("/api/webauthn", params={"userId": rp.user["id"]})).json()["credentials"]
    assert (credential["discoverable"], credential["transports"]) == (True, ["internal"])
    await chromium.forget()
    await chromium.go(login_url(base_url, rp))
    found = await exchange(http, rp, base_url, await code(chromium))
    assert (found["sub"], found["authenticationType"]) == (rp.user["id"], "WebAuthn")


async def test_a_passkey_is_added_after_a_password_and_used_the_next_time(chromium, authenticator, rp, base_url, http):
    await authenticator.respond(True)
    await chromium.go(login_url(base_url, rp))
    await fill_in(chromium, rp.login_id, PASSWORD + ENTER)
    await chromium.click("#passkey-add:not([hidden]) button")
    first = await exchange(http, rp, base_url, await code(chromium))
    assert (first["sub"], first["authenticationType"]) == (rp.user["id"], "PASSWORD")
    assert len(await authenticator.credentials()) == 1
    await chromium.forget()
    await chromium.go(login_url(base_url, rp, state="again"))
    second = await exchange(http, rp, base_url, await code(chromium))
    assert (second["sub"], second["authenticationType"]) == (rp.user["id"], "WebAuthn")
