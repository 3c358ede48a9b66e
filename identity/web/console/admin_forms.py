"""The forms that arrange the screens of users and registrations: of a tenant, and of an application."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.forms import field_keys, field_values
from identity.operations.forms import forms as form_definitions
from identity.services import Services
from identity.web.console.layouts import Group, Layout, member_of, with_member

_TYPES: Final[Mapping[str, Document]] = {
    "bool": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "email": {"type": "string", "format": "email"},
    "number": {"type": "number"},
}
_CUSTOM: Final = re.compile(r"data(\.[A-Za-z0-9_-]+)+")
_MESSAGES: Final = {
    "blank": "Enter a value.",
    "missing": "Enter a value.",
    "notEmail": "Enter an email address.",
    "tooLong": "The value is too long.",
    "invalid": "The form does not allow this value.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Arrangement:
    """The layout and the schema of a screen, and the fields of the form that arranged them."""

    layout: Layout
    schema: Mapping[str, Any]
    fields: Sequence[Document] = ()


async def arrange(services: Services, form_id: str | None, layout: Layout, schema: Mapping[str, Any]) -> Arrangement:
    """Return a screen with the fields of a form; unchanged without one."""
    form = await form_definitions.find(services, form_id)
    if form is None:
        return Arrangement(layout, schema)
    return _arranged(layout, schema, await form_definitions.load_steps(services, form))


def _arranged(layout: Layout, schema: Mapping[str, Any], steps: Sequence[Sequence[Document]]) -> Arrangement:
    labels, groups, shown = dict(layout.labels), [], []
    for number, step in enumerate(steps, 1):
        members = []
        for field in step:
            path = field["key"]
            member = path.removeprefix(f"{layout.wrapper}.")
            if _CUSTOM.fullmatch(member):
                schema = with_member(schema, _schema_path(path), _declaration(field))
                labels[member] = field["name"]
            elif member_of(schema, _schema_path(path)) is None:
                continue
            members.append(member)
            shown.append(field)
        groups.append(Group(f"Step {number}" if len(steps) > 1 else layout.wrapper.capitalize(), members))
    return Arrangement(dataclasses.replace(layout, groups=groups, labels=labels), schema, shown)


def _schema_path(path: str) -> str:
    """Return where a JSON Schema declares a member: `user.email` at `properties.user.properties.email`."""
    return ".".join(f"properties.{step}" for step in path.split("."))


def _declaration(field: Document) -> Document:
    """Return the JSON Schema of a custom field."""
    declared = {"type": "string", **_TYPES.get(field["type"], {}), "description": field.get("description", "")}
    if not field.get("options"):
        return declared
    if field["control"] == "checkbox":
        return {**declared, "type": "array", "items": {"enum": field["options"]}}
    return {**declared, "enum": field["options"]}


def problems(
    fields: Sequence[Document], form: Mapping[str, Sequence[str]], unchanged: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return the errors of a submitted form by the key of the field; fields that stay `unchanged` may be empty."""
    found: dict[str, list[str]] = {}
    for field in fields:
        key = field["key"]
        texts = [text.replace("\r\n", "\n") for text in form.get(key, ())]
        if key in unchanged and not "".join(texts):
            continue
        # The screens ask for each value once.
        errors = field_values.problems({**field, "confirm": False}, _answer(field, texts), {})
        if errors:
            found[key] = [_MESSAGES[error.code[1:].partition("]")[0]] for error in errors]
    return found


def _answer(field: Document, texts: Sequence[str]) -> Any:
    if field_values.has_options(field):
        return list(texts)
    if field["key"] in field_keys.LISTS:
        return " ".join(texts).strip()
    return texts[-1].strip() if texts else ""
