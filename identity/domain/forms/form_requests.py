"""The members of users and registrations that the answers to a form set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from identity.call import Document
from identity.domain.forms import field_keys, field_values
from identity.errors import FieldError


def members(fields: Iterable[Document], answers: Mapping[str, Any], start: Document) -> Document:
    """Return `start`, which has the members `user` and `registration`, changed by valid answers to some fields."""
    changed = dict(start)
    for field in fields:
        key = field["key"]
        owner = field_keys.owner_of(key)
        if owner in changed and key in answers:
            value = field_values.value(field, answers[key])
            changed[owner] = field_keys.with_value(changed[owner], field_keys.path_of(key), value)
    return changed


def problems(fields: Sequence[Document], answers: Mapping[str, Any], form: Mapping[str, str]) -> list[FieldError]:
    """Return the errors of the answers to all fields of a step."""
    return [error for field in fields for error in field_values.problems(field, answers.get(field["key"]), form)]
