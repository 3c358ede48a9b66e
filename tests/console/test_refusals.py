"""The page that says why a request is refused: the same errors as the endpoints, and no effect."""

from __future__ import annotations

import time
import urllib.parse
from typing import Any

import httpx
import pytest
from joserfc.jwk import Key

from identity.domain.clients.client_assertions import JWT_BEARER
from identity.ids import new_id
from identity.operations.pages.refusals import ClientRequest, named_client
from identity.web.console.refusals import read_request
from tests import client_signer
from tests.conftest import DEFAULT_TENANT
from tests.console.administrator import Browser, Page
from tests.dpop import ClientKey
from tests.receiver import until

HEADERS = {"X-FusionAuth-TenantId": DEFAULT_TENANT}
KEY = client_signer.new_key()
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


@pytest.fixture
async def signing_client(api: httpx.AsyncClient) -> dict[str, Any]:
    """An application that signs its requests and binds its tokens to keys."""
    oauth = {
        "authorizedRedirectURLs": [REDIRECT_URI], "enabledGrants": ["authorization_code"],
        "clientAuthenticationMethods": ["private_key_jwt"], "jwks": client_signer.public(KEY),
        "dpopBoundAccessTokens": True,
    }  # fmt: skip
    body = {"application": {"name": new_id(), "oauthConfiguration": oauth}}
    answer = await api.post("/api/application", json=body, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["application"])


def signed_form(client: dict[str, Any], issuer: str, key: Key = KEY, **form: str) -> str:
    """A form with an assertion of the client."""
    now = int(time.time())
    claims = {"iss": client["id"], "sub": client["id"], "aud": issuer, "iat": now, "exp": now + 60, "jti": new_id()}
    credentials = {"client_assertion_type": JWT_BEARER, "client_assertion": client_signer.signed(key, claims)}
    return urllib.parse.urlencode({**credentials, **form})


@pytest.fixture
async def issuer(api: httpx.AsyncClient) -> str:
    return str((await api.get(f"/api/tenant/{DEFAULT_TENANT}")).json()["tenant"]["issuer"])


@pytest.mark.requirement("console-14")
async def test_assertion_and_proof_are_checked_and_not_consumed(
    roles: dict[str, Browser], http: httpx.AsyncClient, signing_client: dict[str, Any], issuer: str
) -> None:
    url, developer = str(http.base_url.join("/oauth2/token")), roles["developer"]
    form = signed_form(signing_client, issuer, grant_type="authorization_code", code="x", redirect_uri=REDIRECT_URI)
    request = f"POST {url} HTTP/1.1\nDPoP: PROOF\n\n{form}"
    assert "A DPoP proof is required" in await check(developer, form)
    assert "does not match the request" in await check(
        developer, request.replace("PROOF", ClientKey().proof("GET", url))
    )
    proof = ClientKey().proof("POST", url)
    for _ in range(2):
        assert "All checks before the grant" in await check(developer, request.replace("PROOF", proof))
    headers = {"Content-Type": "application/x-www-form-urlencoded", "DPoP": proof}
    answer = await http.post("/oauth2/token", content=form, headers=headers)
    assert answer.json()["error"] == "invalid_grant"
    other = signed_form(signing_client, issuer, client_signer.new_key(), grant_type="authorization_code", code="x")
    assert "Client authentication" in await check(developer, other)


@pytest.mark.requirement("console-14")
async def test_pushed_and_signed_requests_are_explained(
    roles: dict[str, Browser], http: httpx.AsyncClient, signing_client: dict[str, Any], issuer: str
) -> None:
    developer, client_id = roles["developer"], signing_client["id"]
    request = {"redirect_uri": REDIRECT_URI, "response_type": "code", "scope": "openid", **PKCE}
    par = "POST /oauth2/par HTTP/1.1\n\n"
    form = signed_form(signing_client, issuer, **request)
    assert "All checks of a pushed request pass" in await check(developer, par + form)
    assert "redirect_uri" in await check(
        developer, par + signed_form(signing_client, issuer, **{**request, "redirect_uri": "https://x"})
    )
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    pushed = (await http.post("/oauth2/par", content=form, headers=headers)).json()["request_uri"]
    uri = f"/oauth2/authorize?client_id={client_id}&request_uri="
    for _ in range(2):
        assert "All checks before the login pass" in await check(developer, uri + pushed)
    assert "request_uri is unknown" in await check(developer, f"{uri}{pushed}x")
    claims = {"iss": client_id, "aud": issuer, "exp": int(time.time()) + 60, "client_id": client_id, **request}
    jar = f"/oauth2/authorize?client_id={client_id}&request="
    assert "All checks before the login pass" in await check(developer, jar + client_signer.signed(KEY, claims))
    forged = client_signer.signed(client_signer.new_key(), claims)
    assert "is not signed by the client" in await check(developer, jar + forged)


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
    assert read_request(text).parameters == expected


def test_credentials_of_curl_become_a_header() -> None:
    header = read_request("curl -u id:secret https://x").headers["authorization"]
    assert named_client(ClientRequest({}, header)) == "id"
    assert named_client(ClientRequest({}, "Basic ?")) == ""
    assert named_client(ClientRequest({"client_assertion": "x"}, "Bearer x")) == ""


def test_headers_and_body_of_an_http_request_are_read() -> None:
    pasted = read_request(
        "POST /oauth2/par HTTP/1.1\r\nHost: x\r\nDPoP: a.b.c\r\nAuthorization: Basic eA==\r\n\r\na=1&b=2\r\n"
    )
    assert (pasted.url, pasted.parameters) == ("/oauth2/par", {"a": "1", "b": "2"})
    assert pasted.headers == {"authorization": "Basic eA==", "dpop": "a.b.c"}


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
