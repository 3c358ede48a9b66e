"""Verification of the credentials of a login by the connectors of the tenant, in the order of its policies."""

from __future__ import annotations

import dataclasses
from typing import Final

import structlog

from identity.call import Call, Document
from identity.domain.connectors.connectors import AUTHENTICATION_TYPES, applicable_policies
from identity.ids import TenantId
from identity.operations.connectors import connector_requests, connectors
from identity.operations.connectors.connector_requests import ConnectorError, LoginRequest
from identity.operations.objects import event_logs, features
from identity.operations.passwords import user_passwords
from identity.services import Services

_log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class AcceptedByConnector:
    """A connector accepted the credentials; `requested` is the user that it returned."""

    connector: Document
    requested: Document
    migrates: bool

    @property
    def authentication_type(self) -> str:
        """The `authenticationType` of events and tokens."""
        return AUTHENTICATION_TYPES[self.connector["type"]]


@dataclasses.dataclass(frozen=True, slots=True)
class AcceptedHere:
    """The password is that of the stored user."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """The credentials are not valid."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unverified:
    """No connector that might know the user could be asked: not a failed login."""


Verification = AcceptedByConnector | AcceptedHere | Refused | Unverified
REFUSED: Final = Refused()


async def verify(
    services: Services, call: Call, tenant: Document, user: Document | None, login: LoginRequest, *, is_locked: bool
) -> Verification:
    """Verify credentials against the stored password or the connectors of the tenant.

    A connector that fails is skipped: the next one of the order may know the user. Those of a locked account are not
    asked. Raises Unavailable if too many passwords are queued for verification.
    """
    failed = refused = False
    for policy in applicable_policies(tenant, user, login.login_id):
        if policy.is_internal:
            if await user_passwords.is_correct(services, tenant, user, login.password):
                return AcceptedHere()
            refused = refused or user is not None
            continue
        connector = await connectors.find(services, policy.connector_id)
        if connector is None or is_locked or not features.is_on(services, "connectors"):
            continue
        try:
            requested = await connector_requests.find_user(services, call, connector, login)
        except ConnectorError as error:
            failed = True
            await log_failure(services, call, tenant, connector, str(error))
            continue
        if requested is not None and requested.get("active") is not False:
            return AcceptedByConnector(connector, requested, policy.migrates)
        refused = True
    return Unverified() if failed and not refused else REFUSED


async def log_failure(services: Services, call: Call, tenant: Document, connector: Document, reason: str) -> None:
    """Log a failure, also to the event log if the connector enables `debug`."""
    _log.warning("connector failed", connector_id=connector["id"], reason=reason)
    if connector["debug"]:
        text = f"The connector [{connector['name']}] with the id [{connector['id']}] failed: {reason}."
        await event_logs.debug(services, call, TenantId(tenant["id"]), f"connector {connector['id']}", text)
