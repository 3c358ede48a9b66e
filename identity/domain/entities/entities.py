"""Entities and the grants on them: what is derived, what may be seen, what can be searched for.

client id   what an entity calls itself as an OAuth client
terms       the lower-cased texts that the one-term search finds an entity by
target      the entity that a grant gives permissions on
recipient   the user or the entity that a grant gives them to
"""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.domain.objects.index_search import Fields
from identity.errors import FieldError
from identity.ids import new_secret, parse_id

RECIPIENTS = ("recipientEntityId", "userId")

FIELDS = Fields(
    texts=frozenset({"clientId", "name"}),
    ids={"id": "_id", "parentId": "parentId", "tenantId": "tenantId", "type.id": "type.id", "typeId": "type.id"},
    sort={
        "clientId": "clientId",
        "id": "_id",
        "insertInstant": "insertInstant",
        "lastUpdateInstant": "lastUpdateInstant",
        "name": "name",
        "parentId": "parentId",
        "tenantId": "tenantId",
        "typeId": "type.id",
    },
    termed=frozenset({"clientId", "name"}),
    optional=frozenset({"parentId"}),
)


def with_derived_members(entity: Document, stored: Document | None) -> Document:
    """The entity as it is stored, with client id, secret and the terms of the search; of its type only the id.

    A client id that is a UUID is written like every id: an application's client id is read that way too.
    """
    client_id = entity.get("clientId") or entity["id"]
    secret = entity.get("clientSecret") or (new_secret() if stored is None else stored["clientSecret"])
    terms = sorted({text.lower() for text in (client_id, entity.get("name")) if text})
    return {
        **entity,
        "clientId": parse_id(client_id) or client_id,
        "clientSecret": str(secret),
        "type": {name: value for name, value in entity.get("type", {}).items() if name == "id"},
        "private": {**entity.get("private", {}), "terms": terms},
    }


def with_type(entity: Document, entity_type: Document | None) -> Document:
    """The entity with all of its type in place of the id."""
    return entity if entity_type is None else {**entity, "type": entity_type}


def without_secret(entity: Document) -> Document:
    """The entity as those see it who need not speak for it: in events, and beside a grant."""
    return {name: value for name, value in entity.items() if name != "clientSecret"}


def for_lambda(entity: Document, entity_type: Document) -> Document:
    """The entity as a lambda may see it: with its type, without its secret and what is ours alone."""
    shown = {name: value for name, value in without_secret(entity).items() if name != "private"}
    kind = {name: value for name, value in entity_type.items() if name != "private"}
    return {**shown, "type": kind}


def permission_names(entity_type: Document) -> frozenset[str]:
    """The permissions that can be granted on entities of a type."""
    return frozenset(permission["name"] for permission in entity_type["permissions"])


def permissions_to_grant(entity_type: Document, wanted: Iterable[str]) -> list[str]:
    """The permissions of a grant that names these: the default ones when it names none."""
    return list(wanted) or [entry["name"] for entry in entity_type["permissions"] if entry["isDefault"]]


def grant_problems(grant: Document, entity_type: Document) -> list[FieldError]:
    """What is wrong inside a grant on an entity of this type."""
    errors = []
    recipients = [name for name in RECIPIENTS if name in grant]
    if not recipients:
        message = "You must specify either the [grant.recipientEntityId] or the [grant.userId] property."
        errors.append(FieldError.of("missing", "grant.recipientEntityId", message))
    if len(recipients) > 1:
        message = "A grant is for an entity or for a user, not for both."
        errors.append(FieldError.of("invalid", "grant.recipientEntityId", message))
    unknown = sorted(set(grant.get("permissions", ())) - permission_names(entity_type))
    if unknown:
        message = f"The entity type has no permission [{'], ['.join(unknown)[:500]}]."
        errors.append(FieldError.of("invalid", "grant.permissions", message))
    return errors
