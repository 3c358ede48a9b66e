"""`prompt=login` and `max_age` of a request are forwarded to the provider, and its `auth_time` is checked."""

from __future__ import annotations

from typing import Any

import pytest

from tests import relying_party, two_factor
from tests.federation.hosted import Hosted
from tests.hosted import steps

Document = dict[str, Any]
HOUR = 3600


async def come_back(hosted: Hosted, left: Any, **claims: Any) -> Any:
    """Return with an ID token with these claims in addition."""
    hosted.fake.id_claims = hosted.fake.claims(nonce=left["nonce"], **claims)
    return await hosted.come_back(left)


def now(hosted: Hosted) -> int:
    return int(hosted.fake.clock.now() // 1000)


def is_current(hosted: Hosted, auth_time: int) -> bool:
    """Whether a time is that of the response, rather than an hour ago or in the future."""
    return now(hosted) - HOUR // 2 < auth_time <= now(hosted)


async def id_token(hosted: Hosted, answer: Any) -> Document:
    """The claims of the ID token of an authorization response."""
    code = relying_party.response(answer)["code"]
    return relying_party.claims((await hosted.rp.exchange(hosted.scenario.public, code)).json()["id_token"])


@pytest.mark.requirement("core-11-54")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"prompt": "login"}, {"prompt": "login"}),
        ({"max_age": "0"}, {"prompt": "login", "max_age": "0"}),
        ({"max_age": "300"}, {"max_age": "300"}),
        ({"prompt": "consent"}, {}),
    ],
)
async def test_prompt_and_max_age_are_forwarded(hosted, given, expected) -> None:
    left = await hosted.leave(**given)
    assert {name: value for name, value in left.parameters.items() if name in {"prompt", "max_age"}} == expected


@pytest.mark.requirement("core-11-54")
async def test_option_of_the_provider_forwards_neither_and_ignores_auth_time(hosted) -> None:
    await hosted.scenario.change(forwardPrompt=False)
    left = await hosted.leave(prompt="login", max_age="0")
    assert not {"prompt", "max_age"} & set(left.parameters)
    claims = await id_token(hosted, await come_back(hosted, left, auth_time=now(hosted) - HOUR))
    assert is_current(hosted, claims["auth_time"])


@pytest.mark.requirement("core-11-54")
async def test_provider_of_oauth_2_alone_receives_neither(hosted) -> None:
    """GitHub and Discord do not know the parameters of OpenID Connect."""
    await hosted.scenario.change(oauth2={"scope": "user"})
    left = await hosted.leave(prompt="login", max_age="0")
    assert not {"prompt", "max_age"} & set(left.parameters)
    assert "code" in relying_party.response(await hosted.come_back(left))


@pytest.mark.requirement("core-11-54")
async def test_configured_prompt_is_sent_with_every_request(hosted) -> None:
    await hosted.scenario.change(oauth2={"prompt": "select_account"})
    assert (await hosted.leave())["prompt"] == "select_account"
    assert (await hosted.leave(prompt="login"))["prompt"] == "select_account login"


@pytest.mark.requirement("core-11-54")
async def test_tokens_and_session_have_the_time_of_the_provider(hosted) -> None:
    upstream = now(hosted) - HOUR
    answer = await come_back(hosted, await hosted.leave(), auth_time=upstream)
    assert (await id_token(hosted, answer))["auth_time"] == upstream
    assert (await id_token(hosted, await hosted.rp.authorize(hosted.browser)))["auth_time"] == upstream
    error = relying_party.response(await hosted.rp.authorize(hosted.browser, max_age="60", prompt="none"))["error"]
    assert error == "login_required", "the session is an hour old"


@pytest.mark.requirement("core-11-54")
async def test_time_of_the_provider_is_never_in_the_future(hosted) -> None:
    answer = await come_back(hosted, await hosted.leave(), auth_time=now(hosted) + 50)
    assert is_current(hosted, (await id_token(hosted, answer))["auth_time"])


@pytest.mark.requirement("core-11-54")
@pytest.mark.parametrize("given", [{"prompt": "login"}, {"max_age": "0"}, {"max_age": "300"}])
async def test_old_authentication_is_refused(hosted, given) -> None:
    """The provider ignored the request to authenticate the user again: nothing is stored."""
    left = await hosted.leave(**given)
    shown = await come_back(hosted, left, auth_time=now(hosted) - HOUR)
    assert shown.status_code == 200
    assert "code=" not in str(shown.headers.get("Location"))
    assert await hosted.event_logs("before the time that prompt or max_age requires")
    assert await hosted.scenario.count_users() == 1, "the application's own user alone"
    fresh = await come_back(hosted, await hosted.leave(**given), auth_time=now(hosted))
    assert is_current(hosted, (await id_token(hosted, fresh))["auth_time"])


@pytest.mark.requirement("core-11-54")
async def test_max_age_requires_that_the_provider_states_the_time(hosted) -> None:
    shown = await come_back(hosted, await hosted.leave(max_age="300"))
    assert shown.status_code == 200
    assert await hosted.event_logs("has no auth_time")
    assert "code" in relying_party.response(await come_back(hosted, await hosted.leave(prompt="login")))


@pytest.mark.requirement("core-11-54")
async def test_time_of_userinfo_is_no_statement(hosted) -> None:
    """Userinfo is not signed, and describes the user rather than the authentication."""
    hosted.fake.userinfo["auth_time"] = now(hosted) - HOUR
    answer = await come_back(hosted, await hosted.leave())
    assert is_current(hosted, (await id_token(hosted, answer))["auth_time"])


@pytest.mark.requirement("core-11-54")
async def test_time_of_the_provider_survives_the_second_factor(hosted, clock) -> None:
    user_id = (await hosted.claims(await hosted.walk()))["sub"]
    methods = {"user": {"twoFactor": {"methods": [two_factor.authenticator()]}}}
    await hosted.scenario.patch(f"/api/user/{user_id}", methods)
    hosted.browser.cookies.delete("fusionauth.sso")
    upstream = now(hosted) - HOUR
    shown = await steps.follow(hosted.browser, await come_back(hosted, await hosted.leave(), auth_time=upstream))
    assert steps.path(shown) == "/oauth2/two-factor"
    answer = await steps.send(hosted.browser, shown, code=two_factor.code(clock.now()))
    assert (await id_token(hosted, answer))["auth_time"] == upstream


@pytest.mark.requirement("core-11-54")
async def test_api_login_has_the_time_of_the_provider(federated, fake) -> None:
    upstream = fake.clock.now() // 1000 - HOUR
    fake.id_claims = fake.claims(auth_time=upstream)
    answer = await federated.logged_in()
    assert relying_party.claims(answer["token"])["auth_time"] == upstream
    await federated.change(forwardPrompt=False)
    answer = await federated.logged_in()
    assert relying_party.claims(answer["token"])["auth_time"] > upstream + HOUR // 2
