"""Links between provider accounts and users: created, retrieved, deleted, completed, and their events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.ids import new_id
from identity.operations.providers import identity_providers
from tests import internals, relying_party
from tests.conftest import MANAGER_KEY, SUPER_KEY, checking_client
from tests.receiver import receiving
from tests.subscriber import check_event
from tests.webhooks import subscribe

Document = dict[str, Any]
PATH = "/api/identity-provider/link"
PENDING = f"{PATH}/pending"


@pytest.fixture
async def provider(tenant_api: httpx.AsyncClient) -> Document:
    """A shared provider."""
    wanted = {"type": "ExternalJWT", "name": new_id()}
    return dict(
        (await tenant_api.post("/api/identity-provider", json={"identityProvider": wanted})).json()["identityProvider"]
    )


@pytest.fixture
async def user(tenant: Document, tenant_api: httpx.AsyncClient) -> Document:
    return await relying_party.make_user(tenant_api, tenant["id"])


@pytest.fixture
async def global_api(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client that names no tenant, of which there are several."""
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
        yield client


def account(provider: Document, user: Document, **members: Any) -> Document:
    usual = {"identityProviderId": provider["id"], "identityProviderUserId": new_id(), "userId": user["id"]}
    return {name: value for name, value in {**usual, **members}.items() if value is not None}


async def linked(api: httpx.AsyncClient, link: Document) -> Document:
    answer = await api.post(PATH, json={"identityProviderLink": link})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["identityProviderLink"])


async def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, (answer.status_code, answer.text)
    body = answer.json()
    fields = {entry["code"] for entries in body.get("fieldErrors", {}).values() for entry in entries}
    return fields | {entry["code"] for entry in body.get("generalErrors", [])}


@pytest.mark.requirement("core-11-42")
async def test_link_has_all_members(tenant_api, provider, user, tenant) -> None:
    wanted = account(provider, user, displayName="Ada", token="a token", data={"any": 1})
    link = await linked(tenant_api, {**wanted, "tenantId": new_id(), "insertInstant": 5, "identityProviderName": "x"})
    assert link == {
        **wanted,
        "identityProviderName": provider["name"],
        "identityProviderType": "ExternalJWT",
        "insertInstant": link["insertInstant"],
        "lastLoginInstant": link["insertInstant"],
        "tenantId": tenant["id"],
    }
    assert link["insertInstant"] > 5
    assert "data" not in await linked(tenant_api, account(provider, user))


async def test_interrupted_provider_deletion_leaves_no_link(
    api, tenant_api, provider, user, service, monkeypatch
) -> None:
    """A later provider with the same id must not accept accounts of its predecessor."""
    await linked(tenant_api, account(provider, user))
    path = f"/api/identity-provider/{provider['id']}"
    call = internals.call(service)

    async def fails(*_arguments: Any) -> None:
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(internals.store(service, "identity_provider_links"), "delete_provider_across_tenants", fails)
        with pytest.raises(ConnectionError):
            await internals.run(service, identity_providers.delete, call, provider["id"])
    assert (await api.get(path)).status_code == 200
    assert (await api.delete(path)).status_code == 200
    assert (await api.get(path)).status_code == 404
    assert await internals.store(service, "identity_provider_links").find_of_user(user["tenantId"], user["id"]) == []


@pytest.mark.requirement("core-11-43")
async def test_deprecated_form_has_members_at_top_level(tenant_api, provider, user) -> None:
    wanted = account(provider, user, displayName="Ada", token="a token")
    answer = await tenant_api.post(PATH, json=wanted)
    assert answer.status_code == 200, answer.text
    link = answer.json()["identityProviderLink"]
    assert {name: link[name] for name in wanted} == wanted
    assert await codes(await tenant_api.post(PATH, json={})) == {
        *("[missing]identityProviderId", "[blank]identityProviderUserId", "[missing]userId"),
    }


@pytest.mark.requirement("core-11-42")
async def test_token_is_sealed_at_rest(tenant_api, provider, user, service) -> None:
    wanted = account(provider, user, token="the token of the provider")
    await linked(tenant_api, wanted)
    where = {"identityProviderUserId": wanted["identityProviderUserId"]}
    raw = await internals.database(service).collection("identity_provider_links").find_one(where)
    assert "the token" not in str(raw)
    await linked(tenant_api, {**wanted, "token": "the newer token"})
    raw = await internals.database(service).collection("identity_provider_links").find_one(where)
    assert "the newer" not in str(raw)


@pytest.mark.requirement("core-11-43")
async def test_repeated_link_updates_name_and_token(tenant_api, provider, user) -> None:
    first = await linked(tenant_api, account(provider, user, displayName="Ada", token="one"))
    again = await linked(tenant_api, {**first, "displayName": "Countess", "token": None, "data": {"a": 1}})
    assert again == {**first, "displayName": "Countess"}
    found = await tenant_api.get(PATH, params={"userId": user["id"]})
    assert found.json() == {"identityProviderLinks": [again]}


async def test_relinking_during_removal_creates_new_link(tenant_api, provider, user, service, monkeypatch) -> None:
    link = await linked(tenant_api, account(provider, user))
    links = internals.store(service, "identity_provider_links")
    refresh = links.refresh

    async def too_late(tenant_id: Any, known: Document, *arguments: Any) -> bool:
        await links.delete(tenant_id, known["id"])
        return bool(await refresh(tenant_id, known, *arguments))

    with monkeypatch.context() as patch:
        patch.setattr(links, "refresh", too_late)
        again = await linked(tenant_api, link)
    found = await tenant_api.get(PATH, params={"userId": user["id"]})
    assert found.json() == {"identityProviderLinks": [again]}


@pytest.mark.requirement("core-11-43", "core-3-7")
async def test_account_is_linked_to_one_user(tenant_api, tenant, provider, user) -> None:
    first = await linked(tenant_api, account(provider, user))
    other = await relying_party.make_user(tenant_api, tenant["id"])
    answer = await tenant_api.post(PATH, json={"identityProviderLink": {**first, "userId": other["id"]}})
    assert (answer.status_code, answer.content) == (409, b"")
    assert (await tenant_api.get(PATH, params={"userId": other["id"]})).json() == {"identityProviderLinks": []}


async def test_account_is_linked_to_one_user_per_tenant(tenant_api, api, provider, user) -> None:
    first = await linked(tenant_api, account(provider, user))
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    other_user = await relying_party.make_user(api, other["id"])
    headers = {"X-FusionAuth-TenantId": other["id"]}
    body = {"identityProviderLink": {**first, "userId": other_user["id"]}}
    assert (await api.post(PATH, json=body, headers=headers)).status_code == 200


@pytest.mark.requirement("core-11-43")
async def test_of_64_concurrent_claims_of_account_one_succeeds(tenant_api, tenant, provider) -> None:
    users = [await relying_party.make_user(tenant_api, tenant["id"], password="12345678") for _ in range(8)]
    same = new_id()
    claims = [account(provider, users[number % 8], identityProviderUserId=same) for number in range(64)]
    answers = await asyncio.gather(*(tenant_api.post(PATH, json={"identityProviderLink": claim}) for claim in claims))
    owners = {a.json()["identityProviderLink"]["userId"] for a in answers if a.status_code == 200}
    assert len(owners) == 1
    assert {answer.status_code for answer in answers} == {200, 409}
    found = [await tenant_api.get(PATH, params={"userId": user["id"]}) for user in users]
    assert sum(len(answer.json()["identityProviderLinks"]) for answer in found) == 1


async def test_all_errors_are_reported_together(tenant_api, provider, user) -> None:
    prefix = "identityProviderLink"
    empty = await tenant_api.post(PATH, json={"identityProviderLink": {}})
    assert await codes(empty) == {
        *(
            f"[missing]{prefix}.identityProviderId",
            f"[blank]{prefix}.identityProviderUserId",
            f"[missing]{prefix}.userId",
        ),
    }
    wrong = account(provider, user, identityProviderId=new_id(), userId=new_id())
    assert await codes(await tenant_api.post(PATH, json={"identityProviderLink": wrong})) == {
        *(f"[invalid]{prefix}.identityProviderId", f"[invalid]{prefix}.userId"),
    }
    wrong = account(provider, user, identityProviderId="x", userId=[7], identityProviderUserId="x" * 256)
    assert await codes(await tenant_api.post(PATH, json={"identityProviderLink": wrong})) == {
        *(
            f"[couldNotConvert]{prefix}.identityProviderId",
            "[invalidJSON]",
            f"[tooLong]{prefix}.identityProviderUserId",
        ),
    }


async def test_provider_of_another_tenant_cannot_be_linked(tenant_api, api, user) -> None:
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id()}})).json()["tenant"]
    wanted = {"type": "ExternalJWT", "name": new_id(), "tenantId": other["id"]}
    headers = {"X-FusionAuth-TenantId": other["id"]}
    answer = await api.post("/api/identity-provider", json={"identityProvider": wanted}, headers=headers)
    link = account(answer.json()["identityProvider"], user)
    assert await codes(await tenant_api.post(PATH, json={"identityProviderLink": link})) == {
        "[invalid]identityProviderLink.identityProviderId"
    }


@pytest.mark.requirement("core-11-46")
async def test_link_is_retrieved_by_account_or_user(tenant_api, provider, user, tenant) -> None:
    first, second = [await linked(tenant_api, account(provider, user)) for _ in range(2)]
    wanted = {"type": "ExternalJWT", "name": new_id()}
    made = await tenant_api.post("/api/identity-provider", json={"identityProvider": wanted})
    third = await linked(tenant_api, account(made.json()["identityProvider"], user))
    by_account = {name: first[name] for name in ("identityProviderId", "identityProviderUserId")}
    for query in (by_account, {**by_account, "userId": user["id"]}):
        assert (await tenant_api.get(PATH, params=query)).json() == {"identityProviderLink": first}
    found = (await tenant_api.get(PATH, params={"userId": user["id"], "identityProviderId": provider["id"]})).json()
    assert sorted(found["identityProviderLinks"], key=str) == sorted([first, second], key=str)
    found = (await tenant_api.get(PATH, params={"userId": user["id"]})).json()
    assert sorted(found["identityProviderLinks"], key=str) == sorted([first, second, third], key=str)
    other = await relying_party.make_user(tenant_api, tenant["id"])
    for query in (
        {**by_account, "userId": other["id"]},
        {**by_account, "identityProviderUserId": "unknown"},
        {"userId": new_id()},
    ):
        assert (await tenant_api.get(PATH, params=query)).status_code == 404


@pytest.mark.requirement("core-11-46")
async def test_retrieval_requires_parameters(tenant_api, global_api, provider, user) -> None:
    assert await codes(await tenant_api.get(PATH)) == {"[missing]userId"}
    assert await codes(await tenant_api.get(PATH, params={"identityProviderId": provider["id"]})) == {"[missing]userId"}
    assert await codes(await tenant_api.get(PATH, params={"identityProviderUserId": "x"})) == {
        "[missing]identityProviderId"
    }
    assert await codes(await tenant_api.get(PATH, params={"userId": "x"})) == {"[couldNotConvert]userId"}
    by_account = {"identityProviderId": provider["id"], "identityProviderUserId": "x"}
    assert await codes(await global_api.get(PATH, params=by_account)) == {"[TenantIdRequired]"}


async def test_user_determines_tenant(global_api, tenant_api, provider, user) -> None:
    link = await linked(global_api, account(provider, user))
    by_account = {name: link[name] for name in ("identityProviderId", "identityProviderUserId", "userId")}
    assert (await global_api.get(PATH, params=by_account)).json() == {"identityProviderLink": link}
    assert (await global_api.get(PATH, params={"userId": user["id"]})).json() == {"identityProviderLinks": [link]}
    assert (await global_api.delete(PATH, params=by_account)).status_code == 200
    assert (await tenant_api.get(PATH, params=by_account)).status_code == 404


async def test_links_show_current_provider_name(tenant_api, provider, user) -> None:
    await linked(tenant_api, account(provider, user))
    name = new_id()
    await tenant_api.patch(f"/api/identity-provider/{provider['id']}", json={"identityProvider": {"name": name}})
    (link,) = (await tenant_api.get(PATH, params={"userId": user["id"]})).json()["identityProviderLinks"]
    assert link["identityProviderName"] == name


@pytest.mark.requirement("core-11-48")
async def test_removed_link_is_not_found(tenant_api, provider, user) -> None:
    link = await linked(tenant_api, account(provider, user))
    query = {name: link[name] for name in ("identityProviderId", "identityProviderUserId", "userId")}
    assert await codes(await tenant_api.delete(PATH)) == {f"[missing]{name}" for name in query}
    assert (await tenant_api.delete(PATH, params={**query, "userId": new_id()})).status_code == 404
    assert (await tenant_api.delete(PATH, params=query)).status_code == 200
    assert (await tenant_api.delete(PATH, params=query)).status_code == 404
    assert (await tenant_api.get(PATH, params=query)).status_code == 404


@pytest.mark.requirement("core-11-48")
@pytest.mark.parametrize("what", ["user", "provider", "tenant"])
async def test_links_are_deleted_with_user_and_provider(tenant_api, api, provider, user, tenant, service, what) -> None:
    link = await linked(tenant_api, account(provider, user))
    paths = {
        "provider": f"/api/identity-provider/{provider['id']}",
        "tenant": f"/api/tenant/{tenant['id']}",
        "user": f"/api/user/{user['id']}?hardDelete=true",
    }
    assert (await tenant_api.delete(paths[what])).status_code == 200
    where = {"identityProviderUserId": link["identityProviderUserId"]}
    assert await internals.store(service, "identity_provider_links").count_across_tenants(where) == 0


async def test_locked_user_keeps_links(tenant_api, provider, user) -> None:
    link = await linked(tenant_api, account(provider, user))
    await tenant_api.delete(f"/api/user/{user['id']}")
    assert (await tenant_api.get(PATH, params={"userId": user["id"]})).json() == {"identityProviderLinks": [link]}


@pytest.mark.requirement("core-11-50", "event-user.identity-provider.link")
async def test_linking_emits_events(tenant_api, provider, user, tenant) -> None:
    kinds = ("user.identity-provider.link", "user.identity-provider.unlink")
    async with receiving() as receiver:
        await subscribe(tenant_api, tenant, receiver.url, kinds)
        wanted = account(provider, user, displayName="Ada", token="secret")
        body = {"identityProviderLink": wanted, "eventInfo": {"deviceName": "Phone"}}
        link = (await tenant_api.post(PATH, json=body)).json()["identityProviderLink"]
        await receiver.wait_for(1)
        await linked(tenant_api, wanted)
        query = {name: link[name] for name in ("identityProviderId", "identityProviderUserId", "userId")}
        await tenant_api.delete(PATH, params=query)
        made, removed = [request.event for request in await receiver.wait_for(2)]
    assert (made["type"], removed["type"]) == kinds
    assert made["info"]["deviceName"] == "Phone"
    for event in (made, removed):
        check_event(event)
        assert event["identityProviderLink"] == {name: value for name, value in link.items() if name != "token"}
        assert event["user"]["id"] == event["linkedObjectId"] == user["id"]
        assert event["tenantId"] == tenant["id"]


@pytest.mark.requirement("core-11-7")
async def test_links_are_limited_by_tenant(tenant_api, provider, user, tenant) -> None:
    limit = {tenant["id"]: {"limitUserLinkCount": {"enabled": True, "maximumLinks": 1}}}
    body = {"identityProvider": {"tenantConfiguration": limit}}
    await tenant_api.patch(f"/api/identity-provider/{provider['id']}", json=body)
    first = await linked(tenant_api, account(provider, user))
    answer = await tenant_api.post(PATH, json={"identityProviderLink": account(provider, user)})
    assert await codes(answer) == {"[LinkCountExceeded]"}
    query = {name: first[name] for name in ("identityProviderId", "identityProviderUserId", "userId")}
    await tenant_api.delete(PATH, params=query)
    await linked(tenant_api, account(provider, user))


# Pending links


@pytest.fixture
async def pending_id(service: app.Service, tenant: Document, provider: Document) -> str:
    """The id of a pending link of a login."""
    link = {"identityProviderId": provider["id"], "identityProviderUserId": new_id()}
    link |= {"displayName": "Ada", "token": "secret"}
    return str(await internals.store(service, "pending_links").issue(tenant["id"], link, 60))


@pytest.mark.requirement("core-11-47")
async def test_pending_link_shows_requested_user(tenant_api, global_api, provider, user, tenant, pending_id) -> None:
    there = await linked(tenant_api, account(provider, user))
    limit = {tenant["id"]: {"limitUserLinkCount": {"enabled": True, "maximumLinks": 5}}}
    body = {"identityProvider": {"tenantConfiguration": limit}}
    await tenant_api.patch(f"/api/identity-provider/{provider['id']}", json=body)
    for client in (tenant_api, global_api):
        answer = (await client.get(f"{PENDING}/{pending_id}", params={"userId": user["id"]})).json()
        assert answer["linkCount"] == 1
        pending = answer["pendingIdPLink"]
        assert pending["identityProviderLinks"] == [there]
        assert pending["user"]["id"] == user["id"]
        assert pending["identityProviderTenantConfiguration"] == limit[tenant["id"]]
        assert "secret" not in str(pending)
    assert (await tenant_api.get(f"{PENDING}/{pending_id}", params={"userId": new_id()})).status_code == 404
    assert await codes(await tenant_api.get(f"{PENDING}/{pending_id}", params={"userId": "x"})) == {
        "[couldNotConvert]userId"
    }


@pytest.mark.requirement("core-11-47")
async def test_pending_link_belongs_to_its_tenant(api, tenant_api, user, pending_id) -> None:
    assert (await api.get(f"{PENDING}/{pending_id}")).status_code == 404
    stranger = await relying_party.make_user(api, api.headers["X-FusionAuth-TenantId"])
    body = {"pendingIdPLinkId": pending_id, "userId": stranger["id"]}
    assert await codes(await api.post(PATH, json=body)) == {"[invalid]pendingIdPLinkId"}
    answer = await tenant_api.post(PATH, json={"pendingIdPLinkId": pending_id, "userId": user["id"]})
    assert answer.json()["identityProviderLink"]["userId"] == user["id"]


@pytest.mark.requirement("core-11-44")
async def test_completion_requires_user_and_known_id(tenant_api, user, pending_id) -> None:
    assert await codes(await tenant_api.post(PATH, json={"pendingIdPLinkId": pending_id})) == {"[missing]userId"}
    body = {"pendingIdPLinkId": pending_id, "identityProviderLink": {"userId": new_id()}}
    assert await codes(await tenant_api.post(PATH, json=body)) == {"[invalid]identityProviderLink.userId"}
    body = {"pendingIdPLinkId": "unknown", "identityProviderLink": {"userId": user["id"]}}
    assert await codes(await tenant_api.post(PATH, json=body)) == {"[invalid]pendingIdPLinkId"}
    assert (await tenant_api.get(f"{PENDING}/unknown")).status_code == 404


@pytest.mark.requirement("core-11-44")
async def test_exceeding_limit_keeps_pending_link(tenant_api, provider, user, tenant, pending_id) -> None:
    limit = {tenant["id"]: {"limitUserLinkCount": {"enabled": True, "maximumLinks": 1}}}
    body = {"identityProvider": {"tenantConfiguration": limit}}
    await tenant_api.patch(f"/api/identity-provider/{provider['id']}", json=body)
    there = await linked(tenant_api, account(provider, user))
    body = {"pendingIdPLinkId": pending_id, "userId": user["id"]}
    assert await codes(await tenant_api.post(PATH, json=body)) == {"[LinkCountExceeded]"}
    query = {name: there[name] for name in ("identityProviderId", "identityProviderUserId", "userId")}
    await tenant_api.delete(PATH, params=query)
    assert (await tenant_api.post(PATH, json=body)).status_code == 200


@pytest.mark.requirement("audit-c4", "core-11-44")
async def test_of_64_concurrent_completions_one_succeeds(tenant_api, tenant, pending_id) -> None:
    users = [await relying_party.make_user(tenant_api, tenant["id"], password="12345678") for _ in range(8)]
    bodies = [{"pendingIdPLinkId": pending_id, "userId": users[number % 8]["id"]} for number in range(64)]
    answers = await asyncio.gather(*(tenant_api.post(PATH, json=body) for body in bodies))
    refused = [answer for answer in answers if answer.status_code != 200]
    assert len(refused) == 63
    assert [await codes(answer) for answer in refused] == [{"[invalid]pendingIdPLinkId"}] * 63


@pytest.mark.requirement("audit-c4")
@pytest.mark.parametrize("is_same_user", [True, False])
async def test_losing_concurrent_completion_is_refused_like_later_request(
    service, tenant_api, tenant, provider, user, pending_id, monkeypatch, is_same_user
) -> None:
    limit = {tenant["id"]: {"limitUserLinkCount": {"enabled": True, "maximumLinks": 1}}}
    body = {"identityProvider": {"tenantConfiguration": limit}}
    await tenant_api.patch(f"/api/identity-provider/{provider['id']}", json=body)
    other = await relying_party.make_user(tenant_api, tenant["id"], password="12345678")
    bodies = [{"pendingIdPLinkId": pending_id, "userId": one["id"]} for one in (user, user if is_same_user else other)]
    find, winners = internals.store(service, "pending_links").find, []

    async def find_before_another_request_wins(*arguments):
        found = await find(*arguments)
        if not winners:
            winners.append(None)
            winners[0] = await tenant_api.post(PATH, json=bodies[0])
        return found

    monkeypatch.setattr(internals.store(service, "pending_links"), "find", find_before_another_request_wins)
    loser = await tenant_api.post(PATH, json=bodies[1])
    assert winners[0].status_code == 200
    assert await codes(loser) == {"[invalid]pendingIdPLinkId"}


async def test_pending_link_to_deleted_provider_is_not_found(tenant_api, provider, user, pending_id) -> None:
    await tenant_api.delete(f"/api/identity-provider/{provider['id']}")
    assert (await tenant_api.get(f"{PENDING}/{pending_id}")).status_code == 404
    body = {"pendingIdPLinkId": pending_id, "userId": user["id"]}
    assert await codes(await tenant_api.post(PATH, json=body)) == {"[invalid]pendingIdPLinkId"}


async def test_token_of_a_link_is_masked_for_keys_that_may_only_read(service, provider, user, tenant_api) -> None:
    link = account(provider, user, token="a token of the provider")
    assert (await linked(tenant_api, link))["token"] == "a token of the provider"
    body = {"apiKey": {"permissions": {"endpoints": {PATH: ["GET"]}}}}
    async with (
        checking_client(service.base_url, headers={"Authorization": MANAGER_KEY}) as manager,
        checking_client(service.base_url) as reader,
    ):
        reader.headers["Authorization"] = (await manager.post("/api/api-key", json=body)).json()["apiKey"]["key"]
        found = (await reader.get(PATH, params={"userId": user["id"]})).json()["identityProviderLinks"]
    assert [one["token"] for one in found] == ["*****"]
