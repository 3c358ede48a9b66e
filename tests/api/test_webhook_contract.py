"""Published examples of webhooks and their logs, patches of every kind of field, search and pages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.api.test_webhooks import JSON_PATCH, errors, make, make_key
from tests.receiver import answers, receiving
from tests.webhooks import has_attempts, make_user, make_webhook, until

HOOK = "00000000-0000-0000-0000-000000000042"
TENANTS = ["32306536-3036-6431-3865-646430303332", "30663132-6464-6665-3032-326466613934"]
SIGNING_KEY, TLS_KEY = "401c9046-b274-403f-963d-adc5024c6ef0", "e31e242b-4eca-4309-921f-48cb72ec9bfb"

CREATE = {
    "connectTimeout": 1000,
    "data": {"updatedBy": "richard"},
    "description": "The standard game Webhook",
    "eventsEnabled": {"user.create": True, "user.delete": False},
    "global": False,
    "headers": {"Header 1": "value 1", "Header 2": "value 2"},
    "httpAuthenticationPassword": "password",
    "httpAuthenticationUsername": "username",
    "readTimeout": 2000,
    "signatureConfiguration": {"enabled": True, "signingKeyId": SIGNING_KEY},
    "sslCertificateKeyId": TLS_KEY,
    "tenantIds": TENANTS,
    "url": "http://mygameserver.local:7001/fusionauth-webhook",
}
INSTANTS = {"insertInstant", "lastUpdateInstant"}


@pytest.fixture
async def published(api: httpx.AsyncClient) -> AsyncIterator[dict[str, Any]]:
    """The webhook of the published example, with the tenants and keys that it names."""
    for tenant_id in TENANTS:
        made = await api.post(f"/api/tenant/{tenant_id}", json={"tenant": {"name": tenant_id, "issuer": new_id()}})
        assert made.status_code == 200, made.text
    for key_id in (SIGNING_KEY, TLS_KEY):
        made = await api.post(f"/api/key/generate/{key_id}", json={"key": {"name": key_id, "algorithm": "ES256"}})
        assert made.status_code == 200, made.text
    answer = await api.post(f"/api/webhook/{HOOK}", json={"webhook": CREATE})
    assert answer.status_code == 200, answer.text
    yield dict(answer.json()["webhook"])
    for path in (
        f"webhook/{HOOK}",
        *(f"key/{one}" for one in (SIGNING_KEY, TLS_KEY)),
        *(f"tenant/{one}" for one in TENANTS),
    ):
        await api.delete(f"/api/{path}")


def without(members: set[str], document: dict[str, Any]) -> dict[str, Any]:
    assert members <= document.keys()
    return {name: value for name, value in document.items() if name not in members}


# Examples


@pytest.mark.requirement("webhooks-15.3-29", "webhooks-15.3-34")
async def test_documented_webhook_is_returned_by_every_operation(api, published):
    """In the published shape, which has no state member."""
    expected = {**CREATE, "id": HOOK}
    assert without(INSTANTS, published) == expected
    one = await api.get(f"/api/webhook/{HOOK}")
    assert one.json() == {"webhook": published}
    listed = await api.get("/api/webhook")
    assert [each for each in listed.json()["webhooks"] if each["id"] == HOOK] == [published]
    search = {
        "description": "*game*", "numberOfResults": 25, "orderBy": "insertInstant DESC", "startRow": 0,
        "tenantId": TENANTS[0], "url": "mygameserver",
    }  # fmt: skip
    found = await api.post("/api/webhook/search", json={"search": search})
    assert found.json() == {"total": 1, "webhooks": [published]}
    # What comes back can be sent: nothing is lost or changed by it.
    again = await api.put(f"/api/webhook/{HOOK}", json=one.json())
    assert without(INSTANTS, again.json()["webhook"]) == expected


@pytest.mark.requirement("webhooks-15.3-34")
async def test_documented_patches_apply(api, published):
    operations = [
        {"op": "replace", "path": "/webhook/url", "value": "https://hooks.example.com/in"},
        {"op": "remove", "path": "/webhook/tenantIds/1"},
        {"op": "add", "path": "/webhook/eventsEnabled/user.update", "value": True},
    ]
    answer = await api.patch(f"/api/webhook/{HOOK}", content=json.dumps(operations), headers=JSON_PATCH)
    patched = answer.json()["webhook"]
    assert (patched["url"], patched["tenantIds"]) == ("https://hooks.example.com/in", TENANTS[:1])
    assert patched["eventsEnabled"] == {"user.create": True, "user.delete": False, "user.update": True}
    merge = {"webhook": {"eventsEnabled": {"user.delete": True}, "tenantIds": TENANTS[:1]}}
    answer = await api.patch(f"/api/webhook/{HOOK}", json=merge)
    patched = answer.json()["webhook"]
    assert patched["tenantIds"] == TENANTS[:1]
    assert patched["eventsEnabled"] == {"user.create": True, "user.delete": True, "user.update": True}
    # The caller reads the credentials: a patch keeps them, as any other member.
    for name in ("headers", "httpAuthenticationPassword"):
        assert patched[name] == published[name]
    changed = INSTANTS | {"url", "tenantIds", "eventsEnabled", "headers", "httpAuthenticationPassword"}
    rest = {name: value for name, value in published.items() if name not in changed}
    assert {name: value for name, value in patched.items() if name not in changed} == rest


@pytest.mark.requirement("webhooks-15.3-34")
async def test_documented_tenant_fragment_and_veto_response(api, published):
    events = {
        "user.create": {"enabled": True, "transactionType": "AbsoluteMajority"},
        "user.create.complete": {"enabled": True, "transactionType": "None"},
        "user.login.success": {"enabled": True, "transactionType": "SimpleMajority"},
    }
    fragment = {"tenant": {"eventConfiguration": {"events": events}, "name": new_id()}, "webhookIds": [HOOK]}
    fragment["tenant"]["issuer"] = new_id()
    async with receiving(answers(500)) as receiver:
        changed = {"webhook": {"url": receiver.url, "sslCertificateKeyId": None}}
        assert (await api.patch(f"/api/webhook/{HOOK}", json=changed)).status_code == 200
        answer = await api.post("/api/tenant", json=fragment)
        assert answer.status_code == 200, answer.text
        tenant = answer.json()["tenant"]
        stored = tenant["eventConfiguration"]["events"]
        assert {name: stored[name] for name in events} == events
        assert (await api.get(f"/api/webhook/{HOOK}")).json()["webhook"]["tenantIds"] == [*TENANTS, tenant["id"]]
        user = {"user": {"username": "erlich", "password": "password"}}
        vetoed = await api.post("/api/user", json=user, headers={"X-FusionAuth-TenantId": tenant["id"]})
    assert vetoed.status_code == 504
    (error,) = vetoed.json()["generalErrors"]
    assert (error["code"], error.keys()) == ("[WebhookTransactionException]", {"code", "message"})
    search = {
        "end": 2**52, "event": "*erlich*", "eventResult": "Failed", "eventType": "user.create",
        "numberOfResults": 25, "orderBy": "insertInstant DESC", "start": 0, "startRow": 0,
    }  # fmt: skip
    found = await api.post("/api/system/webhook-event-log/search", json={"search": search})
    assert tenant["id"] in {each["event"]["event"]["tenantId"] for each in found.json()["webhookEventLogs"]}
    await api.delete(f"/api/tenant/{tenant['id']}")


@pytest.mark.requirement("webhooks-15.3-29")
async def test_documented_members_of_logs(api, tenant, tenant_api):
    enabled = {"tenant": {"eventConfiguration": {"events": {"user.create.complete": {"enabled": True}}}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=enabled)).status_code == 200
    async with receiving() as receiver:
        await make_webhook(api, tenant, receiver.url)
        (log,) = await until(api, await make_user(tenant_api), has_attempts(1))
    assert set(log) == {
        "attempts", "data", "event", "eventResult", "eventType", "failedAttempts", "id", "insertInstant",
        "lastAttemptInstant", "lastUpdateInstant", "linkedObjectId", "sequence", "successfulAttempts",
    }  # fmt: skip
    (attempt,) = log["attempts"]
    assert set(attempt) == {
        "attemptResult", "data", "endInstant", "id", "startInstant", "webhookCallResponse", "webhookId",
    }  # fmt: skip
    assert set(attempt["webhookCallResponse"]) == {"statusCode", "url"}
    single = (await api.get(f"/api/system/webhook-attempt-log/{attempt['id']}")).json()
    assert set(single["webhookAttemptLog"]) == {*attempt, "webhookEventLogId"}


# Patches


@pytest.fixture
async def fields(api: httpx.AsyncClient, tenant: dict[str, Any]) -> dict[str, Any]:
    """Every kind of field, as it is before each patch."""
    return {
        "connectTimeout": 1000,
        "data": {"a": 1, "deep": {"b": 2, "list": [1]}},
        "description": "old",
        "eventsEnabled": {"user.create": True},
        "global": False,
        "headers": {"X-A": "1", "X/B": "2"},
        "httpAuthenticationUsername": "user",
        "signatureConfiguration": {"enabled": True, "signingKeyId": await make_key(api, "ES256")},
        "tenantIds": [tenant["id"]],
    }


def rows(fields: dict[str, Any], other_tenant: str, other_key: str) -> list[tuple[str, Any, Any, Any]]:
    """(field, what is sent, what it is after application/json, what it is after application/merge-patch+json)."""
    signing, mine = fields["signatureConfiguration"], fields["tenantIds"]
    both_events = {"user.create": True, "user.delete": False}

    def having(numbers: list[int]) -> dict[str, Any]:
        return {"a": 1, "deep": {"b": 2, "list": numbers}}

    return [
        ("description", "new", "new", "new"),
        ("description", None, None, None),
        ("httpAuthenticationUsername", None, None, None),
        ("connectTimeout", 5, 5, 5),
        ("global", True, True, True),
        ("global", None, False, False),
        ("tenantIds", [other_tenant], [*mine, other_tenant], [other_tenant]),
        ("tenantIds", [], mine, []),
        ("tenantIds", None, [], []),
        ("eventsEnabled", {"user.delete": False}, both_events, both_events),
        ("eventsEnabled", {"user.create": False}, {"user.create": False}, {"user.create": False}),
        ("headers", {"X-A": None}, {"X/B": "2"}, {"X/B": "2"}),
        ("headers", None, {}, {}),
        ("signatureConfiguration", {"signingKeyId": other_key}, *[{**signing, "signingKeyId": other_key}] * 2),
        ("signatureConfiguration", {"enabled": False}, *[{**signing, "enabled": False}] * 2),
        ("signatureConfiguration", None, {"enabled": False}, {"enabled": False}),
        ("data", {"deep": {"b": 3}}, *[{"a": 1, "deep": {"b": 3, "list": [1]}}] * 2),
        ("data", {"deep": {"list": [2]}}, having([1, 2]), having([2])),
        ("data", {"a": {"now": "an object"}}, *[{**fields["data"], "a": {"now": "an object"}}] * 2),
        ("data", {"a": None}, *[{"deep": {"b": 2, "list": [1]}}] * 2),
        ("data", None, {}, {}),
    ]  # fmt: skip


@pytest.mark.requirement("webhooks-15.3-34")
@pytest.mark.parametrize("content_type", ["application/json", "application/merge-patch+json"])
async def test_merge_patch_changes_only_named_field(api, fields, content_type):
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id(), "issuer": new_id()}})).json()["tenant"]
    found, expected = [], []
    for field, sent, after_json, after_merge in rows(fields, other["id"], await make_key(api, "ES256")):
        webhook = await make(api, **fields)
        body = json.dumps({"webhook": {field: sent}})
        answer = await api.patch(f"/api/webhook/{webhook['id']}", content=body, headers={"Content-Type": content_type})
        patched = answer.json().get("webhook", answer.json())
        found.append((field, sent, patched.get(field)))
        expected.append((field, sent, after_json if content_type == "application/json" else after_merge))
        rest = {"lastUpdateInstant", field}
        assert {name: value for name, value in patched.items() if name not in rest} == {
            name: value for name, value in webhook.items() if name not in rest
        }, field
    assert found == expected


def op(kind: str, path: str, *value: Any, **members: Any) -> dict[str, Any]:
    """One operation of RFC 6902 on a member of the webhook."""
    members = {name: f"/webhook/{each}" for name, each in members.items()}
    return {"op": kind, "path": f"/webhook/{path}", **({"value": value[0]} if value else {}), **members}


def operations(mine: str, other: str) -> list[tuple[str, list[dict[str, Any]], Any]]:
    """(field, what is sent, what it is afterwards)."""
    has_deep = op("test", "data/deep", {"list": [1], "b": 2})
    off = {"enabled": False}
    return [
        ("description", [op("replace", "description", "new")], "new"),
        ("description", [op("remove", "description")], None),
        ("connectTimeout", [op("add", "connectTimeout", 7)], 7),
        ("global", [op("replace", "global", True)], True),
        ("tenantIds", [op("add", "tenantIds/-", other)], [mine, other]),
        ("tenantIds", [op("add", "tenantIds/0", other)], [other, mine]),
        ("tenantIds", [op("remove", "tenantIds/0")], []),
        ("eventsEnabled", [op("replace", "eventsEnabled/user.create", False)], {"user.create": False}),
        ("headers", [op("add", "headers/X~0C", "3")], {"X-A": "1", "X/B": "2", "X~C": "3"}),
        ("headers", [op("remove", "headers/X~1B")], {"X-A": "1"}),
        ("data", [op("add", "data/deep/list/0", {"x": None})], {"a": 1, "deep": {"b": 2, "list": [{}, 1]}}),
        ("data", [has_deep, op("remove", "data/deep")], {"a": 1}),
        ("signatureConfiguration", [op("replace", "signatureConfiguration", off)], off),
    ]


@pytest.mark.requirement("webhooks-15.3-34")
async def test_json_patch_operations_apply_to_every_kind_of_field(api, fields):
    other = (await api.post("/api/tenant", json={"tenant": {"name": new_id(), "issuer": new_id()}})).json()["tenant"]
    for field, wanted, after in operations(fields["tenantIds"][0], other["id"]):
        webhook = await make(api, **fields)
        path = f"/api/webhook/{webhook['id']}"
        answer = await api.patch(path, content=json.dumps(wanted), headers=JSON_PATCH)
        assert answer.status_code == 200, (wanted, answer.text)
        assert answer.json()["webhook"].get(field) == after, wanted


@pytest.mark.requirement("audit-a3-credentials")
@pytest.mark.parametrize("kind", ["move", "copy"])
async def test_json_patch_cannot_move_header(api, manager, fields, kind):
    """Without GET a patch sees masked credentials; a mask stands for nothing under a name without a stored value."""
    webhook = await make(api, **fields)
    key = {"apiKey": {"permissions": {"endpoints": {"/api/webhook": ["PATCH"]}}}}
    writer = {"Authorization": (await manager.post("/api/api-key", json=key)).json()["apiKey"]["key"]}
    operation = [op(kind, "headers/D", **{"from": "headers/X-A"})]
    path = f"/api/webhook/{webhook['id']}"
    answer = await api.patch(path, content=json.dumps(operation), headers={**JSON_PATCH, **writer})
    assert answer.status_code == 400
    assert answer.json()["fieldErrors"]["webhook.headers.D"][0]["code"] == "[invalid]webhook.headers.D"
    assert (await api.get(path)).json()["webhook"] == webhook


@pytest.mark.requirement("webhooks-15.3-34")
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/merge-patch+json", "application/json-patch+json"]
)
async def test_patch_cannot_remove_required_members(api, content_type):
    webhook = await make(api)
    path, needed = f"/api/webhook/{webhook['id']}", ("url", "connectTimeout", "readTimeout")
    body: Any = {"webhook": dict.fromkeys(needed)}
    if content_type in JSON_PATCH.values():
        body = [{"op": "remove", "path": f"/webhook/{name}"} for name in needed]
    answer = await api.patch(path, content=json.dumps(body), headers={"Content-Type": content_type})
    assert errors(answer) == {
        "webhook.connectTimeout": ["[missing]webhook.connectTimeout"],
        "webhook.readTimeout": ["[missing]webhook.readTimeout"],
        "webhook.url": ["[blank]webhook.url"],
    }
    assert (await api.get(path)).json()["webhook"] == webhook


# Search and pages

DESCRIPTIONS = {
    "plain": "Alpha game",
    "percent": "100% sure",
    "underscore": "a_b",
    "asterisk": "two * stars",
    "asterisks": "five ** stars",
    "expression": "a.b(c)[d]$^|\\",
    "umlaut": "Größe",
}
MATCHES = {
    "alpha": {"plain"},
    " GAME ": {"plain"},
    "*game": {"plain"},
    "game*": set(),
    "alpha*": {"plain"},
    "*lph*": {"plain"},
    "a*e": {"plain"},
    "a*": {"plain", "underscore", "expression"},
    "*": set(DESCRIPTIONS),
    "%": {"percent"},
    "1%": set(),
    "100%": {"percent"},
    "_": {"underscore"},
    "a_b": {"underscore"},
    "a.b": {"expression"},
    ".": {"expression"},
    ".*": set(),
    "(c)[d]": {"expression"},
    "$^|\\": {"expression"},
    "**": {"asterisk", "asterisks"},
    "****": {"asterisks"},
    "***": set(),
    "two ** *": {"asterisk"},
    "* ** *": {"asterisk"},
    "*****": set(),
    "GRÖ*": {"umlaut"},
    "größe": {"umlaut"},
    "alpha  game": set(),
}


@pytest.mark.requirement("webhooks-15.3-34")
async def test_search_matches_as_in_table(api):
    mark = new_id()
    for name, description in DESCRIPTIONS.items():
        await make(api, description=description, url=f"https://example.com/{mark}/{name}")
    found = {}
    for pattern in MATCHES:
        search = {"description": pattern, "url": f"*/{mark}/*"}
        by_body = (await api.post("/api/webhook/search", json={"search": search})).json()
        by_query = (await api.get("/api/webhook/search", params=search)).json()
        assert by_body == by_query
        found[pattern] = {webhook["url"].rpartition("/")[2] for webhook in by_body["webhooks"]}
    assert found == MATCHES
    for url, total in ((mark.upper(), 7), (f"https://EXAMPLE.com/{mark}/*", 7), (f"{mark}/plain", 1), (f"{mark}*", 0)):
        answer = await api.get("/api/webhook/search", params={"url": url})
        assert answer.json()["total"] == total, url


@pytest.mark.requirement("webhooks-15.3-34")
async def test_pages_of_equal_rows_neither_repeat_nor_skip(api):
    """What is sorted by is the same in all of them: the id decides, and one that comes in between moves nothing."""
    mark = new_id()
    ids = sorted([(await make(api, description=mark))["id"] for _ in range(7)])

    async def pages(order: str) -> list[str]:
        seen: list[str] = []
        for start in range(0, 9, 2):
            query = {"description": mark, "orderBy": order, "startRow": start, "numberOfResults": 2}
            page = (await api.get("/api/webhook/search", params=query)).json()
            assert page["total"] == 7
            assert len(page["webhooks"]) == max(0, min(2, 7 - start))
            seen += [webhook["id"] for webhook in page["webhooks"]]
        return seen

    assert await pages("description") == ids
    assert sorted(await pages("description DESC")) == ids
    assert await pages("description, id DESC") == ids[::-1]


@pytest.mark.requirement("webhooks-15.3-15")
async def test_events_are_paged_in_both_directions(api, tenant, tenant_api):
    enabled = {"tenant": {"eventConfiguration": {"events": {"user.create.complete": {"enabled": True}}}}}
    assert (await tenant_api.patch(f"/api/tenant/{tenant['id']}", json=enabled)).status_code == 200
    async with receiving() as receiver:
        await make_webhook(api, tenant, receiver.url)
        users = [await make_user(tenant_api) for _ in range(5)]
        for user_id in users:
            await until(api, user_id, has_attempts(1))

    async def pages(order: str) -> list[str]:
        seen: list[str] = []
        for start in range(0, 6, 2):
            query = {"event": tenant["id"], "orderBy": order, "startRow": start, "numberOfResults": 2}
            page = (await api.get("/api/system/webhook-event-log/search", params=query)).json()
            assert page["total"] == 5
            seen += [log["linkedObjectId"] for log in page["webhookEventLogs"]]
        return seen

    assert await pages("sequence") == users
    assert await pages("sequence DESC") == users[::-1]
    assert await pages("insertInstant DESC, sequence DESC") == users[::-1]
    assert sorted(await pages("eventType")) == sorted(users)
