"""Client ids: applications and entities share them, so that a token request never means two clients.

An application's client id is its id. An entity's may be any text; and its id, which is the audience of tokens that are
issued for it, is no application's id either: nobody may take such a token for one of the application's users.
"""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.errors import FieldError, Invalid
from identity.ids import parse_id
from identity.services import Services
from identity.store.mongo import Session


async def claim_for_application(services: Services, application: Document, session: Session | None) -> None:
    """Take the id of a new application. Raises Invalid when an entity has it."""
    application_id = application["id"]
    await services.name_reservations.reserve_across_tenants(_name(application_id), session)
    where = {"$or": [{"clientId": application_id}, {"_id": application_id}]}
    if await services.entities.count_across_tenants(where, 1, session):
        raise _taken("applicationId", application_id)


async def claim_for_entity(
    services: Services, entity: Document, stored: Document | None, session: Session | None
) -> None:
    """Take the ids of a new entity, or the new client id of one. Raises Invalid when an application has one of them."""
    for field, client_id in _fresh(entity, stored):
        await services.name_reservations.reserve_across_tenants(_name(client_id), session)
        if await services.applications.count_across_tenants({"_id": client_id}, 1, session):
            raise _taken(field, client_id)


def has_new_ids(entity: Document, stored: Document | None) -> bool:
    """Whether a change gives an entity an id that may be an application's."""
    return any(_fresh(entity, stored))


async def problems(services: Services, entity: Document, stored: Document | None) -> list[FieldError]:
    """A field error for each id of an entity that is an application's; `claim_for_entity` has the last word."""
    return [
        _taken(field, client_id).fields[0]
        for field, client_id in _fresh(entity, stored)
        if await services.applications.find_cached_across_tenants(client_id) is not None
    ]


def _fresh(entity: Document, stored: Document | None) -> Iterable[tuple[str, str]]:
    """(field, id) of what an entity is called from now on, as far as an application could be called that."""
    if (stored is None or stored["clientId"] != entity["clientId"]) and parse_id(entity["clientId"]) is not None:
        yield "entity.clientId", entity["clientId"]
    if stored is None and entity["clientId"] != entity["id"]:
        yield "entityId", entity["id"]


def _taken(field: str, client_id: str) -> Invalid:
    return Invalid.field("duplicate", field, f"A client with clientId = [{client_id}] already exists.")


def _name(client_id: str) -> str:
    return f"client id {client_id}"
