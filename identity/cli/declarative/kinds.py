"""The kinds of objects that are configuration, from the resource table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.cli.kinds import kebab
from identity.collections import STORED_RESOURCES
from identity.domain.objects.resource_definition import Resource, Subresource
from identity.operations.configuration import api_keys, applications, integrations, keys, system_configuration
from identity.operations.entities import entities, entity_grants, entity_types
from identity.operations.groups import groups
from identity.schemas import Schemas, Shape

_DATA: Final = frozenset({"families", "group_members", "user_comments", "user_consents"})
"""Collections whose objects belong to users rather than to the configuration."""

_HOLDS_DATA: Final = frozenset(
    {"api_keys", "applications", "consents", "entities", "entity_types", "groups", "tenants"}
)
"""Collections whose objects cannot be deleted without data that no file has: that of users, or secrets."""

_PARTS: Final = (applications.ROLE, applications.SCOPE, entity_types.PERMISSION)
_SCHEMAS: Final = Schemas()


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind: a row of the resource table. A singleton is one object without an id."""

    row: Resource
    position: int

    @property
    def name(self) -> str:
        """The name in messages: `identity-provider`."""
        return kebab(self.row.name)

    @property
    def folder(self) -> str:
        """The folder of its files: `identity-providers`."""
        return kebab(self.row.plural)

    @property
    def is_singleton(self) -> bool:
        """Whether there is one object, without an id."""
        return any(self.row is row for row in (system_configuration.RESOURCE, integrations.RESOURCE))

    @property
    def is_key(self) -> bool:
        """Whether the objects are keys, which are generated or imported rather than created."""
        return self.row is keys.RESOURCE

    @property
    def is_api_key(self) -> bool:
        """Whether the objects are API keys, whose values never change and are not compared."""
        return self.row is api_keys.RESOURCE

    @property
    def is_grant(self) -> bool:
        """Whether the objects are grants, which entity and recipient identify."""
        return self.row is entity_grants.RESOURCE

    @property
    def is_entity(self) -> bool:
        """Whether the objects are entities, which the API lists by search."""
        return self.row is entities.RESOURCE

    @property
    def is_leaf(self) -> bool:
        """Whether no object of another kind refers to the objects, which may be many."""
        return self.is_api_key or self.is_entity or self.is_grant

    @property
    def holds_data(self) -> bool:
        """Whether the deletion of an object also deletes data of users."""
        return self.row.collection in _HOLDS_DATA

    @property
    def shape(self) -> Shape:
        """The schema of a request body."""
        return _SCHEMAS[self.row.schema]

    @property
    def node(self) -> Mapping[str, Any]:
        """The schema of one object, with the siblings that a request has next to it: `roleIds` of a group."""
        properties = self.shape.schema["properties"]
        inner = properties[self.row.name]
        siblings = {name: properties[name] for name in self.siblings}
        return {**inner, "properties": {**inner["properties"], **siblings, **{name: {} for name in self.addresses}}}

    @property
    def siblings(self) -> tuple[str, ...]:
        """Members that a request has next to the object, and a file inside it."""
        return ("roleIds",) if self.row is groups.RESOURCE else ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Members of a file that a request has in its path: the entity of a grant."""
        return ("entityId",) if self.is_grant else ()

    @property
    def parts(self) -> tuple[Subresource, ...]:
        """Lists in the object that have an API of their own."""
        return tuple(part for part in _PARTS if part.owner is self.row)


KINDS: Final = tuple(
    Kind(row, position)
    for position, row in enumerate(
        sorted((*STORED_RESOURCES, api_keys.RESOURCE), key=lambda row: row is not keys.RESOURCE)
    )
    if row.collection not in _DATA
)
"""All kinds; keys come first."""
