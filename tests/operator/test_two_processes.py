"""One-time operations on two processes: of 64 callers, half at each process, exactly one succeeds."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from identity.ids import new_id
from identity.store.mongo import Database
from tests import relying_party
from tests.conftest import DEFAULT_TENANT, checking_client
from tests.oauth2.devices import Device, device_client
from tests.operator.processes import Process
from tests.receiver import Receiver, receiving
from tests.relying_party import RelyingParty, claims, response

KEY = "the-key-of-this-test-0123456789012345678901"
KICKSTART = {
    "variables": {"defaultTenantId": DEFAULT_TENANT},
    "apiKeys": [{"key": KEY}],
    "requests": [],
}
CALLERS = 64


@dataclasses.dataclass
class Pair:
    """Two processes on the same stores, a client for each, and a client with a key for the first."""

    clients: tuple[httpx.AsyncClient, httpx.AsyncClient]
    api: httpx.AsyncClient

    async def race(self, call: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]) -> list[httpx.Response]:
        """The responses to these callers, alternating between the processes."""
        return await asyncio.gather(*(call(self.clients[number % 2]) for number in range(CALLERS)))

    async def logged_in(self, rp: RelyingParty) -> None:
        """Log one user in, in a browser that both processes see."""
        await rp.log_in(self.clients[0])
        self.clients[1].cookies = self.clients[0].cookies


@pytest.fixture(scope="module")
async def processes(stores, tmp_path_factory) -> AsyncIterator[list[Process]]:
    folder = tmp_path_factory.mktemp("two")
    (folder / "kickstart.json").write_text(json.dumps(KICKSTART))
    database = f"test_{new_id()[:13].replace('-', '')}"
    running: list[Process] = []
    try:
        for _ in range(2):
            running.append(
                Process(
                    folder / "var",
                    mongodb__uri=stores.mongodb_uri,
                    mongodb__database=database,
                    redis__url=stores.redis_url,
                    kickstart__file=folder / "kickstart.json",
                    webhooks__allowed_networks='["127.0.0.0/8"]',
                )
            )
            await asyncio.to_thread(running[-1].wait_until_ready)
        yield running
    finally:
        for process in running:
            await asyncio.to_thread(process.stop)
            process.output.close()
        used = Database(stores.mongodb_uri, database)
        await used.drop()
        used.close()


@pytest.fixture
async def pair(processes) -> AsyncIterator[Pair]:
    async with contextlib.AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(checking_client(process.url)) for process in processes]
        headers = {"Authorization": KEY, "X-FusionAuth-TenantId": DEFAULT_TENANT}
        api = await stack.enter_async_context(checking_client(processes[0].url, headers=headers))
        yield Pair((one, other), api)


def one_winner(answers: list[httpx.Response], status: int = 200) -> httpx.Response:
    """The response of the successful caller; all others are rejected."""
    assert sorted(answer.status_code for answer in answers) == sorted([status] + [400] * (CALLERS - 1))
    return next(answer for answer in answers if answer.status_code == status)


def refusals(answers: list[httpx.Response]) -> set[tuple[str, str | None]]:
    """The error and error_reason of the other callers."""
    bodies = [answer.json() for answer in answers if answer.status_code == 400]
    return {(body["error"], body.get("error_reason")) for body in bodies}


@pytest.mark.requirement("processes-1")
async def test_attack_21_one_code(pair):
    rp = await relying_party.make(pair.api)
    code = await rp.code(pair.clients[0])
    answers = await pair.race(lambda http: rp.exchange(http, code))
    given = one_winner(answers).json()
    assert refusals(answers) == {("invalid_grant", "auth_code_not_found")}
    # The others were replays: what the code gave is taken back, whichever process is asked.
    for http in pair.clients:
        bearer = {"Authorization": f"Bearer {given['access_token']}"}
        assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401
        assert (await rp.refresh(http, given["refresh_token"])).status_code == 400


@pytest.mark.requirement("processes-2")
async def test_attack_26_one_refresh_token(pair):
    rp = await relying_party.make(pair.api)
    await rp.configure_tenant(
        jwtConfiguration={
            "refreshTokenUsagePolicy": "OneTimeUse",
            "refreshTokenOneTimeUseConfiguration": {"gracePeriodInSeconds": 0},
        }
    )
    spent = (await rp.tokens(*pair.clients))["refresh_token"]
    answers = await pair.race(lambda http: rp.refresh(http, spent))
    fresh = one_winner(answers).json()["refresh_token"]
    assert fresh != spent
    assert refusals(answers) == {("invalid_grant", "refresh_token_not_found")}


@pytest.mark.requirement("processes-3")
async def test_one_device_code(pair):
    rp = await device_client(pair.api)
    device = await Device.begin(rp, pair.clients[0], scope="openid")
    await device.approved(pair.clients[1])
    answers = await pair.race(lambda http: dataclasses.replace(device, http=http).poll())
    assert one_winner(answers).json()["userId"] == rp.user["id"]
    assert len(refusals(answers)) == 1


@pytest.mark.requirement("processes-5")
async def test_attack_42_one_return_from_a_provider(pair):
    rp = await relying_party.make(pair.api)
    names = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")
    oauth2 = {name: f"https://provider.example.com/{name}" for name in names} | {"client_id": "a", "client_secret": "b"}
    settings = {rp.client_id: {"enabled": True}}
    provider = {"type": "OpenIDConnect", "name": new_id(), "enabled": True, "oauth2": oauth2}
    body = {"identityProvider": {**provider, "applicationConfiguration": settings}}
    provider_id = (await pair.api.post("/api/identity-provider", json=body)).json()["identityProvider"]["id"]
    left = await rp.authorize(pair.clients[0], idp_hint=provider_id)
    pair.clients[1].cookies = pair.clients[0].cookies
    state = httpx.URL(left.headers["Location"]).params["state"]
    given = {"state": state, "error": "access_denied"}
    shown = one_winner(await pair.race(lambda http: http.get("/oauth2/callback", params=given)))
    assert "canceled" in relying_party.page(shown).text


@pytest.mark.requirement("processes-4")
async def test_attack_16_one_request_uri(pair):
    rp = await relying_party.make(pair.api)
    await pair.logged_in(rp)
    form = {**rp.query(prompt="none"), "client_secret": rp.secret}
    pushed = (await pair.clients[1].post("/oauth2/par", data=form)).json()["request_uri"]
    query = {"client_id": rp.client_id, "request_uri": pushed}
    answers = await pair.race(lambda browser: browser.get("/oauth2/authorize", params=query))
    given = response(one_winner(answers, 302))
    assert (await rp.exchange(pair.clients[1], given["code"])).status_code == 200


@pytest.mark.requirement("processes-7")
async def test_session_ended_by_several_processes_sends_one_logout(pair):
    rp = await relying_party.make(pair.api)
    async with receiving() as receiver:
        await rp.configure(backChannelLogoutURL=receiver.url)
        await pair.logged_in(rp)
        query = {"client_id": rp.client_id}
        answers = await pair.race(lambda browser: browser.get("/oauth2/logout", params=query))
        assert {answer.status_code for answer in answers} == {302}
        assert len(await notified_sessions(receiver)) == 1


async def notified_sessions(receiver: Receiver) -> set[str]:
    """The distinct sessions of which the receiver was notified."""
    requests = await receiver.wait_for(1)
    return {claims(request.body.decode().partition("=")[2])["sid"] for request in requests}


@pytest.mark.requirement("processes-6")
async def test_token_of_one_process_is_good_at_the_other_and_revoked_at_both(pair):
    rp = await relying_party.make(pair.api)
    one, other = pair.clients
    tokens = await rp.tokens(one, other)
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    for http in pair.clients:
        assert (await http.get("/oauth2/userinfo", headers=bearer)).json()["sub"] == rp.user["id"]
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": tokens["refresh_token"]}
    assert (await other.post("/oauth2/revoke", data=form)).status_code == 200
    for http in pair.clients:
        assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 401
        assert (await rp.refresh(http, tokens["refresh_token"])).status_code == 400
