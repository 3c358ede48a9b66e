"""The steps of a form of users: their inputs, and what the buttons next to them change."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from identity.call import Document

EDIT: Final = "console.edit"
"""The name of buttons that change the form on the page; their value is the path of an item and a verb."""
TYPES: Final[Mapping[str, str]] = {
    "collectData": "Fields",
    "verifyEmail": "Verify email",
    "verifyPhoneNumber": "Verify phone number",
}
_COLLECTS: Final = "collectData"
_ITEM: Final = re.compile(r"\[([0-9]{1,2})\](?:\.fields\[([0-9]{1,2})\])? (up|down|remove)")
_MAXIMUM_STEPS: Final = 20
_MAXIMUM_FIELDS: Final = 50

Errors = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class ChosenField:
    """A field of a step: the path of its input, its id and name."""

    path: str
    id: str
    name: str
    errors: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A step: its path, its type, the chosen fields, and the fields that can be added."""

    path: str
    type: str
    fields: Sequence[ChosenField]
    choices: Sequence[tuple[str, str]]
    errors: Sequence[str]


def inputs(name: str, value: Any, choices: Sequence[tuple[str, str]], errors: Errors) -> list[Step]:
    """Return the inputs of the steps at the path `name`; without any, those of an empty step."""
    steps = value or [{"type": _COLLECTS}]
    names = dict(choices)
    used = {field_id for step in steps for field_id in step.get("fields", ())}
    unused = [choice for choice in choices if choice[0] not in used]
    return [_step(f"{name}[{index}]", step, names, unused, errors) for index, step in enumerate(steps)]


def _step(
    path: str, step: Document, names: Mapping[str, str], unused: Sequence[tuple[str, str]], errors: Errors
) -> Step:
    ids, step_type = step.get("fields", ()), step["type"]
    paths = [f"{path}.fields[{index}]" for index in range(len(ids))]
    fields = [
        ChosenField(at, field_id, names.get(field_id, field_id), errors.get(at, ()))
        for at, field_id in zip(paths, ids, strict=True)
    ]
    own = [message for at in (path, f"{path}.type", f"{path}.fields") for message in errors.get(at, ())]
    return Step(path, step_type, fields, unused if step_type == _COLLECTS else (), own)


def read(name: str, form: Mapping[str, Sequence[str]]) -> list[Document]:
    """Return the steps of a submitted form, with the change of the button that submitted it."""
    return _edited(name, list(_read(name, form)), (form.get(EDIT) or [""])[-1])


def _read(name: str, form: Mapping[str, Sequence[str]]) -> Iterator[Document]:
    for index in range(_MAXIMUM_STEPS + 1):
        path = f"{name}[{index}]"
        step_type = (form.get(f"{path}.type") or [""])[-1]
        if not step_type:
            continue
        given = [form.get(f"{path}.fields[{position}]") or [""] for position in range(_MAXIMUM_FIELDS + 1)]
        fields = [texts[-1] for texts in given if texts[-1]]
        yield {"type": step_type, "fields": fields} if fields or step_type == _COLLECTS else {"type": step_type}


def _edited(name: str, steps: list[Document], command: str) -> list[Document]:
    """Return the steps with one added, or with a step or a field moved or removed."""
    if command == f"{name} add":
        return [*steps, {"type": _COLLECTS, "fields": []}]
    found = _ITEM.fullmatch(command.removeprefix(name))
    if found is None:
        return steps
    index, position, verb = int(found[1]), found[2], found[3]
    if position is None:
        return _changed(steps, index, verb)
    if index < len(steps):
        fields = _changed(steps[index].get("fields", []), int(position), verb)
        steps[index] = {**steps[index], "fields": fields}
    return steps


def _changed(items: Sequence[Any], index: int, verb: str) -> list[Any]:
    """Return the items with one moved or removed; a move beyond either end changes nothing."""
    changed = list(items)
    if index >= len(changed):
        return changed
    item = changed.pop(index)
    if verb != "remove":
        changed.insert(max(index - 1, 0) if verb == "up" else index + 1, item)
    return changed


def texts(steps: Sequence[Document], names: Mapping[str, str]) -> list[str]:
    """Return a line for each step: the names of its fields, or what it verifies."""
    found = []
    for number, step in enumerate(steps, 1):
        fields = ", ".join(names.get(field_id, field_id) for field_id in step.get("fields", ()))
        found.append(f"{number}. {fields or TYPES.get(step['type'], step['type'])}")
    return found
