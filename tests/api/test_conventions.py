"""Conventions of every management API route: bodies, errors, wrappers, methods, tenants, patches, searches."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
import structlog

from identity import app
from identity.ids import new_id
from tests import internals, plain_http
from tests.conftest import DEFAULT_TENANT, SUPER_KEY, Build, checking_client
from tests.receiver import receiving

Document = dict[str, Any]
JSON = {"Content-Type": "application/json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
HOOK = {"url": "https://example.com/hook", "connectTimeout": 1000, "readTimeout": 2000}


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    fields = {e["code"] for errors in body.get("fieldErrors", {}).values() for e in errors}
    return fields | {e["code"] for e in body.get("generalErrors", [])}


def fields(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    return set(answer.json().get("fieldErrors", {}))


async def webhook(api: httpx.AsyncClient, **members: Any) -> Document:
    answer = await api.post("/api/webhook", json={"webhook": {**HOOK, **members}})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["webhook"])


async def application(api: httpx.AsyncClient, **members: Any) -> Document:
    body = {"application": {"name": f"Application {new_id()}", **members}}
    answer = await api.post("/api/application", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["application"])


# Errors


async def test_all_errors_of_request_are_reported_together(api) -> None:
    """Those of the schema together with those that only the stored state shows."""
    answer = await api.post(
        "/api/webhook",
        json={
            "webhook": {
                "connectTimeout": "soon",
                "url": "ftp://example.com",
                "tenantIds": [new_id()],
                "global": "yes",
                "signatureConfiguration": {"enabled": True},
                "headers": {"": "x"},
                "eventsEnabled": {"user.nonsense": True},
            }
        },
    )
    assert codes(answer) == {
        "[invalid]webhook.connectTimeout",
        "[missing]webhook.readTimeout",
        "[invalid]webhook.url",
        "[invalid]webhook.tenantIds",
        "[invalidJSON]",
        "[missing]webhook.signatureConfiguration.signingKeyId",
        "[invalid]webhook.headers",
    }
    assert {"webhook.global", "webhook.eventsEnabled"} <= fields(answer)


async def test_invalid_member_is_not_also_reported_as_missing(api) -> None:
    body = {"application": {"name": "x", "verifyRegistration": True, "verificationEmailTemplateId": "nonsense"}}
    assert codes(await api.post("/api/application", json=body)) == {
        "[couldNotConvert]application.verificationEmailTemplateId"
    }


async def test_errors_contain_field_path(api) -> None:
    body = {
        "application": {
            "name": " ",
            "oauthConfiguration": {"authorizedRedirectURLs": ["https://ok.example.com", "javascript:alert(1)", 5]},
            "roles": [{"name": "a"}, {"description": "no name"}],
            "jwtConfiguration": {"timeToLiveInSeconds": -1, "accessTokenKeyId": "x"},
            "unverified": [],
        }
    }
    answer = await api.post("/api/application", json=body)
    assert codes(answer) == {
        "[blank]application.name",
        "[invalidJSON]",
        "[blank]application.roles[1].name",
        "[invalid]application.jwtConfiguration.timeToLiveInSeconds",
        "[invalid]application.oauthConfiguration.authorizedRedirectURLs[1]",
        "[invalid]application.oauthConfiguration.authorizedRedirectURLs[2]",
        "[couldNotConvert]application.jwtConfiguration.accessTokenKeyId",
    }
    assert {"application.oauthConfiguration.authorizedRedirectURLs[2]", "application.unverified"} <= fields(answer)


async def test_errors_are_limited_to_100(api) -> None:
    body = {"webhook": {**HOOK, "tenantIds": [f"x{number}" for number in range(90_000)]}}
    answer = await api.post("/api/webhook", json=body)
    assert len(fields(answer)) == 100


async def test_messages_do_not_repeat_sent_values(api) -> None:
    secret = "Bearer do-not-repeat-me"
    answer = await api.post("/api/webhook", json={"webhook": {**HOOK, "headers": secret, "eventsEnabled": secret}})
    assert fields(answer) == {"webhook.headers", "webhook.eventsEnabled"}
    assert secret not in answer.text


async def test_duplicate_errors_name_member_and_no_secret(api, manager) -> None:
    made = await application(api)
    taken = await api.post("/api/application", json={"application": {"name": made["name"]}})
    assert taken.json()["fieldErrors"]["application.name"] == [
        {
            "code": "[duplicate]application.name",
            "message": f"An Application with name = [{made['name']}] already exists.",
        }
    ]
    value = f"value-{new_id()}"
    assert (await manager.post("/api/api-key", json={"apiKey": {"key": value}})).status_code == 200
    again = await manager.post("/api/api-key", json={"apiKey": {"key": value}})
    assert codes(again) == {"[duplicate]apiKey.key"}
    assert value not in again.text


@pytest.mark.requirement("webhooks-6-3")
@pytest.mark.parametrize("body", [{}, {"webhook": None}, {"nonsense": {}}])
async def test_missing_wrapper(api, body) -> None:
    assert codes(await api.post("/api/webhook", json=body)) == {"[missing]webhook"}


@pytest.mark.parametrize("wrapper", [[], [{}], "text", 5, True])
async def test_wrapper_that_is_not_an_object(api, wrapper) -> None:
    answer = await api.post("/api/webhook", json={"webhook": wrapper})
    assert codes(answer) == {"[invalidJSON]"}
    assert fields(answer) == {"webhook"}


# Bodies

DEEP = b'{"webhook":{"data":' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}}"
MALFORMED = {
    "cut off": b'{"webhook": {',
    "trailing comma": b'{"webhook": {},}',
    "single quotes": b"{'webhook': {}}",
    "comment": b'{"webhook": {} /* no */}',
    "two values": b"{} {}",
    "array": b"[]",
    "text": b'"webhook"',
    "number": b"5",
    "null": b"null",
    "NaN": b'{"webhook": {"connectTimeout": NaN}}',
    "infinity": b'{"webhook": {"connectTimeout": -Infinity}}',
    "huge exponent": b'{"webhook": {"connectTimeout": 1e999}}',
    "65 bits": b'{"webhook": {"connectTimeout": 18446744073709551616}}',
    "-2^63 - 1": b'{"webhook": {"data": {"a": -9223372036854775809}}}',
    "10^5 digits": b'{"webhook": {"data": {"a": ' + b"9" * 100_000 + b"}}}",
    "name twice": b'{"webhook": {"url": "a", "url": "b"}}',
    "wrapper twice": b'{"webhook": {}, "webhook": {}}',
    "name twice deep in data": b'{"webhook": {"data": {"a": [{"b": 1, "b": 2}]}}}',
    "NUL in a name": b'{"webhook": {"data": {"a\\u0000b": 1}}}',
    "raw control character": b'{"webhook": {"data": {"a": "\x00"}}}',
    "half a surrogate": b'{"webhook": {"description": "\\ud800"}}',
    "half a surrogate in a name": b'{"webhook": {"data": {"\\udfff": 1}}}',
    "half a surrogate in an array": b'{"webhook": {"data": {"a": [["\\ud83d"]]}}}',
    "latin-1": b'{"webhook": {"description": "\xe9"}}',
    "overlong UTF-8": b'{"webhook": {"description": "\xc0\xaf"}}',
    "UTF-8 of a surrogate": b'{"webhook": {"description": "\xed\xa0\x80"}}',
    "UTF-16": '{"webhook": {}}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"webhook": {}}',
    "too deep": DEEP,
    "far too deep": b"[" * 100_000,
    "deep and unbalanced": b'{"webhook":' + b"[" * 500_000 + b"]" * 499_999 + b"}",
}


@pytest.mark.requirement("attack-67", "core-2-12", "design-state-25", "webhooks-6-2")
@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_json_is_400_with_cause(api, name) -> None:
    made = await webhook(api)
    for method, path in (("POST", "/api/webhook"), ("PUT", f"/api/webhook/{made['id']}"), ("POST", "/api/user/search")):
        answer = await api.request(method, path, content=MALFORMED[name], headers=JSON)
        assert codes(answer) == {"[invalidJSON]"}, path
        assert len(answer.content) < 1000
    # An empty array is no object, but it is a JSON Patch of no operations.
    for headers in (JSON, MERGE_PATCH) if name == "array" else (JSON, MERGE_PATCH, JSON_PATCH):
        answer = await api.patch(f"/api/webhook/{made['id']}", content=MALFORMED[name], headers=headers)
        assert codes(answer) <= {"[invalidJSON]", "[invalidPatch]"}
    assert (await api.get(f"/api/webhook/{made['id']}")).json()["webhook"] == made


async def test_error_contains_position(api) -> None:
    answer = await api.post("/api/webhook", content=b'{\n "webhook": }', headers=JSON)
    assert "line 2 column 13" in answer.json()["generalErrors"][0]["message"]


@pytest.mark.requirement("webhooks-6-1")
@pytest.mark.parametrize("body", [b"", b"  \r\n"])
async def test_empty_body_is_reported_as_missing(api, body) -> None:
    made = await webhook(api)
    assert codes(await api.post("/api/webhook", content=body, headers=JSON)) == {"[missing]"}
    assert codes(await api.put(f"/api/webhook/{made['id']}", content=body, headers=JSON)) == {"[missing]"}
    assert codes(await api.patch(f"/api/webhook/{made['id']}", content=body, headers=JSON)) == {"[missing]"}


async def test_depth_and_numbers_at_limit_are_preserved(api) -> None:
    deep: Any = "end"
    for _ in range(37):
        deep = [deep]
    data = {"deep": deep, "most": 2**63 - 1, "least": -(2**63) + 1, "half": 0.5, "tiny": 5e-324, "pair": "\U0001f511"}
    assert (await webhook(api, data=data))["data"] == data


async def test_largest_integer_as_javascript_writes_it_is_read_as_the_largest(api) -> None:
    content = {"webhook": {**HOOK, "data": {"most": 2**63 - 1}}}
    written = json.dumps(content).replace(str(2**63 - 1), "9223372036854776000").encode()
    made = await api.post("/api/webhook", content=written, headers=JSON)
    assert made.json()["webhook"]["data"] == {"most": 2**63 - 1}
    beyond = written.replace(b"9223372036854776000", b"9223372036854776001")
    assert codes(await api.post("/api/webhook", content=beyond, headers=JSON)) == {"[invalidJSON]"}


async def test_integers_may_be_written_as_floats_only(api) -> None:
    content = b'{"webhook": {"url": "https://example.com", "connectTimeout": 1000.0, "readTimeout": 2e3}}'
    made = await api.post("/api/webhook", content=content, headers=JSON)
    assert '"connectTimeout":1000,' in made.text.replace(" ", "").replace("}", ",")
    for value in (1.5, "1.5", "many", True, [1000], 1e300):
        answer = await api.post("/api/webhook", json={"webhook": {**HOOK, "connectTimeout": value}})
        assert codes(answer) == {"[invalid]webhook.connectTimeout"}


@pytest.mark.requirement("core-1-18", "webhooks-4-6")
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
)
async def test_other_content_types_are_refused_with_errors_body(api, kind) -> None:
    made = await webhook(api)
    content = b'{"webhook": {}}'
    for method, path in (("POST", "/api/webhook"), ("PUT", f"/api/webhook/{made['id']}"), ("POST", "/api/key/search")):
        answer = await api.request(method, path, content=content, headers={"Content-Type": kind})
        assert codes(answer) == {"[UnsupportedContentType]"}
    answer = await api.patch(f"/api/webhook/{made['id']}", content=content, headers={"Content-Type": kind})
    assert codes(answer) == {"[UnsupportedContentType]"}


@pytest.mark.parametrize("kind", ["application/json", "APPLICATION/JSON", "application/json; charset=UTF-8", None])
async def test_json_content_types(api, kind) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    content = json.dumps({"webhook": HOOK}).encode()
    assert (await api.post("/api/webhook", content=content, headers=headers)).status_code == 200


def sized(size: int) -> bytes:
    """A body of this many bytes."""
    frame = b'{"webhook": {"description": ""}}'
    return frame[:-3] + b"a" * (size - len(frame)) + frame[-3:]


@pytest.mark.requirement("attack-67", "design-state-25")
async def test_body_over_limit_is_413_and_creates_nothing(api) -> None:
    for size in (2**20 + 1, 5 * 2**20):
        body = sized(size)
        answer = await api.post("/api/webhook", content=body, headers=JSON)
        assert answer.status_code == 413
        assert answer.json()["generalErrors"][0]["code"] == "[TooLarge]"

        async def in_chunks(body: bytes = body) -> Any:
            for start in range(0, len(body), 65536):
                yield body[start : start + 65536]

        assert (await api.post("/api/webhook", content=in_chunks(), headers=JSON)).status_code == 413
    answer = await api.post("/api/webhook", content=sized(2**20), headers=JSON)
    assert codes(answer) >= {"[missing]webhook.connectTimeout"}


async def test_body_far_over_limit_is_refused_before_upload(service) -> None:
    head = f"POST /api/webhook HTTP/1.1\r\nHost: x\r\nAuthorization: {SUPER_KEY}\r\nContent-Length: 50000000000\r\n\r\n"
    answer = await raw(service, head.encode())
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"[TooLarge]" in answer


@pytest.mark.requirement("core-1.2-3")
async def test_json_bodies_on_delete_are_read(tenant_api) -> None:
    made = await application(tenant_api)
    path = f"/api/application/{made['id']}"
    assert (await tenant_api.request("DELETE", path, json={"hardDelete": True})).status_code == 200
    assert (await tenant_api.get(path)).status_code == 404
    made = await application(tenant_api)
    path = f"/api/application/{made['id']}"
    assert codes(await tenant_api.request("DELETE", path, content=b"[", headers=JSON)) == {"[invalidJSON]"}
    assert (await tenant_api.delete(path)).status_code == 200
    assert (await tenant_api.get(path)).json()["application"]["active"] is False


@pytest.mark.requirement("core-1.2-3")
@pytest.mark.parametrize("path", ["webhook", "application", "ip-acl", "user", "group", "group/member", "entity"])
async def test_delete_body_must_be_json(api, path) -> None:
    where = f"/api/{path}/{new_id()}"
    assert codes(await api.request("DELETE", where, content=b"{", headers=JSON)) == {"[invalidJSON]"}
    assert codes(await api.request("DELETE", where, content=b"a=1", headers={"Content-Type": "text/plain"})) == {
        "[UnsupportedContentType]"
    }
    assert (await api.request("DELETE", where, json={"eventInfo": {}})).status_code == 404
    assert (await api.delete(where)).status_code == 404


# Where a request came from

INFO = {
    "data": {"a": 1},
    "deviceDescription": "a phone",
    "deviceName": "phone",
    "deviceType": "MOBILE",
    "ipAddress": "192.0.2.9",
    "location": {"city": "Oslo", "country": "NO", "latitude": 59.9, "longitude": 10.7, "region": "O", "zipcode": "1"},
    "os": "an OS",
    "userAgent": "app/1",
}


@pytest.mark.requirement("core-1.2-8")
async def test_event_info_of_every_body_is_in_events(tenant_api, tenant) -> None:
    """Of creates, replacements, the two kinds of patch that can carry it, and deletions."""
    kinds = ("group.create", "group.update", "group.delete")
    async with receiving() as receiver:
        events = {"eventConfiguration": {"events": {kind: {"enabled": True} for kind in kinds}}}
        await tenant_api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": events})
        hook = {**HOOK, "url": receiver.url, "tenantIds": [tenant["id"]], "eventsEnabled": dict.fromkeys(kinds, True)}
        await tenant_api.post("/api/webhook", json={"webhook": hook})
        made = await tenant_api.post("/api/group", json={"group": {"name": "a"}, "eventInfo": INFO})
        path = f"/api/group/{made.json()['group']['id']}"
        change = {"group": {"name": "b"}, "eventInfo": INFO}
        for method, headers in (("PUT", JSON), ("PATCH", JSON), ("PATCH", MERGE_PATCH), ("DELETE", JSON)):
            answer = await tenant_api.request(method, path, content=json.dumps(change).encode(), headers=headers)
            assert answer.status_code == 200, answer.text
        received = [request.event["info"] for request in await receiver.wait_for(5)]
        expected = {**INFO, "location": {**INFO["location"], "displayString": "Oslo, O, NO"}}  # type: ignore[dict-item]
        assert received == [expected] * 5


@pytest.mark.requirement("core-1.2-8")
async def test_event_info_members_of_wrong_type_are_dropped(tenant_api, tenant) -> None:
    async with receiving() as receiver:
        events = {"eventConfiguration": {"events": {"group.create": {"enabled": True}}}}
        await tenant_api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": events})
        hook = {**HOOK, "url": receiver.url, "tenantIds": [tenant["id"]], "eventsEnabled": {"group.create": True}}
        await tenant_api.post("/api/webhook", json={"webhook": hook})
        info = {"ipAddress": 5, "location": [], "data": "x", "nonsense": 1, "deviceName": None}
        body, headers = {"group": {"name": "a"}, "eventInfo": info}, {"User-Agent": "browser/1"}
        assert (await tenant_api.post("/api/group", json=body, headers=headers)).status_code == 200
        (request,) = await receiver.wait_for(1)
        assert request.event["info"] == {"ipAddress": "127.0.0.1", "userAgent": "browser/1"}
    for info in (5, [], "x"):
        refused = await tenant_api.post("/api/group", json={"group": {"name": "b"}, "eventInfo": info})
        assert (codes(refused), fields(refused)) == ({"[invalidJSON]"}, {"eventInfo"})


# Objects


async def test_wrappers_nulls_and_unknown_members(api) -> None:
    body = {
        "webhook": {**HOOK, "description": None, "nonsense": {"a": 1}, "id": new_id(), "insertInstant": 5},
        "more": 1,
    }
    answer = await api.post("/api/webhook", json=body)
    assert answer.json().keys() == {"webhook"}
    made = answer.json()["webhook"]
    assert "description" not in made
    assert "nonsense" not in made
    assert made["id"] != body["webhook"]["id"]
    assert made["insertInstant"] == made["lastUpdateInstant"] > 5
    assert None not in made.values()
    assert (await api.get("/api/webhook")).json().keys() == {"webhooks"}
    assert (await api.get("/api/webhook/search")).json().keys() == {"webhooks", "total"}


@pytest.mark.requirement("audit-d1-null")
async def test_texts_are_trimmed_and_null_data_members_dropped(api) -> None:
    made = await webhook(api, description="  two words ", data={"a": None, "b": [1, None, " kept "], "c": {"d": None}})
    assert made["description"] == "two words"
    assert made["data"] == {"b": [1, None, " kept "], "c": {}}


async def test_id_in_path_is_case_insensitive_and_unique(api) -> None:
    wanted = new_id()
    made = await api.post(f"/api/webhook/{wanted.upper()}", json={"webhook": HOOK})
    assert made.json()["webhook"]["id"] == wanted
    assert codes(await api.post(f"/api/webhook/{wanted}", json={"webhook": HOOK})) == {"[duplicate]webhookId"}
    assert (await api.get(f"/api/webhook/{wanted.upper()}")).json()["webhook"]["id"] == wanted


@pytest.mark.parametrize(
    "bad",
    ["x", "1", "%20", "*", "{}", "..%2f..", "%00", f"{DEFAULT_TENANT}x", DEFAULT_TENANT.replace("-", "")],
)
async def test_id_that_is_not_a_uuid(api, bad) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = await api.request(method, f"/api/webhook/{bad}", json={"webhook": HOOK})
        assert codes(answer) == {"[couldNotConvert]webhookId"}


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/api/jwt/refresh/x", "tokenId"),
        ("GET", "/api/system/webhook-attempt-log/x", "webhookAttemptLogId"),
        ("GET", "/api/user/comment/x", "userId"),
        ("GET", f"/api/user/registration/{DEFAULT_TENANT}/x", "applicationId"),
        ("GET", "/api/user/two-factor/recovery-code/x", "userId"),
        ("PUT", "/api/user/action/x", "actionId"),
        ("PUT", f"/api/login/{DEFAULT_TENANT}/x", "applicationId"),
    ],
)
async def test_id_in_path_has_documented_name_in_errors(api, method, path, name) -> None:
    assert codes(await api.request(method, path)) == {f"[couldNotConvert]{name}"}


@pytest.mark.requirement("core-1.2-2")
async def test_path_that_is_not_utf8_is_reported_in_json(api) -> None:
    for path in ("/api/webhook/%ff", "/api/application/%c3%28/role"):
        assert codes(await api.post(path, json={})) == {"[invalid]"}


@pytest.mark.requirement("webhooks-2-20")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_missing_id(api, method) -> None:
    for path, name in (("webhook", "webhookId"), ("application", "applicationId"), ("ip-acl", "ipAccessControlListId")):
        assert codes(await api.request(method, f"/api/{path}", json={})) == {f"[missing]{name}"}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["webhook", "application", "tenant", "ip-acl"])
async def test_unknown_object_is_404_before_body_validation(api, method, path) -> None:
    assert (await api.request(method, f"/api/{path}/{new_id()}", json={"nonsense": 1})).status_code == 404


async def test_put_replaces_everything_but_insert_instant(api) -> None:
    made = await webhook(api, description="a", data={"a": 1}, headers={"X-A": "b"}, eventsEnabled={"user.create": True})
    changed = (await api.put(f"/api/webhook/{made['id']}", json={"webhook": HOOK})).json()["webhook"]
    assert "description" not in changed
    assert changed["data"] == changed["headers"] == changed["eventsEnabled"] == {}
    assert changed["insertInstant"] == made["insertInstant"]
    assert changed["lastUpdateInstant"] > made["lastUpdateInstant"]
    incomplete = {"webhook": {"url": HOOK["url"]}}
    assert codes(await api.put(f"/api/webhook/{made['id']}", json=incomplete)) == {
        "[missing]webhook.connectTimeout",
        "[missing]webhook.readTimeout",
    }


@pytest.mark.requirement("attack-53")
async def test_trailing_slashes_are_accepted_and_doubled_ones_refused(api) -> None:
    made = await webhook(api)
    assert (await api.post("/api/webhook/", json={"webhook": HOOK})).status_code == 200
    assert (await api.get(f"/api/webhook/{made['id']}/")).status_code == 200
    assert (await api.get("/api/webhook/search/")).status_code == 200
    for path in ("//api/webhook", "/api//webhook", "/api/webhook//", "/api/webhook%2fsearch", "/api/Webhook"):
        assert (await api.get(path)).status_code == 404, path


async def test_concurrent_changes_are_all_kept(api) -> None:
    made = await webhook(api)
    changes = ({"webhook": {"data": {f"n{number}": number}}} for number in range(12))
    answers = await asyncio.gather(*(api.patch(f"/api/webhook/{made['id']}", json=change) for change in changes))
    assert {answer.status_code for answer in answers} == {200}
    stored = (await api.get(f"/api/webhook/{made['id']}")).json()["webhook"]
    assert stored["data"] == {f"n{number}": number for number in range(12)}


# Patches


async def test_merge_is_deep_appends_arrays_and_removes_by_null(tenant_api) -> None:
    made = await application(
        tenant_api,
        data={"a": {"b": 1, "c": 2}, "l": [1]},
        oauthConfiguration={
            "authorizedRedirectURLs": ["https://one.example.com"],
            "logoutURL": "https://x.example.com",
        },
    )
    change = {
        "application": {
            "data": {"a": {"b": None, "d": 4}, "l": [2]},
            "oauthConfiguration": {"authorizedRedirectURLs": ["https://two.example.com"], "logoutURL": None},
        }
    }
    answer = await tenant_api.patch(f"/api/application/{made['id']}", json=change)
    patched = answer.json()["application"]
    assert patched["data"] == {"a": {"c": 2, "d": 4}, "l": [1, 2]}
    oauth = patched["oauthConfiguration"]
    assert oauth["authorizedRedirectURLs"] == ["https://one.example.com", "https://two.example.com"]
    assert "logoutURL" not in oauth
    assert oauth["clientSecret"] == made["oauthConfiguration"]["clientSecret"]


async def test_merge_patch_replaces_arrays(tenant_api) -> None:
    made = await application(tenant_api, data={"l": [1], "gone": True})
    change = {"application": {"data": {"l": [2], "gone": None, "new": {"a": None}}}}
    answer = await tenant_api.patch(f"/api/application/{made['id']}", json=change, headers=MERGE_PATCH)
    assert answer.json()["application"]["data"] == {"l": [2], "new": {}}


async def test_json_patch_is_atomic(tenant_api) -> None:
    made = await application(tenant_api, data={"a/b": 1, "m~n": 2})
    path = f"/api/application/{made['id']}"
    operations = [
        {"op": "test", "path": "/application/data/a~1b", "value": 1},
        {"op": "replace", "path": "/application/data/m~0n", "value": 3},
        {"op": "add", "path": "/application/data/l", "value": [1, 3]},
        {"op": "add", "path": "/application/data/l/1", "value": 2},
        {"op": "add", "path": "/application/data/l/-", "value": 4},
        {"op": "copy", "from": "/application/data/l/0", "path": "/application/data/first"},
        {"op": "move", "from": "/application/data/a~1b", "path": "/application/data/moved"},
        {"op": "remove", "path": "/application/data/l/3"},
    ]
    patched = await tenant_api.patch(path, json=operations, headers=JSON_PATCH)
    expected = {"m~n": 3, "l": [1, 2, 3], "first": 1, "moved": 1}
    assert patched.json()["application"]["data"] == expected
    halfway = [
        {"op": "add", "path": "/application/data/more", "value": 1},
        {"op": "test", "path": "/application/data/first", "value": 9},
    ]
    assert codes(await tenant_api.patch(path, json=halfway, headers=JSON_PATCH)) == {"[invalidPatch]"}
    assert (await tenant_api.get(path)).json()["application"]["data"] == expected


BAD_PATCHES: list[Any] = [
    {},
    {"application": {}},
    "text",
    5,
    None,
    [5],
    [None],
    [[]],
    [{}],
    [{"op": "add"}],
    [{"op": "add", "path": 5, "value": 1}],
    [{"op": "add", "path": None, "value": 1}],
    [{"op": "add", "path": "application", "value": 1}],
    [{"op": "add", "path": "/application/~2", "value": 1}],
    [{"op": "add", "path": "/application/data/x"}],
    [{"op": "nonsense", "path": "/application/name"}],
    [{"op": {"$ne": 1}, "path": "/application/name"}],
    [{"op": ["add"], "path": "/application/name", "value": 1}],
    [{"op": "remove", "path": ""}],
    [{"op": "remove", "path": "/application"}],
    [{"op": "remove", "path": "/application/nothing"}],
    [{"op": "remove", "path": "/application/roles/" + "9" * 5000}],
    [{"op": "replace", "path": "", "value": []}],
    [{"op": "replace", "path": "/application", "value": []}],
    [{"op": "add", "path": "/application/roles/-1", "value": {}}],
    [{"op": "add", "path": "/application/roles/01", "value": {}}],
    [{"op": "add", "path": "/application/name/x", "value": {}}],
    [{"op": "copy", "path": "/application/data/x"}],
    [{"op": "copy", "from": ["a"], "path": "/application/data/x"}],
    [{"op": "copy", "from": "/application/roles/-", "path": "/application/data/x"}],
    [{"op": "move", "from": "/application", "path": "/application/data/x"}],
    [{"op": "copy", "from": "/application", "path": f"/application/data/{'a/' * 9}x"}],
    [{"op": "copy", "from": "/application/data", "path": f"/application/data/{number}"} for number in range(60)],
    [{"op": "copy", "from": "/application/data", "path": "/application/data/a"}] * 60,
    [{"op": "test", "path": "/application/data", "value": {}}] * 1001,
]


@pytest.mark.requirement("core-1-16", "webhooks-4-4")
@pytest.mark.parametrize("patch", BAD_PATCHES, ids=lambda patch: json.dumps(patch)[:60])
async def test_inapplicable_json_patch(api, patch, plain_application) -> None:
    path = f"/api/application/{plain_application['id']}"
    answer = await api.patch(path, content=json.dumps(patch).encode(), headers=JSON_PATCH)
    assert codes(answer) == {"[invalidPatch]"}
    assert len(answer.content) < 2000
    assert (await api.get(path)).json()["application"] == plain_application


@pytest.mark.parametrize("headers", [JSON, MERGE_PATCH], ids=["merge", "merge patch"])
@pytest.mark.parametrize("patch", [[], "x", 5, None, {"application": None}, {"application": 5}, {"application": []}])
async def test_merge_patch_without_object(api, headers, patch, plain_application) -> None:
    path = f"/api/application/{plain_application['id']}"
    answer = await api.patch(path, content=json.dumps(patch).encode(), headers=headers)
    assert codes(answer) == {"[invalidPatch]"}


async def test_patched_object_is_validated_like_new_one(api, plain_application) -> None:
    path = f"/api/application/{plain_application['id']}"
    for headers in (JSON, MERGE_PATCH):
        answer = await api.patch(path, json={"application": {"name": None}}, headers=headers)
        assert codes(answer) == {"[blank]application.name"}
    wrong = [{"op": "replace", "path": "/application/oauthConfiguration/debug", "value": "x"}]
    answer = await api.patch(path, json=wrong, headers=JSON_PATCH)
    assert fields(answer) == {"application.oauthConfiguration.debug"}


async def test_read_only_members_are_ignored_in_patches(api, plain_application) -> None:
    path = f"/api/application/{plain_application['id']}"
    changes = {"id": new_id(), "insertInstant": 1, "lastUpdateInstant": 1, "tenantId": new_id(), "state": "Inactive"}
    operations = [{"op": "add", "path": f"/application/{name}", "value": value} for name, value in changes.items()]
    for body, headers in (
        ({"application": changes}, JSON),
        ({"application": changes}, MERGE_PATCH),
        (operations, JSON_PATCH),
    ):
        patched = (await api.patch(path, json=body, headers=headers)).json()["application"]
        assert {**patched, "lastUpdateInstant": 0} == {**plain_application, "lastUpdateInstant": 0}


async def test_patched_object_is_limited_to_request_size(api) -> None:
    made = await webhook(api)
    change = {"webhook": {"data": {"l": ["x" * 100_000]}}}
    answers = [await api.patch(f"/api/webhook/{made['id']}", json=change) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [400]
    assert codes(answers[-1]) == {"[invalidPatch]"}


async def test_json_patch_cannot_access_hidden_secret(api, tenant) -> None:
    """Neither by copying it to where it can be read nor by testing what it might be."""
    path, secret = f"/api/tenant/{tenant['id']}", "an smtp password"
    configured = await api.patch(path, json={"tenant": {"emailConfiguration": {"password": secret}}})
    assert configured.status_code == 200
    source = "/tenant/emailConfiguration/password"
    for operation in (
        {"op": "copy", "from": source, "path": "/tenant/emailConfiguration/username"},
        {"op": "move", "from": source, "path": "/tenant/data/x"},
        {"op": "test", "path": source, "value": secret},
    ):
        answer = await api.patch(path, json=[operation], headers=JSON_PATCH)
        assert codes(answer) == {"[invalidPatch]"}
        assert secret not in answer.text
    whole = [{"op": "copy", "from": "/tenant/emailConfiguration", "path": "/tenant/data/all"}]
    copied = await api.patch(path, json=whole, headers=JSON_PATCH)
    assert copied.status_code == 200
    assert secret not in copied.text


async def test_hidden_secret_is_kept_unless_changed(service, api, tenant) -> None:
    path, secret = f"/api/tenant/{tenant['id']}", "an smtp password"
    await api.patch(path, json={"tenant": {"emailConfiguration": {"password": secret}}})
    await api.patch(path, json={"tenant": {"data": {"a": 1}}})
    await api.put(path, json={"tenant": {"name": tenant["name"]}})
    stored = await internals.store(service, "tenants").get(None, tenant["id"])
    assert stored["emailConfiguration"]["password"] == secret
    await api.patch(path, json={"tenant": {"emailConfiguration": {"password": ""}}})
    stored = await internals.store(service, "tenants").get(None, tenant["id"])
    assert stored["emailConfiguration"]["password"] == ""


@pytest.fixture
async def plain_application(api: httpx.AsyncClient) -> Document:
    """An application to try bad changes on."""
    return await application(api, data={"a": {"b": "c"}})


# Deletions


DESTROYED: dict[str, tuple[dict[str, Any], str]] = {
    "/api/application": ({"application": {"name": "One"}}, "hardDelete"),
    "/api/tenant": ({"tenant": {"name": "One", "issuer": "https://conventions.example.com"}}, "async"),
    "/api/user": ({"user": {"email": "one@example.com", "password": "a password of the tests"}}, "hardDelete"),
    "/api/user-action": ({"userAction": {"name": "One"}}, "hardDelete"),
}
"""Path, what makes an object there, and the flag of its deletion."""


@pytest.mark.requirement("core-1-12")
@pytest.mark.parametrize("path", DESTROYED)
async def test_invalid_boolean_parameter_deletes_nothing(tenant_api, path) -> None:
    body, flag = DESTROYED[path]
    one = f"{path}/{new_id()}"
    wrapper = {name: {**members, "name": new_id()} if "name" in members else members for name, members in body.items()}
    made = await tenant_api.post(one, json=wrapper)
    assert made.status_code == 200, made.text
    before = (await tenant_api.get(one)).json()
    for wrong in ("yes", "1", "t"):
        answer = await tenant_api.delete(one, params={flag: wrong})
        assert set(answer.json()["fieldErrors"]) == {flag}, answer.text
        assert answer.json()["fieldErrors"][flag][0]["code"] == f"[couldNotConvert]{flag}"
    if path != "/api/user-action":  # whose deletion takes no body
        assert (await tenant_api.request("DELETE", one, json={flag: "yes"})).status_code == 400
    assert (await tenant_api.get(one)).json() == before
    assert (await tenant_api.delete(one, params={flag: " TRUE "})).status_code in {200, 202}


# Searches


@pytest.mark.requirement("core-1.2-4")
@pytest.mark.parametrize(
    ("written", "number"), [("true", 1), ("True", 1), ("1", 1), (" 1 ", 1), ("false", 0), ("0", 0)]
)
async def test_booleans_in_queries_accept_numbers(api, written, number) -> None:
    mark = f"numbers {new_id()}"
    for _ in range(2):
        await webhook(api, description=mark)
    asked = {"description": mark, "numberOfResults": written}
    answer = (await api.get("/api/webhook/search", params=asked)).json()
    assert (answer["total"], len(answer["webhooks"])) == (2, number)
    answer = (await api.get("/api/webhook/search", params={"description": mark, "startRow": written})).json()
    assert (answer["total"], len(answer["webhooks"])) == (2, 2 - number)


RACED = {
    "/api/consent": {"consent": {"defaultMinimumAgeForSelfConsent": 13}},
    "/api/key": {"key": {"algorithm": "HS256"}},
    "/api/theme": {"theme": {}},
}


@pytest.mark.parametrize("path", RACED)
async def test_of_concurrent_deletes_one_succeeds(api, path) -> None:
    ((name, members),) = RACED[path].items()
    create = f"{path}/generate" if name == "key" else path
    made = (await api.post(create, json={name: {**members, "name": new_id()}})).json()[name]
    answers = await asyncio.gather(*(api.delete(f"{path}/{made['id']}") for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200, *[404] * 63]


async def test_null_paging_is_treated_as_absent(api) -> None:
    """A client that fills in a map of criteria sends null for those that it has no value for."""
    mark = f"nulls {new_id()}"
    made = await webhook(api, description=mark)
    criteria = {"description": mark, "url": None, "orderBy": None, "startRow": None, "numberOfResults": None}
    answer = (await api.post("/api/webhook/search", json={"search": criteria})).json()
    assert (answer["total"], [each["id"] for each in answer["webhooks"]]) == (1, [made["id"]])


@pytest.mark.requirement("contract-errors-7", "contract-webhooks-12", "webhooks-4-12")
@pytest.mark.parametrize("name", ["startRow", "numberOfResults"])
@pytest.mark.parametrize("value", ["x", "-1", "1.5", "1e3", "", "99999999999999999999", "٣", [], {}, 1.5, -1, 2**40])
async def test_paging_must_be_integers(api, name, value) -> None:
    answer = await api.post("/api/webhook/search", json={"search": {name: value}})
    assert codes(answer) == {f"[invalid]search.{name}"}
    if isinstance(value, str) and value:
        assert codes(await api.get("/api/webhook/search", params={name: value})) == {f"[invalid]{name}"}


@pytest.mark.requirement("attack-69", "contract-webhooks-13", "core-12-2", "webhooks-4-10")
@pytest.mark.parametrize(
    "order",
    [
        "nonsense",
        "url; drop",
        "$where",
        "private.x",
        "httpAuthenticationPassword",
        "url SIDEWAYS",
        "url ASC DESC",
        ",",
        "*",
        "data.a",
        "_id",
        {"url": 1},
        ["url"],
        5,
    ],
)
async def test_only_listed_fields_are_sortable(api, order) -> None:
    answer = await api.post("/api/webhook/search", json={"search": {"orderBy": order}})
    assert codes(answer) == {"[invalid]search.orderBy"}
    if isinstance(order, str):
        assert codes(await api.get("/api/webhook/search", params={"orderBy": order})) == {"[invalid]orderBy"}


@pytest.mark.requirement("contract-errors-7", "contract-webhooks-12", "core-12-1", "webhooks-4-12")
async def test_order_and_pages(api) -> None:
    mark = f"order {new_id()}"
    made = [await webhook(api, description=mark, url=f"https://example.com/{letter}") for letter in "bac"]

    async def urls(**search: Any) -> list[str]:
        by_body = (await api.post("/api/webhook/search", json={"search": {"description": mark, **search}})).json()
        by_query = (await api.get("/api/webhook/search", params={"description": mark, **search})).json()
        assert by_body == by_query
        assert by_body["total"] == 3
        return [one["url"][-1] for one in by_body["webhooks"]]

    assert await urls(orderBy="url") == ["a", "b", "c"]
    assert await urls(orderBy="url desc") == ["c", "b", "a"]
    assert await urls(orderBy="description ASC, url DESC") == ["c", "b", "a"]
    assert await urls(orderBy="url, url DESC") == ["a", "b", "c"]
    assert await urls(orderBy="  insertInstant   ASC ,id") == ["b", "a", "c"]
    assert await urls() == ["c", "a", "b"]
    pages = [await urls(orderBy="description", startRow=row, numberOfResults=1) for row in range(4)]
    assert sorted(pages[:3]) == [["a"], ["b"], ["c"]]
    assert pages[3] == []
    assert len({one["id"] for one in made}) == 3


@pytest.mark.requirement("attack-69")
@pytest.mark.parametrize(
    "value", [{"$ne": None}, {"$regex": ".*"}, ["x"], 5, True, "x" * 192, "a\x00b", {"$where": "sleep(1000)"}]
)
async def test_criteria_are_strings_and_never_operators(api, value) -> None:
    for name in ("description", "url", "tenantId"):
        answer = await api.post("/api/webhook/search", json={"search": {name: value}})
        assert codes(answer) <= {f"[invalid]search.{name}", f"[couldNotConvert]search.{name}"}
    answer = await api.get("/api/webhook/search", params={"description[$ne]": "", "description[$regex]": "("})
    assert answer.status_code == 200


@pytest.mark.parametrize("body", [{"search": 5}, {"search": []}, {"search": "x"}])
async def test_search_must_be_an_object(api, body) -> None:
    assert codes(await api.post("/api/webhook/search", json=body)) == {"[invalidJSON]"}


SPECIAL = r"^$.|?+()[]{}\/- %_#&~`'\"<>é\d(?i)"


async def test_only_asterisk_is_special_in_search(api) -> None:
    mark = new_id()
    made = await webhook(api, description=f"{mark} {SPECIAL} * end")

    async def finds(pattern: str) -> bool:
        answer = await api.post("/api/webhook/search", json={"search": {"description": pattern}})
        assert answer.status_code == 200, answer.text
        return made["id"] in {one["id"] for one in answer.json()["webhooks"]}

    assert await finds(SPECIAL)
    for character in set(SPECIAL):
        assert await finds(f"{mark}*{character}*")
    assert await finds(f"{mark.upper()}*END")
    assert await finds(f"{mark}* ** end")
    assert not await finds(f"{mark}.+end")
    assert not await finds(f"{mark}%")
    assert not await finds(f"{mark}_*")
    assert not await finds(f"*{mark}")
    assert not await finds(f"{mark}**end")


async def test_many_wildcards_are_cheap(api) -> None:
    """A pattern that a backtracking engine would try in 2^60 ways; the answer has to come at all."""
    made = await webhook(api, description="a" * 100_000)
    pattern = "*a" * 60 + "*b"
    answer = await api.post("/api/webhook/search", json={"search": {"description": pattern}})
    assert answer.json()["total"] == 0
    answer = await api.post(
        "/api/webhook/search", json={"search": {"description": "*a" * 60 + "*", "url": HOOK["url"]}}
    )
    assert made["id"] in {one["id"] for one in answer.json()["webhooks"]}
    assert (await api.delete(f"/api/webhook/{made['id']}")).status_code == 200


# Strange data

STRANGE: Document = {
    "$ne": None,
    "$where": "function() { return true }",
    "$set": {"keyManager": True},
    "dotted.key": {"a.b.c": 1},
    ".": 1,
    "..": {".a": 1, "a.": 2},
    "": {"": {"": 1}},
    "__proto__": {"polluted": True},
    "constructor": {"prototype": {"x": 1}},
    "_id": "x",
    "$ref": "users",
    "$id": "1",
    "$db": "admin",
    "nested": [{"$ref": "tenants", "$id": 5}, {"$oid": "507f1f77bcf86cd799439011"}, {"$date": 0}, {"$numberLong": "1"}],
    " spaced ": " kept ",
    "newline\n": "a\r\nb",
    "emoji \U0001f600": "\u202e\ufeff",
    "sealed": "sealed:1:ab:cd",
    "number": {"big": 2**62, "negative zero": -0.0, "small": 1e-300},
}


async def test_data_of_any_shape_is_preserved(api, manager, tenant_api) -> None:
    expected = {name: value for name, value in STRANGE.items() if value is not None}
    hook = await webhook(api, data=STRANGE)
    made = await application(tenant_api, data=STRANGE)
    assert hook["data"] == made["data"] == expected
    assert (await api.get(f"/api/webhook/{hook['id']}")).json()["webhook"]["data"] == expected
    assert (await tenant_api.get(f"/api/application/{made['id']}")).json()["application"]["data"] == expected
    replaced = await api.put(f"/api/webhook/{hook['id']}", json={"webhook": {**HOOK, "data": {"again": STRANGE}}})
    assert replaced.json()["webhook"]["data"] == {"again": expected}
    attributes = {"$ne": "a", "a.b": "c", "": "d", "__proto__": "e"}
    key = await manager.post("/api/api-key", json={"apiKey": {"metaData": {"attributes": attributes}}})
    assert key.json()["apiKey"]["metaData"]["attributes"] == attributes
    assert key.json()["apiKey"]["keyManager"] is False


# Methods and statuses


@pytest.mark.requirement("core-3-2", "webhooks-2-16")
async def test_bodies_of_401_404_and_405_are_empty_and_405_lists_methods(http, api) -> None:
    """The checking client asserts the empty bodies."""
    assert (await http.get("/api/webhook")).status_code == 401
    assert (await api.get(f"/api/webhook/{new_id()}")).status_code == 404
    assert (await api.get("/api/nonsense")).status_code == 404
    refused = await api.delete("/api/webhook/search")
    assert refused.status_code == 405
    assert refused.headers["Allow"] == "GET, HEAD, POST"
    refused = await api.post("/api/key", json={})
    assert refused.status_code == 405
    assert (await api.put("/api/health")).headers["Allow"] == "GET, HEAD"
    for method in ("OPTIONS", "TRACE"):
        assert (await api.request(method, "/api/webhook")).status_code == 405


@pytest.mark.requirement("core-3-2", "webhooks-2-16")
async def test_unknown_http_methods_are_501(service) -> None:
    async with plain_http.client(service.base_url) as client:
        for path in ("/api/webhook", "/nonsense"):
            for method in ("PROPFIND", "FOO", "get"):
                answer = await client.request(method.encode() if method != "get" else "FOO", path)
                assert answer.status_code == 501
                assert answer.content == b""


@pytest.mark.requirement("attack-53")
@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "_method"])
async def test_method_cannot_be_overridden(api, name) -> None:
    made = await webhook(api)
    await api.get(f"/api/webhook/{made['id']}", headers={name: "DELETE"}, params={"_method": "DELETE"})
    await api.get(f"/api/webhook/{made['id']}", params={"_method": "DELETE", name: "DELETE"})
    assert (await api.get(f"/api/webhook/{made['id']}")).status_code == 200


@pytest.mark.requirement("audit-b1")
async def test_post_with_the_override_header_is_a_patch(service, api) -> None:
    made = await webhook(api)
    async with plain_http.client(service.base_url, headers=api.headers) as client:
        override = {"X-HTTP-Method-Override": "PATCH"}
        body = {"webhook": {"description": "patched"}}
        answer = await client.post(f"/api/webhook/{made['id']}", json=body, headers=override)
        assert answer.status_code == 200
        assert answer.json()["webhook"]["description"] == "patched"
        assert answer.json()["webhook"]["url"] == made["url"]
        assert (await client.post("/api/key/generate", json={}, headers=override)).status_code == 405


@pytest.mark.requirement("audit-b1")
async def test_override_header_has_no_effect_elsewhere(service, api) -> None:
    made = await webhook(api)
    path = f"/api/webhook/{made['id']}"
    async with plain_http.client(service.base_url, headers=api.headers) as client:
        for value in ("DELETE", "GET", "PUT", "patch", "PATCH, DELETE", ""):
            answer = await client.post(path, json={"webhook": {}}, headers={"X-HTTP-Method-Override": value})
            assert answer.status_code == 400, value  # a create with an id that exists
        for method in ("GET", "PUT", "DELETE"):
            found = await client.request(
                method, f"/api/webhook/{new_id()}", headers={"X-HTTP-Method-Override": "PATCH"}
            )
            assert found.status_code in {400, 404}, method
        for name in ("X-HTTP-Method", "X-Method-Override"):
            answer = await client.post(path, json={"webhook": {}}, headers={name: "PATCH"})
            assert answer.status_code == 400, name
        assert (await client.get(path)).status_code == 200
    async with plain_http.client(service.base_url) as stranger:
        override = {"X-HTTP-Method-Override": "PATCH"}
        assert (await stranger.post(path, json={"webhook": {}}, headers=override)).status_code == 401
        form = {"grant_type": "nonsense"}
        assert (await stranger.post("/oauth2/token", data=form, headers=override)).status_code == 400


@pytest.mark.requirement("audit-b4-null")
@pytest.mark.parametrize("absent", ["null", "undefined"])
async def test_null_in_query_is_treated_as_absent(api, tenant, absent) -> None:
    params = dict.fromkeys(("loginIdTypes", "email", "username", "loginId", "verificationId"), absent)
    assert codes(await api.get("/api/user", params=params)) == codes(await api.get("/api/user"))
    made = await application(api)
    found = await api.get("/api/application/search", params={"name": made["name"], "state": absent, "orderBy": absent})
    assert [one["id"] for one in found.json()["applications"]] == [made["id"]]
    assert codes(await api.delete("/api/user/bulk", params={"userId": absent})) == codes(
        await api.delete("/api/user/bulk")
    )
    answer = await api.get("/api/jwt/public-key", params={"applicationId": made["id"], "keyId": absent})
    assert answer.status_code == 200, answer.text
    page = await api.get("/oauth2/authorize", params={"client_id": made["id"], "state": "null"})
    assert page.status_code == 400


# Tenants


@pytest.mark.requirement("core-4-7")
async def test_tenant_key_determines_tenant(service, api, manager, tenant) -> None:
    made = await manager.post("/api/api-key", json={"apiKey": {"tenantId": tenant["id"]}})
    headers = {"Authorization": made.json()["apiKey"]["key"]}
    async with checking_client(service.base_url, headers=headers) as scoped:
        inside = await application(scoped)
        assert inside["tenantId"] == tenant["id"]
        for header, status in ((tenant["id"].upper(), 200), (DEFAULT_TENANT, 401), (new_id(), 401), ("nonsense", 401)):
            answer = await scoped.get("/api/application", headers={"X-FusionAuth-TenantId": header})
            assert answer.status_code == status, header


@pytest.mark.requirement("core-4-8")
async def test_tenant_header_must_name_existing_tenant(api, tenant) -> None:
    for header in ("nonsense", "*", new_id(), '{"$ne":null}', f"{tenant['id']}, {tenant['id']}", "\u00e9"):
        headers = {"X-FusionAuth-TenantId": header.encode()}
        assert codes(await api.get("/api/application", headers=headers)) == {"[InvalidTenantId]"}
    made = await api.post(
        "/api/application",
        json={"application": {"name": "x", "tenantId": DEFAULT_TENANT}},
        headers={"X-FusionAuth-TenantId": tenant["id"].upper()},
    )
    assert made.json()["application"]["tenantId"] == tenant["id"]


@pytest.mark.requirement("core-4-9")
async def test_sole_tenant_is_default(build: Build) -> None:
    async with (
        build() as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        made = await application(api)
        assert made["tenantId"] == DEFAULT_TENANT
        second = (await api.post("/api/tenant", json={"tenant": {"name": "Second"}})).json()["tenant"]
        assert codes(await api.post("/api/application", json={"application": {"name": "y"}})) == {"[TenantIdRequired]"}
        assert (await api.delete(f"/api/tenant/{second['id']}", params={"async": "true"})).status_code == 202
        assert (await application(api))["tenantId"] == DEFAULT_TENANT


async def test_globally_unique_id_determines_tenant(service, tenant_api, api, tenant) -> None:
    made = await application(tenant_api)
    path = f"/api/application/{made['id']}"
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as anywhere:
        assert (await anywhere.get(path)).json()["application"]["tenantId"] == tenant["id"]
        assert (await anywhere.patch(path, json={"application": {"data": {"a": 1}}})).status_code == 200
        role = await anywhere.post(f"{path}/role", json={"role": {"name": "r"}})
        assert role.status_code == 200
        assert (await anywhere.delete(f"{path}/role", params={"name": "r"})).status_code == 200
        assert codes(await anywhere.post("/api/application", json={"application": {"name": "x"}})) == {
            "[TenantIdRequired]"
        }
        copy = {"sourceApplicationId": made["id"], "application": {"name": "copy"}}
        assert codes(await anywhere.post("/api/application", json=copy)) == {"[TenantIdRequired]"}
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        answer = await api.request(method, path, json={"application": {"name": "x"}})
        assert answer.status_code == 404, "the header names another tenant, in which there is no such application"


# Addresses


@pytest.mark.requirement("attack-55", "core-6-9", "design-state-24")
@pytest.mark.parametrize(
    ("headers", "seen"),
    [
        ({}, "127.0.0.1"),
        ({"X-Forwarded-For": "203.0.113.9"}, "203.0.113.9"),
        ({"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}, "203.0.113.9"),
        ({"X-Forwarded-For": "203.0.113.9, 127.0.0.1"}, "203.0.113.9"),
        ({"X-Forwarded-For": "203.0.113.9:4711"}, "203.0.113.9"),
        ({"X-Forwarded-For": "[2001:db8::1]:4711"}, "2001:db8::1"),
        ({"X-Forwarded-For": "::ffff:203.0.113.9"}, "203.0.113.9"),
        ({"X-Forwarded-For": "127.0.0.1"}, "127.0.0.1"),
        ({"X-Forwarded-For": "nonsense"}, "127.0.0.1"),
        ({"X-Forwarded-For": "203.0.113.9, nonsense"}, "127.0.0.1"),
        ({"X-Forwarded-For": "203.0.113.9,"}, "127.0.0.1"),
        ({"X-Real-Ip": "203.0.113.9"}, "127.0.0.1"),
        ({"Forwarded": "for=203.0.113.9"}, "127.0.0.1"),
        ({"Client-Ip": "203.0.113.9", "True-Client-IP": "203.0.113.9", "CF-Connecting-IP": "203.0.113.9"}, "127.0.0.1"),
    ],
)
async def test_client_address_is_last_seen_by_trusted_proxy(service, api, manager, headers, seen) -> None:
    """Detected with an access list that allows only this address."""
    entries = [{"startIPAddress": "*", "action": "Block"}]
    if ":" in seen:
        entries[0]["action"] = "Allow"
        entries.append({"startIPAddress": "0.0.0.0", "endIPAddress": "255.255.255.255", "action": "Block"})
    else:
        entries.append({"startIPAddress": seen, "endIPAddress": seen, "action": "Allow"})
    body = {"ipAccessControlList": {"name": f"list {new_id()}", "entries": entries}}
    acl = (await api.post("/api/ip-acl", json=body)).json()["ipAccessControlList"]
    made = await manager.post("/api/api-key", json={"apiKey": {"ipAccessControlListId": acl["id"]}})
    key = {"Authorization": made.json()["apiKey"]["key"]}
    async with checking_client(service.base_url, headers=key) as client:
        assert (await client.get("/api/webhook", headers=headers)).status_code == 200


@pytest.mark.requirement("attack-55", "core-6-9", "design-state-24")
async def test_forwarded_headers_of_untrusted_peer_are_ignored(build: Build) -> None:
    async with (
        build(server__trusted_proxies='["192.0.2.1/32"]') as service,
        checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as api,
    ):
        entries = [
            {"startIPAddress": "*", "action": "Block"},
            {"startIPAddress": "203.0.113.9", "endIPAddress": "203.0.113.9", "action": "Allow"},
        ]
        body = {"ipAccessControlList": {"name": "list", "entries": entries}}
        acl = (await api.post("/api/ip-acl", json=body)).json()["ipAccessControlList"]
        manager = {"Authorization": "a-key-manager-of-the-test-suite-0123456789"}
        made = await api.post("/api/api-key", json={"apiKey": {"ipAccessControlListId": acl["id"]}}, headers=manager)
        key = {"Authorization": made.json()["apiKey"]["key"], "X-Forwarded-For": "203.0.113.9"}
        assert (await api.get("/api/webhook", headers=key)).status_code == 401


# The wire


async def raw(service: app.Service, request: bytes) -> bytes:
    """The complete response on a separate connection, which the service closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(request)
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


def get(*lines: bytes, end: bytes = b"\r\n") -> bytes:
    return end.join([b"GET /api/webhook HTTP/1.1", *lines, b"", b""])


def post(*lines: bytes, body: bytes = b"") -> bytes:
    key = b"Authorization: " + SUPER_KEY.encode()
    head = [b"POST /api/webhook HTTP/1.1", b"Host: localhost", key, b"Content-Type: application/json", *lines, b"", b""]
    return b"\r\n".join(head) + body


CHUNKED = b"Transfer-Encoding: chunked"
END = b"0\r\n\r\n"
REFUSED = {
    "transfer encoding twice": post(CHUNKED, CHUNKED, body=END),
    "transfer encoding listed twice": post(b"Transfer-Encoding: chunked, chunked", body=END),
    "another transfer encoding": post(b"Transfer-Encoding: gzip, chunked", body=END),
    "transfer encoding in disguise": post(b"Transfer-Encoding: \x0bchunked", body=END),
    "length and transfer encoding": post(b"Content-Length: 4", CHUNKED, body=END),
    "transfer encoding and length": post(CHUNKED, b"Content-Length: 4", body=END),
    "two lengths": post(b"Content-Length: 2", b"Content-Length: 3", body=b"{} "),
    "equal lengths in a list": post(b"Content-Length: 2, 2", body=b"{}"),
    "equal lengths in a list without a space": post(b"content-length:2,2", body=b"{}"),
    "equal lengths in two headers": post(b"Content-Length: 2", b"Content-Length: 2", body=b"{}"),
    "length with a sign": post(b"Content-Length: +2", body=b"{}"),
    "length with an underscore": post(b"Content-Length: 1_0", body=b"{}        "),
    "length in hexadecimal": post(b"Content-Length: 0x2", body=b"{}"),
    "negative length": post(b"Content-Length: -2", body=b"{}"),
    "chunk size with a sign": post(CHUNKED, body=b"+2\r\n{}\r\n0\r\n\r\n"),
    "chunk size with an underscore": post(CHUNKED, body=b"0_2\r\n{}\r\n0\r\n\r\n"),
    "chunk that is longer than it says": post(CHUNKED, body=b"2\r\n{}x\r\n0\r\n\r\n"),
    "chunk ended by a line feed": post(CHUNKED, body=b"2\n{}\n0\n\n"),
    "two hosts": get(b"Host: localhost", b"Host: evil.example.com"),
    "no host": get(b"Accept: */*"),
    "host with a space": get(b"Host: local host"),
    "folded header": get(b"Host: localhost", b"X-A: b", b" c"),
    "folded first header": get(b" Host: localhost"),
    "space before the colon": get(b"Host: localhost", b"X-A : b"),
    "no colon": get(b"Host: localhost", b"X-A"),
    "NUL in a value": get(b"Host: localhost", b"X-A: a\x00b"),
    "carriage return in a value": get(b"Host: localhost", b"X-A: a\rb"),
    "line feeds alone": get(b"Host: localhost", end=b"\n"),
    "one line feed alone": get(b"Host: localhost", b"X-A: a\nX-B: b"),
    "no version": b"GET /api/webhook\r\n\r\n",
    "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two thousand query parameters": b"GET /api/webhook?" + b"&a=1" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.requirement("attack-65", "audit-a8-content-length")
@pytest.mark.parametrize("name", REFUSED)
async def test_ambiguous_request_is_refused(service, name) -> None:
    """The connection is closed, so that the rest cannot be parsed as another request."""
    smuggled = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await raw(service, REFUSED[name] + smuggled)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.requirement("attack-66")
async def test_oversized_request_head_is_431_or_cut_off(service) -> None:
    answer = await raw(service, get(b"Host: localhost", b"X-A: " + b"a" * 70_000))
    assert answer.startswith(b"HTTP/1.1 431 ")
    many = (b"X-%d: 1" % number for number in range(100_000))
    try:
        answer = await raw(service, get(b"Host: localhost", *many))
    except ConnectionError:
        answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.requirement("attack-66")
async def test_thousands_of_form_arguments_are_refused_early(api) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert codes(await api.post("/api/webhook", content=b"a=1&" * 5000, headers=form)) == {"[UnsupportedContentType]"}


async def test_headers_and_paths_cannot_inject_log_lines(service, api, caplog) -> None:
    caplog.set_level(logging.DEBUG, logger="identity.access")
    with structlog.testing.capture_logs() as logs:
        await api.get("/api/webhook/%0d%0aforged", params={"a": "x\r\nforged"})
        await api.get("/api/webhook", headers={"User-Agent": "forged", "X-Request-Id": "forged id"})
        await api.post("/api/webhook", content=b'{"webhook": "\\r\\nforged"', headers=JSON)
    assert logs
    assert "forged" not in str(logs)


@pytest.mark.requirement("attack-70")
async def test_sent_values_are_not_reflected_in_headers(api) -> None:
    answer = await api.get(
        "/api/webhook/%0d%0aX-Forged:%201", headers={"X-Request-Id": "forged id", "Origin": "https://e"}
    )
    assert "forged" not in str(answer.headers).lower()
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Server"] == "identity"


@pytest.mark.requirement("webhooks-2-6")
async def test_response_members_are_sorted_at_every_level(tenant_api) -> None:
    def is_sorted(members: list[tuple[str, Any]]) -> bool:
        names = [name for name, _ in members]
        assert names == sorted(names)
        return True

    body = {"application": {"name": f"Application {new_id()}", "data": {"b": {"z": 1, "a": 2}, "a": 1}}}
    made = await tenant_api.post("/api/application", json=body)
    for answer in (
        made,
        await tenant_api.get(f"/api/application/{made.json()['application']['id']}"),
        await tenant_api.get("/api/application"),
        await tenant_api.post("/api/application", json={"application": {}}),
    ):
        assert answer.content
        json.loads(answer.content, object_pairs_hook=is_sorted)


@pytest.mark.requirement("audit-d1-null")
@pytest.mark.parametrize(
    "patch_type", [None, "application/json", *(each["Content-Type"] for each in (JSON_PATCH, MERGE_PATCH))]
)
async def test_null_in_free_form_arrays_is_preserved(tenant_api, patch_type) -> None:
    data = {"matrix": [1, None, [None, 2], {"a": [None]}], "none": [None]}
    group = {"name": f"Group {new_id()}"} if patch_type else {"name": f"Group {new_id()}", "data": data}
    made = (await tenant_api.post("/api/group", json={"group": group})).json()["group"]
    path = f"/api/group/{made['id']}"
    if patch_type:
        operations = [{"op": "add", "path": "/group/data", "value": data}]
        patch = operations if "json-patch" in patch_type else {"group": {"data": data}}
        content = {"content": json.dumps(patch), "headers": {"Content-Type": patch_type}}
        made = (await tenant_api.patch(path, **content)).json()["group"]
    assert made["data"] == data
    assert (await tenant_api.get(path)).json()["group"]["data"] == data


@pytest.mark.requirement("audit-d1-null")
async def test_null_in_typed_arrays_is_treated_as_absent(api) -> None:
    made = await webhook(api, tenantIds=[None, DEFAULT_TENANT])
    assert made["tenantIds"] == [DEFAULT_TENANT]
