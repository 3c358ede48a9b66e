"""Key rotation under traffic: issued tokens stay valid, and events are sent."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from identity.domain.configuration.key_rotation import LAG_MS, MARGIN_MS
from identity.ids import new_id
from tests import internals, plain_http, relying_party
from tests.api.test_entities import make as make_entity
from tests.api.test_entity_types import make as make_type
from tests.receiver import answers, receiving, until
from tests.relying_party import header
from tests.subscriber import check_event
from tests.webhooks import subscribe

SHADOW = {
    "HS256": "092dbedc-30af-4149-9c61-b578f2c72f59",
    "HS384": "4b8f1c06-518e-45bd-9ac5-d549686ae02a",
    "HS512": "c753a44d-7f2e-48d3-bc4e-c2c16488a23b",
}
ALGORITHMS = ["RS256", "ES256", "ES384"]
TOKENS = ("access_token", "id_token")


class Verifier:
    """A resource server: keeps the key set as long as it may, and asks again for a kid that it does not know."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._keys: dict[str, Any] = {}
        self._etag = ""
        self._fresh_until = 0.0
        self.fetches = 0

    async def verify(self, token: str) -> dict[str, Any]:
        kid = header(token)["kid"]
        if time.monotonic() > self._fresh_until or kid not in self._keys:
            await self._fetch()
        read = KeySet.import_key_set({"keys": [self._keys[kid]]})
        registry = jwt.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        return dict(jwt.decode(token, read, algorithms=ALGORITHMS, registry=registry).claims)

    async def _fetch(self) -> None:
        self.fetches += 1
        answer = await self._http.get("/.well-known/jwks.json", headers={"If-None-Match": self._etag})
        rules = dict(part.strip().partition("=")[::2] for part in answer.headers["Cache-Control"].split(","))
        self._fresh_until = time.monotonic() + int(rules["max-age"])
        if answer.status_code == 200:
            self._etag = answer.headers["ETag"]
            self._keys = {key["kid"]: key for key in answer.json()["keys"]}


async def generate(api, algorithm: str = "ES256") -> dict[str, Any]:
    wanted = {"name": f"Key {new_id()}", "algorithm": algorithm, **({"length": 2048} if "RS" in algorithm else {})}
    answer = await api.post("/api/key/generate", json={"key": wanted})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["key"])


async def configure(rp, *, application: bool = False, **members: Any) -> None:
    path, wrapper = f"/api/tenant/{rp.tenant['id']}", "tenant"
    if application:
        path, wrapper = f"/api/application/{rp.client_id}", "application"
    await rp.patch(path, {wrapper: {"jwtConfiguration": members}})


async def introspect(rp, http, token: str) -> bool:
    form = {"client_id": rp.client_id, "client_secret": rp.secret, "token": token}
    return bool((await http.post("/oauth2/introspect", data=form)).json()["active"])


async def counts(rp, http, tokens: dict[str, Any]) -> None:
    """Both tokens are accepted by their endpoints."""
    for name in TOKENS:
        assert await introspect(rp, http, tokens[name])
    bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await http.get("/oauth2/userinfo", headers=bearer)).status_code == 200


async def until_verified(issued: list[dict[str, Any]], name: str, key: dict[str, Any]) -> None:
    """Wait until a token that this key signed was verified and used everywhere."""
    await until(lambda: any(header(tokens[name])["kid"] == key["kid"] for tokens in reversed(issued)))


@pytest.fixture
async def second(service, build, session_clock, tmp_path, publication_lag) -> AsyncIterator[httpx.AsyncClient]:
    """Another process of the same instance."""
    config = internals.config(service)
    data_dir = shutil.copytree(config.data_dir, tmp_path / "second")
    async with (
        build(clock=session_clock, role="web", data_dir=data_dir, database=config.mongodb.database) as running,
        plain_http.client(running.base_url, timeout=30) as client,
    ):
        yield client


@pytest.mark.requirement("core-7-rotation-publish", "core-8-jwtConfiguration")
async def test_key_rotation_fails_no_verification(rp, browser, http, api, second):
    """Three key changes of the tenant and three of the application, while both processes issue and verify."""
    refresh_token = (await rp.tokens(http, browser))["refresh_token"]
    everywhere, verifiers = (http, second), (Verifier(http), Verifier(second))
    issued: list[dict[str, Any]] = []
    done = asyncio.Event()

    async def use() -> None:
        while not done.is_set():
            tokens = (await rp.refresh(random.choice(everywhere), refresh_token)).json()
            for verifier in verifiers:
                for name in TOKENS:
                    assert (await verifier.verify(tokens[name]))["sub"] == rp.user["id"]
            for other in everywhere:
                await counts(rp, other, tokens)
            issued.append(tokens)

    async def rotate() -> None:
        try:
            await until(lambda: issued)
            for algorithm in ("RS256", "ES256", "ES384"):
                key = await generate(api, algorithm)
                await configure(rp, accessTokenKeyId=key["id"], idTokenKeyId=key["id"])
                # What is answered is in force: in both processes the next token is signed with the new key.
                for other in everywhere:
                    fresh = (await rp.refresh(other, refresh_token)).json()
                    assert header(fresh["access_token"])["kid"] == header(fresh["id_token"])["kid"] == key["kid"]
                await until_verified(issued, "id_token", key)
            key = await generate(api)
            await configure(rp, application=True, enabled=True, accessTokenKeyId=key["id"])
            await until_verified(issued, "access_token", key)
            await configure(rp, application=True, enabled=True, idTokenKeyId=key["id"], accessTokenKeyId=None)
            await until_verified(issued, "id_token", key)
            await configure(rp, application=True, enabled=False)
        finally:
            done.set()

    await asyncio.gather(rotate(), *(use() for _ in range(3)))
    kids = {header(tokens[name])["kid"] for tokens in issued for name in TOKENS}
    assert len(kids) == 5
    # They kept the set, and asked again for what they did not know: each of the three at most once for each kid.
    assert all(verifier.fetches <= 3 * (len(kids) + 1) for verifier in verifiers)
    # Every token still counts in every process, whenever and with whatever key it was made.
    for tokens in random.sample(issued, min(40, len(issued))):
        await counts(rp, random.choice(everywhere), tokens)
        await random.choice(verifiers).verify(tokens["access_token"])


@pytest.mark.requirement("core-7-rotation-publish")
async def test_new_key_is_published_before_the_response(service, http, api, second):
    """A new application signs with a key of a moment ago."""
    key = await generate(api)
    configuration = {"enabled": True, "accessTokenKeyId": key["id"]}
    made = await api.post(
        "/api/application", json={"application": {"name": new_id(), "jwtConfiguration": configuration}}
    )
    assert made.status_code == 200, made.text
    assert internals.now(service) >= key["insertInstant"] + LAG_MS
    for other in (http, second):
        assert key["kid"] in {one["kid"] for one in (await other.get("/.well-known/jwks.json")).json()["keys"]}


@pytest.mark.requirement("core-7-rotation-verify")
async def test_old_key_is_kept_until_its_last_token_expires(rp, browser, http, api, clock):
    old, new = await generate(api), await generate(api)
    await configure(rp, accessTokenKeyId=old["id"], idTokenKeyId=old["id"], timeToLiveInSeconds=600)
    tokens = await rp.tokens(http, browser)
    await configure(rp, accessTokenKeyId=new["id"], idTokenKeyId=new["id"])

    async def deleted() -> bool:
        answer = await api.delete(f"/api/key/{old['id']}")
        assert answer.status_code == 200 or "[inUse]keyId" in answer.text
        return answer.status_code == 200

    async def published() -> set[str]:
        return {one["kid"] for one in (await http.get("/.well-known/jwks.json")).json()["keys"]}

    assert not await deleted()
    clock.advance(seconds=590)
    assert await introspect(rp, http, tokens["access_token"])
    assert not await deleted()
    assert {old["kid"], new["kid"]} <= await published()
    clock.advance(seconds=20 + MARGIN_MS / 1000)
    assert not await introspect(rp, http, tokens["access_token"])
    # An ID token that has died and whose key was retired still says whose logout this is.
    answer = await http.get("/oauth2/logout", params={"id_token_hint": tokens["id_token"]})
    assert answer.status_code == 302
    assert await deleted()
    assert old["kid"] not in await published()
    assert (await http.get("/oauth2/logout", params={"id_token_hint": tokens["id_token"]})).status_code == 400


@pytest.mark.requirement("core-7-rotation-verify")
async def test_key_is_kept_after_return_to_tenant_keys(rp, browser, http, api, clock):
    key = await generate(api)
    await configure(rp, application=True, enabled=True, accessTokenKeyId=key["id"], timeToLiveInSeconds=600)
    token = (await rp.tokens(http, browser))["access_token"]
    await configure(rp, application=True, enabled=False, accessTokenKeyId=None)
    assert await introspect(rp, http, token)
    assert "[inUse]keyId" in (await api.delete(f"/api/key/{key['id']}")).text
    # In the moment of the change it still signed, and tokens lived as long as the tenant's do.
    clock.advance(seconds=3610 + MARGIN_MS / 1000)
    assert (await api.delete(f"/api/key/{key['id']}")).status_code == 200


async def test_rotation_state_is_not_exposed_copied_or_changed(rp, service, api):
    key = await generate(api)
    await configure(rp, accessTokenKeyId=key["id"])
    path = f"/api/tenant/{rp.tenant['id']}"
    shown = (await api.get(path)).json()["tenant"]
    assert "private" not in shown
    assert (await api.put(path, json={"tenant": {**shown, "private": {"retiredKeys": []}}})).status_code == 200
    stored = await internals.store(service, "tenants").get(None, rp.tenant["id"])
    former = rp.tenant["jwtConfiguration"]["accessTokenKeyId"]
    assert [(entry["keyId"], entry["member"]) for entry in stored["private"]["retiredKeys"]] == [
        (former, "accessTokenKeyId")
    ]
    copied = await api.post("/api/tenant", json={"sourceTenantId": rp.tenant["id"], "tenant": {"name": new_id()}})
    copy = await internals.store(service, "tenants").get(None, copied.json()["tenant"]["id"])
    assert "retiredKeys" not in copy.get("private", {})


# The client secret as a key


@pytest.mark.requirement("core-7-client-secret")
@pytest.mark.parametrize("algorithm", SHADOW)
async def test_id_token_signed_with_the_client_secret_is_accepted_as_hint(rp, browser, http, algorithm):
    await rp.configure(clientSecret="a-client-secret-of-sixty-four-characters-" + "x" * 23)
    rp.application["oauthConfiguration"]["clientSecret"] = "a-client-secret-of-sixty-four-characters-" + "x" * 23
    before = await rp.tokens(http, browser)
    await configure(rp, idTokenKeyId=SHADOW[algorithm])
    tokens = await rp.tokens(http, browser)
    assert header(tokens["id_token"])["alg"] == algorithm
    assert "kid" not in header(tokens["id_token"])
    assert header(tokens["access_token"])["alg"] == "RS256"
    registry = jwt.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    read = jwt.decode(tokens["id_token"], OctKey.import_key(rp.secret), algorithms=[algorithm], registry=registry)
    assert read.claims["sub"] == rp.user["id"]
    await configure(rp, idTokenKeyId=rp.tenant["jwtConfiguration"]["idTokenKeyId"])
    for token in (before["id_token"], tokens["id_token"]):
        assert await introspect(rp, http, token)
        assert (await http.get("/oauth2/logout", params={"id_token_hint": token})).status_code == 302


@pytest.mark.requirement("core-7-client-secret")
async def test_each_application_of_a_tenant_signs_with_its_own_secret(rp, browser, http, api):
    other = await relying_party.make(api, tenant=rp.tenant)
    await configure(rp, idTokenKeyId=SHADOW["HS256"])
    registry = jwt.JWSRegistry(algorithms=["HS256"], strict_check_header=False)
    for one in (rp, other):
        token = (await one.tokens(http, browser, prompt="login"))["id_token"]
        read = jwt.decode(token, OctKey.import_key(one.secret), algorithms=["HS256"], registry=registry)
        assert read.claims["aud"] == one.client_id


@pytest.mark.requirement("core-7-client-secret")
async def test_client_secret_signs_no_access_token(rp):
    body = {"tenant": {"jwtConfiguration": {"accessTokenKeyId": SHADOW["HS256"]}}}
    answer = await rp.api.patch(f"/api/tenant/{rp.tenant['id']}", json=body)
    assert "[invalid]tenant.jwtConfiguration.accessTokenKeyId" in answer.text


# Events


@pytest.fixture
async def changed_applications(rp, api):
    """The sets of applications that key changes were sent about, one for each event."""
    async with receiving() as receiver:
        kind = "jwt.public-key.update"
        await subscribe(api, rp.tenant, receiver.url, [kind])

        async def next_sets(number: int) -> list[set[str]]:
            requests = await receiver.wait_for(number)
            assert len(requests) == number
            for request in requests:
                assert request.event["type"] == kind
                check_event(request.event)
                assert request.event["tenantId"] == rp.tenant["id"]
                assert "linkedObjectId" not in request.event
            return [set(request.event["applicationIds"]) for request in requests]

        yield next_sets


@pytest.mark.requirement("core-7-rotation-event", "event-jwt.public-key.update")
async def test_event_lists_all_affected_applications(rp, api, changed_applications):
    follower = await relying_party.make(api, tenant=rp.tenant)
    own, half = await relying_party.make(api, tenant=rp.tenant), await relying_party.make(api, tenant=rp.tenant)
    keys = [await generate(api) for _ in range(3)]
    ids = {"accessTokenKeyId": keys[0]["id"], "idTokenKeyId": keys[0]["id"]}
    await configure(own, application=True, enabled=True, **ids)
    await configure(half, application=True, enabled=True, accessTokenKeyId=keys[0]["id"])
    await configure(rp, idTokenKeyId=keys[1]["id"])
    await configure(rp, accessTokenKeyId=keys[2]["id"])
    assert sorted(map(sorted, await changed_applications(4))) == sorted(
        map(
            sorted,
            [
                {own.client_id},
                {half.client_id},
                {rp.client_id, follower.client_id, half.client_id},
                {rp.client_id, follower.client_id},
            ],
        )
    )


@pytest.mark.requirement("core-7-rotation-event", "event-jwt.public-key.update")
async def test_changes_without_a_public_key_send_no_event(rp, api, changed_applications):
    key = await generate(api)
    first, then = await generate(api, "HS256"), await generate(api, "HS512")
    await configure(rp, application=True, accessTokenKeyId=key["id"])  # not enabled
    await configure(rp, application=True, enabled=True, accessTokenKeyId=None, timeToLiveInSeconds=60)
    await configure(rp, application=True, accessTokenKeyId=first["id"])  # from RSA
    await configure(rp, application=True, accessTokenKeyId=then["id"])
    await configure(rp, application=True, enabled=False)  # back to RSA
    assert await changed_applications(2) == [{rp.client_id}, {rp.client_id}]


@pytest.mark.requirement("core-7-rotation-event")
async def test_swapped_keys_send_an_event(rp, api, changed_applications):
    one, other = await generate(api), await generate(api)
    await configure(rp, accessTokenKeyId=one["id"], idTokenKeyId=other["id"])
    await configure(rp, accessTokenKeyId=other["id"], idTokenKeyId=one["id"])
    assert await changed_applications(2) == [{rp.client_id}, {rp.client_id}]


@pytest.mark.requirement("core-7-rotation-event")
async def test_veto_keeps_the_old_key(rp, browser, http, api):
    key = await generate(api)
    async with receiving(answers(500)) as receiver:
        webhook_id = await subscribe(api, rp.tenant, receiver.url, ["jwt.public-key.update"], "AbsoluteMajority")
        body = {"tenant": {"jwtConfiguration": {"accessTokenKeyId": key["id"]}}}
        answer = await api.patch(f"/api/tenant/{rp.tenant['id']}", json=body)
        assert answer.status_code == 504
        await api.delete(f"/api/webhook/{webhook_id}")
    shown = (await api.get(f"/api/tenant/{rp.tenant['id']}")).json()["tenant"]
    assert shown["jwtConfiguration"]["accessTokenKeyId"] == rp.tenant["jwtConfiguration"]["accessTokenKeyId"]
    assert header((await rp.tokens(http, browser))["access_token"])["kid"] != key["kid"]
    assert (await api.delete(f"/api/key/{key['id']}")).status_code == 200


@pytest.mark.requirement("core-7-rotation-publish")
async def test_referenced_key_is_published_within_the_lag(http, api, second, tenant):
    key = await generate(api)
    settings = {"jwtConfiguration": {"accessTokenVerificationKeyIds": [key["id"]]}}
    assert (await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": settings})).status_code == 200

    async def is_published() -> bool:
        answer = await second.get("/.well-known/jwks.json")
        return key["kid"] in {one["kid"] for one in json.loads(answer.content)["keys"]}

    await until(is_published)


# Entity types


@pytest.mark.requirement("core-7-rotation-entity")
async def test_entity_key_rotation_fails_no_verification(http, api, tenant_api, second):
    """A key of its own, another one, and back to the tenant's, while both processes issue and introspect."""
    kind = await make_type(api, permissions=[{"name": "read"}])
    entity, target = [await make_entity(tenant_api, kind) for _ in range(2)]
    grant = {"recipientEntityId": entity["id"], "permissions": ["read"]}
    assert (await tenant_api.post(f"/api/entity/{target['id']}/grant", json={"grant": grant})).status_code == 200
    everywhere, kids, done = (http, second), set(), asyncio.Event()
    verifiers = [Verifier(each) for each in everywhere]
    credentials = {"client_id": entity["clientId"], "client_secret": entity["clientSecret"]}
    asked = {**credentials, "grant_type": "client_credentials", "scope": f"target-entity:{target['id']}"}

    async def use() -> None:
        while not done.is_set():
            token = (await random.choice(everywhere).post("/oauth2/token", data=asked)).json()["access_token"]
            kids.add(header(token)["kid"])
            for each, verifier in zip(everywhere, verifiers, strict=True):
                assert (await verifier.verify(token))["sub"] == entity["id"]
                answer = await each.post("/oauth2/introspect", data={**credentials, "token": token})
                assert answer.json()["active"] is True

    async def rotate() -> None:
        try:
            keys = [await generate(api) for _ in range(2)]
            for key in (*keys, None):
                chosen = {"enabled": False} if key is None else {"enabled": True, "accessTokenKeyId": key["id"]}
                own = {**chosen, "timeToLiveInSeconds": 600}
                wanted = {"entityType": {"name": kind["name"], "jwtConfiguration": own}}
                assert (await api.put(f"/api/entity/type/{kind['id']}", json=wanted)).status_code == 200
        finally:
            done.set()

    await asyncio.gather(use(), use(), rotate())
    assert len(kids) == 3
    # What one process takes away, the other gives no more.
    where = {"recipientEntityId": entity["id"]}
    assert (await tenant_api.delete(f"/api/entity/{target['id']}/grant", params=where)).status_code == 200

    async def is_refused() -> bool:
        answers_ = [await each.post("/oauth2/token", data=asked) for each in everywhere]
        return [answer.json().get("error_reason") for answer in answers_] == ["invalid_target_entity_scope"] * 2

    await until(is_refused)
