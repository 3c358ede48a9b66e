"""Connector policies of a tenant: which connectors authenticate a login, in their order."""

from __future__ import annotations

import dataclasses

from identity.call import Document
from identity.domain.users.users import INTERNAL_CONNECTOR


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


def applicable(tenant: Document, user: Document | None, login_id: str) -> list[ConnectorPolicy]:
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
