"""Objects in the form in which files and instances are compared.

A member that a file omits has the default of the schema. If the schema has no default, the instance keeps its value;
null removes it. Keys of free-form maps, and items of lists, are managed as a whole.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import pathlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from identity.call import Document
from identity.cli.api import Json
from identity.cli.declarative import secret_references
from identity.cli.declarative.kinds import Kind
from identity.domain.objects import request_members, stored_credentials
from identity.errors import FieldError
from identity.schemas import dotted, fill

_OWN: Final = ("id", "tenantId")
_KEY_MEMBERS: Final = ("algorithm", "length", "name", "type")
_PUBLIC_KEY_MEMBERS: Final = ("certificate", "kid", "publicKey")
_NAMESPACE: Final = uuid.UUID("6f0c29f6-6f4c-5d3b-9a55-0f8f5d2f6c0e")

Path = secret_references.Path


@dataclasses.dataclass(frozen=True, slots=True)
class Object:
    """One object: `content` without id, tenant and read-only members.

    `references` are the paths of secrets by reference, `unresolved` those of them that have no value here.
    """

    kind: Kind
    id: str
    tenant_id: str | None
    content: Document
    references: frozenset[Path] = frozenset()
    unresolved: frozenset[Path] = frozenset()

    @property
    def name(self) -> str:
        """The name in messages."""
        return str(self.content.get("name") or self.content.get("code") or self.content.get("url") or self._described)

    @property
    def _described(self) -> str:
        if self.kind.is_grant:
            return f"{self.content['recipientEntityId']} on {self.content['entityId']}"
        attributes = self.content.get("metaData", {}).get("attributes", {}) if self.kind.is_api_key else {}
        return str(attributes.get("description") or self.id)

    @property
    def address(self) -> tuple[str, str]:
        """What identifies the object among all of one instance."""
        return self.kind.name, self.id


def of_response(kind: Kind, document: Json) -> Object:
    """Return an object of the API."""
    content = {name: value for name, value in document.items() if name != "id"}
    if kind.is_key:
        content = _key_content(document)
    if "roleIds" in kind.siblings:
        granted = (role for roles in content.pop("roles", {}).values() for role in roles)
        content["roleIds"] = sorted(role["id"] for role in granted)
    if kind.is_grant:
        content["entityId"] = document["entity"]["id"]
    tenant_id = content.pop("tenantId", None) if kind.row.tenant_scoped else None
    object_id = kind.name if kind.is_singleton else grant_id(content) if kind.is_grant else document["id"]
    tidy, _ = _examined(kind, content)
    return Object(kind, object_id, tenant_id, _ordered(kind, tidy))


def _key_content(key: Json) -> Document:
    """Return what describes a key: its material too, if the instance only verifies with it."""
    is_public = not key.get("hasPrivateKey") and key.get("type") != "HMAC"
    return {name: key[name] for name in (*_KEY_MEMBERS, *(_PUBLIC_KEY_MEMBERS if is_public else ())) if name in key}


def of_file(
    kind: Kind, document: Document, folder: pathlib.Path, environ: Mapping[str, str]
) -> tuple[Object, list[str]]:
    """Return an object of a file, with the problems of its content. References to secrets are relative to `folder`."""
    references, unresolved = secret_references.paths(document, folder, environ)
    document = secret_references.resolved(document, folder, environ)
    content = {name: value for name, value in document.items() if name not in _OWN or name == "tenantId"}
    tenant_id = content.pop("tenantId", None) if kind.row.tenant_scoped else None
    known = kind.node["properties"].keys()
    ignored = request_members.ignored(kind.shape.schema, body(kind, content))
    problems = [f"unknown member {dotted(path[1:])}" for path in ignored]
    problems += [f"unknown member {name}" for name in content if name not in known and not problems]
    tidy, errors = _examined(kind, content)
    problems += [f"{_member(kind, error)}: {error.message}" for error in errors]
    if kind.is_grant:
        problems += [f"{name} is missing" for name in ("entityId", "recipientEntityId") if not content.get(name)]
        object_id = grant_id(content)
    else:
        name = f"{kind.name}/{tenant_id}/{content.get('name', '')}"
        object_id = kind.name if kind.is_singleton else str(document.get("id") or uuid.uuid5(_NAMESPACE, name))
    for path, member in secret_references.leaves(content, ()):
        if member is None:
            put(tidy, path, None)
    return Object(kind, object_id, tenant_id, _ordered(kind, tidy), references, unresolved), problems


def grant_id(content: Document) -> str:
    """Return an id of a grant that every instance derives: a request cannot choose one."""
    return str(uuid.uuid5(_NAMESPACE, f"grant/{content.get('entityId')}/{content.get('recipientEntityId')}"))


def _member(kind: Kind, error: FieldError) -> str:
    return error.path.removeprefix(f"{kind.row.name}.")


def body(kind: Kind, content: Document) -> Document:
    """Return the request body of an object."""
    siblings = {name: content[name] for name in kind.siblings if name in content}
    inner = {name: value for name, value in content.items() if name not in {*kind.siblings, *kind.addresses}}
    return {kind.row.name: inner, **siblings}


def creation_body(wanted: Object) -> Document:
    """Return the body of a request that creates the object."""
    return body(wanted.kind, without_nulls(wanted.content))


def update_body(wanted: Object, current: Object) -> Document:
    """Return the body of a request that replaces the object.

    Secrets that stay are masked: the instance then keeps them only if the address that they are bound to stays too.
    """
    content = copy.deepcopy(without_nulls(wanted.content))
    for path in {*secret_paths(wanted.kind, content), *wanted.unresolved}:
        value = at(content, path)
        if path in wanted.unresolved or value == at(current.content, path):
            put(content, path, stored_credentials.MASK)
    for path in wanted.unresolved:
        if at(current.content, path) is None:
            remove(content, path)  # write-only: a request without it keeps it
    return body(wanted.kind, content)


def _examined(kind: Kind, content: Document) -> tuple[Document, list[FieldError]]:
    """Return the normalized content with its defaults, and its errors."""
    tidy, errors = kind.shape.examine(copy.deepcopy(body(kind, content)))
    inner = tidy.get(kind.row.name) if isinstance(tidy, dict) else None
    siblings = {name: tidy[name] for name in kind.siblings if name in tidy}
    addresses = {name: content[name] for name in kind.addresses if name in content}
    return {**(inner if isinstance(inner, dict) else {}), **siblings, **addresses}, errors


def _ordered(kind: Kind, content: Document) -> Document:
    """Sort lists whose order means nothing: those of parts, and of role ids."""
    for part in kind.parts:
        content[part.member] = sorted(content.get(part.member, []), key=lambda one: str(one.get("name")))
    for name in kind.siblings:
        content[name] = sorted(content.get(name, []))
    return content


def merged(wanted: Object, current: Object) -> Object:
    """Return the object as it is to become: with the current value of every member that the file leaves alone."""
    content = _merged(wanted.kind.node, wanted.content, current.content)
    if wanted.kind.is_api_key:
        content.pop("key", None)
    for path in wanted.unresolved:
        known = at(current.content, path)
        put(content, path, known)
    for part in wanted.kind.parts:
        content[part.member] = _with_known_ids(content[part.member], current.content[part.member])
    return dataclasses.replace(wanted, content=content)


def _merged(node: Mapping[str, Any], wanted: Any, current: Any) -> Any:
    properties = node.get("properties")
    if not isinstance(wanted, dict) or not isinstance(current, dict) or properties is None:
        return wanted
    result = {name: _merged(properties.get(name, {}), value, current.get(name)) for name, value in wanted.items()}
    return {**{name: value for name, value in current.items() if name not in wanted and name in properties}, **result}


def _with_known_ids(wanted: list[Document], current: list[Document]) -> list[Document]:
    known = {one.get("name"): one.get("id") for one in current}
    return [{**one, **({"id": known[one["name"]]} if known.get(one.get("name")) else {})} for one in wanted]


def comparable(one: Object) -> Document:
    """Return the content without what responses never contain, and without nulls."""
    shown: Document = one.kind.shape.show(body(one.kind, without_nulls(one.content)))
    siblings = {name: one.content.get(name, []) for name in one.kind.siblings}
    siblings |= {name: one.content[name] for name in one.kind.addresses}
    content = {**shown[one.kind.row.name], **siblings}
    for part in one.kind.parts:
        if not any("id" in each for each in one.content.get(part.member, [])):
            continue
        content[part.member] = one.content[part.member]
    return content


def without_nulls(value: Any) -> Any:
    """Return a value without members that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def concise(kind: Kind, content: Document) -> Document:
    """Return the content without the members that have their default."""
    return dict(_concise(kind.node, content))


def _concise(node: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, list):
        items = node.get("items")
        return [_concise(items, item) for item in value] if isinstance(items, dict) else value
    properties = node.get("properties")
    if not isinstance(value, dict) or properties is None:
        return value
    defaults: Document = fill({"properties": properties}, {})
    kept = {name: _concise(properties.get(name, {}), member) for name, member in value.items()}
    return {name: member for name, member in kept.items() if name not in defaults or defaults[name] != value[name]}


def secret_paths(kind: Kind, content: Document) -> list[Path]:
    """Return the paths of the stored credentials in the content."""
    if kind.is_api_key:
        return [("key",)] if "key" in content else []
    masked = stored_credentials.masked(kind.row.credentials, content)
    return [path for path, value in secret_references.leaves(content) if at(masked, path) != value]


def part_ids(one: Object) -> list[str]:
    """Return the ids of the roles, scopes or permissions in an object."""
    return [each["id"] for part in one.kind.parts for each in one.content[part.member] if "id" in each]


def identifiers(value: Any) -> Iterator[str]:
    """Yield every text of a value, and every name of its members."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from identifiers(member)
    elif isinstance(value, list):
        for item in value:
            yield from identifiers(item)
    elif isinstance(value, str):
        yield value


def with_ids(value: Any, ids: Mapping[str, str]) -> Any:
    """Return a value in which ids are replaced, also where they are names of members."""
    if isinstance(value, dict):
        return {ids.get(name, name): with_ids(member, ids) for name, member in value.items()}
    if isinstance(value, list):
        return [with_ids(item, ids) for item in value]
    return ids.get(value, value) if isinstance(value, str) else value


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def put(content: Document, path: Path, value: Any) -> None:
    """Set the value at a path."""
    for step in path[:-1]:
        content = content.setdefault(step, {})
    content[path[-1]] = value


def remove(content: Document, path: Path) -> None:
    """Remove the member at a path, if it exists."""
    holder = at(content, path[:-1])
    if isinstance(holder, dict):
        holder.pop(path[-1], None)


def at(content: Any, path: Path) -> Any:
    """Return the value at a path, or None."""
    for step in path:
        content = content.get(step) if isinstance(content, dict) else None
    return content
