"""Forms made from JSON Schemas: labels, help, constraints and choices come from the schema of the API."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity import permissions
from identity.web.console import form_steps, values
from identity.web.console.layouts import Layout, member_of, with_member

_LONG: Final = 2048
_FORMATS: Final = {"uri": "url", "url": "url", "email": "email", "date": "date"}
_LABELS: Final = {"id": "Id", "insertInstant": "Created", "lastUpdateInstant": "Changed", "tenantId": "Tenant"}
_SIMPLE: Final = {"boolean": "checkbox", "integer": "number", "number": "number"}

Options = Mapping[str, Sequence[tuple[str, str]]]
"""The choices of members that refer to other objects: pairs of id and name, by slug."""
Errors = Mapping[str, Sequence[str]]
"""Messages by the path of the member that they are about."""


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a form; `name` is the path that errors of the API have."""

    member: str
    name: str
    label: str
    kind: str
    help: str = ""
    value: Any = ""
    is_required: bool = False
    choices: Sequence[tuple[str, str]] = ()
    maximum_length: int | None = None
    errors: Sequence[str] = ()
    placeholder: str = ""
    steps: Sequence[form_steps.Step] = ()
    sections: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()

    @property
    def id(self) -> str:
        """The id of the element."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A group of fields."""

    title: str
    lead: str
    fields: Sequence[Field]


def groups(
    schema: Mapping[str, Any],
    layout: Layout,
    document: Mapping[str, Any],
    options: Options,
    errors: Errors | None = None,
    *,
    is_new: bool = False,
    wanted: Sequence[str] = (),
) -> list[Group]:
    """Return the fields of a resource with the values of a document and the errors of the API at their fields.

    `wanted` restricts the form to some members.
    """
    found = []
    for group in layout.groups:
        if any(member_of(document, name) != value for name, value in group.when.items()):
            continue
        members = _members(layout, group.members, is_new=is_new)
        members = [member for member in members if not wanted or member in wanted]
        fields = [_field(schema, layout, member, document, options, errors or {}, is_new=is_new) for member in members]
        found.append(Group(group.title, group.lead, [field for field in fields if field is not None]))
    return [group for group in found if group.fields]


def _members(layout: Layout, members: Sequence[str], *, is_new: bool) -> list[str]:
    """Return the members of a group that a creation, or else an update, accepts."""
    if is_new:
        return [member for member in members if not layout.creation or member in layout.creation]
    return [member for member in members if member not in layout.creation or member in layout.name]


def _field(
    schema: Mapping[str, Any],
    layout: Layout,
    member: str,
    document: Mapping[str, Any],
    options: Options,
    errors: Errors,
    *,
    is_new: bool,
) -> Field | None:
    """Return the field of a member; None for one that the service sets."""
    name = layout.path_of(member)
    declared, is_required = declaration(schema, name)
    if declared.get("readOnly"):
        return None
    kind, value = _kind(declared, layout, member, options), member_of(document, member)
    if value is None and (kind == "checkbox" or (is_new and not errors)):
        value = declared.get("default")
    choices = _choices(declared, layout, member, options)
    if kind in {"select", "choices"}:
        known, chosen = {choice for choice, _ in choices}, value if isinstance(value, list) else [value]
        choices = [*choices, *((str(each), str(each)) for each in chosen if each is not None and each not in known)]
    label = layout.labels.get(member) or label_of(member)
    return Field(
        member,
        name,
        label,
        kind,
        help_text(declared.get("description", ""), label, layout.singular, kind),
        values.shown(kind, value),
        is_required and kind not in {"checkbox", "choices", "flags"} and (is_new or kind != "secret"),
        choices,
        declared.get("maxLength"),
        _errors_of(name, errors),
        _example(declared),
        form_steps.inputs(name, value, choices, errors) if kind == "steps" else (),
        sections(choices, options[layout.sections[member]]) if layout.sections.get(member) in options else (),
    )


def sections(
    choices: Sequence[tuple[str, str]], titles: Sequence[tuple[str, str]]
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return choices in sections, by the titles of their values."""
    found, title_of = dict[str, list[tuple[str, str]]](), dict(titles)
    for value, text in choices:
        found.setdefault(title_of.get(value, "Other"), []).append((value, text))
    return list(found.items())


def _example(declared: Mapping[str, Any]) -> str:
    """Return the first example of the schema; empty without one."""
    example = next(iter(declared.get("examples", ())), "")
    return example if isinstance(example, str) else json.dumps(example, indent=2)


def declaration(schema: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], bool]:
    """Return the schema of a dotted member, and whether it is required. Raises LookupError for an unknown one."""
    is_required = False
    for step in path.split("."):
        found = schema.get("properties", {}).get(step)
        if found is None:
            raise LookupError(f"the schema has no member {path}")
        is_required = step in schema.get("required", ())
        schema = found
    return schema, is_required


def label_of(member: str) -> str:
    """Return a label for a member: `connectTimeout` is "Connect timeout"."""
    if member in _LABELS:
        return _LABELS[member]
    last = member.rpartition(".")[2].replace("_", " ").removesuffix("Instant")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", last).split(" ")
    text = " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words)
    text = text.removesuffix(" id") or text
    return text[:1].upper() + text[1:]


def _kind(declared: Mapping[str, Any], layout: Layout, member: str, options: Options) -> str:
    """Return the kind of the field of a member."""
    types = declared.get("type", "string")
    kind = next(each for each in types if each != "null") if isinstance(types, list) else types
    if member in layout.secrets or declared.get("writeOnly"):
        return "secret"
    if member in layout.matrix or member in layout.images:
        return "matrix" if member in layout.matrix else {"array": "icon"}.get(kind, "image")
    if member in layout.steps and layout.references[member] in options:
        return "steps"
    is_long = declared.get("maxLength", 0) > _LONG and not member.lower().endswith("url")
    if member in layout.code or is_long:
        return "code"
    if "enum" in declared or layout.references.get(member) in options:
        return "choices" if kind == "array" else "select"
    if member.endswith("Instant") and kind == "integer":
        return "instant"
    if kind in {"array", "object"}:
        return _collection_kind(declared)
    text = "color" if member.endswith("Color") else "text"
    return _SIMPLE.get(kind) or _FORMATS.get(declared.get("format", ""), text)


def _collection_kind(declared: Mapping[str, Any]) -> str:
    """Return the kind of the field of an array or an object."""
    items, members = declared.get("items", {}), declared.get("additionalProperties")
    if "enum" in items:
        return "choices"
    if items.get("type") == "string":
        return "lines"
    if isinstance(members, dict) and members.get("type") == "boolean" and "enum" in declared.get("propertyNames", {}):
        return "flags"
    is_texts = isinstance(members, dict) and members.get("type") == "string" and members.get("maxLength", 0) <= _LONG
    return "pairs" if is_texts else "json"


def _choices(declared: Mapping[str, Any], layout: Layout, member: str, options: Options) -> Sequence[tuple[str, str]]:
    if member in layout.matrix:
        return [(endpoint, " ".join(sorted(methods))) for endpoint, methods in sorted(permissions.ENDPOINTS.items())]
    if layout.references.get(member) in options:
        return options[layout.references[member]]
    found = declared.get("enum") or declared.get("items", {}).get("enum")
    found = found or declared.get("propertyNames", {}).get("enum") or ()
    return [(str(value), str(value)) for value in found]


def _errors_of(name: str, errors: Errors) -> list[str]:
    found = [path for path in errors if path == name or path.startswith((f"{name}.", f"{name}["))]
    return [message for path in found for message in errors[path]]


_WORD: Final = re.compile(r"[a-z0-9]+")
_FILLERS: Final = re.compile(
    "address|an?|and|are|be|by|for|ha[sv]e?|in|is|its?|object|of|that|the|this|to|whether|with"
)
"""Words that say nothing of their own."""
_HINTS: Final = {"lines": "One per line.", "pairs": "One “name: value” per line.", "instant": "In UTC."}
"""How to fill in a field, by its kind."""


def help_text(description: str, label: str, singular: str, kind: str) -> str:
    """Return the help text of a field of an object; `singular` is what the object is called."""
    informative = "" if _repeats(description, label, singular) else description
    return " ".join(filter(None, (informative, _HINTS.get(kind, ""))))


def _repeats(description: str, label: str, singular: str) -> bool:
    """Whether a description has no word that the label lacks, apart from the name of the object."""
    own, named = _words(label), _words(singular)
    added = [word for word in _words(description) if word not in named]
    return set(added) <= set(own) or "".join(added) == "".join(own)


def _words(text: str) -> list[str]:
    """Return the words of a text that are no fillers, in lower case and in the singular."""
    words = _WORD.findall(text.lower())
    return [word.removesuffix("s") for word in words if not _FILLERS.fullmatch(word)]


def apply(
    fields: Sequence[Group], document: Mapping[str, Any], form: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the document with the values of a submitted form, and the errors of fields that cannot be read."""
    changed, errors = dict(document), dict[str, list[str]]()
    for field in (field for group in fields for field in group.fields):
        given = [text.replace("\r\n", "\n") for text in form.get(field.name, ())]
        if field.kind == "secret" and not "".join(given):
            continue
        try:
            value = _value(field, given, document, form)
        except values.UnreadableError as error:
            errors[field.name] = [str(error)]
            continue
        is_untouched = value in (None, False) and not field.value
        if is_untouched and member_of(changed, field.member) is None:
            continue
        changed = with_member(changed, field.member, value)
    return changed, errors


def _value(field: Field, given: Sequence[str], document: Mapping[str, Any], form: Mapping[str, Sequence[str]]) -> Any:
    """Return the value of a field. Raises UnreadableError."""
    if field.kind == "steps":
        return form_steps.read(field.name, form)
    return values.read(field.kind, given, field.choices, member_of(document, field.member))
