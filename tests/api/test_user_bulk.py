"""DELETE /api/user/bulk: users by id or query, and the reported result."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from tests import webhooks
from tests.conftest import SUPER_KEY, UNKNOWN_ID, checking_client
from tests.receiver import Received, Receiver, answers, receiving
from tests.subscriber import check_event

Document = dict[str, Any]
CHEAP = {"encryptionScheme": "salted-hmac-sha256", "factor": 1, "password": "a password of the tests"}


async def make_users(api: httpx.AsyncClient, count: int, **members: Any) -> list[str]:
    ids = []
    for _ in range(count):
        answer = await api.post("/api/user", json={"user": {"email": f"{new_id()}@example.com", **CHEAP, **members}})
        assert answer.status_code == 200, answer.text
        ids.append(answer.json()["user"]["id"])
    return ids


async def remove(api: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await api.request("DELETE", "/api/user/bulk", json=body)


async def is_active(api: httpx.AsyncClient, user_id: str) -> bool | None:
    answer = await api.get(f"/api/user/{user_id}")
    return None if answer.status_code == 404 else bool(answer.json()["user"]["active"])


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {entry["code"] for entries in answer.json()["fieldErrors"].values() for entry in entries}


@pytest.mark.requirement("users-2.1-10")
async def test_users_are_deactivated_or_deleted_and_unknown_ones_skipped(tenant_api) -> None:
    one, other, bystander = await make_users(tenant_api, 3)
    answer = await remove(tenant_api, userIds=[one, UNKNOWN_ID, other, one])
    assert answer.json() == {"dryRun": False, "hardDelete": False, "total": 2, "userIds": [one, other]}
    assert [await is_active(tenant_api, user) for user in (one, other, bystander)] == [False, False, True]
    answer = await remove(tenant_api, userIds=[one], hardDelete=True)
    assert answer.json() == {"dryRun": False, "hardDelete": True, "total": 1, "userIds": [one]}
    assert [await is_active(tenant_api, user) for user in (one, other)] == [None, False]


@pytest.mark.requirement("users-2.1-10")
async def test_query_parameters_match_published_clients(tenant_api) -> None:
    ids = await make_users(tenant_api, 3)
    query = {"userId": ids[:2], "dryRun": "false", "hardDelete": "false"}
    answer = await tenant_api.delete("/api/user/bulk", params=query)
    assert answer.json()["userIds"] == ids[:2]
    answer = await tenant_api.delete("/api/user/bulk", params={"userIds": ids[2], "hardDelete": "true"})
    assert answer.json()["userIds"] == ids[2:]
    assert [await is_active(tenant_api, user) for user in ids] == [False, False, None]


@pytest.mark.requirement("users-2.1-10")
async def test_dry_run_reports_and_changes_nothing(tenant_api) -> None:
    ids = await make_users(tenant_api, 2)
    answer = await remove(tenant_api, userIds=ids, hardDelete=True, dryRun=True)
    assert answer.json() == {"dryRun": True, "hardDelete": True, "total": 2, "userIds": ids}
    assert [await is_active(tenant_api, user) for user in ids] == [True, True]


@pytest.mark.requirement("users-2.1-10")
async def test_invalid_hard_delete_flag_deletes_nothing(tenant_api) -> None:
    (user,) = await make_users(tenant_api, 1)
    for name in ("dryRun", "hardDelete"):
        answer = await tenant_api.delete("/api/user/bulk", params={"userId": user, name: "yes"})
        assert codes(answer) == {f"[couldNotConvert]{name}"}
    nothing = {"dryRun": None, "userIds": None}
    answer = await tenant_api.request("DELETE", f"/api/user/bulk?dryRun=TRUE&userId={user}", json=nothing)
    assert (answer.json()["dryRun"], answer.json()["userIds"]) == (True, [user])
    assert await is_active(tenant_api, user) is True


@pytest.mark.requirement("users-2.1-10")
async def test_query_string_selects_users_and_ids_take_precedence(tenant_api) -> None:
    smiths, others = await make_users(tenant_api, 3, lastName="Smith"), await make_users(tenant_api, 1)
    answer = await remove(tenant_api, queryString="smith", dryRun=True)
    assert sorted(answer.json()["userIds"]) == sorted(smiths)
    answer = await remove(tenant_api, queryString="lastName:smith", userIds=others)
    assert answer.json()["userIds"] == others
    answer = await remove(tenant_api, queryString="smith", limit=2, hardDelete=True)
    assert answer.json()["total"] == 2
    assert sorted([await is_active(tenant_api, user) for user in smiths], key=str) == [None, None, True]
    answer = await tenant_api.delete("/api/user/bulk", params={"queryString": "*", "hardDelete": "true", "limit": "9"})
    assert answer.json()["total"] == 2
    assert (await remove(tenant_api, queryString="smith")).json()["userIds"] == []


@pytest.mark.requirement("users-2.1-10")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "[missing]userIds"),
        ({"userIds": []}, "[missing]userIds"),
        ({"userIds": ["unknown"]}, "[couldNotConvert]userIds[0]"),
        ({"query": "{}"}, "[invalid]query"),
        ({"query": "{}", "queryString": "*"}, "[invalid]query"),
        ({"queryString": "shoeSize:9"}, "[invalid]queryString"),
        ({"queryString": "*", "limit": 0}, "[invalid]limit"),
        ({"queryString": "*", "limit": 10_001}, "[invalid]limit"),
        ({"userIds": [UNKNOWN_ID], "dryRun": "perhaps"}, "[invalidJSON]"),
    ],
)
async def test_invalid_requests_change_nothing(tenant_api, body, code) -> None:
    (user,) = await make_users(tenant_api, 1)
    assert code in codes(await remove(tenant_api, **body))
    assert await is_active(tenant_api, user) is True


async def test_limit_must_be_a_number(tenant_api) -> None:
    assert (await tenant_api.delete("/api/user/bulk", params={"queryString": "*", "limit": "x"})).status_code == 400


@pytest.mark.requirement("users-2.1-10")
async def test_users_of_another_tenant_are_not_found(service: app.Service, api, tenant_api) -> None:
    (theirs,) = await make_users(api, 1)
    assert (await remove(tenant_api, userIds=[theirs], hardDelete=True)).json()["userIds"] == []
    assert theirs not in (await remove(tenant_api, queryString="*", dryRun=True)).json()["userIds"]
    assert await is_active(api, theirs) is True
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        (own,) = await make_users(tenant_api, 1)
        answer = await remove(everywhere, userIds=[theirs, own])
        assert answer.json()["userIds"] == [theirs, own], "a key of all tenants names none"


async def subscribe(api: httpx.AsyncClient, receiver: Receiver, transaction_type: str) -> None:
    tenant = {"id": api.headers["X-FusionAuth-TenantId"]}
    types = ("user.deactivate", "user.delete", "user.delete.complete")
    await webhooks.subscribe(api, tenant, receiver.url, types, transaction_type)


@pytest.mark.requirement("event-user.deactivate")
async def test_every_user_emits_own_events(tenant_api) -> None:
    one, other = await make_users(tenant_api, 2)
    async with receiving() as receiver:
        await subscribe(tenant_api, receiver, "None")
        assert (await remove(tenant_api, userIds=[one, other])).status_code == 200
        received = [request.event for request in await receiver.wait_for(2)]
        assert sorted((event["type"], event["user"]["id"]) for event in received) == sorted(
            ("user.deactivate", user) for user in (one, other)
        )
        assert (await remove(tenant_api, userIds=[one, other], hardDelete=True)).status_code == 200
        received = [request.event for request in (await receiver.wait_for(6))[2:]]
        for request in receiver.requests:
            check_event(request.event)
        assert sorted((event["type"], event["user"]["id"]) for event in received) == sorted(
            (kind, user) for kind in ("user.delete", "user.delete.complete") for user in (one, other)
        )


@pytest.mark.requirement("event-user.deactivate")
async def test_vetoed_user_does_not_prevent_others(tenant_api) -> None:
    ids = await make_users(tenant_api, 3)

    async def behave(request: Received, writer: Any) -> None:
        status = 500 if request.event["user"]["id"] == ids[1] else 200
        await answers(status)(request, writer)

    async with receiving(behave) as receiver:
        await subscribe(tenant_api, receiver, "AbsoluteMajority")
        answer = await remove(tenant_api, userIds=ids, hardDelete=True)
        assert answer.status_code == 504
        (error,) = answer.json()["generalErrors"]
        assert error["code"] == "[WebhookTransactionException]"
        assert "1 of 3" in error["message"]
        assert ids[1] in error["message"]
    assert [await is_active(tenant_api, user) for user in ids] == [None, True, None]
