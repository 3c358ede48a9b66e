"""The examples of docs/oauth.md and docs/oauth, run in a shell."""

from __future__ import annotations

import json
import shutil

import pytest

from tests import shell
from tests.conftest import ROOT, SUPER_KEY
from tests.relying_party import PASSWORD, claims

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "openssl", "sed"))), reason="the examples need bash, curl, openssl, sed"
)

REDIRECT_URI = "http://localhost:9080/callback"


def blocks(document):
    """The examples of a document that are for curl, but for those that change every tenant."""
    found = shell.blocks(ROOT / "docs" / document)
    return [block for block in found if not block.startswith(".venv") and "system-configuration" not in block]


@pytest.fixture
async def example(rp):
    """A tenant that is to the documents what the first start makes: an example application and a user."""
    await rp.configure(authorizedRedirectURLs=[REDIRECT_URI], proofKeyForCodeExchangePolicy="Required")
    return rp


@pytest.fixture
def run(example, service, tmp_path):
    """Runs the examples of a document after those that come first, and returns what each block printed."""
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "kickstart-secrets.txt").write_text(
        f"Administrator: {example.login_id}\nPassword: {PASSWORD}\nAPI key: {SUPER_KEY}\n"
        f"Example client id: {example.client_id}\nExample client secret: {example.secret}\n"
    )
    (tmp_path / ".curlrc").write_text(f'header = "X-FusionAuth-TenantId: {example.tenant["id"]}"\n')

    async def run_document(document):
        first = blocks("oauth.md")[:2]
        script = "\necho; echo ==\n".join(first + [block for block in blocks(document) if block not in first])
        script = script.replace("issuer=$base", f"issuer={example.tenant['issuer']}")
        out = await shell.run(script.replace("http://localhost:9011", service.base_url), tmp_path)
        return [printed.strip() for printed in out.split("\n==\n")][len(first) :]

    return run_document


def last(printed):
    """The JSON object that a block printed last."""
    found, at = None, printed.find("{")
    while at >= 0:
        found, end = json.JSONDecoder().raw_decode(printed, at)
        at = printed.find("{", end)
    return found


@pytest.mark.requirement("oauth-2.1-13")
async def test_documented_client_registers_its_key_and_authenticates_with_it(run):
    assert last((await run("oauth/client-assertions.md"))[-1]) == {"active": False}


@pytest.mark.requirement("oauth-12-6")
async def test_documented_client_signs_a_request_and_pushes_it(run):
    answer = last((await run("oauth/request-objects.md"))[-1])
    assert answer["request_uri"].startswith("urn:ietf:params:oauth:request_uri:")


async def test_documented_request_is_pushed_and_opens_the_login_page(run, browser):
    pushed = (await run("oauth/pushed-authorization-requests.md"))[-1]
    first = await browser.get(pushed.splitlines()[-1])
    shown = await browser.get(first.headers["Location"])
    assert (shown.status_code, "Sign in" in shown.text) == (200, True)


async def test_documented_token_is_for_one_resource(run, example):
    token = last((await run("oauth/resource-indicators.md"))[-1])["access_token"]
    assert claims(token)["aud"] == [example.client_id, "https://orders.example.com/"]


async def test_documented_token_is_bound_and_used_with_a_proof(run, example):
    printed = (await run("oauth/dpop.md"))[-1]
    assert json.JSONDecoder().raw_decode(printed)[0]["token_type"] == "DPoP"
    assert f'"sub":"{example.user["id"]}"' in printed


async def test_documented_entity_gets_a_token_for_another(run):
    token = last((await run("oauth/client-credentials.md"))[-1])["access_token"]
    assert list(claims(token)["permissions"].values()) == [["read"]]


async def test_documented_device_is_approved_by_a_token(run):
    _, waiting, approved = await run("oauth/device-grant.md")
    assert ('"authorization_pending"' in waiting, '"slow_down"' in waiting) == (True, True)
    assert '"deviceGrantStatus":"Approved"' in approved
    assert '"access_token"' in approved


async def test_documented_consent_is_prompted_and_listed(run, browser):
    made, address, decisions = await run("oauth/consent.md")
    assert '"consentMode":"RememberDecision"' in made
    assert (await browser.get(address)).status_code == 200
    assert decisions == '{"scopeConsents":[]}'


@pytest.mark.parametrize("document", ["oauth/hybrid.md", "oauth/claims.md"])
async def test_documented_address_shows_the_login_page(run, browser, document):
    printed = " ".join(await run(document)).split()
    (address,) = (word for word in printed if word.startswith("http") and "/oauth2/authorize?" in word)
    assert "Sign in" in (await browser.get(address)).text


async def test_documented_settings_are_accepted(run):
    assert '"profile":"strict"' in (await run("oauth/profiles.md"))[0]


async def test_documented_logout_receiver_is_accepted(run):
    (printed,) = await run("oauth/back-channel-logout.md")
    assert '"backChannelLogoutURL":"https://app.example.com/backchannel-logout"' in printed


async def test_documented_password_grant_introspection_revocation_and_rotation(run):
    given, introspected, revoked, metadata, rotated = await run("oauth.md")
    assert last(given)["scope"] == "openid offline_access"
    assert introspected.count('"active":true') == 2
    assert revoked == "200"
    assert '"revocation_endpoint"' in metadata
    assert '"accessTokenKeyId"' in rotated
