"""Back-channel logout: recipients, logout tokens, and retries."""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any

import httpx
import pytest
from joserfc import jws as joserfc_jws
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from identity.errors import Unavailable
from identity.ids import TenantId, UserId, new_id
from identity.operations.sessions import sso_sessions
from identity.workers.back_channel_logout import SCHEDULE_SECONDS
from tests import internals, relying_party
from tests.receiver import Receiver, answers, receiving, until
from tests.relying_party import REDIRECT_URI, claims, response

EVENT = "http://schemas.openid.net/event/backchannel-logout"
STANDARD = {"aud", "events", "exp", "iat", "iss", "jti", "sid", "sub"}
PATH = "/api/application"
MEMBER = "application.oauthConfiguration.backChannelLogoutURL"


async def log_out(browser, rp, **parameters: str) -> httpx.Response:
    answer = await browser.get("/oauth2/logout", params={"client_id": rp.client_id, **parameters})
    assert answer.status_code in {200, 302}, answer.text
    return answer


def token_of(request) -> str:
    assert (request.method, request.path) == ("POST", "/hook")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    form = urllib.parse.parse_qs(request.body.decode(), strict_parsing=True)
    assert form.keys() == {"logout_token"}
    return form["logout_token"][0]


async def verified(http: httpx.AsyncClient, request) -> dict[str, Any]:
    """What a logout token says, verified by an independent library with the published keys."""
    keys = KeySet.import_key_set((await http.get("/.well-known/jwks.json")).json())
    token = token_of(request)
    decoded = jwt.decode(token, keys, algorithms=["RS256", "ES256"])
    assert decoded.header["typ"] == "logout+jwt"
    assert decoded.header.keys() == {"alg", "kid", "typ"}
    return dict(decoded.claims)


async def pending(service, rp) -> int:
    return await internals.store(service, "logout_notices").count(TenantId(rp.tenant["id"]))


async def all_told(service, rp) -> None:
    async def is_empty() -> bool:
        return await pending(service, rp) == 0

    await until(is_empty)


async def failures(service, rp) -> list[str]:
    rows = internals.database(service).collection("event_logs").find({"message": {"$regex": rp.client_id}}).sort("_id")
    return [row["message"] async for row in rows]


@pytest.fixture
async def receiver():
    async with receiving() as running:
        yield running


@pytest.fixture
async def listener(rp, receiver: Receiver):
    """A relying party with back-channel logout."""
    await rp.configure(backChannelLogoutURL=receiver.url)
    return rp


@pytest.mark.requirement("certification-logout-4")
async def test_logout_token_is_verified_by_another_library(listener, receiver, browser, http, clock):
    token_claims = claims((await listener.tokens(http, browser))["id_token"])
    await log_out(browser, listener)
    (request,) = await receiver.wait_for(1)
    said = await verified(http, request)
    assert said.keys() == STANDARD
    assert {name: said[name] for name in ("iss", "aud", "sub", "sid")} == {
        name: token_claims[name] for name in ("iss", "aud", "sub", "sid")
    }
    assert said["events"] == {EVENT: {}}
    assert said["exp"] - said["iat"] == 120
    assert abs(said["iat"] - clock.now() / 1000) < 60
    assert "nonce" not in said


@pytest.mark.requirement("webhooks-15.2-17")
async def test_logout_token_request_propagates_the_trace(listener, receiver, browser, http, api, service):
    token_claims = claims((await listener.tokens(http, browser))["id_token"])
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    tenant = {"X-FusionAuth-TenantId": listener.tenant["id"]}
    headers = {"webhook-via": "0123456789abcdef", "traceparent": trace, **tenant}
    ended = await api.delete(f"/api/user/{token_claims['sub']}", headers=headers)
    assert ended.status_code == 200
    (request,) = await receiver.wait_for(1)
    assert request.headers["webhook-via"] == f"0123456789abcdef, {internals.service_id(service)}"
    assert request.headers["traceparent"] == trace


@pytest.mark.requirement("certification-logout-4")
async def test_sid_is_stable_across_refreshes(listener, receiver, browser, http):
    tokens = await listener.tokens(http, browser)
    refreshed = claims((await listener.refresh(http, tokens["refresh_token"])).json()["id_token"])
    await log_out(browser, listener)
    (request,) = await receiver.wait_for(1)
    assert (await verified(http, request))["sid"] == refreshed["sid"] == claims(tokens["id_token"])["sid"]


@pytest.mark.requirement("certification-logout-4")
async def test_without_session_required_the_token_names_the_user_alone(listener, receiver, browser, http):
    await listener.configure(backChannelLogoutSessionRequired=False)
    await listener.log_in(browser)
    await log_out(browser, listener)
    (request,) = await receiver.wait_for(1)
    said = await verified(http, request)
    assert said.keys() == STANDARD - {"sid"}
    assert said["sub"] == listener.user["id"]


@pytest.mark.requirement("certification-logout-5")
async def test_session_clients_get_logout_tokens(listener, receiver, browser, api, http, service):
    async with receiving() as two, receiving() as stranger:
        joined = await relying_party.make(api, tenant=listener.tenant, backChannelLogoutURL=two.url)
        await relying_party.make(api, tenant=listener.tenant, backChannelLogoutURL=stranger.url)
        silent = await relying_party.make(api, tenant=listener.tenant)
        await listener.log_in(browser)
        for party in (joined, silent):
            assert "code" in response(await party.authorize(browser, prompt="none"))
        await log_out(browser, silent)
        said = [await verified(http, (await one.wait_for(1))[0]) for one in (receiver, two)]
        assert [one["aud"] for one in said] == [listener.client_id, joined.client_id]
        assert said[0]["sid"] == said[1]["sid"]
        assert said[0]["jti"] != said[1]["jti"]
        await all_told(service, listener)
        assert stranger.requests == []


@pytest.mark.requirement("certification-logout-4")
async def test_logout_token_is_signed_with_the_applications_key(listener, receiver, browser, api, http):
    key = {"key": {"name": f"Key {new_id()}", "algorithm": "ES256"}}
    key_id = (await api.post("/api/key/generate", json=key)).json()["key"]["id"]
    configuration = {"enabled": True, "idTokenKeyId": key_id, "accessTokenKeyId": key_id, "timeToLiveInSeconds": 60}
    configuration["refreshTokenTimeToLiveInMinutes"] = 60
    await listener.patch(f"{PATH}/{listener.client_id}", {"application": {"jwtConfiguration": configuration}})
    id_token = (await listener.tokens(http, browser))["id_token"]
    await log_out(browser, listener)
    (request,) = await receiver.wait_for(1)
    await verified(http, request)
    header = joserfc_jws.extract_compact(token_of(request).encode()).headers()
    assert header["alg"] == "ES256"
    assert header["kid"] == relying_party.header(id_token)["kid"]


@pytest.mark.requirement("certification-logout-4")
async def test_logout_token_is_signed_with_the_client_secret_like_id_tokens(listener, receiver, browser, http):
    configuration = {"idTokenKeyId": "092dbedc-30af-4149-9c61-b578f2c72f59"}
    await listener.configure_tenant(jwtConfiguration=configuration)
    await listener.log_in(browser)
    await log_out(browser, listener)
    (request,) = await receiver.wait_for(1)
    decoded = jwt.decode(token_of(request), OctKey.import_key(listener.secret), algorithms=["HS256"])
    assert decoded.claims["aud"] == listener.client_id


@pytest.mark.requirement("certification-logout-5")
@pytest.mark.parametrize("deed", ["deactivated", "deleted", "new password", "tokens revoked", "global logout"])
async def test_deletion_of_a_user_ends_all_sessions(listener, receiver, browser, new_browser, http, api, deed):
    browsers = [browser, new_browser()]
    sids = {claims((await listener.tokens(http, one))["id_token"])["sid"] for one in browsers}
    path, headers = f"/api/user/{listener.user['id']}", {"X-FusionAuth-TenantId": listener.tenant["id"]}
    if deed == "new password":
        await listener.configure_tenant(jwtConfiguration={"refreshTokenRevocationPolicy": {"onPasswordChanged": True}})
        await listener.patch(path, {"user": {"password": "another horse battery"}})
    elif deed == "tokens revoked":
        query = {"userId": listener.user["id"]}
        assert (await api.delete("/api/jwt/refresh", headers=headers, params=query)).status_code == 200
    elif deed == "global logout":
        value = (await listener.tokens(http, browser))["refresh_token"]
        assert (
            await http.post("/api/logout", json={"global": True, "refreshToken": value}, headers=headers)
        ).status_code == 200
    else:
        query = {"hardDelete": "true"} if deed == "deleted" else {}
        assert (await api.delete(path, headers=headers, params=query)).status_code == 200
    requests = await receiver.wait_for(2)
    assert {(await verified(http, request))["sid"] for request in requests} == sids
    for one in browsers:
        assert response(await listener.authorize(one, prompt="none"))["error"] == "login_required"


async def test_password_change_without_policy_ends_no_session(listener, receiver, browser, service):
    await listener.configure_tenant(jwtConfiguration={"refreshTokenRevocationPolicy": {"onPasswordChanged": False}})
    await listener.log_in(browser)
    await listener.patch(f"/api/user/{listener.user['id']}", {"user": {"password": "another horse battery"}})
    assert "code" in response(await listener.authorize(browser, prompt="none"))
    assert (await pending(service, listener), receiver.requests) == (0, [])


@pytest.mark.requirement("certification-logout-5")
async def test_repeated_login_sends_no_logout_tokens(listener, receiver, browser, http, api, service):
    async with receiving() as other:
        second = await relying_party.make(api, tenant=listener.tenant, backChannelLogoutURL=other.url)
        first = claims((await listener.tokens(http, browser))["id_token"])
        shown = await second.authorize(browser, prompt="login")
        answer = await listener.submit(browser, shown)
        again = claims((await second.exchange(http, response(answer)["code"])).json()["id_token"])
        assert again["sid"] == first["sid"]
        assert (await pending(service, listener), receiver.requests, other.requests) == (0, [], [])
        await log_out(browser, second)
        for one in (receiver, other):
            assert (await verified(http, (await one.wait_for(1))[0]))["sid"] == first["sid"]


@pytest.mark.requirement("certification-logout-5")
async def test_login_of_another_user_ends_the_previous_session(listener, receiver, browser, http, api):
    first = claims((await listener.tokens(http, browser))["id_token"])
    listener.user = await relying_party.make_user(api, listener.tenant["id"], listener.client_id)
    shown = await listener.authorize(browser, prompt="login")
    code = response(await listener.submit(browser, shown))["code"]
    second = claims((await listener.exchange(http, code)).json()["id_token"])
    (request,) = await receiver.wait_for(1)
    said = await verified(http, request)
    assert (said["sid"], said["sub"]) == (first["sid"], first["sub"])
    assert second["sid"] != first["sid"]


@pytest.mark.requirement("certification-logout-5")
async def test_unavailable_receiver_gets_the_logout_token_later(listener, receiver, browser, http, service, clock):
    await receiver.stop()
    await listener.log_in(browser)
    await log_out(browser, listener)

    async def has_attempts(times: int) -> bool:
        rows = internals.database(service).collection("logout_notices").find({"tenantId": listener.tenant["id"]})
        return [row["attempts"] async for row in rows if "lease" not in row] == [times]

    await until(lambda: has_attempts(1))
    (message,) = await failures(service, listener)
    assert receiver.url in message
    assert "refused" in message
    assert message.endswith("It will be tried again.")
    async with receiving(answers(503)) as back:
        await listener.configure(backChannelLogoutURL=back.url)
        clock.advance(seconds=SCHEDULE_SECONDS[0] * 1.2)
        await until(lambda: has_attempts(2))
        back.behaviour = answers(204)
        clock.advance(seconds=SCHEDULE_SECONDS[1] * 1.2)
        first, second = [await verified(http, request) for request in await back.wait_for(2)]
        assert first["sid"] == second["sid"]
        assert first["jti"] != second["jti"]
        assert second["iat"] > first["iat"]
        await all_told(service, listener)
    assert len(await failures(service, listener)) == 1


@pytest.mark.requirement("certification-logout-5")
async def test_logout_token_is_given_up_after_the_schedule(listener, receiver, browser, service, clock):
    receiver.behaviour = answers(400, b'{"error": "invalid_request"}')
    await listener.log_in(browser)
    await log_out(browser, listener)
    for number, seconds in enumerate(SCHEDULE_SECONDS, start=1):
        await receiver.wait_for(number)

        async def is_free(attempts: int = number) -> bool:
            rows = internals.database(service).collection("logout_notices").find({"tenantId": listener.tenant["id"]})
            return [row["attempts"] async for row in rows if "lease" not in row] == [attempts]

        await until(is_free)
        clock.advance(seconds=seconds * 1.2)
    await all_told(service, listener)
    assert len(receiver.requests) == len(SCHEDULE_SECONDS) + 1
    found = await failures(service, listener)
    assert "status 400" in found[-1]
    assert found[-1].endswith("It is given up.")


@pytest.mark.requirement("certification-logout-5")
async def test_logout_token_of_a_killed_process_is_sent_by_another(
    listener, receiver, browser, service, clock, monkeypatch
):
    queue = internals.store(service, "logout_notices")
    held = []

    async def takes_and_dies(*arguments: Any) -> list[Any]:
        held.extend(await type(queue).lease(queue, *arguments))
        return []

    monkeypatch.setattr(queue, "lease", takes_and_dies)
    await listener.log_in(browser)
    await log_out(browser, listener)

    async def is_held() -> bool:
        return any(lease.job.tenant_id == listener.tenant["id"] for lease in held)

    await until(is_held)
    monkeypatch.undo()
    assert receiver.requests == []
    clock.advance(seconds=60)
    await receiver.wait_for(1)
    await all_told(service, listener)


@pytest.mark.requirement("certification-logout-5")
async def test_logout_tokens_are_queued_before_the_session_ends(listener, receiver, browser, service, monkeypatch):
    """A crash between the two steps loses no logout token."""

    async def fails(*arguments: Any) -> None:
        raise KeyboardInterrupt  # what no handler takes for an error of its own

    await receiver.stop()
    await listener.log_in(browser)
    secret = browser.cookies["fusionauth.sso"]
    monkeypatch.setattr(internals.store(service, "sso_sessions"), "end", fails)
    call = internals.call(service)
    with pytest.raises(KeyboardInterrupt):
        await internals.run(service, sso_sessions.end, call, TenantId(listener.tenant["id"]), secret)
    assert await pending(service, listener) == 1


@pytest.mark.requirement("certification-logout-5", "contract-logout-10")
async def test_logout_fails_if_its_tokens_cannot_be_queued(listener, receiver, browser, service, monkeypatch):
    await listener.log_in(browser)

    async def away(*_arguments: Any) -> None:
        raise Unavailable

    monkeypatch.setattr(internals.store(service, "logout_notices"), "add", away)
    answer = await browser.get("/oauth2/logout", params={"client_id": listener.client_id})
    assert answer.status_code == 503
    monkeypatch.undo()
    assert "code" in response(await listener.authorize(browser, prompt="none"))
    await log_out(browser, listener)
    await receiver.wait_for(1)


@pytest.mark.requirement("certification-logout-5")
async def test_64_concurrent_logouts_send_one_token(listener, receiver, browser, service):
    await receiver.stop()
    await listener.log_in(browser)
    cookie = {"Cookie": f"fusionauth.sso={browser.cookies['fusionauth.sso']}"}
    answered = await asyncio.gather(
        *(browser.get("/oauth2/logout", params={"client_id": listener.client_id}, headers=cookie) for _ in range(64))
    )
    assert {one.status_code for one in answered} == {302}
    assert await pending(service, listener) == 1


@pytest.mark.requirement("certification-logout-5")
async def test_client_that_joined_last_gets_a_logout_token(listener, receiver, browser, http, service, monkeypatch):
    async with receiving() as other:
        late = await relying_party.make(listener.api, tenant=listener.tenant, backChannelLogoutURL=other.url)
        await listener.log_in(browser)
        sessions, secret = internals.store(service, "sso_sessions"), browser.cookies["fusionauth.sso"]
        look = sessions.find

        async def joined_after(tenant_id: TenantId, wanted: str):
            seen = await look(tenant_id, wanted)
            if wanted == secret:
                await sessions.add_client(tenant_id, secret, late.client_id)
            return seen

        monkeypatch.setattr(sessions, "find", joined_after)
        await log_out(browser, listener)
        assert (await verified(http, (await other.wait_for(1))[0]))["aud"] == late.client_id
        assert (await verified(http, (await receiver.wait_for(1))[0]))["aud"] == listener.client_id


async def test_deleted_or_unsubscribed_application_gets_no_logout_token(listener, receiver, browser, service, clock):
    await receiver.stop()
    await listener.log_in(browser)
    await log_out(browser, listener)
    await until(lambda: _has_failed(service, listener))
    await listener.configure(backChannelLogoutURL="")
    clock.advance(seconds=30)
    await all_told(service, listener)
    assert len(await failures(service, listener)) == 1


async def _has_failed(service, rp) -> bool:
    return bool(await failures(service, rp))


async def _adds_nothing(notices: Any, *_arguments: Any) -> None:
    assert not notices


async def test_logout_without_receivers_needs_no_more_queries(rp, browser, service, monkeypatch):
    await rp.log_in(browser)

    def never(*_arguments: Any) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(internals.store(service, "sso_sessions"), "find", never)
    monkeypatch.setattr(internals.store(service, "logout_notices"), "add", _adds_nothing)
    assert (await log_out(browser, rp)).status_code == 302
    assert response(await rp.authorize(browser, prompt="none"))["error"] == "login_required"


async def test_logout_tokens_are_deleted_with_their_tenant(listener, receiver, browser, service, api):
    await receiver.stop()
    await listener.log_in(browser)
    await log_out(browser, listener)
    assert await pending(service, listener) == 1
    assert (await api.delete(f"/api/tenant/{listener.tenant['id']}")).status_code == 200
    assert await pending(service, listener) == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://app.example.com/logout", "ftp://app.example.com/", "/logout", "https://user@app.example.com/logout",
        "https://app.example.com/logout#part", "https://169.254.169.254/", "https://10.0.0.1/", "http://2130706433/",
        "https://metadata.google.internal/", "https://app.example.com:6379/", "https://[::ffff:10.0.0.1]/",
    ],
)  # fmt: skip
async def test_attack_57_logout_url_is_checked_when_stored(rp, api, url):
    headers = {"X-FusionAuth-TenantId": rp.tenant["id"]}
    body = {"application": {"oauthConfiguration": {"backChannelLogoutURL": url}}}
    answer = await api.patch(f"{PATH}/{rp.client_id}", json=body, headers=headers)
    assert answer.status_code == 400
    (error,) = answer.json()["fieldErrors"][MEMBER]
    assert error["code"] == f"[invalid]{MEMBER}"


@pytest.mark.parametrize(
    "url", ["https://app.example.com/logout?x=1", "http://127.0.0.1:8080/", "http://localhost:81/"]
)
async def test_logout_url_may_be_https_or_in_an_allowed_network(rp, url):
    await rp.configure(backChannelLogoutURL=url)


async def test_attack_58_59_address_is_checked_when_it_is_called_and_redirects_are_not_followed(
    listener, receiver, browser, service
):
    async with receiving() as inside:
        receiver.behaviour = answers(302, headers=[f"Location: {inside.url}"])
        await listener.log_in(browser)
        await log_out(browser, listener)
        await until(lambda: _has_failed(service, listener))
        assert "status 302" in (await failures(service, listener))[0]
        assert inside.requests == []


async def test_attack_58_address_forbidden_meanwhile_is_not_called(listener, receiver, browser, service):
    await listener.log_in(browser)
    applications = internals.database(service).collection("applications")
    change = {"$set": {"oauthConfiguration.backChannelLogoutURL": "http://169.254.169.254/"}}
    await applications.update_one({"_id": listener.client_id}, change)
    internals.store(service, "applications").invalidate(listener.client_id)
    await log_out(browser, listener)
    await until(lambda: _has_failed(service, listener))
    assert "blocked" in (await failures(service, listener))[0]
    assert receiver.requests == []


@pytest.mark.requirement("certification-logout-5")
async def test_attack_64_slow_receiver_delays_neither_logout_nor_others(listener, browser, receiver, http, api):
    hangs, goes_on = asyncio.Event(), asyncio.Event()

    async def hang(_request, writer) -> None:
        hangs.set()
        await goes_on.wait()
        await answers()(_request, writer)

    async with receiving(hang) as slow:
        other = await relying_party.make(api, tenant=listener.tenant, backChannelLogoutURL=slow.url)
        await listener.log_in(browser)
        await other.authorize(browser, prompt="none")
        assert (await log_out(browser, listener)).status_code == 302
        await receiver.wait_for(1)
        await hangs.wait()
        goes_on.set()


async def test_attack_27_43_logout_token_is_rejected_by_all_endpoints(listener, receiver, browser, http):
    await listener.log_in(browser)
    await log_out(browser, listener)
    (request,) = await receiver.wait_for(1)
    token = token_of(request)
    bearer = await http.get("/oauth2/userinfo", headers={"Authorization": f"Bearer {token}"})
    assert (bearer.status_code, bearer.json()["error_reason"]) == (401, "access_token_invalid")
    credentials = {"client_id": listener.client_id, "client_secret": listener.secret}
    introspection = await http.post("/oauth2/introspect", data={**credentials, "token": token})
    assert introspection.json() == {"active": False}
    assert (await listener.refresh(http, token)).json()["error_reason"] == "refresh_token_not_found"
    hint = await browser.get(
        "/oauth2/logout", params={"id_token_hint": token, "post_logout_redirect_uri": REDIRECT_URI}
    )
    assert hint.status_code == 400
    assert "invalid_id_token_hint" in hint.text


async def test_sessions_of_another_tenant_are_not_ended(listener, receiver, browser, service, api):
    await listener.log_in(browser)
    other = await relying_party.make(api)
    await log_out(browser, other)
    await internals.store(service, "sso_sessions").end_of_user(
        TenantId(other.tenant["id"]), UserId(listener.user["id"])
    )
    assert (await pending(service, listener), receiver.requests) == (0, [])
