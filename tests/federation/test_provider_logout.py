"""A logout also ends the session at the identity provider, if the provider is configured to."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any

import pytest

from tests import internals, relying_party, two_factor
from tests.federation.hosted import Departure, Hosted
from tests.hosted import steps
from tests.relying_party import REDIRECT_URI

CALLBACK = "/oauth2/logout/callback"


@pytest.fixture
async def leaving(hosted: Hosted) -> Hosted:
    """A browser that is about to log in at a provider whose session ends with ours."""
    await hosted.scenario.change(logoutAtProvider=True)
    hosted.fake.published = {"end_session_endpoint": f"{hosted.fake.issuer}/logout"}
    return hosted


def destination(answer: Any) -> Departure:
    assert answer.status_code == 302, answer.text
    url, _, query = answer.headers["Location"].partition("?")
    return Departure(url, dict(urllib.parse.parse_qsl(query)))


async def log_out(hosted: Hosted, **given: str) -> Any:
    query = {"client_id": hosted.rp.client_id, "post_logout_redirect_uri": REDIRECT_URI, "state": "s", **given}
    return await hosted.browser.get("/oauth2/logout", params=query)


@pytest.mark.requirement("core-11-59")
async def test_logout_goes_by_way_of_the_provider_and_returns_to_the_application(leaving, service) -> None:
    await leaving.walk()
    left = destination(await log_out(leaving))
    assert left.url == f"{leaving.fake.issuer}/logout"
    state = left.parameters.pop("state")
    hint = relying_party.claims(left.parameters.pop("id_token_hint"))
    assert (hint["sub"], hint["aud"]) == ("person", leaving.fake.client_id)
    assert left.parameters == {
        "client_id": leaving.fake.client_id,
        "post_logout_redirect_uri": f"{service.base_url}{CALLBACK}",
    }
    error = relying_party.response(await leaving.rp.authorize(leaving.browser, prompt="none"))["error"]
    assert error == "login_required", "our session has ended before the provider answers"
    returned = await leaving.browser.get(CALLBACK, params={"state": state})
    assert returned.headers["Location"] == f"{REDIRECT_URI}?state=s"
    again = await leaving.browser.get(CALLBACK, params={"state": state})
    assert again.headers["Location"] == "/"


@pytest.mark.requirement("core-11-59")
async def test_one_of_64_returns_with_a_state_continues(leaving) -> None:
    await leaving.walk()
    state = destination(await log_out(leaving))["state"]
    answers = await asyncio.gather(*(leaving.browser.get(CALLBACK, params={"state": state}) for _ in range(64)))
    found = [answer.headers["Location"] for answer in answers]
    assert sorted(found) == sorted([f"{REDIRECT_URI}?state=s", *["/"] * 63])


@pytest.mark.requirement("core-11-59")
@pytest.mark.parametrize("given", [{}, {"state": ""}, {"state": "unknown"}])
async def test_return_without_a_valid_state_leads_to_the_landing_page(leaving, given) -> None:
    answer = await leaving.browser.get(CALLBACK, params=given)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")


@pytest.mark.requirement("core-11-59")
async def test_logout_stays_here_by_default(hosted) -> None:
    hosted.fake.published = {"end_session_endpoint": f"{hosted.fake.issuer}/logout"}
    await hosted.walk()
    assert (await log_out(hosted)).headers["Location"] == f"{REDIRECT_URI}?state=s"


@pytest.mark.requirement("core-11-59")
async def test_logout_of_another_login_stays_here(leaving) -> None:
    shown = await leaving.rp.authorize(leaving.browser)
    assert "code" in relying_party.response(await leaving.rp.submit(leaving.browser, shown))
    assert (await log_out(leaving)).headers["Location"] == f"{REDIRECT_URI}?state=s"


@pytest.mark.requirement("core-11-59")
@pytest.mark.parametrize("endpoint", [None, "javascript:alert(1)", "https://a.example/#b", 7])
async def test_logout_succeeds_although_the_provider_has_no_usable_endpoint(leaving, endpoint) -> None:
    leaving.fake.published = {"end_session_endpoint": endpoint}
    await leaving.walk()
    assert (await log_out(leaving)).headers["Location"] == f"{REDIRECT_URI}?state=s"
    assert await leaving.event_logs("no usable end_session_endpoint")


@pytest.mark.requirement("core-11-59")
async def test_logout_succeeds_although_the_provider_is_gone(leaving, clock) -> None:
    await leaving.walk()
    clock.advance(seconds=3700)
    leaving.fake.broken, leaving.fake.status = "/.well-known/openid-configuration", 500
    assert (await log_out(leaving)).headers["Location"] == f"{REDIRECT_URI}?state=s"
    assert await leaving.event_logs("A logout at the identity provider")


@pytest.mark.requirement("core-11-59")
async def test_configured_endpoint_serves_a_provider_that_publishes_none(leaving) -> None:
    leaving.fake.published = {}
    await leaving.scenario.change(oauth2={"end_session_endpoint": f"{leaving.fake.issuer}/signout?a=b"})
    await leaving.walk()
    left = destination(await log_out(leaving))
    assert (left.url, left["a"]) == (f"{leaving.fake.issuer}/signout", "b")


@pytest.mark.requirement("core-11-59")
async def test_session_at_the_provider_is_known_after_a_second_factor(leaving, clock) -> None:
    user_id = (await leaving.claims(await leaving.walk()))["sub"]
    methods = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
    await leaving.scenario.patch(f"/api/user/{user_id}", methods)
    leaving.browser.cookies.delete("fusionauth.sso")
    shown = await steps.follow(leaving.browser, await leaving.walk())
    await steps.send(leaving.browser, shown, code=two_factor.code(clock.now()))
    assert destination(await log_out(leaving)).url == f"{leaving.fake.issuer}/logout"


@pytest.mark.requirement("core-11-59")
async def test_form_of_the_confirmation_page_leaves_by_a_page(leaving) -> None:
    """Chromium would block a redirect to the provider, whose origin the policy of the form does not name."""
    await leaving.walk()
    query = {"client_id": leaving.rp.client_id}
    shown = await leaving.browser.get("/oauth2/logout", params=query, headers={"Sec-Fetch-Site": "cross-site"})
    form = relying_party.page(shown).forms[0]
    headers = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-origin"}
    page = await leaving.browser.post("/oauth2/logout", data=form["fields"], headers=headers)
    assert page.status_code == 200
    assert f'href="{leaving.fake.issuer}/logout?' in page.text
    assert "form-action 'none'" in page.headers["Content-Security-Policy"]


@pytest.mark.requirement("core-11-59")
async def test_id_token_of_the_provider_is_encrypted_in_redis(leaving, service) -> None:
    await leaving.walk()
    client: Any = internals.redis(service).client
    stored = [await client.hgetall(key) async for key in client.scan_iter("*sso:*")]
    sealed = [fields["provider"] for fields in stored if "provider" in fields]
    assert sealed
    assert not any("eyJ" in text or leaving.provider_id in text for text in sealed)
