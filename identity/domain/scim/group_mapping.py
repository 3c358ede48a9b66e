"""The mapping between SCIM groups and groups, and the members that a request names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from identity.call import Document
from identity.domain.scim.errors import invalid
from identity.domain.scim.filters import Field, Fields
from identity.domain.scim.user_mapping import EXTERNAL_ID
from identity.ids import parse_id

FIELDS: Final = Fields(
    {
        ("id", None): Field("_id", "exact"),
        ("external_id", None): Field(f"private.{EXTERNAL_ID}", "exact"),
        ("display_name", None): Field("name", "name"),
        ("members", None): Field("", "members"),
        ("members", "value"): Field("", "members"),
        ("meta", "created"): Field("insertInstant", "instant"),
        ("meta", "last_modified"): Field("lastUpdateInstant", "instant"),
    }
)


def to_group(group: Document, members: list[Document], resource: Document) -> tuple[Document, list[Document]]:
    """Return a group and the members of its memberships with the attributes of a resource."""
    found = [{"userId": member.get("value"), "data": {}} for member in resource.get("members", [])]
    return {**group, "name": resource["displayName"]}, [*members, *found]


def to_resource(group: Document, base: Document) -> Document:
    """Return the attributes of a group with those of `base`: id, schemas, meta, members and externalId."""
    return {**base, "displayName": group["name"]}


def read_members(members: Iterable[Any]) -> dict[str, Document]:
    """Return requested memberships by user id; a repeated member counts once. Raises ScimError for an invalid id."""
    found: dict[str, Document] = {}
    for member in members:
        user_id = parse_id(member.get("userId")) if isinstance(member, dict) else None
        if user_id is None:
            raise invalid("invalidValue", "The value of a member must be the id of a user.")
        data = member.get("data")
        found[user_id] = {"userId": user_id, "data": data if isinstance(data, dict) else {}}
    return found
