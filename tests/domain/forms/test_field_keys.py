"""Keys of form fields, and the members that they set."""

from __future__ import annotations

import pytest

from identity.domain.forms import field_keys


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("user.firstName", ("firstName",)),
        ("user.data.color", ("data", "color")),
        ("user.data['a-b'].c_d", ("data", "a-b", "c_d")),
        ("registration.data.seats[12]['row']", ("data", "seats", 12, "row")),
    ],
)
def test_path_has_the_names_and_positions_of_a_key(key, path) -> None:
    assert field_keys.path_of(key) == path
    assert key in field_keys.PREDEFINED or field_keys.is_custom(key)


@pytest.mark.parametrize(
    "key",
    [
        "", "user", "user.id", "user.data", "user.data.", "user.data..a", "user.data[1]", "user.data.a[-1]", "data.a",
        "user.data.a[999]", "user.data['a", "user.data.$a", "user.data.a.__proto__", "registration.data.constructor",
        "consents.a", "user.data.é", "user.data." + "a" * 65, "user.data" + ".a" * 9, "USER.data.a",
    ],
)  # fmt: skip
def test_other_keys_are_not_custom_ones(key) -> None:
    assert not field_keys.is_custom(key)


@pytest.mark.parametrize(
    ("document", "path", "value", "expected"),
    [
        ({}, ("a", "b"), 1, {"a": {"b": 1}}),
        ({"a": {"c": 2}}, ("a", "b"), 1, {"a": {"b": 1, "c": 2}}),
        ({"a": 3}, ("a", "b"), 1, {"a": {"b": 1}}),
        ({}, ("a", 2), "x", {"a": [None, None, "x"]}),
        ({"a": ["y", "z"]}, ("a", 0), "x", {"a": ["x", "z"]}),
        ({"a": [{"b": 1}]}, ("a", 0, "c"), 2, {"a": [{"b": 1, "c": 2}]}),
        ({"a": {"b": 1, "c": 2}}, ("a", "b"), None, {"a": {"c": 2}}),
        ({"a": 1}, ("b",), None, {"a": 1}),
    ],
)
def test_value_is_set_in_a_copy(document, path, value, expected) -> None:
    before = repr(document)
    changed = field_keys.with_value(document, path, value)
    assert changed == expected
    assert repr(document) == before
    assert field_keys.value_of(changed, path) == value


def test_missing_value_is_none() -> None:
    assert field_keys.value_of({"a": [1]}, ("a", 3)) is None
    assert field_keys.value_of({"a": 1}, ("a", "b", "c")) is None
