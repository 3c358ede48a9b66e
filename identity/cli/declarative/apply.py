"""Applying a plan through the API."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from identity.call import Document
from identity.cli.api import Api, ApiError
from identity.cli.declarative import documents
from identity.cli.declarative.documents import Object
from identity.cli.declarative.plan import Change, Plan
from identity.domain.objects.resource_definition import Subresource

Report = Callable[[Change], None]


def missing_secrets(plan: Plan) -> list[str]:
    """Return why objects cannot be created: secrets by reference that have no value here."""
    return [
        f"{change.subject.kind.name} {change.subject.name!r}: {'.'.join(path)} is a reference without a value here"
        for change in plan.changes
        if change.action == "create"
        for path in sorted(change.subject.unresolved)
    ]


def apply(api: Api, plan: Plan, report: Report) -> None:
    """Make every change in order; an error ends it, and repeating it continues. Raises ApiError and UsageError."""
    if missing := missing_secrets(plan):
        hint = "Set the variable or create the file, or remove the member to have a secret generated if possible."
        raise click.UsageError("\n".join((*missing, hint)))
    pending = {change.subject.id for change in plan.changes if change.action == "create"}
    completions: list[Change] = []
    for change in plan.changes:
        with _naming(change.subject):
            if change.after is None:
                _delete(api, change.subject)
            elif change.before is None:
                pending.discard(change.after.id)
                first = _without(change.after, pending)
                _create(api, first)
                if first is not change.after:
                    completions.append(Change("update", first, change.after))
            else:
                _update(api, change.before, change.after)
        report(change)
    for change in completions:
        if change.before is not None and change.after is not None:
            with _naming(change.after):
                _update(api, change.before, change.after)


@contextlib.contextmanager
def _naming(subject: Object) -> Iterator[None]:
    """Begin the message of an ApiError of the block with the object that it is about."""
    try:
        yield
    except ApiError as error:
        raise type(error)(f"{subject.kind.name} {subject.name!r}: {error.message}") from error


def _create(api: Api, wanted: Object) -> None:
    body = documents.creation_body(wanted)
    row = wanted.kind.row
    path = f"{row.path}/{wanted.id}"
    if wanted.kind.is_key:
        is_import = {"publicKey", "certificate", "privateKey", "secret"} & body["key"].keys()
        path = f"{row.path}/{'import' if is_import else 'generate'}/{wanted.id}"
    elif wanted.kind.is_grant:
        path = grant_path(wanted)
    api.send("POST", path, body, tenant_id=wanted.tenant_id)


def grant_path(grant: Object) -> str:
    """Return the path of the grants on the entity of a grant."""
    return f"/api/entity/{grant.content['entityId']}/grant"


def _update(api: Api, before: Object, after: Object) -> None:
    if after.kind.is_grant:
        _create(api, after)  # replaces the grant of the recipient
        return
    row = after.kind.row
    path = row.path if after.kind.is_singleton else f"{row.path}/{after.id}"
    if after.kind.is_key and any(before.content.get(name) != after.content.get(name) for name in ("algorithm", "type")):
        raise click.UsageError(f"key {after.name!r}: the algorithm of a key cannot change; give the new key another id")
    api.send("PUT", path, documents.update_body(after, before), tenant_id=after.tenant_id)
    for part in after.kind.parts:
        _update_parts(api, f"{path}/{part.name}", part, before.content[part.member], after.content[part.member], after)


def _update_parts(
    api: Api, path: str, part: Subresource, before: Sequence[Document], after: Sequence[Document], owner: Object
) -> None:
    """Create, replace and delete the objects of a list by their own API."""
    known, wanted = ({one["name"]: one for one in parts} for parts in (before, after))
    for name, one in wanted.items():
        body = {part.name: {key: value for key, value in one.items() if key != "id"}}
        if name not in known:
            suffix = f"/{one['id']}" if one.get("id") else ""
            api.send("POST", path + suffix, body, tenant_id=owner.tenant_id)
        elif not documents.equal(known[name], one):
            api.send("PUT", f"{path}/{known[name]['id']}", body, tenant_id=owner.tenant_id)
    for name in known.keys() - wanted.keys():
        api.send("DELETE", f"{path}/{known[name]['id']}", tenant_id=owner.tenant_id)


def _delete(api: Api, one: Object) -> None:
    if one.kind.is_grant:
        recipient = {"recipientEntityId": one.content["recipientEntityId"]}
        api.send("DELETE", grant_path(one), query=recipient, tenant_id=one.tenant_id)
        return
    # Applications and user actions are only deactivated without it; other kinds ignore it.
    query = {"hardDelete": "true"} if one.kind.row.name in {"application", "userAction"} else None
    api.send("DELETE", f"{one.kind.row.path}/{one.id}", query=query, tenant_id=one.tenant_id)


def _without(one: Object, ids: set[str]) -> Object:
    """Return the object without references to objects that do not exist yet: those of a circle."""
    if not ids & set(documents.identifiers(one.content)):
        return one
    return dataclasses.replace(one, content=_stripped(one.content, ids))


def _stripped(value: Any, ids: set[str]) -> Any:
    if isinstance(value, Mapping):
        kept = {name: member for name, member in value.items() if name not in ids and member not in list(ids)}
        return {name: _stripped(member, ids) for name, member in kept.items()}
    return [_stripped(item, ids) for item in value if item not in list(ids)] if isinstance(value, list) else value
