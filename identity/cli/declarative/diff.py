"""The text of a plan, in the manner of Terraform."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any, Final

from identity.call import Document
from identity.cli.declarative import documents
from identity.cli.declarative.plan import Change, Plan

_MARKS: Final = {"create": "+", "update": "~", "delete": "-"}
_STYLES: Final = {"+": "green", "~": "yellow", "-": "red"}
_SECRET: Final = "(secret)"  # noqa: S105 (stands in place of one)
_ABSENT: Final = object()
_LONGEST: Final = 160

Line = tuple[str, str]
"""The style and the text of a line."""


def lines(plan: Plan) -> Iterator[Line]:
    """Yield the lines of a plan."""
    for change in plan.changes:
        mark, subject = _MARKS[change.action], change.subject
        yield _STYLES[mark], f"{mark} {subject.kind.name} {subject.name!r} ({subject.id})"
        yield from (("", f"    {line}") if not style else (style, f"    {line}") for style, line in _members(change))
        yield "", ""
    for kept in plan.kept:
        stays = kept.subject
        yield "dim", f"  {stays.kind.name} {stays.name!r} ({stays.id}) is in no file, and stays: {kept.reason}"
    yield "bold", summary(plan)


def summary(plan: Plan) -> str:
    """Return the last line: the number of changes."""
    if not plan.changes:
        return "No changes. The instance matches the files."
    counts = {action: sum(change.action == action for change in plan.changes) for action in _MARKS}
    return f"Plan: {counts['create']} to create, {counts['update']} to change, {counts['delete']} to delete."


def as_json(plan: Plan) -> Document:
    """Return the plan for programs; secrets are masked."""
    changes = [
        {
            "action": change.action,
            "kind": change.subject.kind.name,
            "id": change.subject.id,
            "name": change.subject.name,
            "members": [{"path": path, "before": old, "after": new} for path, old, new in _differences(change)],
        }
        for change in plan.changes
    ]
    return {
        "changes": changes,
        "unmanaged": [
            {"kind": kept.subject.kind.name, "id": kept.subject.id, "name": kept.subject.name, "reason": kept.reason}
            for kept in plan.kept
        ],
    }


def _members(change: Change) -> Iterator[Line]:
    if change.action == "delete":
        return
    for path, old, new in _differences(change):
        if old is None:
            yield "green", f"+ {path}: {_shown(new)}"
        elif new is None:
            yield "red", f"- {path}: {_shown(old)}"
        elif isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
            yield "yellow", f"~ {path}:"
            compared = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)
            yield from ((_STYLES.get(line[0], ""), f"    {line}") for line in list(compared)[2:])
        else:
            yield "yellow", f"~ {path}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _differences(change: Change) -> list[tuple[str, Any, Any]]:
    """Return the members that differ: path, value before, value after. A creation shows what is not the default."""
    after = {} if change.after is None else documents.comparable(change.after)
    if change.before is None and change.after is not None:
        after = documents.concise(change.after.kind, after)
    before = {} if change.before is None else documents.comparable(change.before)
    secrets = {path for one in (change.before, change.after) if one for path in one.references}
    secrets |= {path for content in (before, after) for path in documents.secret_paths(change.subject.kind, content)}
    return [
        (".".join(path), _visible(old, is_secret=path in secrets), _visible(new, is_secret=path in secrets))
        for path, old, new in _compared(before, after, ())
    ]


def _visible(value: Any, *, is_secret: bool) -> Any:
    return None if value is _ABSENT else _SECRET if is_secret else value


def _compared(old: Any, new: Any, path: documents.Path) -> Iterator[tuple[documents.Path, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _compared(old.get(name, _ABSENT), new.get(name, _ABSENT), (*path, name))
    elif (_is_named(old) or old == []) and (_is_named(new) or new == []):
        yield from _compared(_by_name(old), _by_name(new), path)
    elif old is _ABSENT and isinstance(new, dict) and new:
        yield from _compared({}, new, path)
    elif new is _ABSENT and isinstance(old, dict) and old:
        yield from _compared(old, {}, path)
    elif (old is _ABSENT) != (new is _ABSENT) or (old is not _ABSENT and not documents.equal(old, new)):
        yield path, old, new


def _is_named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "name" in one for one in value)


def _by_name(value: list[Document]) -> Document:
    return {str(one["name"]): one for one in value}
