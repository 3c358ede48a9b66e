"""Themes: create, copy, update and delete. Every instance has the default theme, which is immutable."""

from __future__ import annotations

from collections.abc import Sequence

from identity.call import Call, Caller, Document
from identity.domain.configuration import administrator_realm
from identity.domain.configuration import themes as theme_rules
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Invalid
from identity.operations.configuration import object_copies
from identity.operations.objects import crud
from identity.services import Services
from identity.store.mongo import Write


async def prepare(_services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Validate a theme. Raises Invalid, also for a change of the default theme."""
    if stored is not None:
        _require_not_default(stored["id"])
    crud.require_no_errors(theme_rules.problems(document))
    return document


async def _commit(
    services: Services, _call: Call, theme: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit a theme. Raises Invalid for a deletion of the default theme."""
    if theme is None and stored is not None:
        _require_not_default(stored["id"])
    await services.runtime.database.execute(writes)


async def create(services: Services, call: Call, body: Document, theme_id: str | None) -> Document:
    """Create a theme, or a copy of `sourceThemeId` with the requested name. Raises Invalid."""
    source_id = body.get("sourceThemeId")
    if source_id is not None:
        source = await object_copies.get_source(services.configuration.themes, None, source_id, "sourceThemeId")
        body = object_copies.with_requested_name(source, body, "theme")
    return await crud.create(services, call, RESOURCE, body, theme_id)


async def _to_response(services: Services, _caller: Caller, theme: Document) -> Document:
    """Return a theme with `notices`: what its pages do not show, and texts that are hard to read."""
    response = crud.to_response(services, RESOURCE, theme)
    notices = theme_rules.notices(theme)
    return {**response, "notices": notices} if notices else response


RESOURCE = Resource(
    "theme",
    tenant_scoped=False,
    unique=(Unique("name", ("name",), "theme.name"),),
    search_rules=SearchRules(
        {"name": "text", "type": "exact"},
        {"id": "_id", "insertInstant": "insertInstant", "name": "name"},
        default="insertInstant ASC",
    ),
    prepare=prepare,
    commit=_commit,
    create=create,
    to_response=_to_response,
)


async def find_effective(services: Services, tenant: Document, application: Document | None) -> Document | None:
    """Return the theme of an application, else of its tenant; None for the default theme, which changes no page.

    The console always has the default theme: the template of another one could send a password elsewhere.
    """
    if administrator_realm.is_application(application) or administrator_realm.is_realm(tenant):
        return None
    theme_id = (application or {}).get("themeId") or tenant.get("themeId")
    if theme_id in {None, theme_rules.DEFAULT_ID}:
        return None
    return await find(services, str(theme_id))


async def find(services: Services, theme_id: str) -> Document | None:
    """Return a theme, from the cache."""
    return await services.configuration.themes.find_cached(None, theme_id)


def _require_not_default(theme_id: str) -> None:
    """Raise Invalid for the default theme."""
    if theme_id == theme_rules.DEFAULT_ID:
        raise Invalid.field("invalid", "themeId", "The default theme cannot be changed or deleted; copy it.")
