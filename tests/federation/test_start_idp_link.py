"""`/oauth2/start-idp-link`: a provider account is linked to a user who logs in."""

from __future__ import annotations

import asyncio
import collections
import re
import shutil
from typing import Any

import httpx
import pytest

from tests import relying_party, two_factor
from tests.conftest import checking_client
from tests.federation.hosted import LINK_PAGE, Hosted
from tests.hosted import steps
from tests.hosted.conftest import chromium, chromium_process
from tests.hosted.test_accessibility import Examiner, axe, examiner
from tests.relying_party import PASSWORD

__all__ = ["axe", "chromium", "chromium_process", "examiner"]


@pytest.fixture
async def linking(hosted: Hosted) -> Hosted:
    """An application whose provider requires a pending link for new accounts."""
    await hosted.scenario.change(linkingStrategy="CreatePendingLink", name=f"Company <b>{hosted.provider_id}</b>")
    return hosted


async def return_to_link_page(linking: Hosted, **changes: str | None) -> str:
    """Return from the provider; return the location of the page."""
    answer = await linking.walk(**changes)
    assert answer.status_code == 302, answer.text
    assert answer.headers["Location"].startswith(f"{LINK_PAGE}?link=")
    return str(answer.headers["Location"])


async def submit(linking: Hosted, shown: httpx.Response, **fields: Any) -> httpx.Response:
    form = relying_party.page(shown).forms[0]
    assert form["action"] == LINK_PAGE
    filled = {**form["fields"], "loginId": linking.rp.login_id, "password": PASSWORD, **fields}
    return await linking.browser.post(form["action"], data=filled)


@pytest.mark.requirement("core-11-45")
async def test_page_names_provider_and_account(linking) -> None:
    shown = await linking.browser.get(await return_to_link_page(linking))
    assert shown.status_code == 200
    text = relying_party.page(shown).text
    assert f"Company <b>{linking.provider_id}</b>" in text
    assert "<b>" not in shown.text.replace("&lt;b&gt;", "")
    assert linking.fake.userinfo["email"] in text
    assert linking.rp.application["name"] in text
    assert shown.headers["X-Frame-Options"] == "DENY"
    assert "redirect_uri" not in relying_party.page(shown).forms[0]["fields"]


@pytest.mark.requirement("core-11-45", "event-user.identity-provider.link-2")
async def test_login_links_the_account_and_continues_the_request(linking, receiver) -> None:
    await linking.scenario.subscribe(receiver)
    shown = await linking.browser.get(await return_to_link_page(linking))
    answer = await submit(linking, shown)
    assert relying_party.response(answer)["state"] == "the-state"
    claims = await linking.claims(answer)
    assert (claims["sub"], claims["authenticationType"]) == (linking.rp.user["id"], "PASSWORD")
    (link,) = await linking.scenario.links(claims["sub"])
    assert link["identityProviderUserId"] == "person"
    assert link["displayName"] == linking.fake.userinfo["email"]
    kinds = [request.event["type"] for request in await receiver.wait_for(3)]
    assert sorted(kinds) == ["user.identity-provider.link", "user.login.new-device", "user.login.success"]
    again = await linking.walk(prompt="login")
    assert (await linking.claims(again))["authenticationType"] == "OPENID_CONNECT"
    assert await linking.scenario.count_users() == 1
    claims = await linking.claims(await linking.rp.authorize(linking.browser))
    assert claims["sub"] == linking.rp.user["id"]


async def test_wrong_password_creates_no_link_and_can_be_retried(linking) -> None:
    shown = await linking.browser.get(await return_to_link_page(linking))
    failed = await submit(linking, shown, password="wrong")
    assert failed.status_code == 200
    assert "Incorrect email, username or password" in relying_party.page(failed).text
    assert relying_party.page(failed).forms[0]["fields"]["loginId"] == linking.rp.login_id
    assert await linking.scenario.links(linking.rp.user["id"]) == []
    assert "code" in relying_party.response(await submit(linking, failed))
    assert len(await linking.scenario.links(linking.rp.user["id"])) == 1


@pytest.mark.requirement("core-11-45")
async def test_sso_session_does_not_replace_the_password(linking) -> None:
    await linking.rp.log_in(linking.browser)
    shown = await linking.browser.get(await return_to_link_page(linking, prompt="login"))
    assert 'name="password"' in shown.text
    assert await linking.scenario.links(linking.rp.user["id"]) == []


@pytest.mark.requirement("attack-42")
async def test_attack_42_pending_link_is_bound_to_its_browser(linking, service) -> None:
    """An attacker who sends a victim to the attacker's link page would gain that account."""
    place = await return_to_link_page(linking)
    shown = await linking.browser.get(place)
    form = relying_party.page(shown).forms[0]
    async with checking_client(service.base_url) as victim:
        await linking.leave(browser=victim)
        assert (await victim.get(place)).status_code == 400
        data = {**form["fields"], "loginId": linking.rp.login_id, "password": PASSWORD}
        assert (await victim.post(LINK_PAGE, data=data)).status_code == 400
    refused = await submit(linking, shown, csrf_token="made up")
    assert refused.status_code == 403
    assert "sent from another site" in relying_party.page(refused).text
    assert await linking.scenario.links(linking.rp.user["id"]) == []


@pytest.mark.requirement("core-11-45")
async def test_one_of_64_concurrent_submissions_links(linking) -> None:
    shown = await linking.browser.get(await return_to_link_page(linking))
    answers = await asyncio.gather(*(submit(linking, shown) for _ in range(64)))
    counted = collections.Counter("code=" in answer.headers.get("Location", "") for answer in answers)
    assert counted == {True: 1, False: 63}
    assert {answer.status_code for answer in answers} <= {200, 302, 400}
    # A busy machine turns some away before their password is compared.
    assert all(re.search("has expired|Too many people", answer.text) for answer in answers if answer.status_code != 302)
    assert [answer.status_code for answer in answers].count(302) == 1
    assert len(await linking.scenario.links(linking.rp.user["id"])) == 1


@pytest.mark.requirement("oauth-1.9-16")
@pytest.mark.parametrize("place", ["", "?link=", "?link=made-up"])
async def test_missing_link_shows_an_error_page(linking, place) -> None:
    answer = await linking.browser.get(f"{LINK_PAGE}{place}")
    assert answer.status_code == 400
    assert "This link has expired" in answer.text


async def test_expired_link_shows_an_error_page(linking) -> None:
    place = await return_to_link_page(linking)
    assert (await linking.scenario.api.delete(f"/api/identity-provider/{linking.provider_id}")).status_code == 200
    assert (await linking.browser.get(place)).status_code == 400


async def test_account_linked_to_another_user_meanwhile_is_not_linked(linking) -> None:
    shown = await linking.browser.get(await return_to_link_page(linking))
    other = await linking.scenario.make_user()
    link = {"identityProviderId": linking.provider_id, "identityProviderUserId": "person", "userId": other["id"]}
    made = await linking.scenario.api.post("/api/identity-provider/link", json={"identityProviderLink": link})
    assert made.status_code == 200, made.text
    refused = await submit(linking, shown)
    assert refused.status_code == 200
    assert "already linked to another account" in relying_party.page(refused).text
    assert await linking.scenario.links(linking.rp.user["id"]) == []


async def test_too_many_links_show_an_error(linking) -> None:
    limit = {"limitUserLinkCount": {"enabled": True, "maximumLinks": 1}}
    await linking.scenario.change(tenantConfiguration={linking.rp.tenant["id"]: limit})
    account = {"identityProviderId": linking.provider_id, "identityProviderUserId": "older"}
    link = {**account, "userId": linking.rp.user["id"]}
    assert (await linking.scenario.api.post("/api/identity-provider/link", json=link)).status_code == 200
    refused = await submit(linking, await linking.browser.get(await return_to_link_page(linking)))
    assert "the maximum number of accounts" in relying_party.page(refused).text


@pytest.mark.requirement("core-11-45")
async def test_page_uses_the_texts_of_the_theme(linking) -> None:
    body = {"theme": {"name": f"theme {linking.provider_id}", "defaultMessages": "link.heading=Bist du das?"}}
    answer = await linking.rp.api.post("/api/theme", json=body)
    assert answer.status_code == 200, answer.text
    await linking.scenario.configure_tenant(themeId=answer.json()["theme"]["id"])
    shown = await linking.browser.get(await return_to_link_page(linking))
    assert "Bist du das?" in shown.text


async def test_link_is_created_after_the_second_factor(linking, clock) -> None:
    methods = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
    await linking.rp.patch(f"/api/user/{linking.rp.user['id']}", methods)
    shown = await linking.browser.get(await return_to_link_page(linking))
    asked = await steps.follow(linking.browser, await submit(linking, shown))
    assert steps.path(asked) == "/oauth2/two-factor"
    assert await linking.scenario.links(linking.rp.user["id"]) == []
    assert "error" not in asked.headers.get("Location", "")
    answer = await steps.send(linking.browser, asked, code=two_factor.code(clock.now()))
    claims = await linking.claims(answer)
    assert (claims["sub"], claims["authenticationType"]) == (linking.rp.user["id"], "PASSWORD")
    assert len(await linking.scenario.links(linking.rp.user["id"])) == 1
    assert (await submit(linking, shown)).status_code == 400


@pytest.mark.skipif(shutil.which("npm") is None, reason="the pages are examined where npm is installed")
@pytest.mark.requirement("self-service-28")
async def test_page_is_accessible(linking: Hosted, examiner: Examiner) -> None:
    shown = await linking.browser.get(await return_to_link_page(linking))
    await examiner.show(shown.text)
    await examiner.examine("start-idp-link")
    assert examiner.problems == []
