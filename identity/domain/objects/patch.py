"""The three media types of PATCH, applied to the wrapper document: `{"webhook": {...}}`.

`application/json` is a deep merge in which null removes and arrays are appended; `application/json-patch+json` is RFC
6902; `application/merge-patch+json` is RFC 7396.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import jsonpointer

from identity.call import Document
from identity.errors import Invalid

MERGE = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"

MAXIMUM_SIZE = 2**20
"""The maximum size of a patched document, in characters of JSON: a patch must not exceed the limits of a PUT."""

MAXIMUM_DEPTH = 40
"""The maximum depth of a patched document, the same as of a request body."""

_MAXIMUM_OPERATIONS = 1000


def apply(content_type: str, stored: Document, patch: Any) -> Document:
    """Return the patched wrapper document; `stored` is not changed. Raises Invalid for a patch that cannot be applied.

    `stored` must not have members that callers may not read: a JSON Patch could copy or test them.
    """
    patched = _KINDS[content_type](copy.deepcopy(stored), copy.deepcopy(patch))
    wrappers = [name for name, value in stored.items() if isinstance(value, dict)]
    if not isinstance(patched, dict) or any(not isinstance(patched.get(name), dict) for name in wrappers):
        raise _refused("the result is not an object in its wrapper")
    if _is_too_big(patched):
        raise _refused(f"the result is larger than {MAXIMUM_SIZE} characters or deeper than {MAXIMUM_DEPTH} levels")
    return patched


def _merge(stored: Any, patch: Any) -> Any:
    """Merge deeply: objects by key, arrays appended, null removes."""
    if not isinstance(patch, dict):
        raise _refused("the body must be a JSON object")
    for name, value in patch.items():
        here = stored.get(name)
        if value is None:
            stored.pop(name, None)
        elif isinstance(value, dict) and isinstance(here, dict):
            stored[name] = _merge(here, value)
        elif isinstance(value, list) and isinstance(here, list):
            stored[name] = here + value
        else:
            stored[name] = value
    return stored


def _merge_patch(stored: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396 section 2)."""
    if not isinstance(patch, dict):
        return patch
    target = stored if isinstance(stored, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = _merge_patch(target.get(name), value)
    return target


def _json_patch(stored: Document, patch: Any) -> Any:
    """Apply a JSON Patch (RFC 6902): all operations or none."""
    if not isinstance(patch, list) or len(patch) > _MAXIMUM_OPERATIONS:
        raise _refused("a JSON Patch is an array of at most 1000 operations")
    if not all(isinstance(operation, dict) and isinstance(operation.get("path"), str) for operation in patch):
        raise _refused("each operation is an object with a [path]")
    copied = 0
    for number, operation in enumerate(patch, start=1):
        try:
            copied += _copied(stored, operation)
            stored = jsonpatch.JsonPatch([operation]).apply(stored, in_place=True)
        except _REFUSALS as error:
            raise _refused(_cause(number, operation, error)) from error
        if copied > MAXIMUM_SIZE:
            raise _refused("it copies too much")
    return stored


def _cause(number: int, operation: Document, error: Exception) -> str:
    """Return the error of an operation, without the library's message, which has the object with its secrets."""
    where = f"operation {number} at [{operation['path'][:200]}]"
    if isinstance(error, jsonpatch.JsonPatchTestFailed):
        return f"{where} tests for another value"
    return f"{where} is malformed, or what it names is not there"


def _copied(stored: Any, operation: Document) -> int:
    """Return the size that an operation copies: each could double the document and exhaust the memory."""
    if operation.get("op") != "copy" or not isinstance(operation.get("from"), str):
        return 0
    return _size(jsonpointer.resolve_pointer(stored, operation["from"]))


def _is_too_big(value: Any) -> bool:
    try:
        return _depth(value) > MAXIMUM_DEPTH or _size(value) > MAXIMUM_SIZE
    except RecursionError:
        return True


def _size(value: Any) -> int:
    return len(json.dumps(value))


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


_REFUSALS = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    AttributeError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)


def _refused(why: str) -> Invalid:
    return Invalid.whole("[invalidPatch]", f"The patch cannot be applied: {why}.")


_KINDS: dict[str, Callable[[Any, Any], Any]] = {MERGE: _merge, JSON_PATCH: _json_patch, MERGE_PATCH: _merge_patch}
CONTENT_TYPES = frozenset(_KINDS)
