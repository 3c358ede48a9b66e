"""The form `formConfiguration.adminUserFormId` of a tenant, which arranges the screens of its users."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.operations.forms import forms as form_definitions
from identity.services import Services
from identity.web.console.layouts import Group, Layout, member_of, with_member

_TYPES: Final[Mapping[str, Document]] = {
    "bool": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "email": {"type": "string", "format": "email"},
    "number": {"type": "number"},
}
_CUSTOM: Final = re.compile(r"data(\.[A-Za-z0-9_-]+)+")


async def arrange(
    services: Services, tenant_id: str, layout: Layout, schema: Mapping[str, Any]
) -> tuple[Layout, Mapping[str, Any]]:
    """Return layout and schema of users with the fields of the tenant's form; unchanged without one."""
    tenant = await services.configuration.tenants.find_cached(None, tenant_id)
    form = await form_definitions.find(services, member_of(tenant, "formConfiguration.adminUserFormId"))
    if form is None:
        return layout, schema
    return _arranged(layout, schema, await form_definitions.load_steps(services, form))


def _arranged(
    layout: Layout, schema: Mapping[str, Any], steps: Sequence[Sequence[Document]]
) -> tuple[Layout, Mapping[str, Any]]:
    labels, groups = dict(layout.labels), []
    for number, step in enumerate(steps, 1):
        members = []
        for field in step:
            member = field["key"].removeprefix("user.")
            if _CUSTOM.fullmatch(member):
                schema = with_member(schema, _schema_path(f"user.{member}"), _declaration(field))
                labels[member] = field["name"]
            elif member_of(schema, _schema_path(f"user.{member}")) is None:
                continue
            members.append(member)
        groups.append(Group(f"Step {number}" if len(steps) > 1 else "User", members))
    return dataclasses.replace(layout, groups=groups, labels=labels), schema


def _schema_path(path: str) -> str:
    """Return where a JSON Schema declares a member: `user.email` at `properties.user.properties.email`."""
    return ".".join(f"properties.{step}" for step in path.split("."))


def _declaration(field: Document) -> Document:
    """Return the JSON Schema of a custom field."""
    declared = {"type": "string", **_TYPES.get(field["type"], {}), "description": field.get("description", "")}
    if not field.get("options"):
        return declared
    if field["control"] == "checkbox":
        return {**declared, "type": "array", "items": {"enum": field["options"]}}
    return {**declared, "enum": field["options"]}
