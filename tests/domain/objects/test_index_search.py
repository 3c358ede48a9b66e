"""Parsing of index searches: terms, sorting, pages, and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from identity.domain.objects.index_search import COUNT_LIMIT, IndexQuery, SortField, next_results, read
from identity.domain.objects.search_expressions import EVERYTHING, Equals, Matches, Wildcard
from identity.domain.users.users import INDEX_FIELDS
from identity.errors import Invalid
from identity.ids import base64url, new_id
from identity.instants import Instant

NOW = Instant(1_700_000_000_000)


def codes(**criteria: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        read(INDEX_FIELDS, criteria, "search.", NOW)
    return [error.code for error in caught.value.fields]


@pytest.mark.requirement("core-12-5")
def test_query_takes_precedence_over_query_string() -> None:
    named = Equals(INDEX_FIELDS.get("firstName"), ("ann",))
    for criteria in ({"queryString": "firstName:Ann"}, {"query": '{"match": {"firstName": "Ann"}}', "queryString": 5}):
        assert read(INDEX_FIELDS, criteria, "", NOW).expression == named
    assert read(INDEX_FIELDS, {"query": "", "queryString": ""}, "", NOW).expression == EVERYTHING
    assert codes(query='{"firstName": "Ann"}', queryString="*") == ["[invalid]search.query"]


@pytest.mark.requirement("core-12-5")
def test_ids_take_precedence_and_are_deduplicated() -> None:
    one, two = new_id(), new_id()
    query = read(INDEX_FIELDS, {"ids": [one.upper(), two, one], "queryString": {}, "startRow": -1}, "", NOW)
    assert query == IndexQuery(ids=(one, two), number_of_results=2)
    assert read(INDEX_FIELDS, {"ids": one}, "", NOW).ids == (one,)


def test_sort_fields_are_mapped_to_stored_names() -> None:
    fields = [{"name": "login", "order": "DESC"}, {"name": "id", "missing": "_first"}, {"name": "fullName"}]
    assert read(INDEX_FIELDS, {"sortFields": fields}, "", NOW).sort == (
        SortField("private.login", descending=True),
        SortField("_id", missing_first=True),
        SortField("fullName"),
    )


def test_totals_are_capped_by_default() -> None:
    assert read(INDEX_FIELDS, {}, "", NOW).count_limit == COUNT_LIMIT
    assert read(INDEX_FIELDS, {"accurateTotal": True}, "", NOW).count_limit == 0
    assert read(INDEX_FIELDS, {"accurateTotal": "true"}, "", NOW).count_limit == 0
    for nothing in (None, "", False, "FALSE"):
        assert read(INDEX_FIELDS, {"accurateTotal": nothing}, "", NOW).count_limit == COUNT_LIMIT
    for wrong in ("yes", 1, [], {"$ne": 1}):
        assert codes(accurateTotal=wrong) == ["[couldNotConvert]search.accurateTotal"]


@pytest.mark.requirement("core-12-7")
def test_next_page_repeats_the_search() -> None:
    criteria = {"queryString": "a*", "sortFields": [{"name": "email"}], "numberOfResults": 7, "accurateTotal": True}
    query = read(INDEX_FIELDS, criteria, "", NOW)
    for page in (1, 2):
        criteria = {"nextResults": next_results(criteria, query, "")}
        query = read(INDEX_FIELDS, criteria, "", NOW)
        assert (query.start_row, query.number_of_results, query.count_limit) == (7 * page, 7, 0)
        assert query.sort == (SortField("email"),) and query.expression == Matches(None, ("a", Wildcard.ANY))


@pytest.mark.parametrize("text", ["a\x00*", "fullName:*\x00", "\ud800", "a\udfff*", "data.\x00:1"], ids=ascii)
def test_invalid_characters_are_rejected_from_every_source(text: str) -> None:
    assert codes(queryString=text) == ["[invalid]search.queryString"]
    assert codes(nextResults=base64url(json.dumps({"queryString": text}).encode())) == ["[invalid]search.queryString"]


@pytest.mark.parametrize(
    "token", ["x", "!!!", base64url(b"[]"), base64url(b"{" * 900), base64url(b'{"nextResults": "x"}'), "a" * 131_073, 5]
)
def test_malformed_token_is_rejected(token: Any) -> None:
    assert codes(nextResults=token) == ["[invalid]search.nextResults"]


@pytest.mark.requirement("attack-69")
def test_forged_token_is_validated_like_a_request() -> None:
    forged = base64url(b'{"sortFields": [{"name": "private.password.hash"}], "startRow": {"$gt": 0}}')
    assert codes(nextResults=forged) == ["[invalid]search.sortFields[0]", "[invalid]search.startRow"]


def test_all_errors_are_reported_at_once() -> None:
    assert codes(queryString=5, sortFields=[5], startRow="x", numberOfResults=-1) == [
        "[invalid]search.queryString",
        "[invalid]search.sortFields[0]",
        "[invalid]search.startRow",
        "[invalid]search.numberOfResults",
    ]
