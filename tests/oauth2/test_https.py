"""HSTS and `__Host-` cookies over https."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests import plain_http, relying_party
from tests.conftest import SUPER_KEY, checking_client
from tests.relying_party import RelyingParty, response

HSTS = "Strict-Transport-Security"
HTTPS = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "login.example.com"}
CONFIGURATION = "/.well-known/openid-configuration"
SSO = "fusionauth.sso"


class HttpsBrowser:
    """A browser behind a proxy that ends TLS. An httpx client would keep secure cookies from the plain connection."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.cookies: dict[str, str] = {}
        self.received: list[str] = []

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self._call("GET", path, **options)

    async def post(self, path: str, **options: Any) -> httpx.Response:
        return await self._call("POST", path, **options)

    async def _call(
        self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any
    ) -> httpx.Response:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await self.client.request(
            method, path, headers={**HTTPS, "Cookie": cookies, **(headers or {})}, **options
        )
        for line in answer.headers.get_list("Set-Cookie"):
            self.received.append(line)
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer


@pytest.fixture
async def https(service) -> Any:
    async with plain_http.client(f"http://127.0.0.1:{service.port}") as client:
        yield HttpsBrowser(client)


async def logged_in(rp: RelyingParty, browser: Any) -> None:
    shown = await browser.get("/oauth2/authorize", params=rp.query())
    assert shown.status_code == 200, shown.text
    form = relying_party.page(shown).forms[0]
    filled = {**form["fields"], "loginId": rp.login_id, "password": relying_party.PASSWORD, "rememberDevice": "true"}
    assert "code" in response(await browser.post("/oauth2/authorize", data=filled))


@pytest.mark.requirement("audit-a8-https")
async def test_cookies_of_pages_are_bound_to_the_host_on_https(rp, https):
    await logged_in(rp, https)
    names = {line.partition("=")[0] for line in https.received}
    assert {f"__Host-{SSO}", "__Host-fusionauth.csrf"} <= names
    assert all(name.startswith("__Host-") for name in names)
    for line in https.received:
        attributes = {part.strip() for part in line.split(";")[1:]}
        assert {"Secure", "HttpOnly", "Path=/"} <= attributes
        assert "domain" not in line.lower()
    assert "code" in response(await https.get("/oauth2/authorize", params=rp.query(prompt="none")))


@pytest.mark.requirement("audit-a8-https")
async def test_known_device_is_recognized_by_its_prefixed_cookie(rp, https):
    await logged_in(rp, https)
    before = {name: value for name, value in https.cookies.items() if "known-device" in name}
    assert before
    await logged_in_again(rp, https)
    assert {name: value for name, value in https.cookies.items() if "known-device" in name} == before


async def logged_in_again(rp: RelyingParty, browser: HttpsBrowser) -> None:
    browser.cookies.pop(f"__Host-{SSO}")
    await logged_in(rp, browser)


@pytest.mark.requirement("audit-a8-https")
async def test_session_cookie_of_a_sibling_host_is_ignored(rp, https):
    """A host of the same domain can set a cookie without the prefix for all of the domain, and no other."""
    await logged_in(rp, https)
    planted = https.cookies[f"__Host-{SSO}"]
    https.cookies = {SSO: planted, "fusionauth.csrf": https.cookies["__Host-fusionauth.csrf"]}
    assert response(await https.get("/oauth2/authorize", params=rp.query(prompt="none")))["error"] == "login_required"


@pytest.mark.requirement("audit-a8-https")
async def test_development_over_http_keeps_plain_names_and_no_hsts(rp, browser):
    shown = await rp.authorize(browser)
    assert HSTS not in shown.headers
    await rp.log_in(browser)
    assert {cookie.name for cookie in browser.cookies.jar} >= {SSO, "fusionauth.csrf"}


@pytest.mark.requirement("audit-a8-https")
async def test_cookies_with_published_names_keep_them(rp, https):
    body = {"loginId": rp.login_id, "password": relying_party.PASSWORD, "applicationId": rp.client_id}
    answer = await https.post("/api/login", json=body, headers={"Authorization": SUPER_KEY})
    assert answer.status_code == 200, answer.text
    assert {line.partition("=")[0] for line in https.received} >= {"access_token"}
    assert all("Secure" in line for line in https.received)


@pytest.mark.requirement("audit-a8-https")
@pytest.mark.parametrize(
    "path", ["/api/status", "/oauth2/authorize", CONFIGURATION, "/nothing-is-here", "/api/webhook", "/oauth2/token"]
)
async def test_https_responses_have_hsts(https, path):
    answer = await https.get(path)
    assert answer.headers[HSTS] == "max-age=31536000", path
    assert HSTS not in (await https.client.get(path)).headers


@pytest.mark.requirement("audit-a8-https")
async def test_localhost_gets_no_hsts(https):
    for host in ("localhost", "localhost:9011", "127.0.0.1:9011", "[::1]:9011"):
        answer = await https.client.get(CONFIGURATION, headers={**HTTPS, "X-Forwarded-Host": host})
        assert answer.json()["token_endpoint"].startswith(f"https://{host}/")
        assert HSTS not in answer.headers


@pytest.mark.requirement("audit-a8-https")
async def test_operator_can_leave_hsts_to_the_proxy(build):
    async with (
        build(server__base_url="https://id.example.com", server__hsts_seconds=0) as service,
        checking_client(f"http://127.0.0.1:{service.port}") as client,
    ):
        assert HSTS not in (await client.get(CONFIGURATION)).headers


@pytest.mark.requirement("audit-a8-base-url", "audit-a8-https")
async def test_metadata_is_cached_only_under_a_configured_base_url(build, http):
    for path in (CONFIGURATION, "/.well-known/oauth-authorization-server"):
        answer = await http.get(path)
        assert answer.headers["Cache-Control"] == "no-store"
        again = await http.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.headers["Cache-Control"]) == (304, "no-store")
    assert (await http.get("/.well-known/jwks.json")).headers["Cache-Control"].startswith("public, max-age=300")
    async with (
        build(server__base_url="https://id.example.com") as service,
        checking_client(f"http://127.0.0.1:{service.port}") as client,
    ):
        answer = await client.get(CONFIGURATION)
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    assert answer.headers[HSTS] == "max-age=31536000"
