"""Logins through generic connectors: by API, page and password grant; order, domains, migration, and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from identity.ids import new_id
from tests import connectors, internals
from tests.connectors import INTERNAL, UserServer
from tests.receiver import answers, hangs, receiving, resets, sends
from tests.relying_party import page, response

PASSWORD = connectors.PASSWORD


async def log_in(api, login_id: str, password: str = PASSWORD, **members: Any) -> Any:
    return await api.post("/api/login", json={"loginId": login_id, "password": password, **members})


async def connect(api, url: str, *, migrate: bool = False, domains: tuple[str, ...] = ("*",), **members: Any) -> str:
    """Let the client's tenant use one generic connector before the internal one."""
    connector_id = await connectors.make(api, connectors.generic(url, **members))
    policy = {"connectorId": connector_id, "migrate": migrate, "domains": list(domains)}
    await connectors.use(api, api.headers["X-FusionAuth-TenantId"], policy)
    return connector_id


async def limit_failures(api) -> None:
    """Let the client's tenant accept three failed logins of an account."""
    limits = {"failedLogin": {"enabled": True, "limit": 3, "timePeriodInSeconds": 600}}
    path = f"/api/tenant/{api.headers['X-FusionAuth-TenantId']}"
    answer = await api.patch(path, json={"tenant": {"rateLimitConfiguration": limits}})
    assert answer.status_code == 200, answer.text


async def stored(api, user: dict[str, Any]) -> dict[str, Any]:
    answer = await api.get(f"/api/user/{user['id']}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["user"])


@pytest.mark.requirement("connectors-2", "connectors-4")
async def test_first_login_creates_the_user_and_later_ones_update_it(key, rp, receiver) -> None:
    user = connectors.a_user(registrations=[{"applicationId": rp.client_id}])
    receiver.behaviour = UserServer(user)
    headers = {"X-Which": "one"}
    account = {"httpAuthenticationUsername": "idp", "httpAuthenticationPassword": "secret"}
    connector_id = await connect(key, receiver.url, headers=headers, **account)
    answer = await log_in(key, user["email"], applicationId=rp.client_id)
    assert answer.status_code == 200, answer.text
    created = answer.json()["user"]
    assert (created["id"], created["connectorId"], created["firstName"]) == (user["id"], connector_id, "Ada")
    assert created["data"] == {"from": "elsewhere"}
    assert created["verified"]
    request = receiver.requests[0]
    assert request.headers["x-which"] == "one"
    assert request.headers["authorization"] == "Basic aWRwOnNlY3JldA=="
    body = orjson.loads(request.body)
    assert {name: body[name] for name in ("applicationId", "loginId", "newDevice", "noJWT", "password")} == {
        "applicationId": rp.client_id,
        "loginId": user["email"],
        "newDevice": False,
        "noJWT": False,
        "password": PASSWORD,
    }
    unchanged = (await stored(key, user))["lastUpdateInstant"]
    assert (await log_in(key, user["email"])).status_code == 200
    assert (await stored(key, user))["lastUpdateInstant"] == unchanged
    user["firstName"] = "Grace"
    assert (await log_in(key, user["email"])).json()["user"]["firstName"] == "Grace"
    assert len(receiver.requests) == 3


@pytest.mark.requirement("connectors-2")
async def test_login_page_and_password_grant_use_connectors(key, rp, receiver, browser) -> None:
    user = connectors.a_user(registrations=[{"applicationId": rp.client_id}])
    receiver.behaviour = UserServer(user)
    await connect(key, receiver.url)
    shown = await rp.authorize(browser)
    answer = await rp.submit(browser, shown, loginId=user["email"], password=PASSWORD)
    assert "code" in response(answer)
    await rp.configure(enabledGrants=["password"])
    form = {"grant_type": "password", "username": user["email"], "password": PASSWORD}
    assert (await rp.token(browser, **form)).status_code == 200
    refused = await rp.token(browser, **{**form, "password": "wrong"})
    assert refused.json()["error"] == "invalid_grant"


@pytest.mark.requirement("connectors-3")
async def test_migrated_user_needs_the_connector_only_once(key, receiver) -> None:
    user = connectors.a_user()
    receiver.behaviour = UserServer(user)
    await connect(key, receiver.url, migrate=True)
    first = await log_in(key, user["email"])
    assert first.status_code == 200, first.text
    assert first.json()["user"]["connectorId"] == INTERNAL
    await receiver.stop()
    assert (await log_in(key, user["email"])).status_code == 200
    assert (await log_in(key, user["email"], "wrong")).status_code == 404
    assert len(receiver.requests) == 1


@pytest.mark.requirement("connectors-3")
async def test_user_of_a_connector_migrates_once_the_policy_says_so(key, receiver) -> None:
    user = connectors.a_user()
    receiver.behaviour = UserServer(user)
    connector_id = await connect(key, receiver.url)
    assert (await log_in(key, user["email"])).status_code == 200
    tenant_id = key.headers["X-FusionAuth-TenantId"]
    await connectors.use(key, tenant_id, {"connectorId": connector_id, "migrate": True})
    assert (await log_in(key, user["email"])).json()["user"]["connectorId"] == INTERNAL
    await connectors.use(key, tenant_id)
    assert (await log_in(key, user["email"])).status_code == 200
    assert len(receiver.requests) == 2


@pytest.mark.requirement("connectors-4")
async def test_registrations_and_memberships_are_those_of_the_connector(key, rp, receiver) -> None:
    groups = [(await key.post("/api/group", json={"group": {"name": new_id()}})).json()["group"]["id"] for _ in "ab"]
    user = connectors.a_user(registrations=[{"applicationId": rp.client_id}], memberships=[{"groupId": groups[0]}])
    receiver.behaviour = UserServer(user)
    await connect(key, receiver.url)
    assert (await log_in(key, user["email"])).status_code == 200
    found = await stored(key, user)
    assert [one["applicationId"] for one in found["registrations"]] == [rp.client_id]
    assert [one["groupId"] for one in found["memberships"]] == groups[:1]
    user |= {"registrations": [], "memberships": [{"groupId": groups[1]}]}
    assert (await log_in(key, user["email"])).status_code == 200
    found = await stored(key, user)
    assert found["registrations"] == []
    assert [one["groupId"] for one in found["memberships"]] == groups[1:]
    members = await key.post("/api/group/member/search", json={"search": {"groupId": groups[0]}})
    assert members.json()["total"] == 0


@pytest.mark.requirement("connectors-4")
async def test_second_factor_survives_logins(key, receiver) -> None:
    user = connectors.a_user(twoFactor={"methods": []})
    receiver.behaviour = UserServer(user)
    await connect(key, receiver.url)
    assert (await log_in(key, user["email"])).status_code == 200
    method = {"method": "email", "email": user["email"]}
    changed = await key.patch(f"/api/user/{user['id']}", json={"user": {"twoFactor": {"methods": [method]}}})
    assert changed.status_code == 200, changed.text
    user["firstName"] = "Grace"
    assert (await log_in(key, user["email"])).status_code == 242
    found = await stored(key, user)
    assert [one["method"] for one in found["twoFactor"]["methods"]] == ["email"]
    assert found["firstName"] == "Grace"


@pytest.mark.requirement("connectors-4")
async def test_deactivated_user_stays_deactivated(key, receiver) -> None:
    user = connectors.a_user(active=True)
    receiver.behaviour = UserServer(user)
    await connect(key, receiver.url)
    assert (await log_in(key, user["email"])).status_code == 200
    assert (await key.delete(f"/api/user/{user['id']}")).status_code == 200
    assert (await log_in(key, user["email"])).status_code == 423
    assert not (await stored(key, user))["active"]
    other = connectors.a_user(active=False)
    receiver.behaviour = UserServer(user, other)
    assert (await log_in(key, other["email"])).status_code == 404
    assert (await key.get(f"/api/user/{other['id']}")).status_code == 404


@pytest.mark.requirement("connectors-5")
async def test_connectors_are_asked_in_order_and_by_domain(key) -> None:
    user = connectors.a_user(email=f"{new_id()[:13]}@second.example.com")
    async with receiving(UserServer()) as first, receiving(UserServer(user)) as second, receiving() as third:
        ids = [await connectors.make(key, connectors.generic(one.url)) for one in (first, second, third)]
        policies = [
            {"connectorId": ids[0]},
            {"connectorId": ids[2], "domains": ["third.example.com"]},
            {"connectorId": ids[1], "domains": ["Second.example.com"]},
        ]
        await connectors.use(key, key.headers["X-FusionAuth-TenantId"], *policies)
        answer = await log_in(key, user["email"])
        assert answer.json()["user"]["connectorId"] == ids[1]
        assert [len(one.requests) for one in (first, second, third)] == [1, 1, 0]
        # The user belongs to the second connector from now on.
        assert (await log_in(key, user["email"])).status_code == 200
        assert (await log_in(key, user["email"], "wrong")).status_code == 404
        assert [len(one.requests) for one in (first, second, third)] == [1, 3, 0]


@pytest.mark.requirement("connectors-6")
async def test_connector_cannot_take_over_users(key, rp, receiver) -> None:
    local = rp.user
    thief = connectors.a_user(id=local["id"])
    namesake = connectors.a_user(username="namesake", email=local["email"])
    receiver.behaviour = UserServer(thief, namesake)
    await connect(key, receiver.url)
    before = await stored(key, local)
    assert (await log_in(key, thief["email"])).status_code == 404
    assert (await log_in(key, "namesake")).status_code == 404
    assert (await log_in(key, local["email"])).status_code == 404, "the user of this service has another password"
    assert len(receiver.requests) == 2, "a password of a user of this service is not sent elsewhere"
    assert (await stored(key, local)) == before
    assert (await key.get(f"/api/user/{namesake['id']}")).status_code == 404


@pytest.mark.requirement("connectors-6")
async def test_id_of_a_user_of_another_tenant_is_refused(key, tenant_api, receiver) -> None:
    body = {"user": {"username": new_id(), "password": PASSWORD}}
    other = (await tenant_api.post("/api/user", json=body)).json()["user"]
    receiver.behaviour = UserServer(thief := connectors.a_user(id=other["id"]))
    await connect(key, receiver.url)
    assert (await log_in(key, thief["email"])).status_code == 404
    assert len(receiver.requests) == 1
    assert (await tenant_api.get(f"/api/user/{other['id']}")).json()["user"]["username"] == other["username"]


@pytest.mark.requirement("connectors-6")
async def test_connector_makes_no_administrators(api, receiver) -> None:
    administration = "3c219e58-ed0e-4b18-ad48-f4f92793ae32"
    user = connectors.a_user(registrations=[{"applicationId": administration, "roles": ["admin"]}])
    receiver.behaviour = UserServer(user)
    connector_id = await connectors.make(api, connectors.generic(receiver.url))
    tenant_id = api.headers["X-FusionAuth-TenantId"]
    domain = f"{new_id()[:8]}.example.com"
    user["email"] = f"ada@{domain}"
    receiver.behaviour = UserServer(user)
    await connectors.use(api, tenant_id, {"connectorId": connector_id, "domains": [domain]})
    try:
        assert (await log_in(api, user["email"])).status_code == 200
    finally:
        await connectors.use(api, tenant_id)
    assert (await stored(api, user))["registrations"] == []


@pytest.mark.requirement("connectors-7")
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (answers(500), "status 500"),
        (answers(302, headers=["Location: https://example.com"]), "status 302"),
        (answers(200, b"<html>"), "not a JSON object"),
        (answers(200, b'{"user": []}'), "not an object"),
        (answers(200, b'{"user": {"email": "a@example.com"}}'), "no id"),
        (answers(200, b'{"user": {"id": "not a uuid", "email": "b@example.com"}}'), "is not valid"),
        (answers(200, b'{"user": {"id": "7d0f2f6e-5a0c-4c37-9f5c-4fb3d5e3a001"}}'), "cannot be stored"),
        (answers(200, b" " * 300_000), "longer than"),
        (sends(b"no HTTP at all"), "protocol"),
        (resets, "reset"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_failing_connector_counts_no_failed_login(service, key, receiver, behaviour, reason) -> None:
    receiver.behaviour = behaviour
    connector_id = await connect(key, receiver.url, debug=True)
    await limit_failures(key)
    login_id = f"{new_id()[:13]}@example.com"
    for _ in range(4):
        assert (await log_in(key, login_id)).status_code == 404
    rows = internals.database(service).collection("event_logs").find({"message": {"$regex": connector_id}})
    messages = [row["message"] async for row in rows]
    assert len(messages) == 4
    assert all(reason in message for message in messages), messages[0]
    assert all(PASSWORD not in message for message in messages)


@pytest.mark.requirement("connectors-7")
async def test_slow_connector_times_out_and_the_next_one_is_asked(key) -> None:
    user = connectors.a_user()
    async with receiving(hangs) as slow, receiving(UserServer(user)) as healthy:
        ids = [await connectors.make(key, connectors.generic(slow.url, readTimeout=50))]
        ids.append(await connectors.make(key, connectors.generic(healthy.url)))
        policies = [{"connectorId": one} for one in ids]
        await connectors.use(key, key.headers["X-FusionAuth-TenantId"], *policies)
        answer = await log_in(key, user["email"])
    assert answer.json()["user"]["connectorId"] == ids[1]


@pytest.mark.requirement("connectors-7")
async def test_users_of_this_service_log_in_while_a_connector_is_down(key, rp, receiver) -> None:
    await receiver.stop()
    await connect(key, receiver.url)
    assert (await rp.log_in_by_api(key)).status_code == 200


@pytest.mark.requirement("connectors-7")
async def test_refused_logins_are_limited(key, receiver) -> None:
    receiver.behaviour = UserServer(user := connectors.a_user())
    await connect(key, receiver.url)
    await limit_failures(key)
    statuses = [(await log_in(key, user["email"], "wrong")).status_code for _ in range(4)]
    assert statuses == [404, 404, 404, 503]
    assert len(receiver.requests) == 3
    assert (await key.get(f"/api/user/{user['id']}")).status_code == 404


@pytest.mark.requirement("connectors-2")
async def test_concurrent_first_logins_create_one_user(key, receiver) -> None:
    user = connectors.a_user()
    receiver.behaviour = UserServer(user)
    await connect(key, receiver.url)
    answers_ = await asyncio.gather(*(log_in(key, user["email"]) for _ in range(8)))
    assert {answer.status_code for answer in answers_} == {200}
    assert {answer.json()["user"]["id"] for answer in answers_} == {user["id"]}


@pytest.mark.requirement("connectors-2")
async def test_page_refuses_what_the_connector_refuses(key, rp, receiver, browser) -> None:
    receiver.behaviour = UserServer()
    await connect(key, receiver.url)
    shown = await rp.authorize(browser)
    answer = await rp.submit(browser, shown, loginId="unknown@example.com", password=PASSWORD)
    assert answer.status_code == 200
    assert page(answer).forms
