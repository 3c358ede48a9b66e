"""Logout: ended sessions, redirects, notifications, and errors."""

from __future__ import annotations

import urllib.parse

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from identity.ids import new_id
from tests import relying_party
from tests.receiver import answers, in_turn, receiving
from tests.relying_party import REDIRECT_URI, claims, page, response
from tests.subscriber import Subscriber

AFTER = "https://app.example.com/bye"
ELSEWHERE = {"Sec-Fetch-Site": "cross-site"}


async def log_out(browser, method: str = "GET", headers=None, **parameters: str):
    if method == "GET":
        return await browser.get("/oauth2/logout", params=parameters, headers=headers)
    return await browser.post("/oauth2/logout", data=parameters, headers=headers)


async def is_logged_in(rp, browser) -> bool:
    return "code" in response(await rp.authorize(browser, prompt="none"))


def refused(answer, reason: str) -> None:
    assert answer.status_code == 400, answer.headers
    assert "Location" not in answer.headers
    assert f'"error_reason": "{reason}"' in page(answer).text


@pytest.fixture
async def logged_in_party(rp, browser):
    await rp.configure(authorizedRedirectURLs=[REDIRECT_URI, AFTER])
    await rp.log_in(browser)
    return rp


@pytest.mark.requirement(
    "certification-logout-2",
    "certification-logout-3",
    "contract-logout-1",
    "contract-logout-5",
    "oauth-4.3-12",
    "service-16",
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_logout_ends_the_session_and_redirects(logged_in_party, browser, method):
    answer = await log_out(
        browser, method, client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER, state="a b&c"
    )
    assert answer.status_code == 302
    assert answer.headers["Location"] == AFTER + "?state=a%20b%26c"
    gone = {
        name for line in answer.headers.get_list("Set-Cookie") if "Max-Age=0" in line for name in [line.split("=")[0]]
    }
    assert gone == {"fusionauth.sso", "fusionauth.li"}
    assert not await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("event-jwt.refresh-token.revoke-4")
async def test_logout_sends_events_that_can_be_vetoed(logged_in_party, browser, api):
    kind = "jwt.refresh-token.revoke"
    async with receiving(in_turn(answers(500), answers(200))) as receiver:
        subscriber = Subscriber(logged_in_party.api, receiver, logged_in_party.tenant["id"])
        await subscriber.subscribe([kind], "AbsoluteMajority")
        vetoed = await log_out(browser, client_id=logged_in_party.client_id)
        assert (vetoed.status_code, vetoed.headers.get_list("Set-Cookie")) == (400, [])
        assert "A webhook vetoed this logout." in page(vetoed).text
        assert await is_logged_in(logged_in_party, browser)
        assert (await log_out(browser, client_id=logged_in_party.client_id)).status_code == 302
        _, event = await subscriber.received(kind, kind)
    assert event["user"]["id"] == event["userId"] == event["linkedObjectId"] == logged_in_party.user["id"]
    assert (
        event["refreshToken"]["userId"] == logged_in_party.user["id"] and event["applicationTimeToLiveInSeconds"] == {}
    )
    assert not {"applicationId"} & {*event, *event["refreshToken"]}
    assert not await is_logged_in(logged_in_party, browser)
    # Without a session nothing ends.
    assert (await log_out(browser, client_id=logged_in_party.client_id)).status_code == 302


@pytest.mark.requirement("contract-logout-8")
async def test_ended_session_is_invalid_with_its_cookie(logged_in_party, browser):
    cookie = browser.cookies["fusionauth.sso"]
    await log_out(browser, client_id=logged_in_party.client_id)
    browser.cookies.set("fusionauth.sso", cookie, domain="localhost.local", path="/")
    assert not await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("contract-logout-8")
async def test_logout_does_not_revoke_tokens(rp, browser, http):
    tokens = await rp.tokens(http, browser)
    await log_out(browser, client_id=rp.client_id)
    assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 200


@pytest.mark.requirement("contract-logout-6", "contract-logout-7", "oauth-4.3-2")
async def test_first_configured_target_is_used(logged_in_party, browser):
    assert (await log_out(browser, client_id=logged_in_party.client_id)).headers["Location"] == "/"
    await logged_in_party.configure_tenant(logoutURL="https://tenant.example.com/")
    assert (await log_out(browser, client_id=logged_in_party.client_id)).headers[
        "Location"
    ] == "https://tenant.example.com/"
    assert (await log_out(browser, tenantId=logged_in_party.tenant["id"])).headers[
        "Location"
    ] == "https://tenant.example.com/"
    await logged_in_party.configure(logoutURL="https://app.example.com/out", logoutBehavior="RedirectOnly")
    answer = await log_out(browser, client_id=logged_in_party.client_id, state="s")
    assert answer.headers["Location"] == "https://app.example.com/out"


@pytest.mark.requirement("certification-authorize-11", "oauth-1.9-15")
async def test_logout_without_target_shows_a_page(logged_in_party, browser):
    answer = await log_out(browser, client_id=logged_in_party.client_id)
    shown = await browser.get(answer.headers["Location"])
    assert "signed out" in page(shown).text.lower()
    again = await browser.get("/")
    assert "Identity service" in page(again).text


@pytest.mark.requirement("contract-logout-10", "oauth-4.3-7")
async def test_logout_without_session_redirects(rp, browser):
    answer = await log_out(browser, client_id=rp.client_id, post_logout_redirect_uri=REDIRECT_URI)
    assert answer.headers["Location"] == REDIRECT_URI


@pytest.mark.requirement("contract-logout-3", "oauth-4.3-1")
async def test_expired_id_token_hint_identifies_the_client(rp, browser, http, clock):
    id_token = (await rp.tokens(http, browser))["id_token"]
    clock.advance(seconds=3601)
    for client in ({}, {"client_id": rp.client_id.upper()}):
        answer = await log_out(browser, id_token_hint=id_token, post_logout_redirect_uri=REDIRECT_URI, **client)
        assert answer.headers["Location"] == REDIRECT_URI


@pytest.mark.requirement("attack-43", "oauth-4.3-1")
@pytest.mark.parametrize("whose", ["another client's", "nobody's"])
async def test_attack_43_hint_beside_a_client_id_is_ignored_and_proves_no_session(rp, browser, http, api, whose):
    """The contract uses the hint only without a client_id; a forged logout still needs the user's confirmation."""
    id_token = (await rp.tokens(http, browser))["id_token"]
    other = await relying_party.make(api, tenant=rp.tenant)
    sent = {"client_id": other.client_id, "id_token_hint": id_token if whose == "another client's" else "nonsense"}
    answer = await log_out(browser, headers=ELSEWHERE, **sent)
    assert answer.status_code == 200
    assert await is_logged_in(rp, browser)
    assert (await log_out(browser, **sent)).status_code == 302
    assert not await is_logged_in(rp, browser)


@pytest.mark.requirement("attack-43", "certification-logout-1", "oauth-4.3-4", "reason-invalid_id_token_hint")
@pytest.mark.parametrize("forged", ["unsigned", "client secret", "access token", "nonsense", "changed"])
async def test_attack_43_foreign_hint_is_rejected(rp, browser, http, forged):
    tokens = await rp.tokens(http, browser)
    head, body, signature = tokens["id_token"].split(".")
    hint = {
        "unsigned": f"eyJhbGciOiJub25lIn0.{body}.",
        "client secret": jwt.encode({"alg": "HS256"}, claims(tokens["id_token"]), OctKey.import_key(rp.secret)),
        "access token": tokens["access_token"],
        "nonsense": "nonsense",
        "changed": f"{head}.{body}.{signature[::-1]}",
    }[forged]
    refused(await log_out(browser, id_token_hint=hint), "invalid_id_token_hint")
    assert await is_logged_in(rp, browser)


@pytest.mark.requirement(
    "attack-43", "certification-logout-2", "contract-logout-4", "oauth-4.3-5", "reason-invalid_post_logout_redirect_uri"
)
async def test_attack_43_unregistered_target_is_refused(rp, browser):
    for parameters in ({"client_id": rp.client_id}, {}):
        answer = await log_out(browser, post_logout_redirect_uri="https://evil.example.com/", **parameters)
        refused(answer, "invalid_post_logout_redirect_uri")


@pytest.mark.requirement(
    "contract-logout-10", "contract-logout-2", "oauth-4.3-3", "oauth-4.3-6", "reason-invalid_client_id"
)
async def test_unknown_client_and_tenant_are_refused(rp, browser):
    refused(await log_out(browser, client_id=new_id()), "invalid_client_id")
    refused(await log_out(browser, client_id=rp.client_id, tenantId=new_id()), "invalid_tenant_id")


@pytest.mark.requirement("attack-42", "audit-a8-logout")
async def test_attack_42_cross_site_logout_requires_confirmation(logged_in_party, browser):
    answer = await log_out(browser, headers=ELSEWHERE, tenantId=logged_in_party.tenant["id"])
    assert answer.status_code == 200
    form = page(answer).forms[0]
    assert await is_logged_in(logged_in_party, browser)
    own = {"Sec-Fetch-Site": "same-origin"}
    assert (await browser.post(form["action"], data=form["fields"], headers=own)).status_code == 302
    assert not await is_logged_in(logged_in_party, browser)


async def confirmed(browser, answer):
    """Submit the confirmation page as a browser does."""
    assert answer.status_code == 200, answer.headers
    assert "id_token_hint" in page(answer).text
    form = page(answer).forms[0]
    return await browser.post(form["action"], data=form["fields"], headers={"Sec-Fetch-Site": "same-origin"})


@pytest.mark.requirement("audit-a8-logout")
@pytest.mark.parametrize(
    "headers",
    [ELSEWHERE, {"Referer": "https://evil.example.com/"}, {"Origin": "https://evil.example.com"}],
    ids=["Fetch Metadata", "Referer", "Origin"],
)
async def test_attack_42_cross_site_logout_with_client_id_requires_confirmation(logged_in_party, browser, headers):
    parameters = {"client_id": logged_in_party.client_id, "post_logout_redirect_uri": AFTER, "state": "s"}
    answer = await log_out(browser, headers=headers, **parameters)
    assert not {"fusionauth.sso", "fusionauth.li"} & {
        line.partition("=")[0] for line in answer.headers.get_list("Set-Cookie")
    }
    assert await is_logged_in(logged_in_party, browser)
    assert "https://app.example.com" in answer.headers["Content-Security-Policy"].partition("form-action")[2]
    done = await confirmed(browser, answer)
    assert (done.status_code, done.headers["Location"]) == (302, f"{AFTER}?state=s")
    assert not await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("audit-a8-logout")
async def test_attack_42_confirmation_requires_a_csrf_token(logged_in_party, browser):
    answer = await log_out(browser, headers=ELSEWHERE, client_id=logged_in_party.client_id)
    form = page(answer).forms[0]
    for token in ("x", "x" * 43):
        fields = {**form["fields"], "csrf_token": token}
        again = await browser.post(form["action"], data=fields, headers={"Sec-Fetch-Site": "same-origin"})
        assert again.status_code == 200
        assert await is_logged_in(logged_in_party, browser)
    assert (await confirmed(browser, again)).status_code == 302
    assert not await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("audit-a8-logout")
async def test_cross_site_logout_with_the_id_token_needs_no_confirmation(rp, browser, http):
    id_token = (await rp.tokens(http, browser))["id_token"]
    answer = await log_out(browser, headers=ELSEWHERE, id_token_hint=id_token, post_logout_redirect_uri=REDIRECT_URI)
    assert (answer.status_code, answer.headers["Location"]) == (302, REDIRECT_URI)
    assert not await is_logged_in(rp, browser)


@pytest.mark.requirement("audit-a8-logout")
async def test_attack_42_id_token_of_another_session_requires_confirmation(rp, browser, new_browser, http):
    """Another session of the same user, and a session of another user."""
    other = await relying_party.make(rp.api, tenant=rp.tenant)
    hints = [(await one.tokens(http, new_browser()))["id_token"] for one in (rp, other)]
    await rp.log_in(browser)
    for hint in hints:
        answer = await log_out(browser, headers=ELSEWHERE, id_token_hint=hint)
        assert "sign out" in page(answer).text.lower()
        assert await is_logged_in(rp, browser)


@pytest.mark.requirement("audit-a8-logout")
async def test_attack_42_client_of_another_tenant_removes_no_cookie(logged_in_party, browser, api):
    other = await relying_party.make(api)
    answer = await log_out(browser, headers=ELSEWHERE, client_id=other.client_id)
    assert answer.status_code == 302
    assert await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("audit-a8-logout")
async def test_cross_site_post_is_repeated_with_the_cookie(rp, browser, new_browser, http):
    """Browsers send no SameSite=Lax cookie with a cross-site POST."""
    id_token = (await rp.tokens(http, browser))["id_token"]
    form = {"id_token_hint": id_token, "post_logout_redirect_uri": REDIRECT_URI, "state": "a b"}
    posted = await log_out(new_browser(), "POST", ELSEWHERE, **form)
    assert (posted.status_code, posted.headers.get_list("Set-Cookie")) == (302, [])
    answer = await browser.get(posted.headers["Location"], headers=ELSEWHERE)
    assert answer.headers["Location"] == REDIRECT_URI + "?state=a%20b"
    assert not await is_logged_in(rp, browser)


@pytest.mark.requirement("audit-a8-logout")
async def test_cross_site_logout_without_session_redirects(rp, browser):
    answer = await log_out(browser, headers=ELSEWHERE, client_id=rp.client_id, post_logout_redirect_uri=REDIRECT_URI)
    assert (answer.status_code, answer.headers["Location"]) == (302, REDIRECT_URI)


@pytest.mark.requirement("audit-a8-logout")
async def test_same_site_logout_needs_no_confirmation(logged_in_party, browser):
    answer = await log_out(browser, headers={"Sec-Fetch-Site": "same-site"}, client_id=logged_in_party.client_id)
    assert answer.status_code == 302
    assert not await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("audit-b7-logout-page")
async def test_target_without_client_or_hint_is_rejected(logged_in_party, browser):
    answer = await log_out(browser, post_logout_redirect_uri=AFTER)
    refused(answer, "invalid_post_logout_redirect_uri")
    assert "neither an id_token_hint nor a client_id" in page(answer).text


@pytest.mark.requirement("audit-a8-logout")
async def test_frames_are_loaded_after_the_confirmation(logged_in_party, browser):
    await logged_in_party.configure(logoutURL="https://app.example.com/out")
    answer = await log_out(
        browser, headers=ELSEWHERE, client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER
    )
    assert page(answer).frames == []
    done = await confirmed(browser, answer)
    (frame,) = page(done).frames
    assert frame.startswith("https://app.example.com/out?iss=")
    assert f'href="{AFTER}"' in done.text


@pytest.mark.requirement("certification-logout-3", "contract-logout-9", "oauth-4.3-8")
async def test_every_application_gets_a_logout_frame(logged_in_party, browser, api, http):
    await logged_in_party.configure(logoutURL="https://app.example.com/out")
    urls = ["https://one.example.com/out", "https://two.example.com/out?x=1"]
    for url in urls:
        await relying_party.make(api, tenant=logged_in_party.tenant, logoutURL=url)
    sid = claims((await logged_in_party.tokens(http, browser))["id_token"])["sid"]
    answer = await log_out(browser, client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER)
    assert answer.status_code == 200
    frames = page(answer).frames
    assert len(frames) == 3
    issuer = urllib.parse.urlencode({"iss": logged_in_party.tenant["issuer"]})
    assert f"https://one.example.com/out?{issuer}&sid={sid}" in frames
    assert f"https://two.example.com/out?x=1&{issuer}&sid={sid}" in frames
    policy = answer.headers["Content-Security-Policy"]
    assert "frame-src https://app.example.com https://one.example.com https://two.example.com;" in policy
    assert f'href="{AFTER}"' in answer.text
    assert not await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("oauth-4.3-8")
async def test_redirect_only_loads_no_frames(logged_in_party, browser):
    await logged_in_party.configure(logoutURL="https://app.example.com/out", logoutBehavior="RedirectOnly")
    answer = await log_out(browser, client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER)
    assert (answer.status_code, answer.headers["Location"]) == (302, AFTER)


@pytest.mark.requirement("oauth-4.3-9")
async def test_active_applications_loads_frames_of_session_clients(logged_in_party, browser, api):
    own, joined, stranger = (f"https://{name}.example.com/out" for name in ("own", "joined", "stranger"))
    await logged_in_party.configure(logoutURL=own, logoutBehavior="ActiveApplications")
    other = await relying_party.make(api, tenant=logged_in_party.tenant, logoutURL=joined)
    await relying_party.make(api, tenant=logged_in_party.tenant, logoutURL=stranger)
    await other.authorize(browser, prompt="none")
    answer = await log_out(browser, client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER)
    assert {frame.partition("?")[0] for frame in page(answer).frames} == {own, joined}
    assert "frame-src https://joined.example.com https://own.example.com;" in answer.headers["Content-Security-Policy"]
    again = await log_out(browser, client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER)
    assert (again.status_code, again.headers["Location"]) == (302, AFTER)


@pytest.mark.requirement("oauth-4.3-8")
async def test_inactive_and_native_applications_have_no_frames(logged_in_party, browser, api):
    switched_off = await relying_party.make(api, tenant=logged_in_party.tenant, logoutURL="https://off.example.com/out")
    await relying_party.make(api, tenant=logged_in_party.tenant, logoutURL="com.example.app:/out")
    headers = {"X-FusionAuth-TenantId": logged_in_party.tenant["id"]}
    assert (await api.delete(f"/api/application/{switched_off.client_id}", headers=headers)).status_code == 200
    answer = await log_out(browser, client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER)
    assert (answer.status_code, answer.headers["Location"]) == (302, AFTER)


@pytest.mark.requirement("oauth-4.3-10")
async def test_logout_without_client_loads_all_frames_of_the_tenant(logged_in_party, browser):
    await logged_in_party.configure(logoutURL="https://app.example.com/out", logoutBehavior="RedirectOnly")
    await logged_in_party.configure_tenant(logoutURL="https://tenant.example.com/")
    answer = await log_out(browser, tenantId=logged_in_party.tenant["id"])
    (frame,) = page(answer).frames
    assert frame.startswith("https://app.example.com/out?iss=")
    assert 'href="https://tenant.example.com/"' in answer.text


@pytest.mark.requirement("oauth-4.3-8")
async def test_frames_without_session_have_no_sid(logged_in_party, new_browser):
    await logged_in_party.configure(logoutURL="https://app.example.com/out")
    answer = await log_out(new_browser(), client_id=logged_in_party.client_id, post_logout_redirect_uri=AFTER)
    assert page(answer).frames == ["https://app.example.com/out"]


@pytest.mark.requirement("oauth-4.3-8")
async def test_frame_page_redirects_automatically(logged_in_party, browser):
    await logged_in_party.configure(logoutURL="https://app.example.com/out")
    other = await relying_party.make(logged_in_party.api, tenant=logged_in_party.tenant)
    answer = await log_out(browser, client_id=other.client_id)
    assert answer.headers["X-Frame-Options"] == "DENY"
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert 'data-continue href="/"' in answer.text
    assert "signed out" in page(await browser.get("/")).text.lower()


@pytest.mark.requirement("oauth-4.3-11")
async def test_post_logout_redirect_uri_follows_the_redirect_policy(rp, browser):
    for target in (REDIRECT_URI + "/", REDIRECT_URI + "?x=1", REDIRECT_URI.replace("https", "http"), "/", "//evil"):
        answer = await log_out(browser, client_id=rp.client_id, post_logout_redirect_uri=target)
        refused(answer, "invalid_post_logout_redirect_uri")
    wildcard = "https://*.example.com/bye"
    await rp.configure(authorizedRedirectURLs=[wildcard], authorizedURLValidationPolicy="AllowWildcards")
    answer = await log_out(browser, client_id=rp.client_id, post_logout_redirect_uri=AFTER)
    assert answer.headers["Location"] == AFTER


@pytest.mark.requirement("oauth-4.3-13")
async def test_tenant_may_be_in_the_path_and_post_parameters_in_the_form(logged_in_party, browser):
    await logged_in_party.configure_tenant(logoutURL="https://tenant.example.com/")
    answer = await browser.get(f"/{logged_in_party.tenant['id']}/oauth2/logout")
    assert answer.headers["Location"] == "https://tenant.example.com/"
    other = await relying_party.make(logged_in_party.api, tenant=logged_in_party.tenant)
    uri = {"post_logout_redirect_uri": AFTER, "client_id": logged_in_party.client_id}
    posted = await browser.post("/oauth2/logout", params=uri, data={"client_id": other.client_id})
    assert posted.headers["Location"] == "https://tenant.example.com/"


@pytest.mark.requirement("oauth-4.3-13")
async def test_repeated_parameter_is_rejected_without_logout(logged_in_party, browser):
    answer = await browser.get(
        f"/oauth2/logout?client_id={logged_in_party.client_id}&client_id={logged_in_party.client_id}"
    )
    assert answer.status_code == 400
    assert await is_logged_in(logged_in_party, browser)


@pytest.mark.requirement("contract-logout-10")
async def test_error_is_json_if_preferred(rp, browser):
    answer = await log_out(browser, headers={"Accept": "application/json"}, client_id=new_id())
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/json")
    assert (answer.json()["error"], answer.json()["error_reason"]) == ("invalid_request", "invalid_client_id")
