"""The mapping between SCIM groups and groups, and the members that a request or a patch names.

A PATCH (RFC 7644 section 3.5.2) is split into what it adds and removes of the members, without reading all others, and
the patch of everything else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final

from scim2_models import Path
from scim2_models.path import CompareOperator, Comparison, FilterNode, LogicalExpr, LogicalOperator

from identity.call import Document
from identity.domain.scim import models
from identity.domain.scim.errors import ScimError, invalid
from identity.domain.scim.filters import Field, Fields
from identity.domain.scim.library_errors import reported
from identity.domain.scim.user_mapping import EXTERNAL_ID
from identity.ids import parse_id

FIELDS: Final = Fields(
    {
        ("id", None): Field("_id", "exact"),
        ("external_id", None): Field(f"private.{EXTERNAL_ID}", "exact"),
        ("display_name", None): Field("name", "name"),
        ("members", None): Field("", "members"),
        ("members", "value"): Field("", "members"),
        ("meta", "created"): Field("insertInstant", "instant"),
        ("meta", "last_modified"): Field("lastUpdateInstant", "instant"),
    }
)


def to_group(group: Document, members: list[Document], resource: Document) -> tuple[Document, list[Document]]:
    """Return a group and the members of its memberships with the attributes of a resource."""
    found = [{"userId": member.get("value"), "data": {}} for member in resource.get("members", [])]
    return {**group, "name": resource["displayName"]}, [*members, *found]


def to_resource(group: Document, base: Document) -> Document:
    """Return the attributes of a group with those of `base`: id, schemas, meta, members and externalId."""
    return {**base, "displayName": group["name"]}


def read_members(members: Iterable[Any]) -> dict[str, Document]:
    """Return requested memberships by user id; a repeated member counts once. Raises ScimError for an invalid id."""
    found: dict[str, Document] = {}
    for member in members:
        user_id = parse_id(member.get("userId")) if isinstance(member, dict) else None
        if user_id is None:
            raise invalid("invalidValue", "The value of a member must be the id of a user.")
        data = member.get("data")
        found[user_id] = {"userId": user_id, "data": data if isinstance(data, dict) else {}}
    return found


_MEMBERS: Final = "members"


@dataclasses.dataclass(slots=True)
class MemberPlan:
    """Members by the value they have in the request: all that remain, or those to add and those to remove."""

    replaced: dict[str, Document] | None = None
    added: dict[str, Document] = dataclasses.field(default_factory=dict)
    removed: set[str] = dataclasses.field(default_factory=set)

    @property
    def requested(self) -> list[Document]:
        """The members that the group shall have, as the request names them."""
        return list((self.added if self.replaced is None else self.replaced).values())

    def apply(self, op: str, members: dict[str, Document]) -> None:
        """Apply an operation after those before it."""
        if op == "replace":
            self.replaced, self.added, self.removed = members, {}, set()
            return
        wanted = self.added if self.replaced is None else self.replaced
        if op == "add":
            wanted.update(members)
            self.removed -= members.keys()
        else:
            for value in members:
                wanted.pop(value, None)
            self.removed |= members.keys()


def split_resource(resource: Document) -> tuple[dict[str, Document], Document]:
    """Return the members of a resource of a request by their values, and everything else. Raises ScimError."""
    rest = {name: value for name, value in resource.items() if _attribute(name) != _MEMBERS}
    listed = next((value for name, value in resource.items() if name not in rest), None)
    return _read([] if listed is None else listed), rest


def split(body: Document) -> tuple[MemberPlan, Document | None]:
    """Return what a patch changes of the members, and the patch of everything else, if any. Raises ScimError."""
    plan, rest = MemberPlan(), list[Document]()
    name = next((name for name in body if name.lower() == "operations"), "Operations")
    operations = body.get(name)
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        return plan, body
    for operation in operations:
        rest += _split_operation(plan, operation)
    return plan, {**body, name: rest} if rest or not operations else None


def _split_operation(plan: MemberPlan, operation: Document) -> Iterator[Document]:
    """Apply an operation on members to the plan, and yield what else there is to do."""
    op, path, value = str(operation.get("op", "")).lower(), operation.get("path"), operation.get("value")
    if path is None and op in {"add", "replace"} and isinstance(value, dict):
        others = {key: given for key, given in value.items() if _attribute(key) != _MEMBERS}
        for key in value.keys() - others.keys():
            plan.apply(op, _read(value[key]))
        if others or len(others) == len(value):
            yield {**operation, "value": others}
    elif isinstance(path, str) and _attribute(path) == _MEMBERS and op in {"add", "replace", "remove"}:
        if op == "remove" and value is None:
            plan.apply("replace", {})
        else:
            plan.apply(op, _read(value))
    elif isinstance(path, str) and _attribute(path).startswith(f"{_MEMBERS}["):
        if op != "remove":
            raise _unchangeable()
        plan.apply(op, {member: {} for member in _selected(path)})
    elif isinstance(path, str) and _attribute(path).startswith(f"{_MEMBERS}."):
        raise _unchangeable()
    else:
        yield operation


def _unchangeable() -> ScimError:
    return invalid("mutability", "Members of a group cannot be changed, only added and removed.")


def _attribute(path: str) -> str:
    """Return a path without the schema of groups, in lower case."""
    return path.strip().lower().removeprefix(f"{models.GROUP_SCHEMA}:".lower())


def _read(value: Any) -> dict[str, Document]:
    found = {}
    for member in value if isinstance(value, list) else [value]:
        member_id = member.get("value") if isinstance(member, dict) else member
        if not isinstance(member_id, str):
            raise invalid("invalidValue", "A member must be an object with the value of its user id.")
        found[member_id.lower()] = member if isinstance(member, dict) else {"value": member_id}
    return found


def _selected(path: str) -> list[str]:
    """Return the members that a value path selects by their ids. Raises ScimError for any other filter."""
    with reported():
        value_filter = Path[models.Group](path).value_filter
    if not path.rstrip().endswith("]"):
        raise _unchangeable()
    node = getattr(value_filter, "ast", value_filter)
    return list(_values(node))


def _values(node: FilterNode | Any) -> Iterator[str]:
    match node:
        case Comparison() if node.attr_path.attr.lower() == "value" and node.op == CompareOperator.eq:
            yield str(node.value).lower()
        case LogicalExpr() if node.op == LogicalOperator.or_:
            for term in node.terms:
                yield from _values(term)
        case _:
            raise invalid("invalidFilter", "Members can only be selected by their value.")
