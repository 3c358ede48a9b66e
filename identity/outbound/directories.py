"""Directories as the LDAP client takes them, apart from it: the client loads the classes of all LDAP messages."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Final

from identity.ids import Secret

_DEFAULT_PORTS: Final = {"LDAPS": 636, "None": 389, "StartTLS": 389}


class LdapError(Exception):
    """A directory could not be asked, or its answer is not usable. The message contains no secrets."""


@dataclasses.dataclass(frozen=True, slots=True)
class Directory:
    """A directory, and how the entries of users are found; `security` is None, StartTLS or LDAPS."""

    url: str
    security: str
    system_account_dn: str
    system_account_password: Secret
    base: str
    login_id_attribute: str
    identifying_attribute: str
    attributes: tuple[str, ...]
    connect_timeout_ms: int
    read_timeout_ms: int

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urllib.parse.urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port of the URL, or that of the security method."""
        return urllib.parse.urlsplit(self.url).port or _DEFAULT_PORTS[self.security]
