"""The hosted backend `/app/*`: cookie logins of single-page applications."""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from identity import app
from identity.domain.authorization import hosted_backend as rules
from tests import relying_party
from tests.client_signer import new_key, public
from tests.conftest import checking_client
from tests.oauth2.test_lambdas import hook
from tests.relying_party import RelyingParty, claims, page

APP = "https://app.example.com/"
ORIGIN = "https://app.example.com"
EVIL = "https://evil.example.net"
COOKIES = {"app.at", "app.at_exp", "app.idt", "app.rt"}


@pytest.fixture
async def party(api: httpx.AsyncClient, service: app.Service) -> RelyingParty:
    """A single-page application: it has no secret to send and registers nothing but its own address."""
    return await relying_party.make(
        api,
        authorizedRedirectURLs=[APP, "https://app.example.com/other"],
        clientAuthenticationPolicy="NotRequiredWhenUsingPKCE",
        proofKeyForCodeExchangePolicy="Required",
    )


@pytest.fixture
async def browser(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    async with checking_client(service.base_url) as client:
        yield client


def location(answer: httpx.Response) -> tuple[str, dict[str, str]]:
    assert answer.status_code == 302, answer.text
    url, _, query = answer.headers["Location"].partition("?")
    return url, dict(urllib.parse.parse_qsl(query))


def set_cookies(answer: httpx.Response) -> dict[str, Any]:
    found: SimpleCookie = SimpleCookie()
    for header in answer.headers.get_list("Set-Cookie"):
        found.load(header)
    return dict(found)


async def to_login_page(party: RelyingParty, browser: httpx.AsyncClient, **query: str) -> httpx.Response:
    given = {"client_id": party.client_id, "redirect_uri": APP, "scope": "openid offline_access", **query}
    departure = await browser.get("/app/login/", params=given)
    return await browser.get(departure.headers["Location"])


async def to_callback(party: RelyingParty, browser: httpx.AsyncClient, **query: str) -> str:
    """The URL of the callback that ends a login, by the login page or by the session."""
    answer = await to_login_page(party, browser, **query)
    if answer.status_code == 200:
        answer = await party.submit(browser, answer)
    assert location(answer)[0].endswith("/app/callback")
    return str(answer.headers["Location"])


async def log_in(party: RelyingParty, browser: httpx.AsyncClient, **query: str) -> httpx.Response:
    return await browser.get(await to_callback(party, browser, **query))


@pytest.mark.requirement("audit-b3")
async def test_login_sets_token_cookies_and_returns_the_state(party, browser) -> None:
    answer = await log_in(party, browser, state="a state & more")
    assert location(answer) == (APP, {"state": "a state & more"})
    cookies = set_cookies(answer)
    assert cookies.keys() == COOKIES
    for name, cookie in cookies.items():
        assert (cookie["path"], cookie["samesite"], cookie["domain"]) == ("/", "Lax", "")
        assert bool(cookie["httponly"]) is (name in {"app.at", "app.rt"})
        assert int(cookie["max-age"]) > 0
    assert claims(cookies["app.at"].value)["sub"] == party.user["id"]
    assert claims(cookies["app.idt"].value)["aud"] == party.client_id
    assert int(cookies["app.at_exp"].value) == pytest.approx(claims(cookies["app.at"].value)["exp"], abs=2)


@pytest.mark.requirement("audit-b3")
async def test_authorization_request_has_pkce_and_a_state_of_its_own(party, browser, service) -> None:
    query = {"client_id": party.client_id, "redirect_uri": APP, "state": "mine", "login_hint": "ada@example.com"}
    requests = []
    for _ in range(2):
        url, given = location(await browser.get("/app/login/", params=query))
        assert url == f"{service.base_url}/oauth2/authorize"
        requests.append(given)
    first, second = requests
    assert (first["response_type"], first["code_challenge_method"]) == ("code", "S256")
    assert (first["scope"], first["login_hint"]) == ("openid offline_access", "ada@example.com")
    assert first["redirect_uri"].startswith(f"{service.base_url}/app/callback?")
    assert first["state"] != "mine"
    assert {first["state"], first["code_challenge"]}.isdisjoint({second["state"], second["code_challenge"]})


@pytest.mark.requirement("audit-b3")
async def test_path_form_and_defaults(party, browser) -> None:
    departure = await browser.get(f"/app/login/{party.client_id}")
    assert location(departure)[1]["scope"] == "openid offline_access"
    answer = await party.submit(browser, await browser.get(departure.headers["Location"]))
    assert location(await browser.get(answer.headers["Location"])) == (APP, {})


@pytest.mark.requirement("audit-b3")
async def test_register_redirects_to_registration_or_login(party, browser, service) -> None:
    query = {"client_id": party.client_id, "redirect_uri": APP}
    assert location(await browser.get("/app/register/", params=query))[0] == f"{service.base_url}/oauth2/authorize"
    members = {"registrationConfiguration": {"enabled": True, "type": "basic"}}
    await party.patch(f"/api/application/{party.client_id}", {"application": members})
    departure = await browser.get("/app/register/", params=query)
    assert location(departure)[0] == f"{service.base_url}/oauth2/register"
    assert (await browser.get(departure.headers["Location"])).status_code == 200


@pytest.mark.requirement("audit-b3")
async def test_two_logins_of_one_browser_at_once(party, browser) -> None:
    first = await to_callback(party, browser, state="1")
    second = await to_callback(party, browser, state="2")
    assert location(await browser.get(first))[1] == {"state": "1"}
    assert location(await browser.get(second))[1] == {"state": "2"}


@pytest.mark.requirement("audit-b3")
@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://evil.example.net/",
        "https://app.example.com.evil.example.net/",
        "https://app.example.com@evil.example.net/",
        "//evil.example.net/",
        "javascript:alert(1)",
        "https://app.example.com/../x",
    ],
)
async def test_redirects_require_registered_urls(party, browser, redirect_uri) -> None:
    query = {"client_id": party.client_id, "redirect_uri": redirect_uri}
    for path in ("login", "register"):
        answer = await browser.get(f"/app/{path}/", params=query)
        assert (answer.status_code, "Location" in answer.headers) == (400, False)
        assert "invalid_redirect_uri" in answer.text
    away = await browser.get(f"/app/logout/{party.client_id}", params={"redirect_uri": redirect_uri})
    assert (await browser.get(away.headers["Location"])).status_code == 400


@pytest.mark.requirement("audit-b3")
async def test_url_unregistered_meanwhile_is_not_used(party, browser) -> None:
    callback = await to_callback(party, browser)
    await party.configure(authorizedRedirectURLs=["https://app.example.com/other"])
    answer = await browser.get(callback)
    assert (answer.status_code, set_cookies(answer).keys() & COOKIES) == (400, set())


@pytest.mark.requirement("audit-b3")
async def test_callback_works_once_in_the_starting_browser(party, browser, service) -> None:
    callback = await to_callback(party, browser)
    async with checking_client(service.base_url) as other:
        await other.get(f"/app/login/{party.client_id}")
        refused = await other.get(callback)
        assert (refused.status_code, set_cookies(refused)) == (400, {})
    assert (await browser.get(callback)).status_code == 302
    assert (await browser.get(callback)).status_code == 400


@pytest.mark.requirement("audit-b3")
@pytest.mark.parametrize("state", ["", "forged", None])
async def test_callback_requires_its_own_state(party, browser, state) -> None:
    url, query = location(httpx.Response(302, headers={"Location": await to_callback(party, browser)}))
    given = {**query, "state": state}
    answer = await browser.get(url, params={name: value for name, value in given.items() if value is not None})
    assert (answer.status_code, set_cookies(answer)) == (400, {})


@pytest.mark.requirement("audit-b3")
async def test_code_of_another_login_is_refused(party, browser, service) -> None:
    mine = location(httpx.Response(302, headers={"Location": await to_callback(party, browser)}))[1]
    async with checking_client(service.base_url) as other:
        url, stolen = location(httpx.Response(302, headers={"Location": await to_callback(party, other)}))
    answer = await browser.get(url, params={**mine, "code": stolen["code"]})
    assert (answer.status_code, set_cookies(answer)) == (400, {})


@pytest.mark.requirement("audit-b3")
async def test_failed_login_is_reported_to_the_application(party, browser) -> None:
    url, query = location(await browser.get(f"/app/login/{party.client_id}", params={"prompt": "none", "state": "s"}))
    refused = await browser.get(url, params=query)
    back, answer = location(await browser.get(refused.headers["Location"]))
    assert (back, answer["error"], answer["state"]) == (APP, "login_required", "s")


@pytest.mark.requirement("audit-b3")
async def test_confidential_client_is_served_too(party, browser) -> None:
    await party.configure(clientAuthenticationPolicy="Required")
    assert location(await log_in(party, browser))[0] == APP
    assert (await browser.post(f"/app/refresh/{party.client_id}")).status_code == 200


@pytest.mark.requirement("audit-b3")
async def test_callback_does_not_bypass_client_authentication(party, browser, service) -> None:
    """The internal authentication is of the hosted backend alone: its codes buy nothing at the token endpoint."""
    await party.configure(clientAuthenticationPolicy="Required")
    query = location(httpx.Response(302, headers={"Location": await to_callback(party, browser)}))[1]
    answer = await party.token(browser, client_secret=None, grant_type="authorization_code", code=query["code"])
    assert answer.json()["error"] == "invalid_client"


@pytest.mark.requirement("audit-b3")
@pytest.mark.parametrize(
    "setting", ["dpopBoundAccessTokens", "requirePushedAuthorizationRequests", "requireSignedRequestObject"]
)
async def test_application_that_requires_more_than_cookies_is_refused(party, browser, setting) -> None:
    if setting == "requireSignedRequestObject":
        await party.configure(jwks=public(new_key("ES256")))
    await party.configure(**{setting: True})
    for path in ("login", "register", "logout"):
        answer = await browser.get(f"/app/{path}/{party.client_id}")
        assert (answer.status_code, "unauthorized_client" in answer.text) == (400, True)


@pytest.mark.requirement("audit-b3")
async def test_unknown_and_contradictory_clients_are_refused(party, browser) -> None:
    other = "00000000-0000-4000-8000-00000000dead"
    for url in ("/app/login", f"/app/login/{other}", f"/app/login/{party.client_id}?client_id={other}"):
        assert (await browser.get(url)).status_code == 400
    assert (await browser.post("/app/refresh/")).json()["error_reason"] == "missing_client_id"


# The user


@pytest.mark.requirement("audit-b3")
async def test_me_answers_with_the_claims_of_the_user(party, browser) -> None:
    await log_in(party, browser, scope="openid offline_access email")
    answer = await browser.get("/app/me/", headers={"Origin": ORIGIN})
    assert (answer.status_code, answer.json()["sub"]) == (200, party.user["id"])
    assert answer.json()["email"] == party.login_id
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"
    assert "Origin" in answer.headers["Vary"]


@pytest.mark.requirement("audit-b3")
async def test_me_without_a_valid_token_is_401(party, browser) -> None:
    assert (await browser.get("/app/me")).status_code == 401
    assert (await browser.get("/app/me", headers={"Cookie": "app.at=forged"})).status_code == 401


@pytest.mark.requirement("audit-b3")
@pytest.mark.parametrize("origin", [EVIL, "null", "https://app.example.com.evil.example.net", "http://app.example.com"])
async def test_other_origins_cannot_read_or_refresh(party, browser, origin) -> None:
    await log_in(party, browser)
    for answer in (
        await browser.get("/app/me/", headers={"Origin": origin}),
        await browser.post(f"/app/refresh/?client_id={party.client_id}", headers={"Origin": origin}),
    ):
        assert (answer.status_code, answer.json()["error_reason"]) == (400, "invalid_origin")
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert set_cookies(answer) == {}


@pytest.mark.requirement("audit-b3")
async def test_authorized_origins_may_call(party, browser) -> None:
    await log_in(party, browser)
    urls = [APP, "https://*.example.org/callback"]
    await party.configure(
        authorizedOriginURLs=["https://www.example.com"],
        authorizedRedirectURLs=urls,
        authorizedURLValidationPolicy="AllowWildcards",
    )
    for origin in ("https://www.example.com", ORIGIN, "https://preview-1.example.org"):
        answer = await browser.get("/app/me/", headers={"Origin": origin})
        assert answer.headers["Access-Control-Allow-Origin"] == origin
    for origin in ("https://example.org", "https://a.b.example.org", "https://a.example.org.evil.example.net"):
        assert (await browser.get("/app/me/", headers={"Origin": origin})).status_code == 400


# Refresh


@pytest.mark.requirement("audit-b3")
async def test_refresh_replaces_the_cookies(party, browser) -> None:
    first = set_cookies(await log_in(party, browser))
    headers = {"Origin": ORIGIN, "Content-Type": "text/plain"}
    answer = await browser.post("/app/refresh/", params={"client_id": party.client_id}, headers=headers)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    cookies = set_cookies(answer)
    assert cookies.keys() == COOKIES
    assert cookies["app.at"].value != first["app.at"].value
    assert claims(cookies["app.at"].value)["gty"] == ["authorization_code", "refresh_token"]
    assert (await browser.get("/app/me/")).status_code == 200


@pytest.mark.requirement("audit-b3")
async def test_one_time_refresh_tokens_are_replaced(party, browser) -> None:
    configuration = {"enabled": True, "refreshTokenUsagePolicy": "OneTimeUse", "timeToLiveInSeconds": 600}
    await party.patch(f"/api/application/{party.client_id}", {"application": {"jwtConfiguration": configuration}})
    before = set_cookies(await log_in(party, browser))["app.rt"].value
    for _ in range(2):
        answer = await browser.post(f"/app/refresh/{party.client_id}")
        after = set_cookies(answer)["app.rt"].value
        assert after != before
        before = after


@pytest.mark.requirement("audit-b3")
async def test_refresh_without_a_valid_token_gets_a_readable_400(party, browser) -> None:
    headers = {"Origin": ORIGIN}
    answer = await browser.post(f"/app/refresh/{party.client_id}", headers=headers)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (400, ORIGIN)
    answer = await browser.post(f"/app/refresh/{party.client_id}", headers={**headers, "Cookie": "app.rt=forged"})
    assert answer.json()["error_reason"] == "refresh_token_not_found"


@pytest.mark.requirement("audit-b3")
async def test_cross_origin_refresh_without_origin_header_is_rejected(party, browser) -> None:
    await log_in(party, browser)
    answer = await browser.post(f"/app/refresh/{party.client_id}", headers={"Sec-Fetch-Site": "same-site"})
    assert (answer.status_code, set_cookies(answer)) == (400, {})


@pytest.mark.requirement("audit-b3")
async def test_refresh_token_of_another_application_is_refused(party, browser, api) -> None:
    await log_in(party, browser)
    other = await relying_party.make(api, tenant=party.tenant)
    assert (await browser.post(f"/app/refresh/{other.client_id}")).status_code == 400
    assert (await browser.post(f"/app/refresh/{party.client_id}")).status_code == 200


# Logout


@pytest.mark.requirement("audit-b3")
async def test_logout_removes_the_cookies_and_ends_session_and_refresh_token(party, browser) -> None:
    before = set_cookies(await log_in(party, browser, redirect_uri="https://app.example.com/other"))
    query = {"client_id": party.client_id, "post_logout_redirect_uri": APP}
    answer = await browser.get("/app/logout/", params=query, headers={"Sec-Fetch-Site": "same-site"})
    assert {name for name, cookie in set_cookies(answer).items() if cookie["max-age"] == "0"} == COOKIES
    ended = await browser.get(answer.headers["Location"], headers={"Sec-Fetch-Site": "same-site"})
    assert location(ended)[0] == APP
    assert (await browser.get("/app/me/")).status_code == 401
    stale = {"Cookie": f"app.rt={before['app.rt'].value}"}
    assert (await browser.post(f"/app/refresh/{party.client_id}", headers=stale)).status_code == 400


@pytest.mark.requirement("audit-b3")
async def test_cross_site_logout_requires_confirmation(party, browser) -> None:
    await log_in(party, browser)
    query = {"client_id": party.client_id, "redirect_uri": APP}
    headers = {"Sec-Fetch-Site": "cross-site"}
    answer = await browser.get("/app/logout/", params=query, headers=headers)
    assert set_cookies(answer) == {}
    assert "id_token_hint" not in location(answer)[1]
    assert (await browser.get("/app/me/")).status_code == 200
    assert (await browser.post(f"/app/refresh/{party.client_id}")).status_code == 200


# Cookies


@pytest.mark.requirement("audit-b3")
@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("auth.example.com", "example.com"),
        ("AUTH.eu.example.co.uk", "example.co.uk"),
        ("auth.mine.github.io", "mine.github.io"),
        ("mine.github.io", "mine.github.io"),
        ("github.io", None),
        ("co.uk", None),
        ("localhost", None),
        ("127.0.0.1", None),
        ("::1", None),
    ],
)
def test_cookies_are_for_the_registrable_domain(host: str, domain: str | None) -> None:
    assert rules.cookie_domain(host) == domain


@pytest.mark.requirement("audit-b3")
async def test_cookies_of_a_public_host_are_secure_and_for_its_domain(party, browser) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "auth.eu.example.com"}
    departure = await browser.get(f"/app/login/{party.client_id}", headers=headers)
    assert departure.headers["Location"].startswith("https://auth.eu.example.com/oauth2/authorize?")
    ((name, secret),) = set_cookies(departure).items()
    assert name == "__Host-app.pkce_v"  # which other hosts of the domain cannot set
    assert (secret["secure"], secret["httponly"], secret["domain"]) == (True, True, "")
    answer = await browser.get(f"/app/logout/{party.client_id}", headers=headers)
    for cookie in set_cookies(answer).values():
        assert (cookie["secure"], cookie["domain"]) == (True, "example.com")


@pytest.mark.requirement("audit-b3")
async def test_oversized_id_token_is_omitted(party, browser) -> None:
    await hook(party, "idTokenPopulateId", "jwt.text = 'x'.repeat(5000)")
    assert set_cookies(await log_in(party, browser)).keys() == COOKIES - {"app.idt"}


@pytest.mark.requirement("audit-b3")
async def test_intermediate_pages_return_to_the_callback(party, browser) -> None:
    """A third party's users are asked for their consent on a page of its own, which redirects to the callback."""
    await party.configure(relationship="ThirdParty", consentMode="AlwaysPrompt")
    scope = {"description": "See your orders", "name": "orders", "required": True}
    headers = {"X-FusionAuth-TenantId": party.tenant["id"]}
    path = f"/api/application/{party.client_id}/scope"
    assert (await party.api.post(path, json={"scope": scope}, headers=headers)).status_code == 200
    shown = await party.submit(browser, await to_login_page(party, browser, scope="openid orders", state="s"))
    asked = await browser.get(shown.headers["Location"])
    form = page(asked).forms[0]
    sources = asked.headers["Content-Security-Policy"].partition("form-action")[2].split(";")[0].split()
    origin = "/".join(APP.split("/")[:3])
    assert sources == ["'self'", str(asked.url.copy_with(path="/", query=None)).rstrip("/"), origin, "https:"]
    answer = await browser.post(form["action"], data={**form["fields"], "action": "allow"})
    assert location(await browser.get(answer.headers["Location"])) == (APP, {"state": "s"})
