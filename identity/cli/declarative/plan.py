"""The plan: which objects of an instance are to be created, changed and deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, Literal

from identity.cli.declarative import documents
from identity.cli.declarative.documents import Object
from identity.cli.declarative.kinds import KINDS
from identity.domain.configuration import themes as theme_rules
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.forms.forms import FIELD_IDS, FORM_IDS
from identity.domain.lambdas import lambdas
from identity.domain.users.users import INTERNAL_CONNECTOR
from identity.operations.objects import key_references
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS

Action = Literal["create", "update", "delete"]

_FIXED_IDS: Final = frozenset(
    {
        ADMINISTRATOR_APPLICATION_ID,
        theme_rules.DEFAULT_ID,
        INTERNAL_CONNECTOR,
        *CLIENT_SECRET_KEYS,
        *FIELD_IDS.values(),
        *FORM_IDS.values(),
    }
)
_DEFAULT_LAMBDAS: Final = frozenset(map(lambdas.default_name, lambdas.DEFAULT_BODIES))


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One step. `before` is None for a creation, `after` for a deletion."""

    action: Action
    before: Object | None
    after: Object | None

    @property
    def subject(self) -> Object:
        """The object, as it is to become if it stays."""
        found = self.after or self.before
        assert found is not None
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """An object that is in no file and stays; `reason` completes "… is in no file, and stays: "."""

    subject: Object
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The changes in the order in which they are applied, and what is left alone although it is in no file."""

    changes: tuple[Change, ...]
    kept: tuple[Kept, ...] = ()


def compute(wanted: Sequence[Object], current: Sequence[Object], *, prune: bool, prune_data: bool) -> Plan:
    """Compare the objects of the files with those of an instance."""
    wanted = _with_ids_of_instance(wanted, current)
    known = {one.address: one for one in current}
    changes = [change for one in wanted if (change := _change(one, known.get(one.address))) is not None]
    surplus = [one for one in current if one.address not in {one.address for one in wanted}]
    if prune:
        reasons = _reasons_to_keep(surplus, wanted, current, prune_data=prune_data)
    else:
        reasons = {extra.address: "it is deleted only with --prune" for extra in surplus}
    doomed = [extra for extra in surplus if extra.address not in reasons]
    deletions = [Change("delete", one, None) for one in reversed(in_order(doomed))]
    by_address = {change.subject.address: change for change in changes}
    ordered = [by_address[one.address] for one in in_order([change.subject for change in changes])]
    kept = tuple(Kept(extra, reasons[extra.address]) for extra in surplus if extra.address in reasons)
    return Plan((*ordered, *deletions), kept)


def _change(wanted: Object, current: Object | None) -> Change | None:
    if current is None:
        return Change("create", None, wanted)
    after = documents.merged(wanted, current)
    is_equal = documents.equal(documents.comparable(after), documents.comparable(current))
    return None if is_equal else Change("update", current, after)


def _with_ids_of_instance(wanted: Sequence[Object], current: Sequence[Object]) -> list[Object]:
    """Give objects that the instance has under other ids those ids: default objects differ between instances.

    An object is the same if kind, tenant and name are, and neither id occurs on the other side.
    """
    ids: dict[str, str] = {}
    result = list(wanted)
    stated = {one.address for one in wanted}
    free = [one for one in current if one.address not in stated]
    known = {one.address for one in current}
    for kind in sorted(KINDS, key=lambda kind: kind.row.tenant_scoped):
        names = {(one.tenant_id, one.content.get("name")): one.id for one in free if one.kind is kind}
        for one in wanted:
            name = (ids.get(one.tenant_id or "", one.tenant_id), one.content.get("name"))
            if one.kind is kind and one.address not in known and name[1] is not None and name in names:
                ids[one.id] = names[name]
    result = [_renamed(one, ids) for one in result]
    ids |= _part_ids(result, current)
    return [_renamed(one, ids) for one in result]


def _renamed(one: Object, ids: dict[str, str]) -> Object:
    tenant_id = None if one.tenant_id is None else ids.get(one.tenant_id, one.tenant_id)
    content = documents.with_ids(one.content, ids)
    own_id = documents.grant_id(content) if one.kind.is_grant else ids.get(one.id, one.id)
    return dataclasses.replace(one, id=own_id, tenant_id=tenant_id, content=content)


def _part_ids(wanted: Sequence[Object], current: Sequence[Object]) -> dict[str, str]:
    """Return the ids that roles, scopes and permissions of the same name have in the instance."""
    known = {one.address: one for one in current}
    ids: dict[str, str] = {}
    for one in wanted:
        other = known.get(one.address)
        for part in one.kind.parts if other is not None else ():
            assert other is not None
            names = {each["name"]: each["id"] for each in other.content[part.member]}
            ids |= {
                each["id"]: names[each["name"]]
                for each in one.content[part.member]
                if "id" in each and each["name"] in names
            }
    return ids


def is_default(one: Object, objects: Sequence[Object]) -> bool:
    """Return whether every instance has the object from the start; `objects` are all of its instance."""
    if one.kind.is_singleton or one.id in _FIXED_IDS:
        return True
    if one.kind.row.name == "lambda":
        return one.name in _DEFAULT_LAMBDAS
    if one.kind.row.name == "tenant":
        return one.id == default_tenant_id(objects)
    return one.kind.is_key and one.name == key_references.DEFAULT_KEY_NAME


def default_tenant_id(objects: Sequence[Object]) -> str | None:
    """Return the id of the tenant of the administrators' application."""
    return next((one.tenant_id for one in objects if one.id == ADMINISTRATOR_APPLICATION_ID), None)


def _reasons_to_keep(
    surplus: Sequence[Object], wanted: Sequence[Object], current: Sequence[Object], *, prune_data: bool
) -> dict[tuple[str, str], str]:
    """Return why objects are not pruned, by address: each has its own reason, or an object that stays refers to it."""
    reasons: dict[tuple[str, str], str] = {}
    for candidate in surplus:
        if is_default(candidate, current):
            reasons[candidate.address] = "every instance has it from the start"
        elif candidate.kind.holds_data and not prune_data:
            reasons[candidate.address] = "its deletion also deletes data that no file has; use --prune-data"
    pending = [*wanted, *(candidate for candidate in surplus if candidate.address in reasons)]
    while pending:
        referrer = pending.pop()
        used = set(documents.identifiers(referrer.content))
        for candidate in surplus:
            ids = {candidate.id, *documents.part_ids(candidate)}
            if candidate.address not in reasons and not used.isdisjoint(ids):
                reasons[candidate.address] = f"the {referrer.kind.name} {referrer.name!r} refers to it"
                pending.append(candidate)
    return reasons


def in_order(objects: Sequence[Object]) -> list[Object]:
    """Return the objects so that each comes after those that it refers to; circles are broken at their first object."""
    owners = {each: one for one in objects for each in (one.id, *documents.part_ids(one))}
    done: dict[tuple[str, str], Object] = {}
    visiting: set[tuple[str, str]] = set()

    def visit(one: Object) -> None:
        if one.address in done or one.address in visiting:
            return
        visiting.add(one.address)
        for identifier in (*([one.tenant_id] if one.tenant_id else []), *documents.identifiers(one.content)):
            if identifier in owners and owners[identifier] is not one:
                visit(owners[identifier])
        done[one.address] = one

    for one in sorted(objects, key=lambda each: each.kind.position):
        visit(one)
    return list(done.values())
