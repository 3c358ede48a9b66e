"""Rejected passkeys in the event log, if the tenant enables `webAuthnConfiguration.debug`."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import Invalid
from identity.ids import TenantId
from identity.operations.objects import event_logs
from identity.services import Services


async def log_rejection(services: Services, call: Call, tenant: Document, user_id: str, error: Invalid) -> None:
    """Record why a passkey of a user was rejected. It contains nothing of the passkey but the reason."""
    if not tenant["webAuthnConfiguration"]["debug"]:
        return
    reasons = " ".join(field.message for field in error.fields) or error.message
    message = f"Passkey of the user [{user_id}] rejected: {reasons}"
    await event_logs.debug(services, call, TenantId(tenant["id"]), "webauthn", message)
