"""Searches of users and entities over HTTP, as FusionAuth's documentation and its tools send them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.ids import base64url, new_id
from identity.store import index_search
from tests import internals, plain_http
from tests.conftest import DEFAULT_TENANT, SUPER_KEY

Document = dict[str, Any]
Make = Callable[..., Awaitable[Document]]
CHEAP = {"encryptionScheme": "salted-hmac-sha256", "factor": 1, "password": "a password of the tests"}


def codes(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {entry["code"] for entries in answer.json()["fieldErrors"].values() for entry in entries}


async def make(api: httpx.AsyncClient, name: str, **members: Any) -> Document:
    registrations = members.pop("registrations", [])
    user = {"email": f"{name[:9]}-{new_id()}@example.com", "firstName": name, **CHEAP, **members}
    answer = await api.post("/api/user", json={"user": user})
    assert answer.status_code == 200, answer.text
    made: Document = answer.json()["user"]
    for registration in registrations:
        answer = await api.post(f"/api/user/registration/{made['id']}", json={"registration": registration})
        assert answer.status_code == 200, answer.text
    return made


async def application(api: httpx.AsyncClient, *roles: str) -> str:
    body = {"application": {"name": new_id(), "roles": [{"name": role} for role in roles]}}
    answer = await api.post("/api/application", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["application"]["id"])


async def search(api: httpx.AsyncClient, **criteria: Any) -> httpx.Response:
    return await api.post("/api/user/search", json={"search": criteria})


async def names(api: httpx.AsyncClient, **criteria: Any) -> set[str]:
    answer = await search(api, **criteria)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] == len(answer.json()["users"])
    return {user["firstName"] for user in answer.json()["users"]}


@pytest.mark.requirement("core-12-5", "users-2-15")
async def test_published_command_line_counts_the_administrators(service, api, tenant_api) -> None:
    """`fusionauth check:common-config` looks up the application and sends this search, without a tenant."""
    # Unchecked: other tests store users that lack required members.
    async with plain_http.client(service.base_url, headers={"Authorization": SUPER_KEY}) as everywhere:
        named = await everywhere.post("/api/application/search", json={"search": {"name": "FusionAuth"}})
        found = named.json()["applications"][0]["id"]
        assert found == ADMINISTRATOR_APPLICATION_ID
        query = f"registrations.applicationId:{found} AND registrations.roles:admin"

        async def count() -> int:
            answer = await search(everywhere, queryString=query, accurateTotal=True)
            assert answer.status_code == 200, answer.text
            return int(answer.json()["total"])

        before = await count()
        administrator = {"applicationId": found, "roles": ["admin"]}
        for _ in range(2):
            await make(api, "administrator", registrations=[administrator])
        # Neither another role of the application, nor the role of another application counts.
        other = {"applicationId": await application(api, "admin"), "roles": ["admin"]}
        await make(
            api,
            "editor",
            registrations=[
                {"applicationId": found, "roles": ["tenant-admin"], "data": {"tenantId": DEFAULT_TENANT}},
                other,
            ],
        )
        await make(api, "customer", registrations=[other])
        assert await count() == before + 2


@pytest.fixture
async def people(tenant_api: httpx.AsyncClient) -> Document:
    """Users like those of the published examples: the ids that queries name."""
    paid, free = await application(tenant_api, "admin", "viewer"), await application(tenant_api)
    group = await tenant_api.post("/api/group", json={"group": {"name": new_id()}})
    group_id = group.json()["group"]["id"]
    dinesh = await make(
        tenant_api,
        "dinesh",
        email="dinesh@fusionauth.io",
        data={"Company": "PiedPiper", "salary": 90_000, "userMigrated": True},
        phoneNumber="+13035551212",
        birthDate="1990-05-17",
        registrations=[
            {"applicationId": paid, "roles": ["admin"], "data": {"minprice": 60_000, "paid": False}},
            {"applicationId": free},
        ],
    )
    await make(
        tenant_api,
        "erlich",
        email="erlich@fusionauth.io",
        username="O'Neil: the (real) one",
        data={"Company": "piedpiper", "salary": 150_000},
        registrations=[{"applicationId": paid, "roles": ["viewer"], "data": {"minprice": 10}}],
    )
    await make(tenant_api, "gavin", email="gavin@hooli.com", data={"Company": "Hooli"})
    await tenant_api.post("/api/group/member", json={"members": {group_id: [{"userId": dinesh["id"]}]}})
    return {"paid": paid, "free": free, "group": group_id, "tenant": dinesh["tenantId"], "dinesh": dinesh["id"]}


QUERY_STRINGS = [
    ("email:dinesh*", "dinesh"),
    ("email:dinesh", ""),
    ("email:DINESH@fusionauth.io", "dinesh"),
    ("email:*@fusionauth.io", "dinesh erlich"),
    ("dinesh@fusionauth.io OR verified:true", "dinesh"),
    ("memberships.groupId:{group}", "dinesh"),
    ("tenantId:{tenant}", "dinesh erlich gavin"),
    ("phoneNumber:*303*", "dinesh"),
    ("registrations.applicationId:{paid}", "dinesh erlich"),
    ("registrations.applicationId:{paid} AND NOT registrations.applicationId:{free}", "erlich"),
    ("(registrations.roles :admin) AND (active:true)", "dinesh"),
    ("data.Company:piedpiper AND data.salary:<100000", "dinesh"),
    ("data.Company:(PiedPiper OR Hooli) AND -email:gavin*", "dinesh erlich"),
    ("data.userMigrated:true", "dinesh"),
    ("_exists_:data.salary AND !data.salary:[* TO 100000]", "erlich"),
    ("data.salary:(>=90000 AND <=90000)", "dinesh"),
    ("birthDate:[1990-01-01 TO 1990-12-31]", "dinesh"),
    ("birthDate:[* TO now-18y]", "dinesh"),
    ("insertInstant:>now-1d", "dinesh erlich gavin"),
    ("insertInstant:{now TO *]", ""),
    ("+firstName:(dinesh gavin) -email:gavin@hooli.com", ""),
    ('+firstName:("dinesh" "gavin") -email:gavin@hooli.com', "dinesh"),
    ('"O\'Neil: the (real) one"', "erlich"),
    (r"username:O'Neil\:\ the\ \(real\)\ one", "erlich"),
    ("*:*", "dinesh erlich gavin"),
    ("d?nesh", "dinesh"),
    ("firstName:dinesh OR firstName:erlich AND data.salary:1", "dinesh"),
    ("id:{dinesh}", "dinesh"),
]


@pytest.mark.requirement("core-12-5", "users-2-15")
@pytest.mark.parametrize(("text", "expected"), QUERY_STRINGS)
async def test_query_strings_find_users(tenant_api, people, text, expected) -> None:
    for name, value in people.items():
        text = text.replace(f"{{{name}}}", value)
    assert await names(tenant_api, queryString=text) == set(expected.split())


MATCHED: list[tuple[Any, str]] = [
    ({"match": {"email": {"query": "dinesh@fusionauth.io"}}}, "dinesh"),
    ({"match": {"data.Company": {"query": "PIEDPIPER"}}}, "dinesh erlich"),
    ({"match": {"data.company": {"query": "PiedPiper"}}}, ""),
    ({"match": {"data.userMigrated": {"query": "true"}}}, "dinesh"),
    ({"constant_score": {"filter": {"exists": {"field": "data.userMigrated"}}}}, "dinesh"),
    (
        {"bool": {"must": {"match": {"data.Company": "PiedPiper"}}, "must_not": {"term": {"email": "erlich*"}}}},
        "dinesh erlich",
    ),
    (
        {
            "bool": {
                "must": [
                    [
                        {
                            "nested": {
                                "path": "registrations",
                                "query": {
                                    "bool": {
                                        "must": [
                                            {"match": {"registrations.applicationId": "{paid}"}},
                                            {"match": {"registrations.roles": "admin"}},
                                        ]
                                    }
                                },
                            }
                        }
                    ]
                ]
            }
        },
        "dinesh",
    ),
    (
        {
            "nested": {
                "path": "registrations",
                "query": {"range": {"registrations.data.minprice": {"gte": 50_000, "lte": 100_000}}},
            }
        },
        "dinesh",
    ),
    ({"nested": {"path": "registrations", "query": {"term": {"registrations.verified": True}}}}, "dinesh erlich"),
    (
        {
            "bool": {
                "must": [
                    {"range": {"data.salary": {"lt": 100_000}}},
                    {"match": {"data.Company": {"query": "PiedPiper"}}},
                    {"term": {"active": "true"}},
                ],
                "filter": {"nested": {"path": "registrations", "query": {"match": {"registrations.data.paid": False}}}},
            }
        },
        "dinesh",
    ),
    ({"wildcard": {"phoneNumber": {"value": "*303555*"}}}, "dinesh"),
    ({"prefix": {"email": "GAVIN"}}, "gavin"),
    ({"terms": {"firstName": ["gavin", "Erlich", "x"], "boost": 1.0}}, "gavin erlich"),
    ({"ids": {"values": ["{dinesh}"]}}, "dinesh"),
    ({"match_all": {}}, "dinesh erlich gavin"),
    ({"match_none": {}}, ""),
    ({"query_string": {"query": "hooli gavin", "default_field": "firstName"}}, ""),
    ({"query_string": {"query": "email:gavin* verified:false", "default_operator": "AND"}}, "gavin"),
    ({"bool": {"should": [{"term": {"firstName": "gavin"}}, {"term": {"firstName": "erlich"}}]}}, "gavin erlich"),
    ({"bool": {"must": {"match_all": {}}, "should": {"term": {"firstName": "x"}}}}, "dinesh erlich gavin"),
    (
        {
            "bool": {
                "should": [{"prefix": {"email": "d"}}, {"exists": {"field": "data.salary"}}],
                "minimum_should_match": 2,
            }
        },
        "dinesh",
    ),
    ({"match_phrase": {"username": "o'neil: the (real) one"}}, "erlich"),
    ({"range": {"insertInstant": {"gte": "now-1h", "format": "strict_date_optional_time"}}}, "dinesh erlich gavin"),
]


@pytest.mark.requirement("core-12-5", "users-2-15")
@pytest.mark.parametrize(("query", "expected"), MATCHED, ids=[json.dumps(query)[:60] for query, _ in MATCHED])
async def test_elasticsearch_queries_find_users(tenant_api, people, query, expected) -> None:
    text = json.dumps(query)
    for name, value in people.items():
        text = text.replace(f"{{{name}}}", value)
    assert await names(tenant_api, query=text, queryString="is ignored") == set(expected.split())
    by_parameter = await tenant_api.get("/api/user/search", params={"query": text})
    assert {user["firstName"] for user in by_parameter.json()["users"]} == set(expected.split())


REFUSED = [
    "(" * 10_000, ")" * 100, "(" * 100 + "a" + ")" * 100, "NOT " * 2000, " OR ".join(["email:*a*"] * 200), "a" * 4097,
    "(a", "a)", '"a', "a AND", "AND a", "a OR OR b", "NOT", "email:", "email:AND", "email:(", "email:()", "()",
    "email:[a", "email:[a TO", "email:[a b]", "firstName:[a TO b]", "active:[true TO false]", "[a TO b]", "email:]",
    "data.x:[1 TO b]", "roam~", '"a b"~2', "a^2", "/a.*/", "email:/a/", "em*:x", "data.*:x", ":x", "*:x", "email:\\",
    "password:x", "private.password.hash:x", "salt:x", "data:x", "data.$where:1", "data.x.$ne:1", "data..x:1",
    "data." + "x." * 20 + "x:1", "registrations.authenticationToken:x", "twoFactor.methods.secret:x", "$where:1",
    "twoFactor.recoveryCodes:x", "active:maybe", "active:tr*", "insertInstant:yesterday", "insertInstant:2026*",
    "insertInstant:now-99999999d", "insertInstant:2026-99-99", "birthDate:1990", "id:x", "tenantId:x",
    "registrations.applicationId:x", "_exists_:", "_exists_:password", "_exists_:(a)", "a\x00", "data.\x00:1",
    "registrations.data:x", "a{1,9}", "[", "\\", "email:>", "_missing_:email", "insertInstant:99999999999999999999",
]  # fmt: skip


@pytest.mark.requirement("attack-69", "core-12-5", "users-2-15")
@pytest.mark.parametrize("text", REFUSED, ids=[ascii(text)[:30] for text in REFUSED])
async def test_unsupported_query_strings_are_refused(tenant_api, text) -> None:
    assert codes(await search(tenant_api, queryString=text)) == {"[invalid]search.queryString"}
    removed = await tenant_api.request("DELETE", "/api/user/bulk", json={"queryString": text})
    assert codes(removed) == {"[tooLong]queryString" if len(text) > 4096 else "[invalid]queryString"}


@pytest.mark.requirement("attack-69")
@pytest.mark.parametrize(
    "text",
    [
        *("(a+)+$", ".*.*.*.*x", "*a*", "*" * 300, "*a" * 400, "?" * 400, "a" * 400, "$where", "İßﬁ*", "🙂", "\u202e*"),
        " OR ".join(f"term{number}" for number in range(300)),
        "data.x:" + "*a" * 400,
        "fullName:(" + " OR ".join(f"*{number}*" for number in range(60)) + ")",
    ],
    ids=lambda text: ascii(text)[:30],
)
async def test_hostile_query_strings_are_harmless(tenant_api, text) -> None:
    await make(tenant_api, "a" * 200, data={"x": "a" * 20_000})
    answer = await search(tenant_api, queryString=text)
    assert answer.status_code == 200, answer.text


DEEP = '{"bool": {"must": ' * 400 + '{"match_all": {}}' + "}}" * 400
UNSUPPORTED_QUERIES = [
    "x", "[]", "{}", "5", "null", '{"x": 1}', "[" * 60_000, DEEP, '{"match_all": 5}', '{"match_all": {"x": 1}}',
    '{"query": {"match_all": {}}}', '{"script": {"script": "1"}}', '{"regexp": {"email": "a.*"}}', '{"match": {}}',
    '{"fuzzy": {"email": "a"}}', '{"match": {"email": null}}', '{"match": {"email": {"query": "a", "fuzziness": 1}}}',
    '{"match": {"email": ["a"]}}', '{"match": {"email": {"$ne": 1}}}', '{"term": {"$where": "1"}}',
    '{"term": {"password": "x"}}', '{"terms": {"email": "a"}}', '{"terms": {"email": ["a"], "username": ["b"]}}',
    '{"terms": {"email": [' + ",".join(['"a"'] * 1025) + "]}}", '{"terms": {"email": [{"$gt": ""}]}}',
    '{"range": {"data.x": {"gte": 1, "gt": 2}}}', '{"range": {"data.x": {"gte": 1e999}}}', '{"range": {"email": 5}}',
    '{"range": {"data.x": {"gte": 1, "lte": "b"}}}', '{"range": {"insertInstant": {"gte": 1, "time_zone": "+1"}}}',
    '{"range": {"insertInstant": {"gte": 1, "format": "yyyy"}}}', '{"term": {"data.x": 12345678901234567890}}',
    '{"term": {"data.x": NaN}}', '{"exists": {}}', '{"exists": {"field": "private"}}', '{"exists": {"field": 5}}',
    '{"nested": {"path": "private", "query": {"match_all": {}}}}', '{"nested": {"query": {"match_all": {}}}}',
    '{"nested": {"path": "registrations", "query": {"term": {"email": "x"}}}}',
    '{"nested": {"path": "registrations", "query": {"query_string": {"query": "x"}}}}',
    '{"bool": {"must": "x"}}', '{"bool": {"most": []}}', '{"bool": {"should": [], "minimum_should_match": "75%"}}',
    '{"bool": {"must": [' + ",".join(['{"wildcard": {"email": "*a*"}}'] * 65) + "]}}",
    '{"query_string": {"query": "(a"}}', '{"query_string": {"query": 5}}', '{"constant_score": {}}',
    '{"query_string": {"query": "a", "default_operator": "xor"}}', '{"query_string": {"query": "a", "fuzziness": 1}}',
    '{"\\ud800": 1}', '{"term": {"\\ud800": 1}}',
    '{"match_all": {}, "match_none": {}}', '{"term": {"email": "\\ud800"}}', '{"prefix": {"email": "a\\u0000"}}',
]  # fmt: skip


@pytest.mark.requirement("attack-69", "core-12-5", "users-2-15")
@pytest.mark.parametrize("text", UNSUPPORTED_QUERIES, ids=[text[:40] for text in UNSUPPORTED_QUERIES])
async def test_unsupported_elasticsearch_queries_are_refused(tenant_api, text) -> None:
    assert codes(await search(tenant_api, query=text)) == {"[invalid]search.query"}
    removed = await tenant_api.request("DELETE", "/api/user/bulk", json={"query": text})
    assert codes(removed) == {"[invalid]query"}


@pytest.mark.requirement("core-12-7")
async def test_next_results_continue_a_query(tenant_api) -> None:
    for number in range(5):
        await make(tenant_api, f"n{number}", data={"kind": "x"})
    await make(tenant_api, "other")
    criteria: Document = {
        "query": '{"match": {"data.kind": "x"}}', "sortFields": [{"name": "email"}], "numberOfResults": 2,
    }  # fmt: skip
    seen = []
    while criteria:
        answer = (await search(tenant_api, **criteria)).json()
        assert answer["total"] == 5
        seen += [user["firstName"] for user in answer["users"]]
        criteria = {"nextResults": answer["nextResults"]} if "nextResults" in answer else {}
    assert seen == ["n0", "n1", "n2", "n3", "n4"]
    forged = base64url(json.dumps({"queryString": "\ud800:x"}).encode())
    assert codes(await search(tenant_api, nextResults=forged)) == {"[invalid]search.queryString"}


@pytest.mark.requirement("users-2.1-10")
async def test_bulk_deletion_selects_users_by_queries(tenant_api, people) -> None:
    verified = {
        "nested": {
            "path": "registrations",
            "query": {
                "bool": {
                    "must": [
                        {"match": {"registrations.applicationId": people["free"]}},
                        {"match": {"registrations.verified": True}},
                    ]
                }
            },
        }
    }
    query = json.dumps({"bool": {"must": [verified]}})

    async def remove(**body: Any) -> Document:
        answer = await tenant_api.request("DELETE", "/api/user/bulk", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    assert (await remove(query=query, queryString="*", dryRun=True, hardDelete=True))["userIds"] == [people["dinesh"]]
    assert await names(tenant_api) == {"dinesh", "erlich", "gavin"}
    assert (await remove(query=query, hardDelete=True))["total"] == 1
    assert await names(tenant_api) == {"erlich", "gavin"}
    by_parameter = {"queryString": "data.Company:hooli OR email:x*", "hardDelete": "true"}
    assert (await tenant_api.delete("/api/user/bulk", params=by_parameter)).json()["total"] == 1
    assert await names(tenant_api) == {"erlich"}


@pytest.mark.requirement("users-2.1-10")
@pytest.mark.parametrize("body", [{"queryString": " "}, {"query": " "}, {"queryString": "", "query": ""}])
async def test_blank_query_deletes_nobody(tenant_api, body) -> None:
    await make(tenant_api, "kept")
    answer = await tenant_api.request("DELETE", "/api/user/bulk", json=body)
    assert codes(answer) == {"[missing]userIds"}
    assert (await tenant_api.delete("/api/user/bulk", params=body)).status_code == 400
    assert await names(tenant_api, queryString="active:true") == {"kept"}


@pytest.mark.requirement("core-10-17", "core-10-18")
async def test_entities_are_found_by_the_same_queries(tenant_api) -> None:
    answer = await tenant_api.post("/api/entity/type", json={"entityType": {"name": new_id()}})
    entity_type = answer.json()["entityType"]
    for name, data in (("Ann Lee", {"plan": "Gold"}), ("Bob", {"plan": "free", "seats": 5}), ("Cy", {})):
        entity = {"name": name, "type": {"id": entity_type["id"]}, "data": data}
        assert (await tenant_api.post("/api/entity", json={"entity": entity})).status_code == 200

    async def found(**criteria: Any) -> set[str]:
        answer = await tenant_api.post("/api/entity/search", json={"search": criteria})
        assert answer.status_code == 200, answer.text
        return {entity["name"] for entity in answer.json()["entities"]}

    assert await found(queryString=f"typeId:{entity_type['id']} AND NOT name:cy") == {"Ann Lee", "Bob"}
    assert await found(queryString="data.plan:gold OR data.seats:>=5") == {"Ann Lee", "Bob"}
    assert await found(queryString="name:ann*") == {"Ann Lee"}
    assert await found(query='{"bool": {"must_not": {"exists": {"field": "data.plan"}}}}') == {"Cy"}
    answer = await tenant_api.post("/api/entity/search", json={"search": {"queryString": "clientSecret:*"}})
    assert codes(answer) == {"[invalid]search.queryString"}


async def test_search_that_takes_too_long_is_refused(service, tenant_api, monkeypatch) -> None:
    async def stopped(*_: Any) -> None:
        raise index_search.SearchTimeoutError

    store = internals.store(service, "users")
    for name in ("search_index", "ids"):
        monkeypatch.setattr(store, name, stopped)
    answer = await search(tenant_api, queryString="data.x:1")
    assert codes(answer) == {"[invalid]search.queryString"}
    assert "takes too long" in answer.text
    assert codes(await search(tenant_api, query='{"match_all": {}}')) == {"[invalid]search.query"}
    removed = await tenant_api.request("DELETE", "/api/user/bulk", json={"queryString": "data.x:1"})
    assert codes(removed) == {"[invalid]queryString"}
