"""The translation of SCIM filters to MongoDB."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest

from identity.domain.scim import filters, group_mapping, messages, models, user_mapping
from identity.domain.scim.errors import ScimError
from identity.domain.scim.filters import Scope
from tests.builders import make_tenant

TENANT = make_tenant()
ENTERPRISE = models.ENTERPRISE_SCHEMA
FIELDS = {"User": user_mapping.FIELDS, "Group": group_mapping.FIELDS}


def translated(scim_filter: str, kind: str = "User", **groups: list[str]) -> Any:
    query = messages.read_query(TENANT, [kind], {"filter": scim_filter})
    return filters.translate(query.request.filter, models.model_of(TENANT, kind), FIELDS[kind], Scope("t", groups))


@pytest.mark.parametrize(
    ("scim_filter", "expected"),
    [
        ('id eq "a"', {"_id": "a"}),
        ('externalId eq "A"', {"private.externalId": "A"}),
        ('emails.value eq " B@x "', {"tenantId": "t", "email": "b@x"}),
        ('emails eq "b@x"', {"tenantId": "t", "email": "b@x"}),
        ("active eq true", {"active": True}),
        ('active eq "False"', {"active": False}),
        ('title sw "a.b"', {"data.scim.title": {"$regex": "^a\\.b", "$options": "is"}}),
        ("title eq null", {"data.scim.title": {"$eq": None}}),
        ("title pr", {"data.scim.title": {"$exists": True, "$nin": [None, "", []]}}),
        ("userName pr", {}),
        ('not (id eq "a")', {"$nor": [{"_id": "a"}]}),
        ('id ne "a"', {"$nor": [{"_id": "a"}]}),
        (
            'id eq "a" or id eq "b" and active eq true',
            {"$or": [{"_id": "a"}, {"$and": [{"_id": "b"}, {"active": True}]}]},
        ),
        ('meta.created ge "1970-01-01T00:00:01Z"', {"insertInstant": {"$gte": 1000}}),
        ('meta.lastModified lt "1970-01-01T00:00:01+01:00"', {"lastUpdateInstant": {"$lt": -3599000}}),
        ('groups.value eq "g"', {"memberships.groupId": "g"}),
        (
            'addresses[type eq "work" and primary eq true]',
            {
                "data.scim.addresses": {
                    "$elemMatch": {"$and": [{"type": {"$regex": "^work$", "$options": "is"}}, {"primary": True}]}
                }
            },
        ),
        (
            'name.familyName eq "O\'Mal"',
            {
                "$and": [
                    {"private.terms": "o'mal"},
                    {"lastName": {"$regex": "^O'Mal$", "$options": "is"}},
                ]
            },
        ),
    ],
)  # fmt: skip
def test_user_filter_becomes_a_condition(scim_filter: str, expected: Any) -> None:
    assert translated(scim_filter) == expected


def test_user_name_matches_the_login_id_that_is_shown_as_one() -> None:
    absent = {"$exists": False}
    assert translated('userName eq "Jo"') == {
        "$or": [
            {"tenantId": "t", "private.usernameKey": "jo"},
            {"tenantId": "t", "email": "jo", "username": absent},
            {"tenantId": "t", "phoneNumber": "jo", "username": absent, "email": absent},
        ]
    }


def test_group_filter_compares_members_by_their_groups() -> None:
    assert translated('members eq "U"', "Group", u=["g"]) == {"_id": {"$in": ["g"]}}
    assert translated('members[value eq "x"]', "Group") == {"_id": {"$in": []}}
    own, shared = translated('displayName co "ab"', "Group")["$or"]
    assert own == {
        "$and": [{"private.endings": {"$regex": "^ab"}}, {"name": {"$regex": "ab", "$options": "is"}}],
        "private.sharedName": {"$exists": False},
        "tenantId": "t",
    }
    assert shared["$and"] == [
        {"private.sharedName": {"$exists": True}},
        {"private.sharedName": {"$regex": "ab", "$options": "is"}},
    ]


def test_member_ids_are_those_that_a_filter_compares() -> None:
    query = messages.read_query(
        TENANT, ["Group"], {"filter": 'members eq "A" and not (members[value eq "b"]) or id eq "c"'}
    )
    assert filters.member_ids(query.request.filter) == {"a", "b"}


def test_attribute_of_another_type_is_false() -> None:
    query = messages.read_query(TENANT, ["User", "Group"], {"filter": 'userName eq "x"'})
    where = filters.translate(query.request.filter, models.model_of(TENANT, "Group"), FIELDS["Group"], Scope("t"))
    assert where == {"_id": {"$in": []}}


@pytest.mark.parametrize(
    "scim_filter",
    [
        "",
        "userName",
        'userName eq "x',
        "userName like 1",
        'nothing eq "x"',
        'password eq "x"',
        'meta.location eq "x"',
        'schemas eq "x"',
        "active gt true",
        'active co "x"',
        'meta.created eq "yesterday"',
        'userName eq "\\u0000"',
        'title eq "\\ud800"',
        "(" * 40 + "title pr" + ")" * 39,
        "not (" * 40 + "title pr" + ")" * 40,
        " or ".join(["title pr"] * 51),
        f'title eq "{"x" * 5000}"',
        "members pr",
    ],
)  # fmt: skip
def test_filter_that_is_not_supported_is_refused(scim_filter: str) -> None:
    with pytest.raises(ScimError) as refused:
        translated(scim_filter or " ")
    assert (refused.value.status, refused.value.scim_type) == (400, "invalidFilter")


ATTRIBUTES = [
    "userName", "emails", "emails.value", "members", "members.value", "displayName", "meta.created", "active", "id",
    "name", "name.familyName", "externalId", f"{ENTERPRISE}:department", f"{ENTERPRISE}:manager.value", "addresses",
    "password", "groups", "x509Certificates", "schemas", "meta", "urn:x:y", "$ref",
]  # fmt: skip
VALUES = [
    '"x"', '"', "true", "null", "12", "-1e400", '"\\u0000"', '"\\ud800"', '"2011-05-13T04:42:34Z"',
    '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59Z"', '".*"', '"$where"',
]  # fmt: skip
WORDS = [
    *ATTRIBUTES, *VALUES, "eq", "ne", "co", "sw", "ew", "gt", "ge", "lt", "le", "pr", "and", "or", "not", "(",
    ")", "[", "]", ".type", "\\", "\x00", "é",
]  # fmt: skip


@pytest.mark.requirement("scim-13")
@pytest.mark.parametrize("seed", range(20))
def test_random_filters_are_translated_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    translated_count, statuses = 0, set()
    for _ in range(300):
        kind = chance.choice(["User", "Group"])
        operator = chance.choice(["eq", "ne", "co", "gt", "le"])
        proper = f"{chance.choice(ATTRIBUTES)} {operator} {chance.choice(VALUES)}"
        loose = " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 9)))
        scim_filter = chance.choice([loose, proper, f"not ({proper})", f"{proper} or {loose}", f"emails[{proper}]"])
        try:
            where = translated(scim_filter, kind)
        except ScimError as refused:
            statuses.add(refused.status)
        else:
            bson.encode({"filter": where})
            translated_count += 1
    assert translated_count
    assert statuses == {400}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, (("_id", 1),)),
        ({"sortBy": "id", "sortOrder": "descending"}, (("_id", -1),)),
        ({"sortBy": "userName"}, (("private.usernameKey", 1), ("_id", 1))),
        ({"sortBy": f"{models.USER_SCHEMA}:name.familyName"}, (("lastName", 1), ("_id", 1))),
        ({"sortBy": "displayName"}, (("data.scim.displayName", 1), ("_id", 1))),
        ({"sortBy": "emails", "sortOrder": "descending"}, (("email", -1), ("_id", -1))),
    ],
)
def test_sort_order_ends_with_the_id(parameters: dict[str, str], expected: Any) -> None:
    query = messages.read_query(TENANT, ["User"], parameters)
    assert filters.order_of(query, models.model_of(TENANT, "User"), FIELDS["User"]) == expected


def test_types_without_the_attribute_are_sorted_by_the_id() -> None:
    query = messages.read_query(TENANT, ["User", "Group"], {"sortBy": "userName", "sortOrder": "descending"})
    assert filters.order_of(query, models.model_of(TENANT, "Group"), FIELDS["Group"]) == (("_id", -1),)


@pytest.mark.parametrize("path", ["addresses.country", "photos", "members", f"{ENTERPRISE}:department", "name"])
def test_attribute_without_a_single_stored_value_cannot_be_sorted_by(path: str) -> None:
    kind = "Group" if path == "members" else "User"
    with pytest.raises(ScimError, match="sort"):
        filters.order_of(
            messages.read_query(TENANT, [kind], {"sortBy": path}), models.model_of(TENANT, kind), FIELDS[kind]
        )


SCANNING = [
    'title co "{}"',
    'userName co "{}"',
    'emails.value ew "{}"',
    'name.familyName ne "{}"',
    'not (title eq "{}")',
]


@pytest.mark.parametrize("term", SCANNING)
@pytest.mark.parametrize("junction", [" or ", " and "])
def test_comparisons_that_no_index_serves_are_limited(term: str, junction: str) -> None:
    terms = [term.format(number) for number in range(filters.MAXIMUM_SCANS + 1)]
    with pytest.raises(ScimError, match="no index serves") as caught:
        translated(junction.join(terms))
    assert (caught.value.status, caught.value.scim_type) == (400, "invalidFilter")
    assert translated(junction.join(terms[1:]))


def test_comparisons_in_a_value_path_count_too() -> None:
    inner = " or ".join(f'value co "{number}"' for number in range(filters.MAXIMUM_SCANS + 1))
    with pytest.raises(ScimError, match="no index serves"):
        translated(f"addresses[{inner.replace('value', 'locality')}]")


@pytest.mark.parametrize("term", ['userName eq "{}"', 'id eq "{}"', 'emails.value sw "{}"', 'name.givenName sw "{}"'])
def test_comparisons_that_an_index_serves_have_the_larger_limit(term: str) -> None:
    assert translated(" or ".join(term.format(number) for number in range(filters.MAXIMUM_COMPARISONS)))
    with pytest.raises(ScimError, match="50 comparisons"):
        translated(" or ".join(term.format(number) for number in range(filters.MAXIMUM_COMPARISONS + 1)))
