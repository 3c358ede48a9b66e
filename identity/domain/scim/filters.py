"""Translate SCIM filters and sort orders to MongoDB (RFC 7644 sections 3.4.2.2 and 3.4.2.3).

Comparisons of text ignore case. Those of login ids and names have the conditions that the indexes of the collections
serve, so that the filters clients use to find one object read no others.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from scim2_models import ScimFilter
from scim2_models.path import (
    AttributeBinding,
    AttrPath,
    CompareOperator,
    Comparison,
    FilterNode,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
    coerce_value,
)

from identity.domain.groups import groups as group_rules
from identity.domain.objects import name_suffixes
from identity.domain.scim.errors import invalid
from identity.domain.scim.library_errors import reported
from identity.domain.users import users as user_rules
from identity.instants import from_datetime

Kind = Literal["text", "exact", "lower", "boolean", "instant", "name", "termed", "user_name", "members", "entry"]

Condition = dict[str, Any]

_PATTERNS: Final = {
    CompareOperator.co: "{}",
    CompareOperator.eq: "^{}$",
    CompareOperator.ew: "{}$",
    CompareOperator.sw: "^{}",
}
_ORDERING: Final = {
    CompareOperator.ge: "$gte",
    CompareOperator.gt: "$gt",
    CompareOperator.le: "$lte",
    CompareOperator.lt: "$lt",
}


def _require_storable(value: Any) -> None:
    """Raise ScimError for a text that MongoDB cannot compare: with a NUL or half of a surrogate pair."""
    if isinstance(value, str) and ("\x00" in value or any("\ud800" <= one <= "\udfff" for one in value)):
        raise invalid("invalidFilter", "A value of the filter is no valid text.")


def _text(op: CompareOperator, value: Any, *, options: str = "is") -> Any:
    """Return the condition on a text; `options` of MongoDB say whether it ignores case."""
    if value is None:
        return {"$eq": None}
    wanted = str(value)
    if op in _ORDERING:
        return {_ORDERING[op]: wanted}
    if op == CompareOperator.eq and "i" not in options:
        return wanted
    return {"$regex": _PATTERNS[op].format(re.escape(wanted)), "$options": options}


def _plain(kind: str, op: CompareOperator, value: Any) -> Any:
    """Return the condition on a member by the kind of its value. Raises ScimError."""
    match kind:
        case "instant":
            return _compared(op, from_datetime(_aware(value)))
        case "boolean":
            return _compared(op, value)
        case "exact":
            return _text(op, value, options="s")
    return _text(op, value)


def _compared(op: CompareOperator, value: Any) -> Any:
    """Return the condition on a number or boolean. Raises ScimError for operators on texts."""
    if op in _ORDERING:
        return {_ORDERING[op]: value}
    if op != CompareOperator.eq:
        raise invalid("invalidFilter", f"The operator {op.value} cannot be used with this attribute.")
    return value


def _terms(op: CompareOperator, value: Any) -> Iterable[Condition]:
    """Yield conditions on the search terms of users, which have an index."""
    if isinstance(value, str) and op in _PATTERNS:
        yield {"private.terms": _text(op, value.lower(), options="s")}


def _name_suffix(op: CompareOperator, value: Any) -> Iterable[Condition]:
    """Yield conditions on the suffixes of the names of groups, which have an index."""
    if isinstance(value, str) and value and op in _PATTERNS:
        yield {name_suffixes.MEMBER: {"$regex": name_suffixes.pattern_of(value)}}


def _text_expression(op: CompareOperator, stored: Any, value: str) -> Condition:
    """Return an expression that compares a text and ignores its case."""
    lowered = {"$toLower": {"$cond": [{"$eq": [{"$type": stored}, "string"]}, stored, ""]}}
    if op in _PATTERNS:
        pattern = _PATTERNS[op].format(re.escape(value.lower()))
        return {"$regexMatch": {"input": lowered, "regex": {"$literal": pattern}, "options": "s"}}
    return {_ORDERING[op]: [lowered, {"$literal": value.lower()}]}


def _member_of(name: str, holder: Any) -> Condition:
    """Return the expression of a member with any name."""
    return {"$getField": {"field": {"$literal": name}, "input": holder}}


def _login_key(value: Any) -> Any:
    """Return a text in the form in which login ids are compared."""
    return user_rules.login_key(value) if isinstance(value, str) else value


def _aware(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        raise invalid("invalidFilter", "A date must be an xsd:dateTime.")
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)


MAXIMUM_COMPARISONS: Final = 50
MAXIMUM_SCANS: Final = 10
"""The maximum number of comparisons that no index serves: MongoDB evaluates each of them for every resource."""

_INDEXED: Final[Mapping[str, frozenset[CompareOperator]]] = {
    "exact": frozenset({CompareOperator.eq}),
    "lower": frozenset({CompareOperator.eq, CompareOperator.sw}),
    "members": frozenset(CompareOperator),
    "name": frozenset(_PATTERNS),
    "termed": frozenset({CompareOperator.eq, CompareOperator.sw}),
    "user_name": frozenset({CompareOperator.eq, CompareOperator.sw}),
}
"""The operators that an index serves, by the kind of the member."""

_SHARED_NAME: Final = f"private.{group_rules.SHARED_NAME}"
_NOTHING: Final[Condition] = {"_id": {"$in": []}}


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """The stored member of an attribute, and how it is compared.

    `entry` is a member of a stored list of addresses; a user without the list has one entry, which matches.
    """

    member: str
    kind: Kind


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """The stored members of a resource type by the Python names of the attribute and its sub-attribute.

    `rest` contains attributes without a member of their own, `extensions` those of schema extensions.
    """

    by_attribute: Mapping[tuple[str, str | None], Field]
    rest: str | None = None
    extensions: str | None = None
    rest_attributes: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """What a translation needs from the stores: the tenant, and the groups of the users that the filter names."""

    tenant_id: str
    group_ids: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)


def translate(scim_filter: Any, model: Any, fields: Fields, scope: Scope) -> Condition:
    """Return the MongoDB condition of a filter for one resource type.

    An attribute that the model does not have evaluates to false. Raises ScimError for a filter that is not supported,
    or that takes long.
    """
    if sum(1 for _ in _comparisons(scim_filter.ast)) > MAXIMUM_COMPARISONS:
        raise invalid("invalidFilter", f"The filter has more than {MAXIMUM_COMPARISONS} comparisons.")
    translator = _Translator(model, fields, scope)
    condition = translator.visit(scim_filter.ast)
    if len(translator.scans) > MAXIMUM_SCANS:
        problem = f"The filter has more than {MAXIMUM_SCANS} comparisons that no index serves"
        raise invalid("invalidFilter", f"{problem}: {', '.join(sorted(set(translator.scans)))[:200]}.")
    return condition


def member_ids(scim_filter: Any) -> set[str]:
    """Return the user ids that a filter of groups compares members with."""
    found = set()
    for comparison, parent in _comparisons(scim_filter.ast):
        path = comparison.attr_path
        is_member = (parent or path.attr).lower() == "members"
        if is_member and isinstance(comparison, Comparison) and isinstance(comparison.value, str):
            found.add(comparison.value.lower())
    return found


def order_of(query: Any, model: Any, fields: Fields) -> tuple[tuple[str, int], ...]:
    """Return the sort order of a search, with the id last; by the id alone if the model does not have the attribute.

    Raises ScimError for an attribute that cannot be sorted by.
    """
    direction = -1 if query.is_descending else 1
    if query.request.sort_by is None:
        return (("_id", direction),)
    translator = _Translator(model, fields, Scope(""))
    path = str(query.request.sort_by)
    head, _, tail = path.rpartition(":")
    name, _, sub_name = tail.partition(".")
    binding = translator.bind(AttrPath(name, sub_name or None, head or None))
    if binding is None:
        return (("_id", direction),)
    field = fields.by_attribute.get((binding.field_name, binding.sub_field_name))
    if field is None and binding.field_name in fields.rest_attributes and not binding.is_multivalued:
        field = Field(f"{fields.rest}.{_alias(binding.model, binding.field_name)}", "text")
    if field is None or field.kind == "members" or binding.model is not model:
        raise invalid("invalidPath", f"Resources cannot be sorted by {path}.")
    return tuple({field.member: direction, "_id": direction}.items())


def _comparisons(node: FilterNode, parent: str | None = None) -> Iterator[tuple[Comparison | Present, str | None]]:
    """Yield the comparisons of a filter, each with the attribute that its value path selects from."""
    match node:
        case Comparison() | Present():
            yield node, parent
        case Not():
            yield from _comparisons(node.expr, parent)
        case LogicalExpr():
            for term in node.terms:
                yield from _comparisons(term, parent)
        case ValuePath():
            yield from _comparisons(node.val_filter, node.attr_path.attr)


class _Translator(FilterVisitor[Condition]):
    """Translates the nodes of a filter; those of a value path belong to its attribute, the `parent`.

    `scans` are the comparisons that no index serves.
    """

    def __init__(self, model: Any, fields: Fields, scope: Scope, parent: AttrPath | None = None) -> None:
        self._model, self._fields, self._scope, self._parent = model, fields, scope, parent
        self.scans: list[str] = []

    def visit_comparison(self, node: Comparison) -> Condition:
        path = self._full_path(node.attr_path)
        binding = self.bind(path, for_comparison=True)
        if binding is None:
            return _NOTHING
        with reported():
            value = coerce_value(binding, node.value, node.op)
        _require_storable(value)
        field = self._field(binding)
        if field is None or node.op not in _INDEXED.get(field.kind, ()):
            self.scans.append(f"{path} {node.op.value}")
        if node.op == CompareOperator.ne:
            return {"$nor": [self._comparison(binding, CompareOperator.eq, value)]}
        return self._comparison(binding, node.op, value)

    def visit_present(self, node: Present) -> Condition:
        binding = self.bind(self._full_path(node.attr_path))
        if binding is None:
            return _NOTHING
        field = self._field(binding)
        if field is None:
            return self._of_extension(binding, CompareOperator.ne, None)
        if field.kind == "members":
            raise invalid("invalidFilter", "Members can only be compared with eq and ne.")
        if field.kind == "user_name":
            return {}
        return {field.member: {"$exists": True, "$nin": [None, "", []]}}

    def visit_not(self, node: Not) -> Condition:
        return {"$nor": [self.visit(node.expr)]}

    def visit_logical_expr(self, node: LogicalExpr) -> Condition:
        junction = "$and" if node.op == LogicalOperator.and_ else "$or"
        return {junction: [self.visit(term) for term in node.terms]}

    def visit_value_path(self, node: ValuePath) -> Condition:
        binding = self.bind(node.attr_path)
        if binding is None:
            return _NOTHING
        translator = _Translator(self._model, self._fields, self._scope, node.attr_path)
        inner = translator.visit(node.val_filter)
        self.scans += translator.scans
        if binding.model is self._model and binding.field_name in self._fields.rest_attributes:
            return {f"{self._fields.rest}.{_alias(binding.model, binding.field_name)}": {"$elemMatch": inner}}
        return inner

    def bind(self, path: AttrPath, *, for_comparison: bool = False) -> AttributeBinding | None:
        """Return the attribute of a path; None if the model does not have it."""
        bound: Any = ScimFilter.__class_getitem__(self._model)(Present(path))
        resolve = bound.resolve_comparison if for_comparison else bound.resolve
        return resolve(path, strict=False)  # type: ignore[no-any-return]

    def _full_path(self, path: AttrPath) -> AttrPath:
        if self._parent is None:
            return path
        return AttrPath(self._parent.attr, path.attr, self._parent.uri)

    def _field(self, binding: AttributeBinding) -> Field | None:
        """Return the member of an attribute; None for one of an extension. Raises ScimError if there is none."""
        name, sub_name = binding.field_name, binding.sub_field_name
        if binding.model is not self._model:
            return None
        found = self._fields.by_attribute.get((name, sub_name))
        if found is None and name in self._fields.rest_attributes:
            steps = [self._fields.rest, _alias(binding.model, name)] if self._parent is None else []
            path = ".".join(step for step in (*steps, _alias(binding.field_type, sub_name)) if step is not None)
            found = Field(path, "boolean" if binding.target_type is bool else "text")
        if found is None:
            raise invalid("invalidFilter", f"The attribute {binding.urn} cannot be used in a filter.")
        return found

    def _comparison(self, binding: AttributeBinding, op: CompareOperator, value: Any) -> Condition:
        field = self._field(binding)
        if field is None:
            return self._of_extension(binding, op, value)
        match field.kind:
            case "members":
                return self._of_members(op, value)
            case "user_name":
                return self._of_user_name(op, value)
            case "lower":
                return self._scoped({field.member: _text(op, _login_key(value), options="s")})
            case "name":
                return self._of_group_name(op, field.member, value)
            case "termed":
                return {"$and": [*_terms(op, value), {field.member: _text(op, value)}]}
            case "entry":
                wanted = _text(op, value) if isinstance(value, str) else _compared(op, value)
                return {"$or": [{field.member: wanted}, {field.member.rpartition(".")[0]: {"$exists": False}}]}
        return {field.member: _plain(field.kind, op, value)}

    def _of_user_name(self, op: CompareOperator, value: Any) -> Condition:
        """Compare the username, or for a user without one the login id that is shown in its place."""
        wanted = _text(op, _login_key(value), options="s")
        absent = {"$exists": False}
        return {
            "$or": [
                self._scoped({"private.usernameKey": wanted}),
                self._scoped({"email": wanted, "username": absent}),
                self._scoped({"phoneNumber": wanted, "username": absent, "email": absent}),
            ]
        }

    def _of_group_name(self, op: CompareOperator, member: str, value: Any) -> Condition:
        """Compare the name of a group, or the one that it shares with another group."""
        own: Condition = {"$and": [*_name_suffix(op, value), {member: _text(op, value)}]}
        if not isinstance(value, str):
            return own
        return {
            "$or": [
                self._scoped({**own, _SHARED_NAME: {"$exists": False}}),
                self._scoped({"$and": [{_SHARED_NAME: {"$exists": True}}, {_SHARED_NAME: _text(op, value)}]}),
            ]
        }

    def _of_members(self, op: CompareOperator, value: Any) -> Condition:
        if op != CompareOperator.eq or not isinstance(value, str):
            raise invalid("invalidFilter", "Members can only be compared with eq and ne.")
        return {"_id": {"$in": self._scope.group_ids.get(value.lower(), [])}}

    def _scoped(self, condition: Condition) -> Condition:
        """Return a condition with the tenant: in a branch of `$or` it is needed for a partial index."""
        return {"tenantId": self._scope.tenant_id, **condition}

    def _of_extension(self, binding: AttributeBinding, op: CompareOperator, value: Any) -> Condition:
        """Compare an attribute of an extension, whose name has dots and so needs an expression."""
        if self._fields.extensions is None:
            return _NOTHING
        stored: Any = _member_of(str(binding.model.__schema__), f"${self._fields.extensions}")  # type: ignore[attr-defined]
        stored = _member_of(_alias(binding.model, binding.field_name) or binding.field_name, stored)
        if binding.sub_field_name is not None:
            stored = _member_of(_alias(binding.field_type, binding.sub_field_name) or binding.sub_field_name, stored)
        if value is None:
            order = "$lte" if op == CompareOperator.eq else "$gt"
            return {"$expr": {order: [stored, None]}}
        if isinstance(value, str):
            return {"$expr": _text_expression(op, stored, value)}
        literal = value if isinstance(value, bool | int | float) else str(value)
        return {"$expr": {_ORDERING.get(op, "$eq"): [stored, {"$literal": literal}]}}


def _alias(model: Any, field_name: str | None) -> str | None:
    """Return the name of an attribute in JSON."""
    return None if field_name is None else str(model._scim_name(field_name))  # noqa: SLF001 (has no public equivalent)
