"""Rules of connectors: the settings of each type, and the internal connector, which every instance has.

Generic     an HTTP server that receives the credentials and returns the user
LDAP        a directory: the service searches the entry of the user and binds as it
FusionAuth  the internal connector: the users of this service
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml
from identity.domain.users.users import INTERNAL_CONNECTOR
from identity.errors import FieldError

GENERIC: Final = "Generic"
LDAP: Final = "LDAP"
AUTHENTICATION_TYPES: Final = {GENERIC: "GENERIC_CONNECTOR", LDAP: "LDAP_CONNECTOR"}
"""The `authenticationType` of events, by type."""

LAMBDA_TYPE: Final = "LDAPConnectorReconcile"
INTERNAL: Final[Document] = {
    "id": INTERNAL_CONNECTOR,
    "name": "Default",
    "type": "FusionAuth",
    "data": {},
    "debug": False,
}

_COMMON: Final = frozenset({"data", "debug", "id", "insertInstant", "lastUpdateInstant", "name", "type"})
_MEMBERS: Final = load_yaml(__file__, "connector_types.yaml")


def complete(connector: Document) -> Document:
    """Return the connector with the defaults of its type, and without members of other types."""
    settings = _MEMBERS.get(connector.get("type"))
    if settings is None:
        return connector
    known = {*_COMMON, *settings["required"], *settings["optional"]}
    given = {name: value for name, value in connector.items() if name in known}
    return {**settings["defaults"], **given}


def problems(connector: Document) -> list[FieldError]:
    """Return the errors of the settings, apart from those of URLs and references."""
    if connector.get("type") == INTERNAL["type"]:
        return [FieldError.of("invalid", "connector.type", "There is one connector of this type, the default one.")]
    settings = _MEMBERS.get(connector.get("type"))
    return (
        [] if settings is None else [*_missing_members(connector, settings["required"]), *_scheme_problems(connector)]
    )


def _missing_members(connector: Document, required: list[str]) -> Iterator[FieldError]:
    for name in required:
        if not connector.get(name):
            member = "lambdaConfiguration.reconcileId" if name == "lambdaConfiguration" else name
            path = f"connector.{member}"
            yield FieldError.of(
                "missing" if name.endswith("Timeout") else "blank", path, f"You must specify the [{path}] property."
            )


def _scheme_problems(connector: Document) -> Iterator[FieldError]:
    url = connector.get("authenticationURL", "").lower()
    if connector["type"] == LDAP and url.startswith("ldaps:") and connector.get("securityMethod") != "LDAPS":
        path = "connector.securityMethod"
        yield FieldError.invalid(path, "of an ldaps URL must be LDAPS")
