"""A declared resource: one row of resources.py, from which its whole API is served."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from identity.call import Call, Document
from identity.domain.objects.stored_credentials import Credential

Prepare = Callable[[Any, Call, Document, Document | None], Awaitable[Document]]
"""(services, call, wanted, stored or None) -> what to store; raises Invalid with all problems of state.

It also judges a document whose bad members are already known and have been taken out: a member that is required may
be missing then, and what it answers is thrown away.
"""

Commit = Callable[[Any, Call, Document | None, Document | None, Sequence[Any]], Awaitable[None]]
"""(services, call, after, before, writes): commits the writes of one object with its events or with other writes.

`before` is the stored object, None for a creation; `after` is the object to store, None for a deletion. The last of the
writes stores or deletes the object, those before it check its references.
"""

CREATE_TO_SEARCH = frozenset({"create", "retrieve", "retrieve_all", "update", "patch", "delete", "search"})


@dataclasses.dataclass(frozen=True, slots=True)
class Unique:
    """A unique index: its name, its keys, and the field whose value a duplicate is reported on."""

    index: str
    keys: tuple[str, ...]
    field: str
    sparse: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SearchRules:
    """What a criteria search may ask: criterion -> how it matches, and the fields that may be sorted by.

    `members` says where a criterion looks, when that is not the member of its own name. Every order, exact criterion
    and text gets an index (domain/objects/search_indexes.py), but for the texts in `long`, which are looked through.
    """

    criteria: dict[str, Literal["text", "exact", "tenants", "from", "until"]] = dataclasses.field(default_factory=dict)
    order_by: dict[str, str] = dataclasses.field(default_factory=dict)
    default: str = "name ASC"
    members: Mapping[str, str] = dataclasses.field(default_factory=dict)
    long: frozenset[str] = frozenset()


NO_SEARCH = SearchRules()


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object.

    `name` is the wrapper in JSON, `path` its API path, `schema` the file of its shape, `collection` its MongoDB
    collection, `sealed` the dotted members that are encrypted at rest, `credentials` those that are bound to an address
    or account and masked for keys without write access, `feature` that of `license.features` without which the whole
    API is off.
    """

    name: str
    path: str
    schema: str
    collection: str
    plural: str
    label: str
    tenant_scoped: bool = True
    verbs: frozenset[str] = CREATE_TO_SEARCH
    unique: tuple[Unique, ...] = ()
    sealed: tuple[str, ...] = ()
    credentials: tuple[Credential, ...] = ()
    search: SearchRules = NO_SEARCH
    prepare: Prepare | None = None
    commit: Commit | None = None
    feature: str | None = None

    @property
    def id_name(self) -> str:
        """How the id in the path is called in errors: `webhookId`."""
        return f"{self.name}Id"
