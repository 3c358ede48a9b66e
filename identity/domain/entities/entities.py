"""Rules of entities and of the grants on them.

client id   identifies an entity as an OAuth client
terms       the lower-case texts that a bare term of a search matches
target      the entity on which a grant gives permissions
recipient   the user or entity that has the permissions
"""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.domain.objects import data_terms
from identity.domain.objects.search_expressions import Field, Fields, Kind, fields_of
from identity.errors import FieldError
from identity.ids import new_secret, parse_id

RECIPIENTS = ("recipientEntityId", "userId")

FIELDS = Fields(
    searched=fields_of(
        {
            Kind.TEXT: ("clientId", "name"),
            Kind.ID: ("id", "parentId", "tenantId", "type.id", "typeId"),
            Kind.INSTANT: ("insertInstant", "lastUpdateInstant"),
        },
        {"id": "_id", "typeId": "type.id"},
    ),
    data={"data": Field("data", Kind.DATA, "data")},
    sort={
        **{name: name for name in ("clientId", "insertInstant", "lastUpdateInstant", "name", "parentId", "tenantId")},
        "id": "_id",
        "typeId": "type.id",
    },
    termed=frozenset({"clientId", "name"}),
    optional=frozenset({"parentId"}),
)


def with_derived_members(entity: Document, stored: Document | None) -> Document:
    """Return the entity to store, with client id, secret and search terms, and with only the id of its type.

    Client ids that are UUIDs are stored in canonical form, like those of applications.
    """
    client_id = entity.get("clientId") or entity["id"]
    secret = entity.get("clientSecret") or (new_secret() if stored is None else stored["clientSecret"])
    terms = sorted({text.lower() for text in (client_id, entity.get("name")) if text})
    return {
        **entity,
        "clientId": parse_id(client_id) or client_id,
        "clientSecret": str(secret),
        "type": {name: value for name, value in entity.get("type", {}).items() if name == "id"},
        "private": {
            **entity.get("private", {}),
            "terms": terms,
            "dataTerms": data_terms.of(entity.get("data", {})),
        },
    }


def with_type(entity: Document, entity_type: Document | None) -> Document:
    """Return the entity with its complete type in place of the type's id."""
    return entity if entity_type is None else {**entity, "type": entity_type}


def without_secret(entity: Document) -> Document:
    """Return the entity as events and grants contain it: without its client secret."""
    return {name: value for name, value in entity.items() if name != "clientSecret"}


def for_lambda(entity: Document, entity_type: Document) -> Document:
    """Return the entity as lambdas receive it: with its type, without secret and private members."""
    visible = {name: value for name, value in without_secret(entity).items() if name != "private"}
    visible_type = {name: value for name, value in entity_type.items() if name != "private"}
    return {**visible, "type": visible_type}


def permission_names(entity_type: Document) -> frozenset[str]:
    """Return the permissions that can be granted on entities of a type."""
    return frozenset(permission["name"] for permission in entity_type["permissions"])


def permissions_to_grant(entity_type: Document, requested: Iterable[str]) -> list[str]:
    """Return the permissions of a grant: the requested ones, or the default ones if it requests none."""
    return list(requested) or [entry["name"] for entry in entity_type["permissions"] if entry["isDefault"]]


def grant_problems(grant: Document, entity_type: Document) -> list[FieldError]:
    """Return the errors of a grant on an entity of this type."""
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
