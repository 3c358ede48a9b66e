"""Pushed authorization requests (RFC 9126)."""

from __future__ import annotations

import asyncio
import re

import pytest

from identity.ids import new_id
from tests import internals, relying_party
from tests.oauth2 import consenting
from tests.relying_party import CHALLENGE, PKCE, VERIFIER, response

URN = re.compile(r"urn:ietf:params:oauth:request_uri:[A-Za-z0-9_-]{43}")


async def pushed(rp, http, **changes) -> str:
    """The request_uri of a request that the client pushed."""
    form = {**rp.query(**changes), "client_secret": rp.secret}
    answer = await http.post("/oauth2/par", data=form)
    assert answer.status_code == 201, answer.text
    return answer.json()["request_uri"]


async def opened(rp, browser, uri, **more):
    """The response to a browser with a request_uri, after the redirect to the login page."""
    answer = await browser.get("/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": uri, **more})
    if answer.status_code == 302 and answer.headers["Location"].startswith("/"):
        return await browser.get(answer.headers["Location"])
    return answer


def refused(answer, status: int, error: str, reason: str | None) -> None:
    assert answer.status_code == status, answer.text
    assert (answer.json()["error"], answer.json().get("error_reason")) == (error, reason)
    assert answer.headers["Cache-Control"] == "no-store"


def unusable(answer) -> None:
    """The error page for an unusable request_uri."""
    assert answer.status_code == 400
    assert "invalid_request_uri" in answer.text
    assert "Location" not in answer.headers


@pytest.mark.requirement("oauth-12-10")
async def test_pushed_request_returns_a_code_and_tokens(rp, browser, http):
    answer = await http.post("/oauth2/par", data={**rp.query(nonce="n-1", **PKCE), "client_secret": rp.secret})
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    assert answer.json().keys() == {"expires_in", "request_uri"}
    assert answer.json()["expires_in"] == 60
    assert URN.fullmatch(answer.json()["request_uri"])
    shown = await opened(rp, browser, answer.json()["request_uri"])
    given = response(await rp.submit(browser, shown))
    assert given["state"] == "the-state"
    tokens = (await rp.exchange(http, given["code"], code_verifier=VERIFIER)).json()
    assert relying_party.claims(tokens["id_token"])["nonce"] == "n-1"
    assert tokens["scope"] == "openid offline_access"


@pytest.mark.requirement("oauth-12-11")
async def test_other_parameters_than_client_id_and_request_uri_are_ignored(rp, browser, http):
    uri = await pushed(rp, http, scope="openid")
    evil = {"redirect_uri": "https://evil.example.com/cb", "scope": "openid offline_access", "state": "theirs"}
    shown = await opened(rp, browser, uri, **evil)
    given = response(await rp.submit(browser, shown, **evil))
    assert given["state"] == "the-state"
    assert (await rp.exchange(http, given["code"])).json()["scope"] == "openid"


@pytest.mark.requirement("oauth-12-13")
async def test_login_form_has_the_request_uri_only(rp, browser, http):
    shown = await opened(rp, browser, await pushed(rp, http))
    form = relying_party.page(shown).forms[0]
    assert form["fields"].keys() == {"client_id", "request_uri", "csrf_token", "loginId", "password"}
    assert "the-state" not in shown.text


@pytest.mark.requirement("oauth-12-13")
async def test_login_page_can_be_reloaded_and_returns_one_code(rp, browser, http):
    uri = await pushed(rp, http)
    sent = await browser.get("/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": uri})
    place = sent.headers["Location"]
    shown = await browser.get(place)
    assert shown.text == (await browser.get(place)).text
    failed = await rp.submit(browser, shown, password="a wrong password")
    assert "request_uri" in relying_party.page(failed).forms[0]["fields"]
    assert "code" in response(await rp.submit(browser, failed))
    unusable(await browser.get(place))


@pytest.mark.requirement("oauth-12-13")
async def test_opened_request_is_bound_to_its_browser(rp, new_browser, http):
    mine, theirs = new_browser(), new_browser()
    uri = await pushed(rp, http)
    sent = await mine.get("/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": uri})
    unusable(await theirs.get(sent.headers["Location"]))
    await rp.authorize(theirs)  # now they have a cookie, too
    unusable(await theirs.get(sent.headers["Location"]))
    assert (await mine.get(sent.headers["Location"])).status_code == 200


@pytest.mark.requirement("oauth-12-13")
async def test_opened_request_expires_with_the_login_transaction(rp, browser, http, service):
    durations = rp.tenant["externalIdentifierConfiguration"]
    await rp.configure_tenant(externalIdentifierConfiguration={**durations, "loginIntentTimeToLiveInSeconds": 777})
    redis = internals.redis(service)
    await opened(rp, browser, await pushed(rp, http))
    keys = [key async for key in redis.client.scan_iter(redis.key("pushed-request", rp.tenant["id"], "*"))]
    pushed_seconds, opened_seconds = sorted([await redis.client.ttl(key) for key in keys])
    assert pushed_seconds <= 60
    assert 760 < opened_seconds <= 777


@pytest.mark.requirement("oauth-12-11")
async def test_pushed_request_expires_after_a_minute(rp, browser, http, service):
    uri = await pushed(rp, http)
    redis = internals.redis(service)
    keys = [key async for key in redis.client.scan_iter(redis.key("pushed-request", rp.tenant["id"], "*"))]
    assert 50 < await redis.client.ttl(keys[0]) <= 60
    assert uri.rpartition(":")[2] not in keys[0]
    await redis.client.delete(keys[0])  # as its end of life does
    unusable(await opened(rp, browser, uri))


async def test_session_responds_to_a_pushed_request(rp, browser, http):
    await rp.log_in(browser)
    for prompt in (None, "none"):
        uri = await pushed(rp, http, prompt=prompt)
        assert "code" in response(await opened(rp, browser, uri))
        unusable(await opened(rp, browser, uri))


async def test_prompt_none_without_session_consumes_the_request(rp, browser, http):
    uri = await pushed(rp, http, prompt="none")
    given = response(await opened(rp, browser, uri))
    assert (given["error"], given["error_reason"]) == ("login_required", "authentication_required")
    unusable(await opened(rp, browser, uri))


@pytest.mark.requirement("attack-16")
async def test_attack_16_request_uri_is_used_once_also_with_prompt_none(rp, browser, new_browser, http):
    await rp.log_in(browser)
    silent = await pushed(rp, http, prompt="none")
    assert "code" in response(await opened(rp, browser, silent))
    unusable(await opened(rp, browser, silent))


@pytest.mark.requirement("audit-b7-request-uri")
async def test_request_uri_can_be_reloaded_until_the_response(rp, new_browser, http):
    """FAPI 2.0 section 5.3.2.2: a page that is reloaded is no second use, and a link preview none at all."""
    uri = await pushed(rp, http)
    mine, theirs = new_browser(), new_browser()
    pages = [await opened(rp, browser, uri) for browser in (mine, mine, theirs)]
    assert [shown.status_code for shown in pages] == [200, 200, 200]
    assert "code" in response(await rp.submit(mine, pages[1]))
    for browser in (mine, theirs):
        unusable(await opened(rp, browser, uri))
    for browser, shown in ((mine, pages[0]), (theirs, pages[2])):
        assert response(await rp.submit(browser, shown))["error"] == "invalid_request_uri"


@pytest.mark.requirement("audit-b7-request-uri")
async def test_attack_16_one_of_racing_browsers_gets_a_code(rp, new_browser, http):
    uri = await pushed(rp, http)
    browsers = [new_browser() for _ in range(8)]
    pages = [await opened(rp, browser, uri) for browser in browsers]
    answers = await asyncio.gather(*(rp.submit(browser, shown) for browser, shown in zip(browsers, pages, strict=True)))
    given = [response(answer) for answer in answers]
    assert sum("code" in one for one in given) == 1
    assert sum(one.get("error") == "invalid_request_uri" for one in given) == 7


@pytest.mark.requirement("audit-b7-request-uri")
async def test_request_uri_can_be_opened_a_limited_number_of_times(rp, new_browser, http):
    uri = await pushed(rp, http)
    shown = 0
    for _ in range(22):
        query = {"client_id": rp.client_id, "request_uri": uri}
        answer = await new_browser().get("/oauth2/authorize", params=query)
        shown += answer.headers["Location"].startswith("/oauth2/authorize")
    assert shown == 20
    assert response(answer)["error"] == "invalid_request_uri"


@pytest.mark.requirement("attack-16")
async def test_attack_16_one_of_64_racing_callers_gets_a_code(rp, browser, http):
    await rp.log_in(browser)
    uri = await pushed(rp, http, prompt="none")
    answers = await asyncio.gather(*(opened(rp, browser, uri) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [302] + [400] * 63
    given = next(response(answer) for answer in answers if answer.status_code == 302)
    assert (await rp.exchange(http, given["code"])).status_code == 200


@pytest.mark.requirement("attack-16", "error-invalid_request_uri")
async def test_attack_16_one_of_racing_logins_gets_a_code(rp, browser, http):
    await rp.log_in(browser)
    sent = await browser.get(
        "/oauth2/authorize", params={"client_id": rp.client_id, "request_uri": await pushed(rp, http, prompt="login")}
    )
    shown = await browser.get(sent.headers["Location"])
    answers = await asyncio.gather(*(rp.submit(browser, shown) for _ in range(8)))
    given = [response(answer) if answer.status_code == 302 else {} for answer in answers]
    assert sum("code" in one for one in given) == 1
    assert all("code" in one or one.get("error", "invalid_request_uri") == "invalid_request_uri" for one in given)


@pytest.mark.requirement("oauth-12-11")
async def test_request_uri_is_bound_to_client_and_tenant(rp, browser, http, api):
    uri = await pushed(rp, http)
    sibling = await relying_party.make(api, tenant=rp.tenant)
    stranger = await relying_party.make(api)
    for other in (sibling, stranger):
        unusable(await opened(other, browser, uri))
    unusable(await opened(rp, browser, f"{uri[:-1]}{'A' if uri[-1] != 'A' else 'B'}"))
    page = await browser.get(f"/{stranger.tenant['id']}/oauth2/authorize", params={"client_id": rp.client_id})
    assert "invalid_tenant_id" in page.text
    assert (await opened(rp, browser, uri)).status_code == 200


async def test_request_uri_without_client_id_is_refused(rp, browser, http):
    answer = await browser.get("/oauth2/authorize", params={"request_uri": await pushed(rp, http)})
    assert answer.status_code == 400
    assert "missing_client_id" in answer.text


async def test_request_uri_may_be_posted_by_another_site(rp, browser, http):
    headers = {"Origin": "https://app.example.com", "Sec-Fetch-Site": "cross-site"}
    form = {"client_id": rp.client_id, "request_uri": await pushed(rp, http)}
    sent = await browser.post("/oauth2/authorize", data=form, headers=headers)
    shown = await browser.get(sent.headers["Location"])
    assert "code" in response(await rp.submit(browser, shown))


async def test_tenant_may_be_in_both_paths(rp, browser, http, tenant):
    form = {**rp.query(), "client_secret": rp.secret}
    answer = await http.post(f"/{rp.tenant['id']}/oauth2/par", data=form)
    assert answer.status_code == 201
    path = f"/{rp.tenant['id']}/oauth2/authorize"
    query = {"client_id": rp.client_id, "request_uri": answer.json()["request_uri"]}
    sent = await browser.get(path, params=query)
    assert sent.headers["Location"].startswith(f"{path}?")
    shown = await browser.get(sent.headers["Location"])
    assert relying_party.page(shown).forms[0]["action"] == path
    assert "code" in response(await rp.submit(browser, shown))
    refused(await http.post(f"/{tenant['id']}/oauth2/par", data=form), 400, "invalid_request", "invalid_tenant_id")


async def test_response_mode_of_the_pushed_request_is_used(rp, browser, http):
    shown = await opened(rp, browser, await pushed(rp, http, response_mode="form_post"))
    assert "code" in response(await rp.submit(browser, shown))


REFUSALS = {
    "redirect_uri": ({"redirect_uri": None}, "invalid_request", "missing_redirect_uri"),
    "foreign redirect_uri": ({"redirect_uri": "https://evil.example.com/"}, "invalid_request", "invalid_redirect_uri"),
    "response_type": ({"response_type": None}, "invalid_request", "missing_response_type"),
    "other type": ({"response_type": "x"}, "unsupported_response_type", "invalid_response_type"),
    "mode": ({"response_mode": "x"}, "invalid_request", "invalid_response_mode"),
    "grant": ({"response_type": "id_token"}, "unauthorized_client", "grant_type_disabled"),
    "plain": ({"code_challenge": CHALLENGE}, "invalid_request", "invalid_pkce_code_challenge_method"),
    "challenge": ({"code_challenge_method": "S256"}, "invalid_request", "missing_code_challenge"),
    "prompt": ({"prompt": "none login"}, "invalid_request", "invalid_prompt"),
    "max_age": ({"max_age": "x"}, "invalid_request", "unknown"),
    "request_uri": ({"request_uri": "urn:ietf:params:oauth:request_uri:x"}, "invalid_request", "unknown"),
    "registration": ({"registration": "{}"}, "registration_not_supported", None),
}


@pytest.mark.requirement("oauth-12-10")
async def test_invalid_requests_are_rejected_when_pushed(rp, http):
    for changes, error, reason in REFUSALS.values():
        form = {**rp.query(**changes), "client_secret": rp.secret}
        refused(await http.post("/oauth2/par", data=form), 400, error, reason)


@pytest.mark.requirement("oauth-12-10")
async def test_unknown_scope_is_refused_when_it_is_pushed(rp, http):
    await rp.configure(unknownScopePolicy="Reject")
    form = {**rp.query(scope="openid x"), "client_secret": rp.secret}
    refused(await http.post("/oauth2/par", data=form), 400, "invalid_scope", "unknown_scope")


@pytest.mark.requirement("oauth-12-10")
async def test_client_authenticates_as_at_the_token_endpoint(rp, http):
    query = rp.query(**PKCE)
    answer = await http.post("/oauth2/par", data=query)
    refused(answer, 401, "invalid_client", "client_authentication_missing")
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="oauth2"'
    wrong = await http.post("/oauth2/par", data={**query, "client_secret": "wrong"})
    refused(wrong, 401, "invalid_client", "invalid_client_authentication")
    refused(
        await http.post("/oauth2/par", data={**query, "client_id": new_id()}),
        401,
        "invalid_client",
        "invalid_client_id",
    )
    refused(await http.post("/oauth2/par", data={"scope": "openid"}), 400, "invalid_request", "missing_client_id")
    del query["client_id"]
    assert (await http.post("/oauth2/par", data=query, auth=(rp.client_id, rp.secret))).status_code == 201


@pytest.mark.requirement("oauth-12-10")
async def test_public_client_may_push_with_pkce(rp, http):
    await rp.configure(clientAuthenticationPolicy="NotRequiredWhenUsingPKCE")
    assert (await http.post("/oauth2/par", data=rp.query(**PKCE))).status_code == 201
    answer = await http.post("/oauth2/par", data=rp.query())
    refused(answer, 401, "invalid_client", "client_authentication_missing")
    await rp.configure(clientAuthenticationPolicy="NotRequired")
    assert (await http.post("/oauth2/par", data=rp.query())).status_code == 201


async def test_pushed_request_is_validated_again_when_used(rp, browser, http):
    uri = await pushed(rp, http)
    await rp.configure(authorizedRedirectURLs=["https://elsewhere.example.com/"])
    answer = await opened(rp, browser, uri)
    assert answer.status_code == 400
    assert "invalid_redirect_uri" in answer.text


@pytest.mark.requirement("oauth-12-10")
async def test_oversized_request_is_rejected(rp, http):
    form = {**rp.query(state="x" * 70_000), "client_secret": rp.secret}
    assert (await http.post("/oauth2/par", data=form)).status_code == 413


@pytest.mark.requirement("oauth-12-14")
async def test_required_par_rejects_other_requests(rp, browser, http):
    assert (await rp.authorize(browser)).status_code == 200
    await rp.configure(requirePushedAuthorizationRequests=True)
    given = response(await rp.authorize(browser))
    assert (given["error"], given["error_reason"], given["state"]) == ("invalid_request", "unknown", "the-state")
    assert "push" in given["error_description"]
    shown = await opened(rp, browser, await pushed(rp, http))
    assert "code" in response(await rp.submit(browser, shown))


@pytest.mark.requirement("oauth-12-14")
async def test_login_form_does_not_bypass_required_par(rp, browser):
    shown = await rp.authorize(browser)
    await rp.configure(requirePushedAuthorizationRequests=True)
    given = response(await rp.submit(browser, shown))
    assert (given["error"], given["error_reason"]) == ("invalid_request", "unknown")


async def test_failed_pushes_are_logged(rp, http, api):
    await rp.configure(debug=True)
    form = {**rp.query(response_type="x"), "client_secret": rp.secret}
    await http.post("/oauth2/par", data=form)
    query = {"message": rp.client_id, "type": "Debug"}
    rows = (await api.get("/api/system/event-log/search", params=query)).json()["eventLogs"]
    assert len(rows) == 1
    assert "got no request_uri: unsupported_response_type" in rows[0]["message"]
    assert rp.secret not in rows[0]["message"]


async def test_metadata_has_the_par_endpoint(http, service):
    document = (await http.get("/.well-known/openid-configuration")).json()
    assert document["pushed_authorization_request_endpoint"] == f"{service.base_url}/oauth2/par"
    assert document["require_pushed_authorization_requests"] is False


async def test_all_authorization_parameters_can_be_pushed(service):
    names = internals.schemas(service)["oauth2/authorize.request.json"].schema["properties"].keys()
    assert names <= internals.schemas(service)["oauth2/par.request.json"].schema["properties"].keys()


async def test_pushed_request_with_consent_gets_one_response(api, browser, http):
    rp = await relying_party.make(api, relationship="ThirdParty")
    sent = await browser.get(
        "/oauth2/authorize",
        params={"client_id": rp.client_id, "request_uri": await pushed(rp, http, scope="openid email")},
    )
    shown = await browser.get(sent.headers["Location"])
    pages = []
    for _ in range(2):
        asked = await rp.submit(browser, shown)
        pages.append(await browser.get(asked.headers["Location"]))
    answers = [response(await consenting.send(browser, page, "email")) for page in pages]
    assert answers[0]["state"] == "the-state"
    assert (await rp.exchange(http, answers[0]["code"])).json()["scope"] == "openid email"
    assert answers[1]["error"] == "invalid_request_uri"
