"""Parts: the small objects inside a document that have an API of their own, such as the roles of an application."""

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
"""(owner, part): what is wrong with the part beyond its schema and its name among the others."""

Propagate = Callable[[Any, Document, Document, Document | None], Awaitable[None]]
"""(services, owner, part as it was, part as it is or None): what a change means for others, after it was written."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subresource:
    """One kind of part.

    `name` is the wrapper in JSON, `member` the list in its owner, `schema` the file of its shape; `fixed` are members
    that never change. With `names_owner` each part holds the id of its owner. `complete` makes the owner whole again
    after one of its parts changed. `feature` is the one of `license.features` without which this API is off.
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
        """How the id in the path is called in errors: `roleId`."""
        return f"{self.name}Id"

    def fresh(self, owner: Document, wanted: Document, now: Instant, subresource_id: str | None = None) -> Document:
        """A new part as it is stored."""
        own = {"id": subresource_id or wanted.get("id") or new_id(), "insertInstant": now, "lastUpdateInstant": now}
        return {**wanted, **own, **({self.owner.id_name: owner["id"]} if self.names_owner else {})}

    def changed(self, stored: Document, wanted: Document, now: Instant) -> Document:
        """A part after a change: what is its own stays."""
        kept = {k: stored[k] for k in ("id", "insertInstant", self.owner.id_name, *self.fixed) if k in stored}
        return {**wanted, **kept, "lastUpdateInstant": max(now, stored["lastUpdateInstant"] + 1)}

    def errors(self, owner: Document, subresource: Document) -> list[FieldError]:
        """What is wrong with one part among the others of its owner."""
        errors = []
        if sum(other["name"] == subresource["name"] for other in owner[self.member]) > 1:
            message = f"{with_article(self.name)} with name = [{subresource['name']}] already exists."
            errors.append(FieldError.of("duplicate", f"{self.name}.name", message))
        return errors + (self.problems(owner, subresource) if self.problems else [])


def repeated(parts: list[Document], path: str) -> list[FieldError]:
    """The names and ids that occur twice in a list of parts."""
    errors, seen = [], set()
    for index, subresource in enumerate(parts):
        for member in ("name", "id"):
            if (member, subresource[member]) in seen:
                message = f"The {member} [{subresource[member]}] occurs twice."
                errors.append(FieldError.of("duplicate", f"{path}[{index}].{member}", message))
            seen.add((member, subresource[member]))
    return errors
