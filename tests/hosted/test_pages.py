"""The hosted pages as bytes: policies, escaping, forged forms, and what may be kept."""

from __future__ import annotations

import re

import pytest

from identity.operations.clients import clients
from tests import internals, plain_http, relying_party
from tests.conftest import SUPER_KEY, checking_client
from tests.relying_party import PASSWORD, REDIRECT_URI, page, response

ELSEWHERE = {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"}
NASTY = '"><script>alert(1)</script>'


def directives(answer) -> dict[str, str]:
    policy = answer.headers["Content-Security-Policy"]
    return dict(directive.split(" ", 1) for directive in policy.split("; "))


async def every_page(rp, browser):
    """One of each page."""
    await relying_party.make(rp.api, tenant=rp.tenant, logoutURL="https://sibling.example.com/out")
    shown = await rp.authorize(browser)
    return {
        "login": shown,
        "login again": await rp.submit(browser, shown, password="wrong"),
        "error": await rp.authorize(browser, client_id="x"),
        "form_post": await rp.authorize(browser, prompt="none", response_mode="form_post"),
        "index": await browser.get("/"),
        "confirm": await browser.get("/oauth2/logout", headers=ELSEWHERE),
        "frames": await browser.get("/oauth2/logout", params={"client_id": rp.client_id}),
        "signed out": await browser.get("/"),
    }


@pytest.mark.requirement("attack-14", "design-state-28", "oauth-0.4-1", "oauth-0.4-3")
async def test_attack_14_no_page_can_be_framed_or_run_what_it_did_not_bring(rp, browser):
    for name, answer in (await every_page(rp, browser)).items():
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8", name
        assert answer.headers["X-Frame-Options"] == "DENY", name
        assert answer.headers["Referrer-Policy"] == "no-referrer", name
        assert answer.headers["Cache-Control"] == "no-store", name
        policy = directives(answer)
        assert policy["default-src"] == "'none'", name
        assert policy["frame-ancestors"] == "'none'", name
        assert policy["base-uri"] == "'none'", name
        assert "unsafe" not in str(policy), name
        assert not re.search(r"\son\w+=|style=|javascript:", answer.text), name
        for url in re.findall(r'(?:src|href)="([^"]*)"', answer.text):
            assert url.startswith(("/", "?")) or name == "frames", name


async def test_pages_run_our_module_alone_and_no_inline_script(rp, browser):
    for name, answer in (await every_page(rp, browser)).items():
        assert directives(answer)["script-src"] == "'self'", name
        scripts = re.findall(r"<script([^>]*)>(.*?)</script>", answer.text, re.DOTALL)
        assert len(scripts) == 1, name
        assert re.fullmatch(r' type="module" src="/static/pages-[0-9a-zA-Z_-]+\.js"', scripts[0][0]), name
        assert not scripts[0][1], name


@pytest.mark.parametrize("kind", ["text/css; charset=utf-8", "text/javascript; charset=utf-8", "image/svg+xml"])
async def test_static_files_can_be_cached_forever(browser, rp, kind):
    paths = re.findall(r'(?:src|href)="(/static/[^"]+)"', (await rp.authorize(browser)).text)
    answers = [await browser.get(path) for path in paths]
    (answer,) = [answer for answer in answers if answer.headers["Content-Type"] == kind]
    assert "immutable" in answer.headers["Cache-Control"]
    assert (await browser.get("/favicon.ico")).headers["Content-Type"] == "image/svg+xml"


async def test_stylesheet_may_be_kept_for_ever_and_no_other_is_there(browser, rp):
    shown = await rp.authorize(browser)
    path = re.search(r'<link rel="stylesheet" href="([^"]+)">', shown.text)
    assert path is not None
    sheet = await browser.get(path[1])
    assert sheet.status_code == 200
    assert sheet.headers["Content-Type"] == "text/css; charset=utf-8"
    assert "immutable" in sheet.headers["Cache-Control"]
    assert (await browser.get("/static/style-other.css")).status_code == 404


@pytest.mark.requirement("attack-12")
async def test_attack_12_form_post_escapes_what_it_carries(rp, browser):
    answer = await rp.authorize(browser, prompt="none", response_mode="form_post", state=NASTY)
    assert "<script>" not in answer.text
    assert response(answer)["state"] == NASTY
    assert directives(answer)["form-action"] == "https: https://app.example.com"


@pytest.mark.requirement("attack-14")
async def test_login_pages_let_redirect_uris_redirect_on_to_https_only(rp, browser):
    shown = await rp.authorize(browser)
    for answer in (shown, await rp.submit(browser, shown, password="wrong")):
        assert directives(answer)["form-action"] == "'self' https://app.example.com https:"


@pytest.mark.requirement("attack-14")
async def test_login_pages_name_only_our_origin_and_that_of_the_redirect_uri_if_configured(build):
    async with (
        build(server__form_action_sources="[]") as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
        plain_http.client(service.base_url) as browser,
    ):
        rp = await relying_party.make(api)
        await rp.configure(authorizedRedirectURLs=["https://app.example.com/callback", "com.example.app:/callback"])
        shown = await rp.authorize(browser)
        native = await rp.authorize(browser, redirect_uri="com.example.app:/callback")
        refused = await rp.submit(browser, shown, password="wrong")
    for answer in (shown, refused):
        assert directives(answer)["form-action"] == "'self' https://app.example.com"
    assert directives(native)["form-action"] == "'self' com.example.app:"


@pytest.mark.requirement("attack-19")
@pytest.mark.parametrize("path", ["/oauth2/authorize", "/app/login", "/oauth2/logout"])
async def test_error_page_does_not_repeat_a_foreign_url(rp, browser, path):
    url = "https://your-account-is-locked.call-0800-555.example/"
    names = ("post_logout_redirect_uri",) if path == "/oauth2/logout" else ("redirect_uri",)
    query = {**rp.query(), **dict.fromkeys(names, url)}
    shown = await browser.get(path, params=query)
    assert shown.status_code == 400
    assert "locked" not in shown.text


@pytest.mark.requirement("attack-19")
async def test_attack_19_pages_escape_what_they_repeat(rp, browser):
    shown = await rp.authorize(browser, state=NASTY, login_hint=NASTY, scope="openid", locale=NASTY)
    assert "<script>" not in shown.text
    assert page(shown).forms[0]["fields"]["state"] == NASTY
    assert page(shown).forms[0]["fields"]["loginId"] == NASTY
    again = await rp.submit(browser, shown, loginId=NASTY, password="wrong")
    assert "<script>" not in again.text
    error = await rp.authorize(browser, redirect_uri=NASTY)
    assert error.status_code == 400
    assert "<script>" not in error.text


@pytest.mark.requirement("oauth-1.9-1")
async def test_login_page_carries_the_whole_request(rp, browser):
    sent = {
        **rp.query(nonce="n", max_age="100", locale="fr", login_hint="x@example.com"),
        "metaData.device.name": "phone",
        "tenantId": rp.tenant["id"],
    }
    for shown in (
        await browser.get("/oauth2/authorize", params=sent),
        await browser.post("/oauth2/authorize", data=sent, headers=ELSEWHERE),
    ):
        (form,) = page(shown).forms
        assert form["method"] == "post"
        assert form["fields"].items() >= sent.items()


@pytest.mark.requirement("attack-42", "design-state-29", "oauth-1.9-2")
async def test_attack_42_login_form_that_was_not_shown_to_this_browser_is_refused(rp, browser):
    forged = {**rp.query(), "loginId": rp.login_id, "password": PASSWORD}
    for fields, headers in (
        (forged, {}),
        ({**forged, "csrf_token": "guessed"}, {}),
        ({**forged, "csrf_token": ""}, ELSEWHERE),
    ):
        answer = await browser.post("/oauth2/authorize", data=fields, headers=headers)
        assert answer.status_code == 403
        assert "fusionauth.sso" not in browser.cookies
        assert "try again" in page(answer).text


@pytest.mark.requirement("attack-42")
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example.com"},
    ],
)
async def test_attack_42_another_site_cannot_send_even_a_right_form(rp, browser, headers):
    fields = page(await rp.authorize(browser)).forms[0]["fields"]
    filled = {**fields, "loginId": rp.login_id, "password": PASSWORD}
    assert (await browser.post("/oauth2/authorize", data=filled, headers=headers)).status_code == 403
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    assert "code" in response(await browser.post("/oauth2/authorize", data=filled, headers=own))


async def test_refused_form_can_be_sent_again(rp, browser):
    refused = await browser.post("/oauth2/authorize", data={**rp.query(), "loginId": rp.login_id, "password": PASSWORD})
    assert "code" in response(await rp.submit(browser, refused))


@pytest.mark.requirement("attack-13", "oauth-0.4-5")
async def test_attack_13_login_is_answered_so_that_no_password_is_posted_on(rp, browser):
    answer = await rp.submit(browser, await rp.authorize(browser))
    assert answer.status_code in {302, 303}
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.content == b""


@pytest.mark.requirement("attack-44")
async def test_unknown_user_and_wrong_password_look_alike(rp, browser):
    texts = set()
    for fields in ({"loginId": "unknown@example.com"}, {"password": "wrong"}):
        shown = await rp.submit(browser, await rp.authorize(browser), **fields)
        assert shown.status_code == 200
        texts.add(page(shown).text)
    assert len(texts) == 1


@pytest.mark.requirement("oauth-1.9-4")
async def test_user_who_knows_the_password_learns_what_is_missing(rp, browser):
    await rp.patch(f"/api/user/{rp.user['id']}", {"user": {"expiry": 1}})
    shown = await rp.submit(browser, await rp.authorize(browser))
    assert "expired" in page(shown).text
    assert "fusionauth.sso" not in browser.cookies


async def test_locked_user_sees_lock_only_with_the_right_password(rp, browser, api):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    assert (await api.delete(f"/api/user/{rp.user['id']}", headers=headers)).status_code == 200
    shown = await rp.authorize(browser)
    assert "locked" in page(await rp.submit(browser, shown)).text
    assert "locked" not in page(await rp.submit(browser, shown, password="wrong")).text


async def test_index_knows_who_is_signed_in(rp, browser, api, service):
    tenant = {"id": internals.store(service, "default_tenant_id"), "issuer": service.base_url}
    own = await relying_party.make(api, tenant=tenant)
    assert "You are signed in" not in page(await browser.get("/")).text
    await own.log_in(browser)
    assert "You are signed in" in page(await browser.get("/")).text


async def test_error_is_bare_json_for_who_prefers_it(rp, browser):
    answer = await browser.get(
        "/oauth2/authorize", params=rp.query(client_id="x"), headers={"Accept": "application/json"}
    )
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["error_reason"] == "invalid_client_id"
    assert REDIRECT_URI not in answer.text


HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/nowhere", 404, "Page not found"),
        ("POST", "/nowhere", 404, "Page not found"),
        ("PUT", "/oauth2/authorize", 405, "This page cannot be opened this way"),
    ],
)
async def test_browsers_get_a_page_for_a_wrong_address_and_programs_an_empty_body(browser, method, path, status, text):
    shown = await browser.request(method, path, headers=HTML)
    assert (shown.status_code, shown.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert text in page(shown).text
    assert directives(shown)["default-src"] == "'none'"
    german = await browser.request(method, path, headers={**HTML, "Accept-Language": "de"})
    assert '<html lang="de"' in german.text
    bare = await browser.request(method, path, headers={"Accept": "*/*"})
    assert (bare.status_code, bare.content) == (status, b"")
    assert shown.headers.get("Allow") == bare.headers.get("Allow")


async def test_api_has_no_page_for_an_unknown_path(browser):
    answer = await browser.get("/api/nothing", headers=HTML)
    assert (answer.status_code, answer.content) == (404, b"")


@pytest.mark.parametrize("path", ["/", "/nowhere", "/favicon.ico"])
async def test_head_of_a_page_is_its_get_without_the_body(browser, path):
    got, head = await browser.get(path, headers=HTML), await browser.head(path, headers=HTML)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]


async def test_password_managers_find_the_page_that_changes_the_password(browser):
    answer = await browser.get("/.well-known/change-password")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/account/password")


async def test_fault_of_the_service_is_a_page_that_says_so(service, monkeypatch):
    async def fail(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(clients, "get_default_tenant", fail)
    async with plain_http.client(service.base_url) as client:
        shown = await client.get("/", headers=HTML)
    assert shown.status_code == 500
    assert "The problem is on our side." in page(shown).text
    assert "Nothing about your account has changed." not in page(shown).text
    assert "secret detail" not in shown.text
