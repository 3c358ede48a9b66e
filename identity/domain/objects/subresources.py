"""Subresources: objects inside a document that have an API of their own, such as the roles of an application."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from identity.call import Document
from identity.domain.objects.resource_definition import Resource
from identity.errors import FieldError, with_article
from identity.ids import new_id
from identity.instants import Instant

Problems = Callable[[Document, Document], list[FieldError]]
"""(owner, subresource): returns its problems beyond its schema and its name among its siblings."""

Propagate = Callable[[Any, Document, Document, Document | None], Awaitable[None]]
"""(services, owner, subresource before, subresource after or None): applies a change to what refers to it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subresource:
    """One kind of subresource.

    `name` is its wrapper in JSON, `member` the list in its owner, `schema` the file of its schema; `fixed` are
    immutable members. With `names_owner` each one holds the id of its owner. `complete` updates derived members of the
    owner. `feature` is the feature of `license.features` that enables the API.
    """

    name: str
    member: str
    owner: Resource
    schema: str
    fixed: tuple[str, ...] = ()
    names_owner: bool = False
    problems: Problems | None = None
    complete: Callable[[Document], Document] | None = None
    feature: str | None = None
    propagate: Propagate | None = None

    @property
    def id_name(self) -> str:
        """The name of the id in the path, as in errors: `roleId`."""
        return f"{self.name}Id"

    def fresh(self, owner: Document, wanted: Document, now: Instant, subresource_id: str | None = None) -> Document:
        """Return a new subresource as it is stored."""
        own = {"id": subresource_id or wanted.get("id") or new_id(), "insertInstant": now, "lastUpdateInstant": now}
        return {**wanted, **own, **({self.owner.id_name: owner["id"]} if self.names_owner else {})}

    def changed(self, stored: Document, wanted: Document, now: Instant) -> Document:
        """Return a subresource after a change, with its immutable members."""
        kept = {k: stored[k] for k in ("id", "insertInstant", self.owner.id_name, *self.fixed) if k in stored}
        return {**wanted, **kept, "lastUpdateInstant": max(now, stored["lastUpdateInstant"] + 1)}

    def errors(self, owner: Document, subresource: Document) -> list[FieldError]:
        """Return the problems of one subresource among those of its owner."""
        errors = []
        if sum(other["name"] == subresource["name"] for other in owner[self.member]) > 1:
            message = f"{with_article(self.name)} with name = [{subresource['name']}] already exists."
            errors.append(FieldError.of("duplicate", f"{self.name}.name", message))
        return errors + (self.problems(owner, subresource) if self.problems else [])


def repeated(parts: list[Document], path: str) -> list[FieldError]:
    """Return an error for each name and id that occurs twice in a list."""
    errors, seen = [], set()
    for index, subresource in enumerate(parts):
        for member in ("name", "id"):
            if (member, subresource[member]) in seen:
                message = f"The {member} [{subresource[member]}] occurs twice."
                errors.append(FieldError.of("duplicate", f"{path}[{index}].{member}", message))
            seen.add((member, subresource[member]))
    return errors
