"""The navigation of the console: the screens that an administrator's permissions include."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from identity import permissions
from identity.domain.configuration.administrator_roles import Authority
from identity.permissions import KEY_MANAGER_ENDPOINT, endpoint_of
from identity.web.console import layouts


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A screen: its title, the end of its path below /admin, and the API path that it reads."""

    title: str
    slug: str
    api_path: str = ""

    @property
    def path(self) -> str:
        """The path of the screen."""
        return f"/admin/{self.slug}" if self.slug else "/admin"


SPECIAL: Final = {
    "": Entry("Home", ""),
    "reports": Entry("Reports", "reports", "/api/report/login"),
    "refusals": Entry("Why was this refused?", "refusals", "/api/application"),
}
"""The screens without a layout."""

SECTIONS: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("", ("", "reports")),
    ("People", ("users", "groups", "consents", "user-actions", "user-action-reasons")),
    ("Applications", ("applications", "entities", "entity-types", "identity-providers", "lambdas", "refusals")),
    ("Design", ("themes", "forms", "form-fields", "email-templates", "message-templates", "messengers")),
    ("Integration", ("connectors", "webhooks", "webhook-log", "api-keys", "keys")),
    ("Logs", ("audit-log", "event-log", "login-records")),
    ("System", ("tenants", "ip-acls", "settings")),
)


def entry(slug: str) -> Entry:
    """Return the entry of a screen."""
    if slug in SPECIAL:
        return SPECIAL[slug]
    layout = layouts.load(slug)
    return Entry(layout.title, slug, layout.search_path)


def entries(authority: Authority | None) -> list[tuple[str, list[Entry]]]:
    """Return the sections of the navigation with the screens that may be read; sections without any are left out."""
    return list(_permitted(authority))


def _permitted(authority: Authority | None) -> Iterator[tuple[str, list[Entry]]]:
    for title, slugs in SECTIONS:
        listed = (entry(slug) for slug in slugs)
        found = [each for each in listed if not each.api_path or may_call(authority, "GET", each.api_path)]
        if found:
            yield title, found


def may_call(authority: Authority | None, method: str, path: str) -> bool:
    """Whether a call is permitted, as `@endpoint` checks it."""
    if authority is None:
        return False
    endpoint = endpoint_of(path)
    if endpoint.startswith(KEY_MANAGER_ENDPOINT):
        return authority.is_key_manager
    if authority.tenant_id is not None and permissions.is_global_only(endpoint, method):
        return False
    return permissions.may_call(authority.permissions, endpoint, method)
