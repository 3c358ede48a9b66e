"""The page that says why a request is refused: the same errors as the endpoints, and no effect."""

from __future__ import annotations

import urllib.parse
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from identity.web.console.refusals import client_of, read
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.receiver import until

HEADERS = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
REDIRECT_URI = "https://app.example.com/callback"


@pytest.fixture
async def client(api: httpx.AsyncClient) -> dict[str, Any]:
    """An application that requires PKCE and a secret."""
    oauth = {
        "authorizedRedirectURLs": [REDIRECT_URI], "proofKeyForCodeExchangePolicy": "Required",
        "clientAuthenticationPolicy": "Required", "enabledGrants": ["authorization_code"],
    }  # fmt: skip
    body = {"application": {"name": new_id(), "oauthConfiguration": oauth}}
    answer = await api.post("/api/application", json=body, headers=HEADERS)
    return dict(answer.json()["application"])


async def check(browser: Browser, request: str) -> str:
    answer = await browser.submit(await browser.open("/admin/refusals"), "", request=request)
    assert answer.status_code == 200
    return Page(answer).text


PKCE = {"code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method": "S256"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "All checks before the login pass"),
        ({"redirect_uri": "https://app.example.com/other"}, "Add exactly this URL"),
        ({"code_challenge": ""}, "code_challenge"),
        ({"response_type": "nonsense"}, "Parameters"),
        ({"client_id": "00000000-0000-4000-8000-00000000dead"}, "No application"),
    ],
)
@pytest.mark.requirement("console-14")
async def test_authorization_request_is_explained(
    roles: dict[str, Browser], client: dict[str, Any], changes: dict[str, str], expected: str
) -> None:
    request = {"client_id": client["id"], "redirect_uri": REDIRECT_URI, "response_type": "code", "scope": "openid"}
    query = {name: value for name, value in {**request, **PKCE, **changes}.items() if value}
    text = await check(roles["developer"], f"http://localhost/oauth2/authorize?{urllib.parse.urlencode(query)}")
    assert expected in text


async def test_token_request_is_explained(roles: dict[str, Browser], client: dict[str, Any]) -> None:
    form = f"grant_type=authorization_code&code=x&redirect_uri={REDIRECT_URI}&client_id={client['id']}"
    assert "Client authentication" in await check(roles["developer"], form)
    assert "Client authentication" in await check(roles["developer"], f"{form}&client_secret=wrong")
    secret = client["oauthConfiguration"]["clientSecret"]
    curl = f"curl http://localhost/oauth2/token -u '{client['id']}:{secret}' -d grant_type=authorization_code -d code=x"
    assert "All checks before the grant" in await check(roles["developer"], curl)
    refused = await check(roles["developer"], curl.replace("authorization_code", "password"))
    assert "grant_type_disabled" in refused
    assert "Enable the grant" in refused


async def test_application_of_another_tenant_is_not_explained(
    as_role: Any, every_tenant: httpx.AsyncClient, client: dict[str, Any]
) -> None:
    tenant = (await every_tenant.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    browser = await as_role("tenant-admin", data={"tenantId": tenant["id"]})
    assert "No application that you may see" in await check(browser, f"client_id={client['id']}&response_type=code")


@pytest.mark.parametrize("text", ["", "nonsense", "curl 'unclosed", "?&&&=", "%ff=%fe", "a" * 20_000, "curl -u x -d"])
async def test_anything_may_be_pasted(roles: dict[str, Browser], text: str) -> None:
    assert "No application" in await check(roles["admin"], text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://a.example.com/oauth2/authorize?client_id=1&scope=a%20b#x", {"client_id": "1", "scope": "a b"}),
        ("GET /oauth2/authorize?client_id=1 HTTP/1.1", {"client_id": "1"}),
        ("grant_type=password\n&username=a", {"grant_type": "password", "username": "a"}),
        ("curl \\\n -d a=1 --data 'b=2&c=3' https://x", {"a": "1", "b": "2", "c": "3"}),
    ],
)
def test_pasted_requests_are_read(text: str, expected: dict[str, str]) -> None:
    assert read(text)[0] == expected


def test_credentials_of_curl_become_a_header() -> None:
    assert client_of(read("curl -u id:secret https://x")[1]) == "id"
    assert client_of("Basic ?") == ""
    assert client_of("Bearer x") == ""


async def refused(browser: Browser, client: dict[str, Any], expected: str) -> str:
    """The page of the recent refusals, as soon as it has the expected text."""
    found: list[str] = []

    async def is_there() -> bool:
        found.append((await browser.open(f"/admin/applications/{client['id']}/refused")).text)
        return expected in found[-1]

    await until(is_there)
    return found[-1]


@pytest.mark.requirement("console-14", "console-20")
async def test_refused_requests_of_an_application_are_listed_without_secrets(
    roles: dict[str, Browser], http: httpx.AsyncClient, client: dict[str, Any]
) -> None:
    request = {"client_id": client["id"], "redirect_uri": "https://other.example.com/", "response_type": "code"}
    await http.get("/oauth2/authorize", params={**request, "login_hint": "ada@example.com", "state": "s3cret"})
    text = await refused(roles["auditor"], client, "invalid_redirect_uri")
    assert "https://other.example.com/" in text
    assert "Add exactly this URL" in text
    assert "login_hint, state" in text
    form = {"grant_type": "authorization_code", "code": "the-code", "code_verifier": "the-verifier"}
    await http.post("/oauth2/token", data={**form, "client_id": client["id"], "client_secret": "the-secret"})
    text = await refused(roles["auditor"], client, "/oauth2/token")
    await http.post("/oauth2/token", data=form, auth=(client["id"], "the-secret"))
    text = await refused(roles["auditor"], client, "with an Authorization header")
    for secret in ("the-code", "the-verifier", "the-secret", "ada@example.com", "s3cret"):
        assert secret not in text


async def test_requests_of_unknown_clients_and_of_waiting_devices_are_not_recorded(
    roles: dict[str, Browser], http: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    oauth = {"enabledGrants": [grant], "deviceVerificationURL": "https://example.com/device"}
    oauth["clientAuthenticationPolicy"] = "NotRequired"
    body = {"application": {"name": new_id(), "oauthConfiguration": oauth}}
    client = (await api.post("/api/application", json=body, headers=HEADERS)).json()["application"]
    started = await http.post("/oauth2/device_authorize", data={"client_id": client["id"]})
    poll = {"client_id": client["id"], "grant_type": grant, "device_code": started.json()["device_code"]}
    assert (await http.post("/oauth2/token", data=poll)).json()["error"] == "authorization_pending"
    assert (await http.post("/oauth2/token", data={**poll, "client_id": new_id()})).status_code >= 400
    await http.post("/oauth2/token", data={**poll, "grant_type": "nonsense"})
    text = await refused(roles["admin"], client, "unsupported_grant_type")
    assert "authorization_pending" not in text
