"""The mapping between SCIM users and users, and patches of the members of groups."""

from __future__ import annotations

from typing import Any

import pytest

from identity.call import Document
from identity.domain.scim import group_mapping, messages, user_mapping
from identity.domain.scim.errors import ScimError
from tests.builders import make_tenant

TENANT = make_tenant()


def converted(**attributes: Any) -> Document:
    """The user that a resource makes of a new user."""
    return user_mapping.to_user({"data": {}}, {"userName": "jo", **attributes})


def restored(**attributes: Any) -> Document:
    """What is shown of a resource after it was stored."""
    user = {"id": "x", "active": True, **converted(**attributes)}
    return user_mapping.to_resource(user, {"schemas": []})


@pytest.mark.parametrize(
    ("emails", "email"),
    [
        ([{"value": "a@x.com"}], "a@x.com"),
        ([{"value": "a@x.com"}, {"value": "b@x.com", "primary": True}], "b@x.com"),
        ([{"value": "no address"}], None),
        ([], None),
    ],
)
def test_primary_or_first_email_is_that_of_the_user(emails: list[Document], email: str | None) -> None:
    assert converted(emails=emails).get("email") == email
    assert restored(emails=emails).get("emails", []) == emails


@pytest.mark.parametrize(
    ("value", "phone"), [("555-555-5555", "555-555-5555"), ("tel:+1-201-555-0123", "+1-201-555-0123"), ("none", None)]
)
def test_phone_number_is_that_of_the_user_if_it_can_be_dialled(value: str, phone: str | None) -> None:
    assert converted(phoneNumbers=[{"value": value}]).get("mobilePhone") == phone


def test_changed_email_of_the_user_is_shown_in_its_entry() -> None:
    user = converted(emails=[{"value": "a@x.com", "type": "home"}, {"value": "b@x.com"}])
    changed = user_mapping.to_resource({"id": "x", "active": True, **user, "email": "new@x.com"}, {})
    assert changed["emails"] == [{"value": "new@x.com", "type": "home"}, {"value": "b@x.com"}]
    removed = user_mapping.to_resource({"id": "x", "active": True, **user, "email": None}, {})
    assert removed["emails"] == [{"value": "b@x.com"}]


def test_missing_active_leaves_the_state_unchanged() -> None:
    assert "active" not in converted()
    assert converted(active=False)["active"] is False


def test_stored_members_that_scim_does_not_manage_remain() -> None:
    assert user_mapping.with_external_id({"a": 1, "externalId": "x"}, None) == {"a": 1}
    assert user_mapping.with_external_id({"a": 1}, "x") == {"a": 1, "externalId": "x"}


def test_repeated_member_counts_once() -> None:
    user_id = "2f8a2f3c-2f8a-4f3c-8f3c-2f8a2f3c2f8a"
    members = group_mapping.read_members([{"userId": user_id.upper()}, {"userId": user_id, "data": {"a": 1}}])
    assert members == {user_id: {"userId": user_id, "data": {"a": 1}}}
    with pytest.raises(ScimError):
        group_mapping.read_members([{"userId": "x"}])


def test_patch_without_members_is_left_as_it_is() -> None:
    body = {"Operations": [{"op": "replace", "path": "displayName", "value": "x"}]}
    plan, rest = group_mapping.split(body)
    assert (plan.replaced, plan.added, plan.removed, rest) == (None, {}, set(), body)


def test_patch_of_members_only_leaves_nothing() -> None:
    plan, rest = group_mapping.split({"operations": [{"op": "ADD", "value": {"Members": [{"value": "A"}]}}]})
    assert (plan.requested, rest) == ([{"value": "A"}], None)


@pytest.mark.parametrize("body", [{}, {"Operations": []}, {"Operations": {}}, {"Operations": [1]}])
def test_patch_without_operations_is_left_to_the_protocol(body: Document) -> None:
    _, rest = group_mapping.split(body)
    assert rest == body
    with pytest.raises(ScimError):
        messages.apply_patch(TENANT, "Group", {"displayName": "x"}, rest)


def test_errors_do_not_repeat_values() -> None:
    with pytest.raises(ScimError) as refused:
        messages.read_resource(TENANT, "User", {"userName": "jo", "password": ["s3cret-value"]})
    assert "s3cret-value" not in refused.value.message
    operations = [{"op": "replace", "path": "password", "value": {"s3cret": "s3cret-value"}}]
    with pytest.raises(ScimError) as refused:
        messages.apply_patch(TENANT, "User", {"userName": "jo"}, {"Operations": operations})
    assert "s3cret-value" not in refused.value.message


def test_patch_with_its_operations_twice_applies_the_first() -> None:
    title, name = ({"op": "add", "path": path, "value": "x"} for path in ("title", "nickName"))
    patched = messages.apply_patch(
        TENANT, "User", {"userName": "jo"}, {"operations": [title], "Operations": [name, name]}
    )
    assert (patched["title"], "nickName" in patched) == ("x", False)


@pytest.mark.parametrize(("path", "scim_type"), [("", "invalidPath"), (None, "noTarget")])
def test_removal_without_a_path_has_no_target(path: str | None, scim_type: str) -> None:
    with pytest.raises(ScimError) as refused:
        messages.apply_patch(TENANT, "User", {"userName": "jo"}, {"Operations": [{"op": "remove", "path": path}]})
    assert (refused.value.status, refused.value.scim_type) == (400, scim_type)
