"""A declared resource: one row of resources.py, which defines its complete API, and the subresources inside it.

A subresource is an object inside a document that has an API of its own, such as a role of an application.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from identity.call import Call, Caller, Document
from identity.domain.objects.stored_credentials import Credential
from identity.errors import FieldError, with_article
from identity.ids import new_id
from identity.instants import Instant

Prepare = Callable[[Any, Call, Document, Document | None], Awaitable[Document]]
"""(services, call, document, stored or None): returns the document to store, or raises Invalid with all its problems.

It also validates a document from which the members that the schema rejects were removed: required members may be
missing then, and the result is discarded.
"""

Commit = Callable[[Any, Call, Document | None, Document | None, Sequence[Any]], Awaitable[None]]
"""(services, call, after, before, writes): commits the writes of one object with its events or with other writes.

`before` is the stored object, None for a creation; `after` is the object to store, None for a deletion. The last of the
writes stores or deletes the object, those before it check its references.
"""

Create = Callable[[Any, Call, Document, str | None], Awaitable[Document]]
"""(services, call, request body, id or None): creates an object."""

Retrieve = Callable[[Any, Call, str], Awaitable[Document]]
RetrieveAll = Callable[[Any, Call], AsyncIterator[Document]]

Update = Callable[[Any, Call, Document, str], Awaitable[Document]]
"""(services, call, request body, id): replaces an object."""

Patch = Callable[[Any, Call, str, Any, str], Awaitable[Document]]
"""(services, call, media type of the patch, patch, id): changes parts of an object."""

Delete = Callable[[Any, Call, str], Awaitable[None]]

Search = Callable[[Any, Call, Mapping[str, Any], str], Awaitable[tuple[int, list[Document]]]]
"""(services, call, criteria, their path in the request): returns how many objects match, and one page of them."""

ToResponse = Callable[[Any, Caller, Document], Awaitable[Document]]
"""(services, caller, document): returns the object as the API shows it to the caller."""

CREATE_TO_SEARCH = frozenset({"create", "retrieve", "retrieve_all", "update", "patch", "delete", "search"})


@dataclasses.dataclass(frozen=True, slots=True)
class Unique:
    """A unique index: its name, its keys, and the field for which a duplicate is reported."""

    index: str
    keys: tuple[str, ...]
    field: str
    sparse: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SearchRules:
    """The criteria of a search, by how they match, and the fields that results can be sorted by.

    `members` gives the member that a criterion matches, if it is not the one of its own name. Every order, exact
    criterion and text gets an index (domain/objects/search_indexes.py), except the texts in `long`, which are scanned.
    """

    criteria: dict[str, Literal["text", "exact", "flag", "tenants", "from", "until"]] = dataclasses.field(
        default_factory=dict
    )
    order_by: dict[str, str] = dataclasses.field(default_factory=dict)
    default: str = "name ASC"
    members: Mapping[str, str] = dataclasses.field(default_factory=dict)
    long: frozenset[str] = frozenset()


NO_SEARCH = SearchRules()


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object.

    `name` is its wrapper in JSON, `path` its API path, `schema` the file of its schema, `collection` its MongoDB
    collection, `label` its name in messages. Their defaults and that of `plural` are derived from the name: those of
    `userAction` are `/api/user-action`, `api/user-action.json`, `user_actions`, `User Action` and `userActions`.

    `sealed` are the dotted members that are encrypted at rest, `credentials` those that are bound to an address or
    account and masked for keys without write access. `feature` is the feature of `license.features` that enables the
    API.

    `authorize` raises Unauthorized for a caller who may not change a stored object or its subresources. `prepare` and
    `commit` take part in the generic operations. `create` to `to_response` replace those of
    operations/objects/crud.py that do not fit.
    """

    name: str
    path: str = ""
    schema: str = ""
    collection: str = ""
    plural: str = ""
    label: str = ""
    tenant_scoped: bool = True
    verbs: frozenset[str] = CREATE_TO_SEARCH
    unique: tuple[Unique, ...] = ()
    sealed: tuple[str, ...] = ()
    credentials: tuple[Credential, ...] = ()
    search_rules: SearchRules = NO_SEARCH
    authorize: Callable[[Any, Call, Document], Awaitable[None]] | None = None
    prepare: Prepare | None = None
    commit: Commit | None = None
    create: Create | None = None
    retrieve: Retrieve | None = None
    retrieve_all: RetrieveAll | None = None
    update: Update | None = None
    patch: Patch | None = None
    delete: Delete | None = None
    search: Search | None = None
    to_response: ToResponse | None = None
    feature: str | None = None

    def __post_init__(self) -> None:
        words = re.sub("([A-Z])", r" \1", self.name).lower().split()
        defaults = {
            "path": f"/api/{'-'.join(words)}",
            "schema": f"api/{'-'.join(words)}.json",
            "collection": f"{'_'.join(words)}s",
            "plural": f"{self.name}s",
            "label": " ".join(words).title(),
        }
        for name, value in defaults.items():
            object.__setattr__(self, name, getattr(self, name) or value)

    @property
    def id_name(self) -> str:
        """The name of the id in the path, as in errors: `webhookId`."""
        return f"{self.name}Id"


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
