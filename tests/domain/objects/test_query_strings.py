"""The grammar of query strings, and that any text is either understood or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from identity.domain.objects import query_documents, query_strings
from identity.domain.objects.search_expressions import (
    EVERYTHING,
    MAXIMUM_CONDITIONS,
    All,
    AnyOf,
    Equals,
    Exists,
    Expression,
    Matches,
    Nested,
    Not,
    QueryError,
    Range,
    Wildcard,
    require_bounded,
)
from identity.domain.users.users import INDEX_FIELDS
from identity.ids import new_id
from identity.instants import Instant

NOW = Instant(1_700_000_000_000)
DAY = 86_400_000


def parse(text: str) -> Expression:
    return query_strings.parse(INDEX_FIELDS, text, NOW)


def term(text: str) -> Equals:
    return Equals(None, (text,))


A, B, C, D = (Equals(INDEX_FIELDS.get(f"data.{name}"), ("x",)) for name in "abcd")


@pytest.mark.requirement("core-10-18")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EVERYTHING),
        ("  ", EVERYTHING),
        ("*", EVERYTHING),
        ("Ann Lee", term("ann lee")),
        ('"Ann*"', term("ann*")),
        (r"a\:b\*", term("a:b*")),
        ("ann*", Matches(None, ("ann", Wildcard.ANY))),
        ("**a**?", Matches(None, (Wildcard.ANY, "a", Wildcard.ANY, Wildcard.SINGLE))),
        ("data.a:x", A),
        ("data.a : x", A),
        ("data.a:x AND data.b:x OR data.c:x", AnyOf((C, All((A, B))))),
        ("data.a:x OR data.b:x AND data.c:x", AnyOf((A, All((B, C))))),
        ("(data.a:x OR data.b:x) && !data.c:x", All((AnyOf((A, B)), Not(C)))),
        ("NOT NOT data.a:x", A),
        ('data.a:"x" data.b:"x"', AnyOf((A, B))),
        ('+data.a:"x" data.b:"x" -data.c:"x"', All((A, Not(C)))),
        ('data.a:"x" NOT data.b:"x"', All((A, Not(B)))),
        ('data.a:"x" OR NOT data.b:"x"', AnyOf((A, Not(B)))),
        ('-data.a:"x" -data.b:"x"', All((Not(A), Not(B)))),
        ("data.a:(x OR y)", Equals(A.field, ("x", "y"))),
        ("a OR b OR c", Equals(None, ("a", "b", "c"))),
        ("_exists_:data.a", Exists(INDEX_FIELDS.get("data.a"))),
        ("data.a:*", Exists(INDEX_FIELDS.get("data.a"))),
        ("data.n:[1 TO 2.5}", Range(INDEX_FIELDS.get("data.n"), 1, 2.5, includes_upper=False)),
        ("data.n:>-5", Range(INDEX_FIELDS.get("data.n"), -5, None, includes_lower=False)),
        ('data.n:["a b" TO *]', Range(INDEX_FIELDS.get("data.n"), "a b", None)),
        ("insertInstant:>=now-1d", Range(INDEX_FIELDS.get("insertInstant"), NOW - DAY, None)),
        ("insertInstant:2023-11-14", Range(INDEX_FIELDS.get("insertInstant"), 1_699_920_000_000, 1_700_006_400_000,
                                           includes_upper=False)),
        ("insertInstant:<=2023-11-14", Range(INDEX_FIELDS.get("insertInstant"), None, 1_700_006_399_999)),
        ("insertInstant:1700000000000", Equals(INDEX_FIELDS.get("insertInstant"), (NOW,))),
        ("insertInstant:>2023-11-14T22:13:20Z", Range(INDEX_FIELDS.get("insertInstant"), NOW, None,
                                                      includes_lower=False)),
        ("birthDate:<=now-18y", Range(INDEX_FIELDS.get("birthDate"), None, "2005-11-14")),
        ("birthDate:>now-9M", Range(INDEX_FIELDS.get("birthDate"), "2023-02-14", None, includes_lower=False)),
        ("active:TRUE", Equals(INDEX_FIELDS.get("active"), (True,))),
        ('active:"true" verified:"true"', AnyOf((Equals(INDEX_FIELDS.get("active"), (True,)),
                                                 Equals(INDEX_FIELDS.get("verified"), (True,))))),
    ],
)  # fmt: skip
def test_query_strings_are_parsed(text: str, expected: Expression) -> None:
    assert parse(text) == expected


def test_conditions_on_different_fields_of_a_list_are_joined() -> None:
    application, other = new_id(), new_id()
    query = f"registrations.applicationId:{application} AND registrations.roles:(a OR b) AND active:true"
    found = parse(query)
    assert isinstance(found, All)
    joined = found.parts[1]
    assert isinstance(joined, Nested)
    assert isinstance(joined.part, All)
    both = parse(f"registrations.applicationId:{application} AND registrations.applicationId:{other}")
    assert isinstance(both, All)
    assert len(both.parts) == 2


def test_month_of_a_relative_instant_has_a_last_day() -> None:
    at = Instant(1_711_886_400_000)  # 2024-03-31
    found = query_strings.parse(INDEX_FIELDS, "birthDate:now-1M", at)
    assert found == Equals(INDEX_FIELDS.get("birthDate"), ("2024-02-29",))


def test_conditions_are_limited_but_alternatives_of_one_field_are_cheap() -> None:
    fields = [f'data.f{number}:"x"' for number in range(MAXIMUM_CONDITIONS + 1)]
    assert require_bounded(parse(" OR ".join(fields[1:])))
    with pytest.raises(QueryError, match="conditions"):
        require_bounded(parse(" OR ".join(fields)))
    assert require_bounded(parse(" OR ".join(f"a{number}" for number in range(400))))


PIECES = st.sampled_from(
    [
        *("AND", "OR", "NOT", "TO", "(", ")", "[", "]", "{", "}", '"', "\\", "*", "?", "+", "-", "!", ":", ">", "<="),
        *(
            "~",
            "^",
            "/",
            "&&",
            "||",
            " ",
            "\t",
            "email:",
            "data.a:",
            "insertInstant:",
            "registrations.roles:",
            "now-1d",
        ),
        *("_exists_:", "a", "7", "2023-11-14", "\x00", "\ud800", "İ", "*:*", "private.x:", "data.$a:"),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=40))
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        require_bounded(parse(text))
    except QueryError as error:
        str(error).encode()


NAMES = st.sampled_from(
    ["bool", "must", "should", "must_not", "filter", "term", "terms", "match", "range", "exists", "prefix", "nested",
     "path", "query", "gte", "lt", "value", "field", "values", "ids", "wildcard", "query_string", "constant_score",
     "email", "data.a", "registrations", "registrations.roles", "minimum_should_match", "\ud800", "$ne", ""]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_any_document_is_understood_or_refused(document: Any) -> None:
    try:
        require_bounded(query_documents.parse(INDEX_FIELDS, json.dumps(document), NOW))
    except QueryError as error:
        str(error).encode()
