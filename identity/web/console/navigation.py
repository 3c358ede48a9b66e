"""The navigation of the console: the screens that an administrator's permissions include."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from identity import permissions
from identity.domain.configuration.administrator_roles import Authority
from identity.permissions import KEY_MANAGER_ENDPOINT, endpoint_of


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A screen: its title, the end of its path below /admin, and the API endpoint that it reads."""

    title: str
    slug: str
    endpoint: str

    @property
    def path(self) -> str:
        """The path of the screen."""
        return f"/admin/{self.slug}" if self.slug else "/admin"


HOME: Final = Entry("Home", "", "")

SECTIONS: Final[Sequence[tuple[str, Sequence[Entry]]]] = (("", (HOME,)),)


def entries(authority: Authority | None) -> list[tuple[str, list[Entry]]]:
    """Return the sections of the navigation with the screens that may be read; sections without any are left out."""
    return list(_permitted(authority))


def _permitted(authority: Authority | None) -> Iterator[tuple[str, list[Entry]]]:
    for title, listed in SECTIONS:
        found = [entry for entry in listed if not entry.endpoint or may_call(authority, "GET", entry.endpoint)]
        if found:
            yield title, found


def may_call(authority: Authority | None, method: str, path: str) -> bool:
    """Whether a call is permitted, as `@endpoint` checks it."""
    if authority is None:
        return False
    endpoint = endpoint_of(path)
    if endpoint == KEY_MANAGER_ENDPOINT:
        return authority.is_key_manager
    if authority.tenant_id is not None and permissions.is_global_only(endpoint, method):
        return False
    return permissions.may_call(authority.permissions, endpoint, method)
