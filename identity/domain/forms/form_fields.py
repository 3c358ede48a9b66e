"""Form fields: what the service decides about them, and the errors of a definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from identity.call import Document
from identity.domain.forms import field_keys, field_values
from identity.errors import FieldError

_FIXED: Final[tuple[str, ...]] = ("consentId", "control", "key", "type")
"""The members that cannot be changed."""

WITH_OPTIONS: Final = frozenset({"checkbox", "radio", "select"})
"""The controls that may have options."""

_CHOICE: Final = frozenset({"radio", "select"})


def complete(field: Document, stored: Document | None) -> Document:
    """Return a field with the members that the service decides; those of a stored field stay."""
    if stored is not None:
        kept = {name: stored[name] for name in _FIXED if name in stored}
        return {**{name: value for name, value in field.items() if name not in _FIXED}, **kept}
    if field["type"] == "consent":
        return {**field, "key": field_keys.of_consent(field.get("consentId", "")), "control": "checkbox"}
    key = field.get("key", "")
    field = {name: value for name, value in field.items() if name != "consentId"}
    if key in field_keys.PREDEFINED:
        control, data_type = field_keys.PREDEFINED[key]
        return {**field, "control": control, "type": data_type}
    return field


def problems(field: Document) -> list[FieldError]:
    """Return the errors of a complete field."""
    return [*_key_problems(field), *_option_problems(field), *_input_problems(field)]


def _key_problems(field: Document) -> Iterator[FieldError]:
    if field["type"] == "consent":
        if "consentId" not in field:
            yield _error("missing", "consentId", "is required for the type consent")
        return
    key = field.get("key", "")
    if not key:
        yield _error("blank", "key", "is required")
    elif key not in field_keys.PREDEFINED and not field_keys.is_custom(key):
        yield _error("invalid", "key", "must be a predefined key, or start with user.data. or registration.data.")


def _option_problems(field: Document) -> Iterator[FieldError]:
    options = field["options"]
    if options and field["control"] not in WITH_OPTIONS:
        yield _error("invalid", "options", "require the control checkbox, radio or select")
    elif options and field["type"] in {"bool", "consent", "number"}:
        for index, option in enumerate(options):
            if field["type"] == "consent" or field_values.convert(field["type"], option) is None:
                yield _error("invalid", f"options[{index}]", f"does not fit the type {field['type']}")
    is_custom = field_keys.is_custom(field.get("key", ""))
    needs_options = field["control"] in _CHOICE or (field["control"] == "checkbox" and field["type"] != "bool")
    if is_custom and needs_options and not options:
        yield _error("missing", "options", "are required for this control")


def _input_problems(field: Document) -> Iterator[FieldError]:
    if field["confirm"] and field["control"] in WITH_OPTIONS:
        yield _error("invalid", "confirm", "must be false for a control with choices")
    validator = field["validator"]
    expression = validator.get("expression", "")
    if validator["enabled"] and not expression:
        yield _error("blank", "validator.expression", "is required")
    if expression and not field_values.is_valid_expression(expression):
        yield _error("invalid", "validator.expression", "must be a regular expression in the syntax of RE2")


def _error(kind: str, member: str, reason: str) -> FieldError:
    return FieldError.of(kind, f"field.{member}", f"The [field.{member}] {reason}.")
