"""Values of form fields: conversion, errors, and expressions of administrators."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.forms import field_values

Document = dict[str, Any]


def field(**members: Any) -> Document:
    return {
        "key": "user.data.a",
        "control": "text",
        "type": "string",
        "options": [],
        "required": False,
        "confirm": False,
        "validator": {"enabled": False},
        **members,
    }


@pytest.mark.parametrize(
    ("data_type", "text", "expected"),
    [
        ("number", "12", 12),
        ("number", "-3.50", -3.5),
        *[("number", text, None) for text in ("", "1e9", "NaN", "Infinity", "0x1", "1,5", "1" * 16, "\u0661", "1.")],
        ("bool", "true", True),
        ("bool", "false", False),
        ("bool", "yes", None),
        ("date", "2024-02-29", "2024-02-29"),
        ("date", "2023-02-29", None),
        ("date", "20240229", None),
        ("email", "a@example.com", "a@example.com"),
        ("email", "a@b@c", None),
        ("string", "<b>", "<b>"),
    ],
)
def test_text_is_converted_to_the_type(data_type, text, expected) -> None:
    assert field_values.convert(data_type, text) == expected


@pytest.mark.parametrize(
    ("members", "answer", "expected"),
    [
        ({}, "", []),
        ({"required": True}, "", ["[missing]user.data.a"]),
        ({"required": True, "key": "user.firstName"}, "", ["[blank]user.firstName"]),
        ({"required": True, "control": "checkbox", "type": "bool"}, "", ["[missing]user.data.a"]),
        ({"required": True, "control": "checkbox", "options": ["x"]}, [], ["[missing]user.data.a"]),
        ({}, "x" * 1001, ["[tooLong]user.data.a"]),
        ({"control": "textarea"}, "x" * 1001, []),
        ({"control": "select", "options": ["x"]}, "y", ["[invalid]user.data.a"]),
        ({"control": "checkbox", "options": ["x", "y"]}, ["x", "z"], ["[invalid]user.data.a"]),
        ({"type": "email"}, "x", ["[notEmail]user.data.a"]),
        ({"type": "number"}, "x", ["[invalid]user.data.a"]),
        ({"validator": {"enabled": True, "expression": "[a-z]+"}}, "abc", []),
        ({"validator": {"enabled": True, "expression": "[a-z]+"}}, "abc1", ["[invalid]user.data.a"]),
        ({"validator": {"enabled": False, "expression": "[a-z]+"}}, "1", []),
        ({"confirm": True}, "x", ["[doNotMatch]confirm.user.data.a"]),
    ],
)
def test_errors_of_an_answer(members, answer, expected) -> None:
    found = field_values.problems(field(**members), answer, {"confirm.user.data.a": "other"})
    assert [error.code for error in found] == expected


def test_only_options_of_checkboxes_are_read() -> None:
    boxes = field(control="checkbox", options=["a", "b", "c"])
    form = {"user.data.a#0": "x", "user.data.a#2": "c", "user.data.a#3": "d", "user.data.a": "e"}
    assert field_values.read([boxes], form) == {"user.data.a": ["a", "c"]}


@pytest.mark.parametrize(
    ("members", "value", "answer"),
    [
        ({}, None, ""),
        ({}, "x", "x"),
        ({"type": "bool"}, True, "true"),
        ({"type": "number"}, 1.5, "1.5"),
        ({"control": "checkbox", "options": ["a", "b"]}, ["b"], ["b"]),
        ({"control": "checkbox", "options": ["a", "b"]}, None, []),
    ],
)
def test_stored_value_is_shown_and_read_as_the_same(members, value, answer) -> None:
    assert field_values.to_answer(field(**members), value) == answer
    assert field_values.value(field(**members), answer) == value


def test_password_is_not_trimmed() -> None:
    secret = field(key="user.password", control="password")
    assert field_values.read([secret], {"user.password": " a "}) == {"user.password": " a "}


@pytest.mark.timeout(5)
@pytest.mark.requirement("forms-6")
@pytest.mark.parametrize("expression", ["(a|aa)+$", "(a+)+b", "(.*a){20}", "([a-zA-Z]+)*1"])
def test_no_expression_takes_more_than_linear_time(expression) -> None:
    assert not field_values.matches_expression(expression, "a" * 10_000 + "!")
