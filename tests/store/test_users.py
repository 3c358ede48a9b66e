"""Users in MongoDB: lookups, uniqueness, and separation of tenants."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.domain.objects.index_search import IndexQuery, read
from identity.domain.objects.search_expressions import Matches, Wildcard
from identity.domain.users import users as rules
from identity.domain.users.users import INDEX_FIELDS
from identity.errors import Conflict, Duplicate
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.store.cache import ChangeStreamStatus
from identity.store.mongo import Database
from identity.store.users import CleanupFilter, Users
from identity.store.vault import Vault
from tests.store.conftest import database_of_its_own

ONE, OTHER = new_id(), new_id()
NOW = Instant(1_700_000_000_000)
SECRET = base64.b64encode(b"a" * 20).decode()


@pytest.fixture(scope="session")
async def database(stores: Any) -> AsyncIterator[Database]:
    async with database_of_its_own(stores) as found:
        yield found


@pytest.fixture
async def users(database: Database) -> AsyncIterator[Users]:
    found = Users(database, Vault({"k": b"0" * 32}, b"f" * 32), ChangeStreamStatus())
    await found.ensure_indexes()
    yield found
    await found.delete_all(ONE, {})
    await found.delete_all(OTHER, {})


def make_user(tenant_id: str = ONE, **members: Any) -> dict[str, Any]:
    wanted = {
        "data": {},
        "passwordChangeRequired": False,
        "preferredLanguages": [],
        "twoFactor": {"methods": [], "recoveryCodes": []},
        "usernameStatus": "ACTIVE",
    }
    registrations = members.pop("registrations", [])
    user = rules.build_user(copy.deepcopy(wanted) | members, new_id(), tenant_id, NOW)
    return rules.with_derived_members(rules.with_unique_username({**user, "registrations": registrations}))


async def add(users: Users, tenant_id: str = ONE, **members: Any) -> dict[str, Any]:
    user = make_user(tenant_id, **members)
    await users.insert(tenant_id, user)
    return user


async def test_login_ids_find_their_user_without_regard_to_case(users: Users) -> None:
    user = await add(users, email="a@example.com", username="Ann")
    for login_id in ("A@Example.com ", "ann", "ANN"):
        found = await users.find_by_login_id(ONE, login_id, ("email", "username"))
        assert found is not None and found["id"] == user["id"]
    assert await users.find_by_login_id(ONE, "ann", ("email",)) is None
    assert await users.find_by_login_id(ONE, "ann", ("nonsense",)) is None
    assert await users.find_by_login_id(OTHER, "ann", ("email", "username")) is None


async def test_separators_of_a_phone_number_do_not_matter(users: Users) -> None:
    user = await add(users, email="a@example.com", phoneNumber="+13035551212")
    found = await users.find_by_login_id(ONE, " +1 (303) 555-12.12", ("phoneNumber", "username"))
    assert found is not None and found["id"] == user["id"]
    assert await users.find_by_login_id(ONE, "+1 303 555 1212", ("email", "username")) is None
    assert await users.find_by_login_id(OTHER, "+13035551212", ("phoneNumber",)) is None


async def test_email_takes_precedence_over_an_equal_username(users: Users) -> None:
    await add(users, username="a@example.com")
    owner = await add(users, email="a@example.com")
    found = await users.find_by_login_id(ONE, "a@example.com", ("username", "email"))
    assert found is not None and found["id"] == owner["id"]


async def test_moderated_username_is_not_a_login_id(users: Users) -> None:
    await add(users, username="rude", usernameStatus="REJECTED")
    assert await users.find_by_login_id(ONE, "rude", ("username",)) is None
    assert await users.find_by_username(ONE, "RUDE") is not None


async def test_email_and_username_look_ups_stay_in_their_tenant(users: Users) -> None:
    user = await add(users, email="a@example.com", username="Ann")
    assert (await users.find_by_email(ONE, "A@example.com") or {})["id"] == user["id"]
    assert (await users.find_by_username(ONE, "aNN") or {})["id"] == user["id"]
    assert await users.find_by_email(OTHER, "a@example.com") is None
    assert await users.find_by_username(OTHER, "ann") is None
    assert await users.find(OTHER, user["id"]) is None
    assert await users.find_cached(ONE, user["id"]) is not None
    assert await users.find_cached(OTHER, user["id"]) is None


@pytest.mark.requirement("design-state-1")
@pytest.mark.parametrize(
    ("index", "one", "other"),
    [
        ("email", {"email": "a@example.com"}, {"email": "a@example.com", "username": "b"}),
        ("username", {"username": "Ann"}, {"username": "aNN"}),
        ("phoneNumber", {"phoneNumber": "+15551234567"}, {"phoneNumber": "+15551234567"}),
    ],
)
async def test_login_ids_are_unique_within_a_tenant(
    users: Users, index: str, one: dict[str, Any], other: dict[str, Any]
) -> None:
    await add(users, **one)
    with pytest.raises(Duplicate) as caught:
        await add(users, **other)
    assert caught.value.index == index
    await add(users, OTHER, **other)


async def test_users_without_a_login_id_of_a_kind_do_not_collide(users: Users) -> None:
    await add(users, email="a@example.com")
    await add(users, email="b@example.com")
    await add(users, username="c")
    await add(users, username="d")


async def test_duplicates_are_found_by_any_login_id_in_the_tenant_only(users: Users) -> None:
    by_email = await add(users, email="a@example.com")
    by_name = await add(users, username="Ann")
    await add(users, OTHER, email="a@example.com")
    attempted = make_user(email="a@example.com", username="ANN")
    found = await users.find_duplicates(ONE, attempted)
    assert {user["id"] for user in found} == {by_email["id"], by_name["id"]}
    assert await users.find_duplicates(ONE, by_email) == []
    assert len(await users.find_duplicates(OTHER, {**attempted, "tenantId": OTHER})) == 1


async def test_user_of_another_tenant_is_not_encoded(users: Users) -> None:
    user = make_user(email="a@example.com")
    assert await users.encode(ONE, copy.deepcopy(user))
    with pytest.raises(ValueError, match="does not belong to tenant"):
        await users.encode(OTHER, user)


@pytest.mark.requirement("design-state-8")
async def test_two_factor_secrets_and_authentication_tokens_are_sealed_at_rest(users: Users) -> None:
    method = {"method": "authenticator", "secret": SECRET}
    user = await add(
        users,
        email="a@example.com",
        twoFactor={"methods": [method, dict(method)], "recoveryCodes": ["code-1", "code-2"]},
        registrations=[{"applicationId": new_id(), "authenticationToken": "token-1"}],
    )
    stored = str(await users._collection.find_one({"_id": user["id"]}))
    for secret in (SECRET, "code-1", "code-2", "token-1"):
        assert secret not in stored
    assert await users.find(ONE, user["id"]) == user
    assert await users.reseal() == 0


@pytest.mark.requirement("project-18")
async def test_secrets_in_lists_are_sealed_again_under_a_new_master_key(users: Users, database: Database) -> None:
    two_factor = {"methods": [{"method": "authenticator", "secret": SECRET}], "recoveryCodes": ["code-1"]}
    user = await add(users, email="a@example.com", twoFactor=two_factor)
    rotated = Users(database, Vault({"new": b"1" * 32, "k": b"0" * 32}, b"f" * 32), ChangeStreamStatus())
    assert await rotated.reseal() == 1
    assert await rotated.reseal() == 0
    alone = Users(database, Vault({"new": b"1" * 32}, b"f" * 32), ChangeStreamStatus())
    assert await alone.find(ONE, user["id"]) == user


async def test_login_is_recorded_in_user_registration_and_identity(users: Users) -> None:
    application_id, second = new_id(), new_id()
    registrations = [{"applicationId": application_id}, {"applicationId": second}]
    user = await add(users, email="a@example.com", username="ann", registrations=registrations)
    await users.record_login(OTHER, user["id"], application_id, Instant(NOW + 9), "email")
    assert "lastLoginInstant" not in await users.get(ONE, user["id"])
    await users.record_login(ONE, user["id"], application_id, Instant(NOW + 9), "email")
    await users.record_login(ONE, user["id"], None, Instant(NOW + 5))
    found = await users.get(ONE, user["id"])
    assert found["lastLoginInstant"] == NOW + 9
    noted = {entry["applicationId"]: entry.get("lastLoginInstant") for entry in found["registrations"]}
    assert noted == {application_id: NOW + 9, second: None}
    assert {entry["type"]: entry.get("lastLoginInstant") for entry in found["identities"]} == {
        "email": NOW + 9,
        "username": None,
    }


async def test_replace_conflicts_with_a_concurrent_login(users: Users) -> None:
    user = await add(users, email="a@example.com")
    read_before = await users.get(ONE, user["id"])
    await users.record_login(ONE, user["id"], None, Instant(NOW + 9))
    with pytest.raises(Conflict):
        await users.replace(ONE, {**read_before, "lastUpdateInstant": NOW + 1}, NOW)
    fresh = await users.get(ONE, user["id"])
    await users.replace(ONE, {**fresh, "lastUpdateInstant": NOW + 1}, NOW)
    with pytest.raises(Conflict):
        await users.replace(ONE, {**fresh, "lastUpdateInstant": NOW + 2}, NOW)


async def test_replace_from_another_tenant_is_rejected(users: Users) -> None:
    user = await add(users, email="a@example.com")
    with pytest.raises(Conflict):
        await users.replace(OTHER, {**user, "tenantId": OTHER}, NOW)
    assert await users.delete(OTHER, user["id"]) is False
    assert (await users.get(ONE, user["id"]))["email"] == "a@example.com"


async def test_rehash_does_not_overwrite_a_changed_password(users: Users) -> None:
    user = await add(users, email="a@example.com")
    await users.update(ONE, {"_id": user["id"]}, {"$set": {"private.password": {"hash": "second"}}})
    assert not await users.rehash_password(ONE, user["id"], {"hash": "first"}, {"hash": "third"})
    assert not await users.rehash_password(OTHER, user["id"], {"hash": "second"}, {"hash": "third"})
    assert await users.rehash_password(ONE, user["id"], {"hash": "second"}, {"hash": "third"})
    assert (await users.get(ONE, user["id"]))["private"]["password"] == {"hash": "third"}


async def test_password_status_is_not_stored_after_a_password_change_or_for_another_tenant(users: Users) -> None:
    user = await add(users, email="a@example.com")
    await users.update(ONE, {"_id": user["id"]}, {"$set": {"private.password": {"hash": "second"}}})
    noted = {"breachedPasswordStatus": "CommonPassword"}
    await users.update_unless_password_changed(ONE, user["id"], "first", noted)
    await users.update_unless_password_changed(OTHER, user["id"], "second", noted)
    assert "breachedPasswordStatus" not in await users.get(ONE, user["id"])
    await users.update_unless_password_changed(ONE, user["id"], "second", noted)
    assert (await users.get(ONE, user["id"]))["breachedPasswordStatus"] == "CommonPassword"
    found = await users.count_breached_across_tenants()
    assert {"_id": {"tenantId": ONE, "status": "CommonPassword"}, "count": 1} in found


async def test_registrations_for_an_application_go_in_their_tenant_only(users: Users) -> None:
    application_id = new_id()
    registered = [{"applicationId": application_id}, {"applicationId": new_id()}]
    one = await add(users, email="a@example.com", registrations=registered)
    other = await add(users, OTHER, email="a@example.com", registrations=registered)
    assert await users.remove_registrations(ONE, application_id) == 1
    assert len((await users.get(ONE, one["id"]))["registrations"]) == 1
    assert len((await users.get(OTHER, other["id"]))["registrations"]) == 2


async def test_update_that_read_before_does_not_bring_a_removed_registration_back(users: Users) -> None:
    application_id = new_id()
    user = await add(users, email="a@example.com", registrations=[{"applicationId": application_id}])
    await users.remove_registrations(ONE, application_id)
    with pytest.raises(Conflict):
        await users.replace(ONE, user, user["lastUpdateInstant"])


async def test_data_comes_back_as_it_went_in_whatever_its_names_mean_to_mongodb(users: Users) -> None:
    data = {
        "$ref": "x",
        "$id": {"$ref": "a", "$id": 1, "$db": "z", "more": [{"$ref": "y", "$id": "z"}]},
        "a.b": 1,
        "$where": "1",
        "__proto__": {"$ne": None},
        "": 1,
    }
    user = await add(users, email="a@example.com", data=data)
    found = await users.get(ONE, user["id"])
    assert found["data"] == data
    await users.replace(ONE, {**found, "lastUpdateInstant": NOW + 1}, NOW)
    assert (await users.get(ONE, user["id"]))["data"] == data


def query_of(**criteria: Any) -> IndexQuery:
    return read(INDEX_FIELDS, criteria, "search.", NOW)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("*", {"ann", "bob", "cy"}),
        ("ANN", {"ann"}),
        ("bob@example.com", {"bob"}),
        ("example.com", set()),
        ("*example.com", {"ann", "bob"}),
        ("b*", {"bob"}),
        ("*o*", {"ann", "bob"}),
        ("email:*example.com", {"ann", "bob"}),
        ("firstName:bob", {"bob"}),
        ("lastName:bob", set()),
        ("active:true", {"ann", "bob", "cy"}),
        ("verified:true", set()),
        (".*", set()),
        ("a.n", set()),
        ("c$y", set()),
    ],
)
async def test_one_term_finds_users_by_whole_values(users: Users, query: str, expected: set[str]) -> None:
    await add(users, email="ann@example.com", username="ann")
    await add(users, email="bob@example.com", username="bob", firstName="Bob")
    await add(users, username="cy")
    await add(users, OTHER, email="ann@example.com", username="ann")
    total, found = await users.search_index(ONE, query_of(queryString=query))
    assert {user["username"] for user in found} == expected
    assert total == len(expected)


async def test_search_across_tenants_sees_them_all_and_within_one_only_its_own(users: Users) -> None:
    one = await add(users, email="ann@example.com")
    other = await add(users, OTHER, email="ann@example.com")
    query = query_of(ids=[one["id"], other["id"], new_id()])
    assert (await users.search_index(ONE, query))[0] == 1
    assert (await users.search_index_across_tenants(query))[0] == 2
    by_tenant = query_of(queryString=f"tenantId:{OTHER}")
    assert (await users.search_index(ONE, by_tenant))[0] == 0


@pytest.mark.requirement("users-2-15")
async def test_sorting_puts_missing_values_where_it_was_asked_to(users: Users) -> None:
    for name in ("b", "c", None, "a"):
        named = {"fullName": name} if name else {}
        await add(users, email=f"{name}@example.com", **named)

    async def names(**field: str) -> list[Any]:
        _, found = await users.search_index(ONE, query_of(sortFields=[{"name": "fullName", **field}]))
        return [user.get("fullName") for user in found]

    assert await names() == ["a", "b", "c", None]
    assert await names(order="desc") == ["c", "b", "a", None]
    assert await names(missing="_first") == [None, "a", "b", "c"]


async def test_pages_and_capped_totals(users: Users) -> None:
    for index in range(5):
        await add(users, email=f"{index}@example.com")
    sort = [{"name": "login"}]
    total, found = await users.search_index(ONE, query_of(sortFields=sort, startRow=1, numberOfResults=2))
    assert total == 5
    assert [user["email"][0] for user in found] == ["1", "2"]
    capped = IndexQuery(expression=Matches(None, (Wildcard.ANY, "example.com")), count_limit=3)
    assert (await users.search_index(ONE, capped))[0] == 3
    assert (await users.search_index(ONE, query_of(numberOfResults=0))) == (5, [])


async def test_unverified_users_are_found_in_order_by_an_index(users: Users) -> None:
    pending = [rules.with_verified_reason(make_user(email=f"{n}@example.com"), "Pending", NOW) for n in range(3)]
    verified = rules.with_verified_reason(make_user(email="verified@example.com"), "Completed", NOW)
    theirs = rules.with_verified_reason(make_user(OTHER, email="theirs@example.com"), "Pending", NOW)
    for user in (*pending, verified, theirs):
        await users.insert(user["tenantId"], rules.with_derived_members(user))
    wanted, ids = CleanupFilter.of_users(Instant(NOW + 1)), sorted(user["id"] for user in pending)
    assert [user["id"] for user in await users.find_for_cleanup(ONE, wanted, "", 2)] == ids[:2]
    assert [user["id"] for user in await users.find_for_cleanup(ONE, wanted, ids[1], 2)] == ids[2:]
    assert [user["id"] for user in await users.find_for_cleanup(OTHER, wanted, "", 2)] == [theirs["id"]]
    assert await users.find_for_cleanup(ONE, CleanupFilter.of_users(NOW), "", 2) == []


async def test_unverified_registrations_are_found(users: Users) -> None:
    application_id = new_id()
    registration = {"applicationId": application_id, "insertInstant": NOW, "verified": False}
    late = await add(users, registrations=[registration])
    await add(users, registrations=[{**registration, "verified": True}])
    elsewhere = {**registration, "applicationId": new_id()}
    await add(users, registrations=[{**registration, "verified": True}, elsewhere])
    await add(users, OTHER, registrations=[registration])
    wanted = CleanupFilter.of_registrations(application_id, Instant(NOW + 1))
    assert [user["id"] for user in await users.find_for_cleanup(ONE, wanted, "", 9)] == [late["id"]]
    assert await users.find_for_cleanup(ONE, CleanupFilter.of_registrations(application_id, NOW), "", 9) == []


async def test_only_the_version_that_was_seen_is_deleted_and_only_in_its_tenant(users: Users) -> None:
    user = await add(users, email="a@example.com")
    assert not await users.delete_version(ONE, user["id"], NOW - 1)
    assert not await users.delete_version(OTHER, user["id"], NOW)
    assert await users.delete_version(ONE, user["id"], NOW)
    assert await users.find(ONE, user["id"]) is None


async def test_recovery_code_is_consumed_by_one_of_several_callers(users: Users) -> None:
    user = await add(users, email="a@example.com", twoFactor={"methods": [], "recoveryCodes": ["AAAAA-22222", "other"]})
    assert not await users.consume_recovery_code(TenantId(new_id()), user["id"], "AAAAA-22222")
    racers = (users.consume_recovery_code(user["tenantId"], user["id"], "aaaaa22222") for _ in range(64))
    assert sum(await asyncio.gather(*racers)) == 1
    stored = await users.get(user["tenantId"], user["id"])
    assert stored["twoFactor"]["recoveryCodes"] == ["other"]
    assert stored["lastUpdateInstant"] > user["lastUpdateInstant"]
    assert not await users.consume_recovery_code(user["tenantId"], new_id(), "other")


async def test_last_used_method_is_recorded(users: Users) -> None:
    methods = [
        {"id": name, "method": "email", "email": "a@example.com", "lastUsed": name == "AAAA"}
        for name in ("AAAA", "BBBB")
    ]
    user = await add(users, email="a@example.com", twoFactor={"methods": methods, "recoveryCodes": []})
    await users.record_second_factor(TenantId(new_id()), user["id"], "BBBB")
    assert (await users.get(user["tenantId"], user["id"]))["twoFactor"]["methods"] == methods
    await users.record_second_factor(user["tenantId"], user["id"], "BBBB")
    found = (await users.get(user["tenantId"], user["id"]))["twoFactor"]["methods"]
    assert [method["lastUsed"] for method in found] == [False, True]


@pytest.mark.requirement("users-2.1-9")
async def test_login_ids_are_looked_up_in_indexes_however_many_users_there_are(users, database):
    """A branch without the tenant would scan all users of a large tenant."""
    tenant_id = new_id()
    await users._collection.insert_many(
        {
            "_id": new_id(),
            "tenantId": tenant_id,
            "email": f"{index}@example.com",
            "private": {"usernameKey": f"u{index}"},
        }
        for index in range(500)
    )
    conditions = [{"email": "77@example.com"}, {"private.usernameKey": {"$in": ["u78", "u79"]}}]
    command = {"find": users.name, "filter": users._any(tenant_id, conditions)}
    explained = await database.motor.command({"explain": command, "verbosity": "executionStats"})
    assert explained["executionStats"]["nReturned"] == 3
    assert explained["executionStats"]["totalDocsExamined"] == 3
    assert explained["executionStats"]["totalKeysExamined"] <= 6


async def test_newest_users_of_a_term_are_read_from_the_index(users: Users) -> None:
    made = []
    for tenant_id, instant in ((ONE, 2), (ONE, 1), (ONE, 3), (OTHER, 4)):
        user = {**make_user(tenant_id, email=f"{instant}@example.com", fullName="Ada Lee"), "insertInstant": instant}
        await users.insert(tenant_id, user)
        made.append(user)
    for order, expected in (("desc", [2, 0, 1]), ("asc", [1, 0, 2])):
        sort = [{"name": "insertInstant", "order": order}]
        for query in ("Ada Lee", "fullName:Ada Lee"):
            criteria = read(INDEX_FIELDS, {"queryString": query, "sortFields": sort}, "", NOW)
            total, found = await users.search_index(TenantId(ONE), criteria)
            assert (total, [user["id"] for user in found]) == (3, [made[index]["id"] for index in expected])
    total, found = await users.search_index_across_tenants(criteria)
    assert total == 4


async def test_indexes_of_earlier_releases_are_dropped(users: Users) -> None:
    collection = users._collection
    await collection.create_index([("tenantId", 1), ("private.terms", 1)], name="terms")
    await collection.create_index([("private.terms", 1)])
    await asyncio.gather(*(users.ensure_indexes() for _ in range(4)))
    assert {"terms", "private.terms_1"}.isdisjoint(await collection.index_information())


async def test_page_is_of_the_tenant_in_the_given_order(users: Users) -> None:
    made = [await add(users, username=name) for name in ("b", "c", "a")]
    await add(users, OTHER, username="a")
    names = {"private.usernameKey": {"$in": ["a", "b", "c"]}}
    order = (("private.usernameKey", -1), ("_id", -1))
    total, found = await users.page(ONE, names, order, 1, 2)
    assert (total, [one["id"] for one in found]) == (3, [made[0]["id"], made[2]["id"]])
    assert await users.page(ONE, names, order, 0, 0) == (3, [])
    assert await users.page(ONE, {"private.usernameKey": "x"}, order, 0, 5) == (0, [])
    total, found = await users.page(OTHER, {}, order, 0, 5)
    assert (total, [one["tenantId"] for one in found]) == (1, [OTHER])


@pytest.mark.requirement("personal-1")
async def test_children_lose_the_address_of_a_deleted_parent(users: Users) -> None:
    child = await add(users, username="child", parentEmail="parent@example.com")
    other = await add(users, OTHER, username="child", parentEmail="parent@example.com")
    assert await users.remove_parent_emails(ONE, ["Parent@example.com", "+15550100"]) == [child["id"]]
    found = await users.get(ONE, child["id"])
    assert "parentEmail" not in found
    assert found["lastUpdateInstant"] > child["lastUpdateInstant"]
    assert (await users.get(OTHER, other["id"]))["parentEmail"] == "parent@example.com"
