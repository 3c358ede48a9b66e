"""Client ids are unique among applications and entities, so that a token request never names two clients.

The client id of an application is its id, or a string that is no UUID; that of an entity may be any text. The id of an
entity is the audience of tokens, so it must not be the id of an application either: such tokens could be mistaken for
those of its users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from identity.call import Document
from identity.domain.clients.oauth_settings import client_id_of
from identity.errors import FieldError, Invalid
from identity.ids import parse_id
from identity.services import Services
from identity.store.mongo import Session

_STORED: Final = "oauthConfiguration.clientId"
_FIELD: Final = f"application.{_STORED}"
_FORM: Final = re.compile(r"[!-~]{1,255}")
"""The characters of a client_id (RFC 6749 appendix A.1) without the space, which separates audiences."""


async def find_application(services: Services, client_id: str) -> Document | None:
    """Return the application with this client_id, which is its `clientId` or its id, from the cache.

    Its `clientId` is the one given, so that tokens name it as their audience.
    """
    applications, application_id = services.configuration.applications, parse_id(client_id)
    if application_id is None:
        is_possible = _FORM.fullmatch(client_id) is not None
        return await applications.find_cached_where_across_tenants({_STORED: client_id}) if is_possible else None
    application = await applications.find_cached_across_tenants(application_id)
    return None if application is None else under_its_id(application)


def under_its_id(application: Document) -> Document:
    """Return an application with its id as its client_id, as the API names it."""
    if client_id_of(application) == application["id"]:
        return application
    return {**application, "oauthConfiguration": {**application["oauthConfiguration"], "clientId": application["id"]}}


def peek_application(services: Services, client_id: str) -> Document | None:
    """Return the application with this client_id if it is cached."""
    applications, application_id = services.configuration.applications, parse_id(client_id)
    if application_id is None:
        return applications.peek_where({_STORED: client_id})
    return applications.peek(application_id)


async def claim_for_application(
    services: Services, application: Document, stored: Document | None, session: Session | None
) -> None:
    """Reserve the new client ids of an application. Raises Invalid if an entity uses one of them."""
    for field, client_id in _new_ids_of_application(application, stored):
        await services.directory.name_reservations.reserve_across_tenants(_name(client_id), session)
        if await services.directory.entities.count_across_tenants(_entity_with(client_id), 1, session):
            raise _duplicate_error(field, client_id)


async def application_problems(services: Services, application: Document, stored: Document | None) -> list[FieldError]:
    """Return an error for a `clientId` that an entity uses; `claim_for_application` decides atomically."""
    return [
        _duplicate_error(field, client_id).fields[0]
        for field, client_id in _new_ids_of_application(application, stored)
        if field == _FIELD and await services.directory.entities.count_across_tenants(_entity_with(client_id), 1)
    ]


async def claim_for_entity(
    services: Services, entity: Document, stored: Document | None, session: Session | None
) -> None:
    """Reserve the new ids of an entity. Raises Invalid if an application uses one of them."""
    for field, client_id in _new_ids_of_entity(entity, stored):
        await services.directory.name_reservations.reserve_across_tenants(_name(client_id), session)
        if await services.configuration.applications.count_across_tenants(_application_with(client_id), 1, session):
            raise _duplicate_error(field, client_id)


def has_new_ids(entity: Document, stored: Document | None) -> bool:
    """Whether a change gives an entity an id that an application could have."""
    return any(_new_ids_of_entity(entity, stored))


async def problems(services: Services, entity: Document, stored: Document | None) -> list[FieldError]:
    """Return a field error per id of an entity that an application uses; `claim_for_entity` decides atomically."""
    return [
        _duplicate_error(field, client_id).fields[0]
        for field, client_id in _new_ids_of_entity(entity, stored)
        if await find_application(services, client_id) is not None
    ]


def _new_ids_of_application(application: Document, stored: Document | None) -> Iterable[tuple[str, str]]:
    """Yield (field, id) for each new client_id of an application."""
    client_id = client_id_of(application)
    if stored is None:
        yield "applicationId", application["id"]
    if client_id != application["id"] and (stored is None or client_id_of(stored) != client_id):
        yield _FIELD, client_id


def _new_ids_of_entity(entity: Document, stored: Document | None) -> Iterable[tuple[str, str]]:
    """Yield (field, id) for each new id of an entity that an application could have."""
    if (stored is None or stored["clientId"] != entity["clientId"]) and _FORM.fullmatch(entity["clientId"]):
        yield "entity.clientId", entity["clientId"]
    if stored is None and entity["clientId"] != entity["id"]:
        yield "entityId", entity["id"]


def _entity_with(client_id: str) -> Document:
    return {"$or": [{"clientId": client_id}, {"_id": client_id}]}


def _application_with(client_id: str) -> Document:
    return {"$or": [{_STORED: client_id}, {"_id": client_id}]}


def _duplicate_error(field: str, client_id: str) -> Invalid:
    return Invalid.field("duplicate", field, f"A client with clientId = [{client_id}] already exists.")


def _name(client_id: str) -> str:
    return f"client id {client_id}"
