"""The resource models of a tenant: users, enterprise users and groups, with the extensions that the tenant declares.

Importing this module loads scim2-models and takes a third of a second, so that the web layer does it on first use.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Final

import orjson
import scim2_models
from pydantic import Field, ValidationError, field_validator
from scim2_models import Mutability, Required, ResourceType, ScimPolicy, ScimProvider
from scim2_models.resources import enterprise_user as published_enterprise
from scim2_models.resources import group as published_group
from scim2_models.resources import user as published_user

from identity.call import Document

USER: Final = "User"
ENTERPRISE_USER: Final = "EnterpriseUser"
GROUP: Final = "Group"

ENDPOINTS: Final = {USER: "/Users", ENTERPRISE_USER: "/EnterpriseUsers", GROUP: "/Groups"}
"""Resource type -> its path below the base URL."""

USER_SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP_SCHEMA: Final = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE_SCHEMA: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

POLICY: Final = ScimPolicy(
    unknown=ScimPolicy.Unknown.keep,
    # Both are how Microsoft Entra ID sends patches.
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)
STRICT_POLICY: Final = POLICY.model_copy(update={"unmatched_path_filter": ScimPolicy.UnmatchedPathFilter.forbid})
"""The policy without the entries that Microsoft Entra ID expects to be created."""


class Email(published_user.Email):
    """An email address of any form: the rules of users decide which are valid."""

    value: str | None = None


class User(scim2_models.User[scim2_models.AnyExtension]):
    """The core schema of users."""

    active: Annotated[bool | None, Required.true] = None
    """Whether the user may log in; every user has it, so that it cannot be removed."""

    emails: list[Email] | None = None  # type: ignore[assignment]
    """Email addresses for the user."""


class Manager(published_enterprise.Manager):
    """A manager, of whom clients such as Microsoft Entra ID send only the id."""

    value: str | None = None
    """The id of the SCIM resource representing the User's manager."""

    ref: str | None = Field(None, serialization_alias="$ref", validation_alias="$ref")  # type: ignore[assignment]
    """The URI of the SCIM resource representing the User's manager."""


class EnterpriseUser(scim2_models.EnterpriseUser):
    """The enterprise extension."""

    manager: Manager | None = None
    """The User's manager."""

    @field_validator("manager", mode="before")
    @classmethod
    def _read_manager(cls, given: Any) -> Any:
        """Accept a manager as an object, as its id, and as a list with either; an empty value is none."""
        if isinstance(given, list) and len(given) <= 1:
            given = given[0] if given else None
        if isinstance(given, str):
            return {"value": given} if given else None
        return given


class GroupMember(published_group.GroupMember):
    """A member; its name is that of the user."""

    display: Annotated[str | None, Mutability.read_only] = None
    """The name of the user, which is not shown."""


class Group(scim2_models.Group):
    """The core schema of groups."""

    members: list[GroupMember] | None = None  # type: ignore[assignment]
    """A list of members of the Group."""


_RESERVED: Final = frozenset({USER_SCHEMA.lower(), GROUP_SCHEMA.lower(), ENTERPRISE_SCHEMA.lower()})
_EXTENSIONS_PER_TENANT: Final = 20


def provider_of(tenant: Document) -> ScimProvider:
    """Return the models of a tenant with its own extensions: the schemas in `scimServerConfiguration.schemas`."""
    declared = tenant["scimServerConfiguration"].get("schemas") or {}
    return _provider(orjson.dumps(declared, option=orjson.OPT_SORT_KEYS))


def model_of(tenant: Document, resource_type: str) -> Any:
    """Return the model of a resource type, with its extensions."""
    model = provider_of(tenant).model_for(resource_type)
    assert model is not None, "a declared resource type has a model"
    return model


@functools.lru_cache(maxsize=64)
def _provider(declared: bytes) -> ScimProvider:
    extensions = _extensions(orjson.loads(declared))
    schemas = [str(extension.__schema__) for extension in extensions]
    return ScimProvider(
        models=[User, EnterpriseUser, Group, *extensions],
        resource_types=[
            _resource_type(USER, "User account", USER_SCHEMA, [ENTERPRISE_SCHEMA, *schemas]),
            _resource_type(ENTERPRISE_USER, "Enterprise user account", USER_SCHEMA, [ENTERPRISE_SCHEMA, *schemas]),
            _resource_type(GROUP, "Group", GROUP_SCHEMA, []),
        ],
        policy=POLICY,
    )


def _resource_type(name: str, description: str, schema: str, extensions: list[str]) -> ResourceType:
    return ResourceType.model_validate(
        {
            "id": name,
            "name": name,
            "description": description,
            "endpoint": ENDPOINTS[name],
            "schema": schema,
            "schemaExtensions": [{"schema": urn, "required": False} for urn in extensions],
        }
    )


def _extensions(declared: Document) -> list[Any]:
    """Return the models of the further schemas that a tenant declares; one that cannot be read is left out."""
    found = []
    listed = declared.get("Resources")
    for schema in (listed if isinstance(listed, list) else [])[:_EXTENSIONS_PER_TENANT]:
        try:
            read = scim2_models.Schema.model_validate(schema, scim_policy=POLICY)
            if str(read.id).lower() not in _RESERVED:
                found.append(scim2_models.Extension.from_schema(read))
        except (ValidationError, ValueError, TypeError):
            continue
    return found
