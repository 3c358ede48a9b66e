"""Searches of users by query strings and Elasticsearch queries, compared with an evaluation in Python."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from identity.domain.objects.index_search import IndexQuery, read
from identity.domain.users import users as rules
from identity.domain.users.users import INDEX_FIELDS, SEARCH_FIELDS
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.store import index_search
from identity.store.cache import ChangeStreamStatus
from identity.store.index_search import SearchTimeoutError
from identity.store.users import Users
from identity.store.vault import Vault
from tests.store.conftest import database_of_its_own

ONE, OTHER = TenantId(new_id()), TenantId(new_id())
NOW = Instant(1_700_000_000_000)
DAY = 86_400_000
APPLICATIONS, GROUPS = [new_id() for _ in range(3)], [new_id() for _ in range(3)]
ROLES = ["admin", "Editor", "read only"]
NAMES = ["Ann", "Bob", "Zoë", "ann (a+b)", "*", 'say "hi"', "AND", "a\\b", "x:y", "Ann Lee"]
COMPANIES: list[Any] = ["PiedPiper", "Hooli", "pied", 7, "7", 7.5, True, "true", ["Hooli", 12], None]
SEED = 20261128

Query = tuple[Any, ...]
"""A query: an operator with its operands, independent of the expressions of the service."""


@pytest.fixture(scope="module")
async def users(stores: Any) -> AsyncIterator[Users]:
    async with database_of_its_own(stores) as database:
        found = Users(database, Vault({"k": b"0" * 32}, b"f" * 32), ChangeStreamStatus())
        await found.ensure_indexes()
        yield found


@pytest.fixture(scope="module")
async def population(users: Users) -> list[dict[str, Any]]:
    """Two hundred users of one tenant; another tenant has the same ones with other ids."""
    chooser = random.Random(SEED)
    people = [make_user(chooser, number) for number in range(200)]
    others = [{**user, "id": new_id(), "tenantId": OTHER} for user in people]
    stored = [await users.encode(user["tenantId"], user) for user in copy.deepcopy([*people, *others])]
    await users.insert_encoded(stored)
    return people


def make_user(chooser: random.Random, number: int) -> dict[str, Any]:
    user: dict[str, Any] = rules.build_user(
        {
            "data": {},
            "passwordChangeRequired": False,
            "preferredLanguages": chooser.sample(["en", "de", "fr"], chooser.randint(0, 2)),
            "twoFactor": {"methods": [], "recoveryCodes": []},
            "usernameStatus": "ACTIVE",
        },
        new_id(),
        ONE,
        Instant(NOW - chooser.randint(0, 400) * DAY),
    )
    user |= {"active": chooser.random() < 0.7, "verified": chooser.random() < 0.5}
    optional: dict[str, Any] = {
        "firstName": chooser.choice(NAMES),
        "fullName": f"{chooser.choice(NAMES)} {number % 20}",
        "birthDate": f"{chooser.randint(1980, 2010)}-0{chooser.randint(1, 9)}-11",
        "lastLoginInstant": NOW - chooser.randint(0, 100) * DAY,
        "username": f"{chooser.choice(NAMES)}{number}",
    }
    user |= {name: value for name, value in optional.items() if chooser.random() < 0.7}
    user["email"] = f"{chooser.choice(['ann', 'bob', 'c.d'])}{number}@{chooser.choice(['example.com', 'acme.test'])}"
    company = chooser.choice(COMPANIES)
    user["data"] = {"salary": chooser.randint(0, 9), **({} if company is None else {"company": company})}
    user["data"]["home"] = {"town": chooser.choice(["Ulm", "ulm", "Köln"])}
    if number % 10 == 0:
        user["data"]["many"] = list(range(70))
    user["registrations"] = [
        {
            "applicationId": application,
            "roles": chooser.sample(ROLES, chooser.randint(0, 2)),
            "verified": chooser.random() < 0.5,
            "insertInstant": NOW - chooser.randint(0, 50) * DAY,
            "data": {"plan": chooser.choice(["Gold", "free", 3])},
        }
        for application in chooser.sample(APPLICATIONS, chooser.randint(0, 2))
    ]
    user["memberships"] = [
        {"groupId": group, "id": new_id(), "data": {}} for group in chooser.sample(GROUPS, chooser.randint(0, 2))
    ]
    made: dict[str, Any] = rules.with_derived_members(rules.with_unique_username(user))
    if number % 10 == 1:
        del made["private"]["dataTerms"]  # as an earlier release stored the user
    return made


# Random queries

TEXTS = {
    "firstName": NAMES,
    "fullName": [f"{name} 3" for name in NAMES],
    "email": ["ann3@example.com", "BOB4@acme.test"],
}
INSTANTS = ("insertInstant", "lastLoginInstant")
DATA = {"data.company": COMPANIES[:-2], "data.home.town": ["ULM", "Köln", "Bonn"], "data.salary": [3, 11]}
LISTED: dict[str, list[Any]] = {
    "registrations.applicationId": APPLICATIONS,
    "registrations.roles": ROLES,
    "registrations.verified": [True, False],
    "registrations.data.plan": ["GOLD", 3, "x"],
    "memberships.groupId": GROUPS,
}


def condition(chooser: random.Random, prefix: str = "") -> Query:
    """Return a random condition, of the fields with a prefix if one is given."""
    equal = {**TEXTS, **DATA, **LISTED, "verified": [True, False], "preferredLanguages": ["EN", "de"]}
    names = [name for name in equal if name.startswith(prefix)]
    kind = chooser.choice(["equals", "equals", "equals", "prefix", "contains", "range", "exists", "term"])
    if kind == "range" and not prefix:
        name = chooser.choice([*INSTANTS, "birthDate", "data.salary"])
        low, high = sorted(chooser.randint(0, 12) for _ in range(2))
        values: list[Any] = [low, high]
        if name in INSTANTS:
            values = [NOW - (13 - each) * 20 * DAY for each in (low, high)]
        elif name == "birthDate":
            values = [f"{1985 + each}-01-01" for each in (low, high)]
        limits = [None if chooser.random() < 0.2 else value for value in values]
        return ("range", name, *limits, chooser.random() < 0.5, chooser.random() < 0.5)
    if kind == "exists" and not prefix:
        return ("exists", chooser.choice(["data.company", "lastLoginInstant", "firstName", "preferredLanguages"]))
    if kind == "term" and not prefix:
        return ("term", chooser.choice([*NAMES, "ann3@example.com"]))
    if kind in {"prefix", "contains"}:
        patterned = [name for name in names if name in {*TEXTS, "registrations.roles", "data.home.town"}]
        if patterned:
            name = chooser.choice(patterned)
            value = str(chooser.choice(equal[name]))
            start = chooser.randint(0, len(value) - 1)
            return (kind, name, value[: start + 1] if kind == "prefix" else value[start : start + 2])
    name = chooser.choice(names)
    return ("equals", name, *chooser.sample(equal[name], 1 if chooser.random() < 0.7 else min(2, len(equal[name]))))


def random_query(chooser: random.Random, depth: int = 0) -> Query:
    kind = chooser.choice(["and", "or", "not", "condition", "condition"]) if depth < 3 else "condition"
    if kind == "condition":
        return condition(chooser)
    if kind == "not":
        return ("not", random_query(chooser, depth + 1))
    return (kind, *(random_query(chooser, depth + 1) for _ in range(chooser.randint(2, 3))))


# Evaluation in Python


def leaves(value: Any, path: list[str]) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from leaves(item, path)
    elif path and isinstance(value, Mapping):
        if path[0] in value:
            yield from leaves(value[path[0]], path[1:])
    elif not path and value is not None:
        yield value


def is_equal(stored: Any, wanted: Any) -> bool:
    """Whether a stored value equals a value of a query: texts in any case, numbers also as texts."""
    texts = [json.dumps(value) if isinstance(value, bool) else str(value).lower() for value in (stored, wanted)]
    return texts[0] == texts[1]


def holds(query: Query, user: Mapping[str, Any]) -> bool:
    operator, *operands = query
    match operator:
        case "and":
            return all(holds(operand, user) for operand in operands)
        case "or":
            return any(holds(operand, user) for operand in operands)
        case "not":
            return not holds(operands[0], user)
        case "nested":
            return any(holds(operands[1], {operands[0]: [item]}) for item in user[operands[0]])
        case "term":
            names = (*SEARCH_FIELDS, "uniqueUsername")
            return any(is_equal(user[name], operands[0]) for name in names if name in user)
        case _:
            found = leaves(user, operands[0].split("."))
            return any(COMPARISONS[operator](value, *operands[1:]) for value in found)


def is_within(value: Any, lower: Any, upper: Any, includes_lower: bool, includes_upper: bool) -> bool:
    above = lower is None or value > lower or (includes_lower and value == lower)
    return above and (upper is None or value < upper or (includes_upper and value == upper))


COMPARISONS: dict[str, Callable[..., bool]] = {
    "equals": lambda value, *wanted: any(is_equal(value, each) for each in wanted),
    "prefix": lambda value, start: str(value).lower().startswith(start.lower()),
    "contains": lambda value, part: part.lower() in str(value).lower(),
    "exists": lambda _: True,
    "range": is_within,
}


# The two syntaxes


def escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in '\\+-!(){}[]^"~*?:/&| ' else letter for letter in text)


def spelled(value: Any) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    return f'"{value}"' if isinstance(value, str) and not set(value) & {'"', "\\"} else quoted_or_escaped(value)


def quoted_or_escaped(value: Any) -> str:
    text = escaped(str(value))
    return f"\\{text}" if text in {"AND", "OR", "NOT"} else text


def as_query_string(query: Query) -> str:
    operator, *operands = query
    match operator:
        case "and" | "or":
            return "(" + f" {operator.upper()} ".join(map(as_query_string, operands)) + ")"
        case "not":
            return f"NOT {as_query_string(operands[0])}"
        case "term":
            return spelled(operands[0])
        case "exists":
            return f"_exists_:{operands[0]}"
        case _:
            return f"{operands[0]}:{compared(operator, *operands[1:])}"


def compared(operator: str, *operands: Any) -> str:
    """Return what follows the name of a field in a query string."""
    if operator == "range":
        lower, upper, includes_lower, includes_upper = operands
        limits = " TO ".join("*" if limit is None else str(limit) for limit in (lower, upper))
        return f"{'[' if includes_lower else '{'}{limits}{']' if includes_upper else '}'}"
    if operator == "equals":
        return f"({' OR '.join(map(spelled, operands))})" if len(operands) > 1 else spelled(operands[0])
    return f"{'*' if operator == 'contains' else ''}{escaped(operands[0])}*"


def as_document(query: Query) -> dict[str, Any]:
    operator, *operands = query
    match operator:
        case "and":
            return {"bool": {"must": [as_document(operand) for operand in operands]}}
        case "or":
            return {"bool": {"should": [as_document(operand) for operand in operands]}}
        case "not":
            return {"bool": {"must_not": as_document(operands[0])}}
        case "nested":
            return {"nested": {"path": operands[0], "query": as_document(operands[1])}}
        case "term":
            return {"query_string": {"query": spelled(operands[0])}}
        case _:
            return DOCUMENTS[operator](*operands)


DOCUMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "equals": lambda name, *values: {"terms": {name: values}} if len(values) > 1 else {"match": {name: values[0]}},
    "prefix": lambda name, start: {"prefix": {name: {"value": start}}},
    "contains": lambda name, part: {"wildcard": {name: {"value": f"*{escaped(part)}*"}}},
    "exists": lambda name: {"exists": {"field": name}},
    "range": lambda name, lower, upper, includes_lower, includes_upper: {
        "range": {name: {"gte" if includes_lower else "gt": lower, "lte" if includes_upper else "lt": upper}}
    },
}


def joins_items(query: Query) -> bool:
    """Whether a conjunction has conditions on one list, which the service applies to the same item."""
    operator, *operands = query
    if operator not in {"and", "or", "not"}:
        return False
    lists = [prefix for operand in operands for prefix in lists_of(operand)]
    return any(map(joins_items, operands)) or (operator == "and" and len(lists) != len(set(lists)))


def lists_of(query: Query) -> set[str]:
    operator, *operands = query
    if operator in {"and", "or"}:
        return {prefix for operand in operands for prefix in lists_of(operand)}
    return {operands[0].split(".")[0]} & {"registrations", "memberships"} if operator not in {"not", "term"} else set()


async def found_by(users: Users, **criteria: Any) -> set[str]:
    query = read(INDEX_FIELDS, criteria, "search.", NOW)
    return set(await users.ids(ONE, query, 10_000))


@pytest.mark.requirement("core-10-18", "core-12-5")
async def test_random_queries_find_the_same_users_as_an_evaluation_in_python(users, population) -> None:
    chooser = random.Random(SEED)
    queries = [query for _ in range(150) if not joins_items(query := random_query(chooser))]
    sizes = []
    for query in queries:
        expected = {user["id"] for user in population if holds(query, user)}
        text = as_query_string(query)
        assert await found_by(users, queryString=text) == expected, text
        document = json.dumps(as_document(query))
        assert await found_by(users, query=document) == expected, document
        sizes.append(len(expected))
    assert len([size for size in sizes if 0 < size < len(population)]) > 70


@pytest.mark.requirement("core-10-18", "core-12-5")
async def test_nested_queries_concern_one_item_of_a_list(users, population) -> None:
    chooser = random.Random(SEED)
    for _ in range(50):
        parts = [condition(chooser, "registrations") for _ in range(2)]
        inner = chooser.choice([("and", *parts), ("or", *parts), ("and", parts[0], ("not", parts[1]))])
        query = ("nested", "registrations", inner)
        expected = {user["id"] for user in population if holds(query, user)}
        assert await found_by(users, query=json.dumps(as_document(query))) == expected, query


async def test_conditions_on_different_fields_of_a_list_concern_the_same_item(users, population) -> None:
    first, second = APPLICATIONS[:2]
    admin = ("and", ("equals", "registrations.applicationId", first), ("equals", "registrations.roles", "admin"))
    either = ("or", ("equals", "registrations.roles", "admin"), ("equals", "registrations.roles", "Editor"))
    for inner in (admin, ("and", admin[1], either)):
        expected = {user["id"] for user in population if holds(("nested", "registrations", inner), user)}
        assert expected < {user["id"] for user in population if holds(inner, user)}
        assert await found_by(users, queryString=as_query_string(inner)) == expected
        assert await found_by(users, query=json.dumps(as_document(inner))) == expected
    # Two conditions on one field can only hold for two items.
    both = ("and", admin[1], ("equals", "registrations.applicationId", second))
    expected = {user["id"] for user in population if holds(both, user)}
    assert expected
    assert await found_by(users, queryString=as_query_string(both)) == expected


async def test_search_finds_no_user_of_another_tenant(users, population) -> None:
    for text in ("*", f"tenantId:{OTHER} OR active:true OR active:false", f"NOT tenantId:{ONE}", "NOT fullName:x"):
        assert await found_by(users, queryString=text) <= {user["id"] for user in population}, text
    assert await found_by(users, queryString=f"tenantId:{OTHER}") == set()
    every = read(INDEX_FIELDS, {"queryString": "*"}, "", NOW)
    assert (await users.search_index_across_tenants(every))[0] == 400


# Indexes

INDEXED = [
    "email:ann3@example.com", "email:ann12*", "ann3@example.com", "ann12*", 'fullName:"Ann 3"', "id:{user}",
    "registrations.applicationId:{application}",
    "registrations.applicationId:{application} AND registrations.roles:admin",
    "memberships.groupId:{group}", "insertInstant:>=2023-11-01", "lastLoginInstant:[now-5d TO *]", "login:ann3*",
    "email:ann3@example.com OR registrations.applicationId:{application}", "NOT active:true AND email:ann3@example.com",
    "phoneNumber:+1303*", "uniqueUsername:bob1*", "username:(bob1 OR bob2)",
]  # fmt: skip
OF_ALL_TENANTS = [text for text in INDEXED if not text.startswith(("lastLogin", "phone", "uniqueUsername"))]


@pytest.mark.requirement("core-12-9")
@pytest.mark.parametrize("text", INDEXED)
async def test_indexed_fields_are_found_in_an_index(users, population, text) -> None:
    query = named(text, population)
    assert index_search.search_filters.is_indexed(INDEX_FIELDS, query.expression, users.indexed)
    scopes = [{"tenantId": ONE}, *([{}] if text in OF_ALL_TENANTS else [])]
    for scope in scopes:
        command = {"find": "users", "filter": users._filter(scope, query)}
        explained = await users._database.motor.command({"explain": command, "verbosity": "executionStats"})
        assert "COLLSCAN" not in json.dumps(explained["queryPlanner"], default=str), text
        stats = explained["executionStats"]
        assert stats["totalDocsExamined"] <= max(2, 3 * stats["nReturned"]), text


@pytest.mark.parametrize("text", ["data.home.town:Bonn", "data.home.town:bo*", "data.company:7 AND data.salary:>3"])
async def test_values_of_custom_data_are_found_in_an_index(users, population, text) -> None:
    query = named(text)
    for scope in ({"tenantId": ONE}, {}):
        command = {"find": "users", "filter": users._filter(scope, query)}
        explained = await users._database.motor.command({"explain": command, "verbosity": "executionStats"})
        stats = explained["executionStats"]
        # A tenth of the users has no terms, and one has too many values for them.
        assert stats["totalDocsExamined"] <= (1 if scope else 2) * 200 * 0.4, text


def named(text: str, population: list[dict[str, Any]] | None = None) -> IndexQuery:
    user_id = population[0]["id"] if population else ""
    names = {"user": user_id, "application": APPLICATIONS[0], "group": GROUPS[0]}
    return read(INDEX_FIELDS, {"queryString": text.format(**names)}, "", NOW)


@pytest.mark.parametrize(
    "text", ["data.salary:3", "email:*e3*", "NOT email:ann3@example.com", "email:a* OR active:true"]
)
async def test_search_without_an_index_is_known_to_be_one(users, text) -> None:
    assert not index_search.search_filters.is_indexed(INDEX_FIELDS, named(text).expression, users.indexed)


async def test_search_that_no_index_serves_is_stopped_by_the_server(users, monkeypatch) -> None:
    rows = [{"_id": new_id(), "tenantId": OTHER, "data": {"x": "a" * 200}} for _ in range(20_000)]
    await users._collection.insert_many(rows)
    monkeypatch.setattr(index_search, "SEARCH_MILLISECONDS", 1)
    with pytest.raises(SearchTimeoutError):
        await users.search_index(OTHER, named("data.x:*a*b"))
    # It is no outage.
    assert await users.existing_ids(OTHER, [rows[0]["_id"]])
