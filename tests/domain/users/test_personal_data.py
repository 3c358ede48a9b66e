"""What remains of events and log rows when a user is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.users import personal_data
from identity.domain.users.personal_data import ERASED, Person, Traces
from identity.ids import new_id

TENANT, OTHER_TENANT = new_id(), new_id()
ADA = Person(TENANT, "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a00ad", ("ada@example.com", "+15550100"), ("203.0.113.7",))
TRACES = Traces([ADA])


@pytest.mark.requirement("personal-1")
def test_addresses_are_those_of_login_ids_and_second_factors() -> None:
    user = {
        "email": "ada@example.com",
        "username": "error",
        "mobilePhone": "+15550100",
        "phoneNumber": "+15550101",
        "identities": [{"type": "email", "value": "ada@example.com"}, {"type": "username", "value": "error"}],
        "twoFactor": {"methods": [{"method": "email", "email": "second@example.com"}, {"method": "authenticator"}]},
    }
    assert personal_data.addresses_of(user) == ("ada@example.com", "+15550101", "+15550100", "second@example.com")
    assert personal_data.addresses_of({"username": "error"}) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to ada@example.com.", True),
        ("to <ADA@example.com>", True),
        ("first\nada@example.com", True),
        (f"PATCH /api/user/{ADA.user_id}", True),
        ("call +15550100", True),
        ("to nevada@example.com", False),
        ("to ada@example.com.au", False),
        ("to ada@example.community", False),
        ("call +155501001", False),
        ("", False),
    ],
)
@pytest.mark.requirement("personal-1")
def test_whole_addresses_and_ids_are_found(text: str, expected: bool) -> None:
    assert TRACES.are_in(text) is expected


@pytest.mark.requirement("personal-1")
def test_no_text_contains_traces_of_nobody() -> None:
    nobody = TRACES.of_tenant(OTHER_TENANT)
    assert not nobody.are_in("ada@example.com")
    assert nobody.without_addresses("ada@example.com") == "ada@example.com"
    assert TRACES.of_tenant(None) is TRACES


@pytest.mark.requirement("personal-1")
def test_event_without_details_keeps_ids_instant_and_type() -> None:
    registration_id, method = new_id(), {"id": "A1B2", "mobilePhone": "+15550100"}
    event = {
        "type": "user.update.complete",
        "id": new_id(),
        "createInstant": 1,
        "tenantId": TENANT,
        "linkedObjectId": ADA.user_id,
        "info": {"ipAddress": "203.0.113.7"},
        "user": {
            "id": ADA.user_id,
            "email": "ada@example.com",
            "lastLoginInstant": 5,
            "active": True,
            "data": {"nationalId": new_id()},
            "registrations": [{"id": registration_id, "username": "ada"}],
            "twoFactor": {"methods": [method]},
        },
        "identityProviderLink": {"identityProviderUserId": "ada-at-the-provider"},
    }
    kept = {name: event[name] for name in ("type", "id", "createInstant", "tenantId", "linkedObjectId")}
    user = {"id": ADA.user_id, "registrations": [{"id": registration_id}]}
    assert personal_data.without_details(event) == {**kept, "user": user}


def shared_event(**members: Any) -> dict[str, Any]:
    return {"type": "group.member.add", "id": new_id(), "createInstant": 1, "info": {"ipAddress": "::1"}, **members}


@pytest.mark.requirement("personal-1")
def test_shared_event_loses_the_deleted_user_only() -> None:
    stays = {"userId": new_id(), "data": {"x": 1}}
    event = shared_event(members=[{"userId": ADA.user_id, "data": {"card": 7}}, stays], group={"name": "Staff"})
    assert personal_data.redacted_event(event, TRACES) == {**event, "members": [{"userId": ADA.user_id}, stays]}


@pytest.mark.requirement("personal-1")
def test_event_that_names_nobody_is_unchanged_but_for_the_origin_of_the_user() -> None:
    event = shared_event(members=[{"userId": new_id()}])
    assert personal_data.redacted_event(event, TRACES) == event
    theirs = {**event, "info": {"ipAddress": "203.0.113.7", "userAgent": "Browser"}}
    assert "info" not in personal_data.redacted_event(theirs, TRACES)


@pytest.mark.requirement("personal-1")
def test_message_that_names_the_id_is_erased_and_an_address_alone_erases_itself_only() -> None:
    assert personal_data.redacted_message(f"The user {ADA.user_id} printed Ada Lovelace", TRACES) == ERASED
    refused = "The server refused ada@example.com: 550"
    assert personal_data.redacted_message(refused, TRACES) == f"The server refused {ERASED}: 550"
    event = {"type": "event-log.create", "id": new_id(), "eventLog": {"id": 7, "message": refused, "type": "Error"}}
    redacted = personal_data.redacted_event(event, TRACES)
    assert redacted["eventLog"] == {"id": 7, "message": f"The server refused {ERASED}: 550", "type": "Error"}


def audit_row(**members: Any) -> dict[str, Any]:
    data = {"method": "DELETE", "path": f"/api/user/{ADA.user_id}", "ipAddress": "192.0.2.1", "requestId": "r"}
    row = {"id": 1, "insertInstant": 2, "insertUser": "admin@example.com", "reason": "A change on the console"}
    return {**row, "data": data, "message": f"DELETE /api/user/{ADA.user_id}", **members}


@pytest.mark.requirement("personal-1")
def test_row_of_the_service_about_a_deleted_user_says_who_did_what() -> None:
    assert personal_data.redacted_audit_row(audit_row(), TRACES) == audit_row()


@pytest.mark.requirement("personal-1")
def test_row_of_a_deleted_administrator_keeps_the_id() -> None:
    row = audit_row(insertUser="Ada Lovelace")
    row["data"] |= {"userId": ADA.user_id, "ipAddress": "203.0.113.7"}
    redacted = personal_data.redacted_audit_row(row, TRACES)
    assert (redacted["insertUser"], redacted["message"]) == (ADA.user_id, row["message"])
    assert personal_data.redacted_audit_row(redacted, TRACES) == redacted
    assert "ipAddress" not in redacted["data"]


@pytest.mark.requirement("personal-1")
def test_row_of_an_integration_about_a_deleted_user_loses_its_texts() -> None:
    row = audit_row(message="Changed ada@example.com", newValue='"Main Street 1"', oldValue='"x"', data={"a": 1})
    redacted = personal_data.redacted_audit_row(row, TRACES)
    assert redacted == {
        "id": 1, "insertInstant": 2, "insertUser": "admin@example.com", "message": ERASED, "reason": ERASED, "data": {},
    }  # fmt: skip


@pytest.mark.requirement("personal-1")
def test_erased_row_of_a_deleted_author_is_unchanged_by_a_second_erasure() -> None:
    row = audit_row(message="Paid a bill", insertUser="ada@example.com", data={"userId": ADA.user_id})
    redacted = personal_data.redacted_audit_row(row, TRACES)
    assert (redacted["insertUser"], redacted["data"]) == (ADA.user_id, {})
    assert personal_data.redacted_audit_row(redacted, TRACES) == redacted


@pytest.mark.requirement("personal-1")
def test_row_that_names_nobody_is_unchanged() -> None:
    row = audit_row(message="Changed grace@example.com", data={}, newValue='"x"')
    assert personal_data.redacted_audit_row(row, TRACES) == row
    event = {"type": "audit-log.create", "id": new_id(), "auditLog": row, "info": {"ipAddress": "::1"}}
    assert personal_data.redacted_event(event, TRACES) == event
