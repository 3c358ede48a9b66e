"""Attacks on the authorization endpoint: redirect URIs that must never be redirected to, and polluted requests."""

from __future__ import annotations

import urllib.parse

import pytest

from tests.relying_party import REDIRECT_URI, response

REGISTERED = [REDIRECT_URI, "http://127.0.0.1/callback", "com.example.app:/callback", "http://localhost/callback"]

REFUSED = {
    "1 prefix": "https://app.example.com.evil.com/callback",
    "1 longer path": REDIRECT_URI + "x",
    "1 deeper path": REDIRECT_URI + "/x",
    "2 user information": "https://app.example.com@evil.com/callback",
    "2 user and port": "http://localhost:80@evil.com/callback",
    "2 client as user": "https://client@app.example.com/callback",
    "3 dot segments": "https://app.example.com/x/../callback",
    "3 encoded dots": "https://app.example.com/x/%2e%2e/callback",
    "3 encoded slash": "https://app.example.com%2fcallback",
    "3 doubly encoded": "https://app.example.com/%252f/callback",
    "3 path parameter": "https://app.example.com/..;/callback",
    "4 wildcard": "https://*.example.com/callback",
    "5 dot of a pattern": "https://appxexample.com/callback",
    "6 path in another case": "https://app.example.com/CALLBACK",
    "7 loopback name": "http://localhost:4711/callback",
    "7 loopback look-alike": "http://localhost-evil/callback",
    "7 loopback with another path": "http://127.0.0.1:4711/other",
    "7 loopback over https": "https://127.0.0.1/callback",
    "8 javascript": "javascript:alert(1)",
    "8 data": "data:text/html,x",
    "8 vbscript": "vbscript:x",
    "8 file": "file:///etc/passwd",
    "9 fragment": REDIRECT_URI + "#x",
    "9 backslash": "https://app.example.com\\@evil.com/callback",
    "9 tab": "https://app.example.com/\tcallback",
    "9 line break": REDIRECT_URI + "\r\nSet-Cookie: a=b",
    "9 no scheme": "//evil.com/callback",
    "9 slash and backslash": "/\\evil.com",
    "9 homograph": "https://\u0430pp.example.com/callback",
    "9 trailing dot": "https://app.example.com./callback",
    "9 zone": "http://[fe80::1%25eth0]/callback",
    "another scheme": "http://app.example.com/callback",
    "another port": "https://app.example.com:8443/callback",
    "another query": REDIRECT_URI + "?x=1",
    "another native scheme": "com.evil.app:/callback",
}


async def stays_local(browser, query) -> None:
    answer = await browser.get("/oauth2/authorize", params=query)
    assert answer.status_code == 400
    assert "Location" not in answer.headers
    assert "<form" not in answer.text


@pytest.mark.requirement("attack-1")
@pytest.mark.parametrize("attack", REFUSED)
@pytest.mark.parametrize("prompt", [None, "none"])
async def test_unregistered_redirect_uri_is_never_used(rp, browser, attack, prompt):
    await rp.configure(authorizedRedirectURLs=REGISTERED)
    await stays_local(browser, rp.query(redirect_uri=REFUSED[attack], prompt=prompt))


@pytest.mark.requirement("attack-9")
async def test_attack_9_nul_is_refused(rp, browser):
    await stays_local(browser, rp.query(redirect_uri=REDIRECT_URI + "\x00"))


@pytest.mark.parametrize(
    "uri",
    [REDIRECT_URI, "http://127.0.0.1:4711/callback", "com.example.app:/callback", "HTTPS://APP.example.com/callback"],
)
async def test_registered_redirect_uri_is_accepted(rp, browser, uri):
    await rp.configure(authorizedRedirectURLs=REGISTERED)
    answer = await rp.authorize(browser, redirect_uri=uri, prompt="none")
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(uri + "?error=login_required")


async def test_attack_4_wildcards_are_off_by_default_and_stay_within_their_label(rp, browser):
    pattern = "https://*.example.com/callback"
    wanted = rp.query(redirect_uri="https://one.example.com/callback", prompt="none")
    await rp.configure(authorizedRedirectURLs=[REDIRECT_URI], authorizedURLValidationPolicy="AllowWildcards")
    await rp.configure(authorizedRedirectURLs=[pattern])
    assert (await browser.get("/oauth2/authorize", params=wanted)).status_code == 302
    for host in ("a.b.example.com", "evil.com/.example.com", "evil.com?.example.com", "evil.com:80#.example.com"):
        await stays_local(browser, rp.query(redirect_uri=f"https://{host}/callback"))


@pytest.mark.requirement("attack-11")
@pytest.mark.parametrize("name", ["redirect_uri", "client_id", "state", "response_type", "scope"])
async def test_attack_11_repeated_parameter_is_refused(rp, browser, name):
    query = urllib.parse.urlencode(rp.query()) + f"&{name}=x"
    answer = await browser.get(f"/oauth2/authorize?{query}")
    assert (answer.status_code, "Location" in answer.headers) == (400, False)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    posted = await browser.post("/oauth2/authorize", content=query, headers=headers)
    assert (posted.status_code, "Location" in posted.headers) == (400, False)


@pytest.mark.parametrize("name", ["code", "state", "error", "iss"])
async def test_attack_11_redirect_uri_with_response_parameters_is_rejected(rp, browser, name):
    uri = f"{REDIRECT_URI}?{name}=planted"
    await rp.configure(authorizedRedirectURLs=[uri])
    await stays_local(browser, rp.query(redirect_uri=uri))


@pytest.mark.requirement("attack-15")
@pytest.mark.parametrize("name", ["request_uri", "request"])
async def test_attack_15_nothing_is_fetched_for_a_request(rp, browser, name):
    answer = await rp.authorize(browser, **{name: "http://127.0.0.1:1/x"})
    assert response(answer)["error"] == f"{name}_not_supported"


@pytest.mark.requirement("attack-17", "oauth-12-21")
async def test_attack_17_every_response_has_iss(rp, browser):
    for mode in ("query", "fragment", "form_post"):
        refused = await rp.authorize(browser, prompt="none", response_mode=mode)
        assert response(refused)["iss"] == rp.tenant["issuer"]
    assert (await rp.log_in(browser))["iss"] == rp.tenant["issuer"]


@pytest.mark.requirement("attack-71")
async def test_state_and_description_cannot_split_the_header(rp, browser):
    answer = await rp.authorize(browser, state="a\r\nSet-Cookie: b=c", scope="openid \u2028odd", prompt="none")
    assert answer.status_code == 302
    assert "Set-Cookie" not in answer.headers
    assert "%0D%0A" in answer.headers["Location"]


async def test_form_of_another_type_is_refused(rp, browser):
    for content_type in ("application/json", "multipart/form-data; boundary=x", "text/plain"):
        answer = await browser.post("/oauth2/authorize", content=b"{}", headers={"Content-Type": content_type})
        assert answer.status_code == 400
