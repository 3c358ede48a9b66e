"""Rules of connectors: the settings of each type, and the policies by which a tenant uses them.

Generic     an HTTP server that receives the credentials and returns the user
LDAP        a directory: the service searches the entry of the user and binds as it
FusionAuth  the internal connector, which every instance has: the users of this service
"""

from __future__ import annotations

import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True)
class ConnectorPolicy:
    """A connector to ask; `migrates`: its users move to the internal connector at their first login."""

    connector_id: str
    migrates: bool

    @property
    def is_internal(self) -> bool:
        """Whether the users of this service are meant."""
        return self.connector_id == INTERNAL_CONNECTOR


_INTERNAL = ConnectorPolicy(INTERNAL_CONNECTOR, migrates=False)


def applicable_policies(tenant: Document, user: Document | None, login_id: str) -> list[ConnectorPolicy]:
    """Return the policies of a login in their order.

    A stored user is authenticated by the user's own connector alone, so that no other one can take the account over;
    after the tenant removed that connector, and for an unknown login id, by those whose domains match.
    """
    if user is None:
        return _matching(tenant, login_id)
    own = str(user["connectorId"])
    if own == INTERNAL_CONNECTOR:
        return [_INTERNAL]
    found = [policy for policy in _policies(tenant) if policy.connector_id == own]
    return found[:1] or _matching(tenant, login_id)


def _matching(tenant: Document, login_id: str) -> list[ConnectorPolicy]:
    domain = login_id.strip().lower().rpartition("@")[2] if "@" in login_id else None
    matching = [
        ConnectorPolicy(policy["connectorId"], policy["migrate"])
        for policy in tenant["connectorPolicies"]
        if "*" in policy["domains"] or domain in {one.lower() for one in policy["domains"]}
    ]
    return list(dict.fromkeys(matching))


def _policies(tenant: Document) -> list[ConnectorPolicy]:
    return [ConnectorPolicy(policy["connectorId"], policy["migrate"]) for policy in tenant["connectorPolicies"]]
