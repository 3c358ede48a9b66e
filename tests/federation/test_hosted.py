"""Logins through identity providers on the hosted pages: the way there, the way back, and what comes of it."""

from __future__ import annotations

from tests import relying_party
from tests.federation.hosted import CALLBACK, departure
from tests.relying_party import REDIRECT_URI


async def test_idp_hint_leads_straight_to_the_provider(hosted, service) -> None:
    left = await hosted.leave(login_hint="ada@example.com")
    assert left.url == f"{hosted.fake.issuer}/authorize"
    once = {name: left.parameters.pop(name) for name in ("code_challenge", "nonce", "state")}
    assert all(len(value) == 43 for value in once.values())
    assert left.parameters == {
        "client_id": hosted.fake.client_id,
        "code_challenge_method": "S256",
        "login_hint": "ada@example.com",
        "redirect_uri": f"{service.base_url}{CALLBACK}",
        "response_type": "code",
        "scope": "openid email",
    }
    again = await hosted.leave()
    assert all(again[name] != value for name, value in once.items())


async def test_a_whole_walk_ends_at_the_application(hosted, service) -> None:
    left = await hosted.leave()
    answer = relying_party.response(await hosted.come_back(left))
    assert set(answer) == {"code", "state", "userState", "iss"}
    assert answer["state"] == "the-state"
    assert answer["userState"] == "Authenticated"
    tokens = await hosted.rp.exchange(hosted.scene.public, answer["code"])
    assert tokens.status_code == 200, tokens.text
    claims = relying_party.claims(tokens.json()["access_token"])
    assert claims["authenticationType"] == "OPENID_CONNECT"
    user = await hosted.scene.user(claims["sub"])
    assert user["email"] == hosted.fake.userinfo["email"]
    assert [one["applicationId"] for one in user["registrations"]] == [hosted.rp.client_id]
    (link,) = await hosted.scene.links(claims["sub"])
    assert link["identityProviderUserId"] == "person"
    form = hosted.fake.form()
    assert form["redirect_uri"] == f"{service.base_url}{CALLBACK}"
    assert form["code"] == "the-code"
    assert len(form["code_verifier"]) == 43


async def test_afterwards_there_is_a_session(hosted) -> None:
    await hosted.walk()
    claims = await hosted.claims(await hosted.rp.authorize(hosted.browser))
    assert claims["authenticationType"] == "PING"
    assert (await hosted.scene.user(claims["sub"]))["email"] == hosted.fake.userinfo["email"]


async def test_the_login_page_has_a_button_that_leads_there(hosted) -> None:
    shown = await hosted.rp.authorize(hosted.browser)
    assert "Login with OpenID Connect" in shown.text
    form = relying_party.page(shown).forms[0]
    pressed = await hosted.browser.post(
        form["action"],
        data={**form["fields"], "identityProviderId": hosted.provider_id, "rememberDevice": "true", "loginId": "x"},
    )
    left = departure(pressed)
    assert left.url == f"{hosted.fake.issuer}/authorize"
    back = await hosted.come_back(left)
    assert "code" in relying_party.response(back)
    (cookie,) = [value for value in back.headers.get_list("Set-Cookie") if value.startswith("fusionauth.sso=")]
    assert "Max-Age=3600" in cookie


async def test_password_login_still_works_beside_the_button(hosted) -> None:
    shown = await hosted.rp.authorize(hosted.browser)
    answer = await hosted.rp.submit(hosted.browser, shown)
    assert answer.headers["Location"].startswith(REDIRECT_URI)
