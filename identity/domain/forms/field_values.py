"""The values of form fields: their conversion from the texts of a submitted form, and their errors."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import re2

from identity.call import Document
from identity.domain.forms import field_keys
from identity.errors import FieldError
from identity.schemas import is_email

CONFIRM: Final = "confirm."
"""The prefix of the field in which a value is repeated."""

_MAXIMUM_LENGTH: Final = {"textarea": 10_000}
_DEFAULT_LENGTH: Final = 1000
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")
_MAXIMUM_EXPRESSION_BYTES: Final = 1 << 20


def option_name(key: str, index: int) -> str:
    """Return the name of the checkbox of one option."""
    return f"{key}#{index}"


def has_options(field: Document) -> bool:
    """Whether a field is a group of checkboxes, of which several can be selected."""
    return field["control"] == "checkbox" and bool(field["options"])


def convert(data_type: str, text: str) -> Any:
    """Return a text as a value of a type; None if it is not one."""
    match data_type:
        case "bool":
            return {"true": True, "false": False}.get(text)
        case "number":
            return _number(text)
        case "date":
            return text if _is_date(text) else None
        case "email":
            return text if is_email(text) else None
    return text


def read(fields: Sequence[Document], form: Mapping[str, str]) -> dict[str, Any]:
    """Return the texts that a form has for some fields, by key: all others are ignored.

    The value is a list for a group of checkboxes. The password is not trimmed.
    """
    return {field["key"]: _read(field, form) for field in fields}


def problems(field: Document, answer: Any, form: Mapping[str, str]) -> list[FieldError]:
    """Return the errors of the answer to one field; `form` has the repeated value of a field to confirm.

    They have no message: pages have a text for each kind.
    """
    key = field["key"]
    if not answer:
        kind = "blank" if key in field_keys.PREDEFINED else "missing"
        return [FieldError.of(kind, key, "")] if field["required"] else []
    kind = next((found for text in _texts(answer) if (found := _text_problem(field, text))), "")
    if kind:
        return [FieldError.of(kind, key, "")]
    if field["confirm"] and _trimmed(field, form.get(CONFIRM + key, "")) != answer:
        return [FieldError.of("doNotMatch", CONFIRM + key, "")]
    return []


def value(field: Document, answer: Any) -> Any:
    """Return the value to store for a valid answer; None for a blank one."""
    if isinstance(answer, list):
        return [convert(field["type"], text) for text in answer] or None
    if field["type"] == "bool" and not answer:
        return False
    if not answer:
        return None
    return answer.replace(",", " ").split() if field["key"] in field_keys.LISTS else convert(field["type"], answer)


def to_answer(field: Document, stored: Any) -> Any:
    """Return the text, or the texts, that the form shows for a stored value."""
    if isinstance(stored, list):
        texts = [_text_of(item) for item in stored if item is not None]
        return texts if has_options(field) else " ".join(texts)
    return [] if stored is None and has_options(field) else _text_of(stored)


def _read(field: Document, form: Mapping[str, str]) -> Any:
    key = field["key"]
    if has_options(field):
        names = ((option, option_name(key, index)) for index, option in enumerate(field["options"]))
        return [option for option, name in names if form.get(name)]
    return _trimmed(field, form.get(key, ""))


def _trimmed(field: Document, text: str) -> str:
    return text if field["control"] == "password" else text.replace("\r\n", "\n").strip()


def _texts(answer: Any) -> list[str]:
    return answer if isinstance(answer, list) else [answer]


def _text_problem(field: Document, text: str) -> str:
    """Return the kind of the error of a text; empty for a valid one."""
    if len(text) > _MAXIMUM_LENGTH.get(field["control"], _DEFAULT_LENGTH):
        return "tooLong"
    if convert(field["type"], text) is None:
        return "invalid" if field["type"] != "email" else "notEmail"
    if field["options"] and text not in field["options"]:
        return "invalid"
    validator = field["validator"]
    if validator["enabled"] and not matches_expression(validator["expression"], text):
        return "invalid"
    return ""


def _number(text: str) -> int | float | None:
    if _NUMBER.fullmatch(text) is None:
        return None
    return float(text) if "." in text else int(text)


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _text_of(stored: Any) -> str:
    if isinstance(stored, bool):
        return "true" if stored else "false"
    return "" if stored is None else str(stored)


def is_valid_expression(expression: str) -> bool:
    """Whether RE2 accepts the expression, within the memory limit."""
    try:
        _compiled(expression)
    except re2.error:
        return False
    return True


def matches_expression(expression: str, text: str) -> bool:
    """Whether the expression of an administrator matches the whole text, in linear time."""
    return _compiled(expression).fullmatch(text) is not None


@functools.lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    """Compile with RE2, which has no backreferences and no lookaround, so that it cannot block the event loop."""
    options = re2.Options()
    options.max_mem = _MAXIMUM_EXPRESSION_BYTES
    options.log_errors = False
    return re2.compile(expression, options)
