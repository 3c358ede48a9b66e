"""Themes: create, copy, change and delete, but for the default one, which every instance has and nobody changes."""

from __future__ import annotations

from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.configuration import themes as rules
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Invalid
from identity.operations.objects import crud
from identity.services import Services
from identity.store.mongo import Write


async def prepare(_services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Judge the theme. Raises Invalid, also for a change of the default theme."""
    if stored is not None:
        _require_own(stored["id"])
    crud.require_no_errors(rules.problems(document))
    return document


async def _commit(
    services: Services, _call: Call, theme: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit a theme. Raises Invalid for a deletion of the default theme."""
    if theme is None and stored is not None:
        _require_own(stored["id"])
    await services.database.execute(writes)


async def create(services: Services, call: Call, body: Document, theme_id: str | None) -> Document:
    """A new theme, plain or as a copy of `sourceThemeId` under the name given. Raises Invalid."""
    return await crud.create(services, call, RESOURCE, await _with_source(services, body), theme_id)


RESOURCE = Resource(
    "theme",
    "/api/theme",
    "api/theme.json",
    "themes",
    "themes",
    "Theme",
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
)


async def find_effective(services: Services, tenant: Document, application: Document | None) -> Document | None:
    """The theme of an application's pages, else of its tenant's; None for the default one, which changes nothing."""
    theme_id = (application or {}).get("themeId") or tenant.get("themeId")
    if theme_id in {None, rules.DEFAULT_ID}:
        return None
    return await services.themes.find_cached(None, str(theme_id))


async def _with_source(services: Services, body: Document) -> Document:
    source_id = body.get("sourceThemeId")
    if source_id is None:
        return body
    source = await services.themes.find(None, str(source_id).lower())
    if source is None:
        raise Invalid.field("invalid", "sourceThemeId", "The [sourceThemeId] must name an existing theme.")
    given = body.get("theme")
    return {"theme": {**crud.to_request(source), "name": given.get("name") if isinstance(given, dict) else None}}


def _require_own(theme_id: str) -> None:
    """Raise Invalid for the default theme."""
    if theme_id == rules.DEFAULT_ID:
        raise Invalid.field("invalid", "themeId", "The default theme cannot be changed or deleted; copy it.")
