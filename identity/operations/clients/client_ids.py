"""Client ids are unique among applications and entities, so that a token request never names two clients.

The client id of an application is its id; that of an entity may be any text. The id of an entity is the audience of
tokens, so it must not be the id of an application either: such tokens could be mistaken for those of its users.
"""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.errors import FieldError, Invalid
from identity.ids import parse_id
from identity.services import Services
from identity.store.mongo import Session


async def claim_for_application(services: Services, application: Document, session: Session | None) -> None:
    """Reserve the id of a new application. Raises Invalid if an entity uses it."""
    application_id = application["id"]
    await services.directory.name_reservations.reserve_across_tenants(_name(application_id), session)
    where = {"$or": [{"clientId": application_id}, {"_id": application_id}]}
    if await services.directory.entities.count_across_tenants(where, 1, session):
        raise _duplicate_error("applicationId", application_id)


async def claim_for_entity(
    services: Services, entity: Document, stored: Document | None, session: Session | None
) -> None:
    """Reserve the new ids of an entity. Raises Invalid if an application uses one of them."""
    for field, client_id in _new_ids(entity, stored):
        await services.directory.name_reservations.reserve_across_tenants(_name(client_id), session)
        if await services.configuration.applications.count_across_tenants({"_id": client_id}, 1, session):
            raise _duplicate_error(field, client_id)


def has_new_ids(entity: Document, stored: Document | None) -> bool:
    """Whether a change gives an entity an id that an application could have."""
    return any(_new_ids(entity, stored))


async def problems(services: Services, entity: Document, stored: Document | None) -> list[FieldError]:
    """Return a field error per id of an entity that an application uses; `claim_for_entity` decides atomically."""
    return [
        _duplicate_error(field, client_id).fields[0]
        for field, client_id in _new_ids(entity, stored)
        if await services.configuration.applications.find_cached_across_tenants(client_id) is not None
    ]


def _new_ids(entity: Document, stored: Document | None) -> Iterable[tuple[str, str]]:
    """Yield (field, id) for each new id of an entity that an application could have."""
    if (stored is None or stored["clientId"] != entity["clientId"]) and parse_id(entity["clientId"]) is not None:
        yield "entity.clientId", entity["clientId"]
    if stored is None and entity["clientId"] != entity["id"]:
        yield "entityId", entity["id"]


def _duplicate_error(field: str, client_id: str) -> Invalid:
    return Invalid.field("duplicate", field, f"A client with clientId = [{client_id}] already exists.")


def _name(client_id: str) -> str:
    return f"client id {client_id}"
