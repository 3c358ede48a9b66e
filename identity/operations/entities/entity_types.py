"""Entity types and the permissions that can be granted on their entities."""

from __future__ import annotations

from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.configuration.token_settings import ACCESS_MEMBER, TokenSettings
from identity.domain.objects import resource_definition
from identity.domain.objects.resource_definition import Resource, SearchRules, Subresource, Unique
from identity.errors import FieldError
from identity.operations.entities import user_access
from identity.operations.objects import crud, key_references
from identity.services import Services
from identity.store.mongo import Write

FEATURE = "entityManagement"

_JWT = "entityType.jwtConfiguration"
_LIFETIME = "timeToLiveInSeconds"


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """Return the type to store; an update leaves its permissions unchanged. Raises Invalid."""
    if stored is None:
        document["permissions"] = [PERMISSION.fresh(document, entry, call.now) for entry in document["permissions"]]
    else:
        document["permissions"] = stored["permissions"]
    document = _with_permission_count(document)
    errors = resource_definition.repeated(document["permissions"], "entityType.permissions")
    errors += _token_problems(TokenSettings.of(document))
    errors += await key_references.problems(services, call, document, stored, _JWT)
    crud.require_no_errors(errors)
    return document


async def _commit(
    services: Services, call: Call, entity_type: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit an entity type, a changed one with the rotation of its keys."""
    if stored is not None:
        await _authorize(services, call, stored)
    if entity_type is None or stored is None:
        await services.runtime.database.execute(writes)
        return
    rotation = await key_references.of_entity_type(services, entity_type, stored)
    await key_references.commit(services, call, entity_type, rotation, writes)


async def _authorize(services: Services, call: Call, entity_type: Document) -> None:
    await user_access.require_authority(services, call, entity_type["id"])


async def create(services: Services, call: Call, body: Document, type_id: str | None) -> Document:
    """Create an entity type. Raises Invalid."""
    entity_type = await crud.create(services, call, RESOURCE, body, type_id)
    settings = TokenSettings.of(entity_type)
    if settings.is_enabled:
        await key_references.published_keys(services, settings.signing_key(ACCESS_MEMBER))
    return entity_type


RESOURCE = Resource(
    "entityType",
    path="/api/entity/type",
    label="Entity type",
    tenant_scoped=False,
    unique=(Unique("name", ("name",), "entityType.name"),),
    search_rules=SearchRules(
        {"name": "text"},
        {
            "entityTypePermissionsCount": "private.permissionsCount",
            "id": "_id",
            "insertInstant": "insertInstant",
            "lastUpdateInstant": "lastUpdateInstant",
            "name": "name",
        },
    ),
    authorize=_authorize,
    prepare=prepare,
    commit=_commit,
    create=create,
    feature=FEATURE,
)


async def _rename_in_grants(services: Services, owner: Document, before: Document, after: Document | None) -> None:
    """Rename a permission in all grants, or remove a deleted one from them."""
    name = None if after is None else after["name"]
    if name != before["name"]:
        await services.directory.entity_grants.rename_permission_across_tenants(owner["id"], before["name"], name)


def _with_permission_count(owner: Document) -> Document:
    """Return the type with its number of permissions, by which searches sort."""
    return {**owner, "private": {**owner.get("private", {}), "permissionsCount": len(owner["permissions"])}}


PERMISSION = Subresource(
    "permission",
    "permissions",
    RESOURCE,
    "api/entity-type-permission.json",
    complete=_with_permission_count,
    propagate=_rename_in_grants,
)


def _token_problems(settings: TokenSettings) -> list[FieldError]:
    """Require a key and a lifetime if the type configures its own tokens."""
    if not settings.is_enabled:
        return []
    required = {ACCESS_MEMBER: settings.signing_keys.get(ACCESS_MEMBER), _LIFETIME: settings.ttl_seconds}
    return [FieldError.missing(f"{_JWT}.{name}") for name, value in required.items() if not value]
