"""Failures at a provider: an error page for the user, details in the event log."""

from __future__ import annotations

import pytest

from identity.ids import new_id
from tests import relying_party
from tests.federation.hosted import CALLBACK
from tests.receiver import answers

FAILED = "We could not sign you in"


async def error_of(hosted, shown) -> str:
    """What the page says: it is the login page, and the request goes on from there with a password."""
    assert shown.status_code == 200, (shown.status_code, shown.text)
    page = relying_party.page(shown)
    assert 'role="alert"' in shown.text
    assert page.forms[0]["action"] == "/oauth2/authorize"
    answer = relying_party.response(await hosted.rp.submit(hosted.browser, shown))
    assert (answer["state"], "code" in answer) == ("the-state", True)
    return page.text


@pytest.mark.requirement("core-11-16")
@pytest.mark.parametrize(
    ("answer", "text", "kind", "reason"),
    [
        ({"error": "access_denied", "error_description": "no"}, "canceled", "Information", "access_denied no"),
        ({"error": "temporarily_unavailable"}, FAILED, "Error", "temporarily_unavailable"),
        ({"error": "x\r\ny<script>alert(1)</script>"}, FAILED, "Error", "x??y<script>"),
        ({}, FAILED, "Error", "neither code nor error"),
        ({"iss": "https://other.example.com", "code": "c"}, FAILED, "Error", "mix-up"),
    ],
)
async def test_responses_without_a_code_show_an_error(hosted, answer, text, kind, reason) -> None:
    left = await hosted.leave()
    shown = await hosted.come_back(left, **{"code": None, **answer})
    assert "script>alert" not in shown.text
    assert text in await error_of(hosted, shown)
    (row,) = await hosted.event_logs(hosted.provider_id)
    assert row["type"] == kind
    assert reason in row["message"]
    assert hosted.rp.client_id in row["message"]
    assert hosted.fake.requests_to("/token") == []


@pytest.mark.requirement("core-11-16")
@pytest.mark.parametrize(
    ("broken", "text", "reason"),
    [
        ("/token", "did not send a valid response", "answered 400 invalid_grant"),
        ("/userinfo", "did not send your profile", "/userinfo answered 400"),
    ],
)
async def test_failed_provider_requests_show_an_error(hosted, broken, text, reason) -> None:
    left = await hosted.leave()
    hosted.fake.broken, hosted.fake.status, hosted.fake.raw = broken, 400, b'{"error": "invalid_grant"}'
    assert text in await error_of(hosted, await hosted.come_back(left))
    (row,) = await hosted.event_logs(hosted.provider_id)
    assert (row["type"], reason in row["message"]) == ("Error", True)
    assert "the secret" not in row["message"]
    assert "the-code" not in row["message"]


@pytest.mark.requirement("core-11-16")
async def test_untrusted_provider_responses_show_an_error(hosted) -> None:
    left = await hosted.leave()
    hosted.fake.id_claims = hosted.fake.claims(nonce="another")
    assert FAILED in await error_of(hosted, await hosted.come_back(left))
    (row,) = await hosted.event_logs(hosted.provider_id)
    assert "nonce" in row["message"]


async def test_unknown_user_shows_an_error(hosted) -> None:
    await hosted.scenario.change(linkingStrategy="LinkByEmailForExistingUser")
    assert "No account here is linked" in await error_of(hosted, await hosted.walk())


async def test_locked_user_sees_an_error(hosted) -> None:
    user = await hosted.scenario.make_user(email=hosted.fake.userinfo["email"])
    assert (await hosted.scenario.api.delete(f"/api/user/{user['id']}")).status_code == 200
    assert "This account is locked" in await error_of(hosted, await hosted.walk())


async def test_too_many_links_show_an_error(hosted) -> None:
    limit = {"limitUserLinkCount": {"enabled": True, "maximumLinks": 1}}
    await hosted.scenario.change(tenantConfiguration={hosted.rp.tenant["id"]: limit})
    assert "code" in relying_party.response(await hosted.walk())
    hosted.fake.userinfo.pop("sub")
    left = await hosted.leave(prompt="login")
    hosted.fake.id_claims = hosted.fake.claims(nonce=left["nonce"], sub="another account")
    assert "the maximum number of accounts" in await error_of(hosted, await hosted.come_back(left))


@pytest.mark.requirement("core-11-16")
async def test_message_of_a_rejecting_lambda_is_shown(hosted) -> None:
    body = "function validate(result, user) { result.errors = {generalErrors: [{code: 'No', message: 'Not <you>'}]}; }"
    lambda_id = await hosted.scenario.make_lambda(body, "LoginValidation")
    await hosted.scenario.configure_tenant(lambdaConfiguration={"loginValidationId": lambda_id})
    shown = await hosted.walk()
    assert shown.status_code == 200
    assert "Not &lt;you&gt;" in shown.text
    assert await hosted.event_logs(hosted.provider_id) == []


@pytest.mark.requirement("core-11-16")
async def test_veto_of_a_webhook_shows_an_error(hosted, receiver) -> None:
    await hosted.scenario.subscribe(receiver, "Any")
    receiver.behaviour = answers(500)
    shown = await hosted.walk()
    assert "This sign-in was rejected" in relying_party.page(shown).text
    assert await hosted.scenario.count_users() == 1


ELSEWHERE = {"issuer": "https://other.example.com", "client_secret": "another secret"}


@pytest.mark.requirement("core-11-16")
@pytest.mark.parametrize("members", [{"enabled": False}, {"oauth2": ELSEWHERE}, None])
async def test_provider_deleted_meanwhile_shows_an_error(hosted, members) -> None:
    left = await hosted.leave()
    if members is None:
        assert (await hosted.scenario.api.delete(f"/api/identity-provider/{hosted.provider_id}")).status_code == 200
    else:
        await hosted.scenario.change(**members)
    assert "does not exist" in await error_of(hosted, await hosted.come_back(left))
    assert hosted.fake.requests_to("/token") == []


@pytest.mark.requirement("core-11-16")
@pytest.mark.parametrize(
    "published",
    [
        {"issuer": "https://other.example.com"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://user@provider.example.com/"},
        {"authorization_endpoint": "https://provider.example.com/a\r\nSet-Cookie: a=b"},
        {"authorization_endpoint": "https://provider.example.com/#x"},
        {"authorization_endpoint": "https://pr\u00f6vider.example.com/"},
        {"authorization_endpoint": ["https://provider.example.com/"]},
        {"authorization_endpoint": None},
    ],
)
async def test_provider_without_authorization_endpoint_shows_an_error(hosted, published) -> None:
    hosted.fake.published = published
    shown = await hosted.rp.authorize(hosted.browser, idp_hint=hosted.provider_id)
    assert "did not send a valid response" in await error_of(hosted, shown)
    (row,) = await hosted.event_logs(hosted.provider_id)
    assert row["type"] == "Error"


async def test_client_deactivated_meanwhile_gets_no_response(hosted) -> None:
    left = await hosted.leave()
    assert (await hosted.scenario.api.delete(f"/api/application/{hosted.rp.client_id}")).status_code == 200
    answer = await hosted.come_back(left)
    assert answer.status_code == 400
    assert "client_id" in answer.text
    assert hosted.fake.requests_to("/token") == []


@pytest.mark.requirement("oauth-1.9-16")
async def test_unexpected_requests_show_an_error_page(hosted) -> None:
    for given in ({}, {"state": ""}, {"state": "\x01" * 3000}, {"state": new_id(), "code": "<b>"}):
        answer = await hosted.browser.get(CALLBACK, params=given)
        assert answer.status_code == 400, given
        assert "<b>" not in answer.text
    twice = await hosted.browser.get(f"{CALLBACK}?state=a&state=b")
    assert twice.status_code == 400
