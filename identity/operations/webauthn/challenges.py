"""Challenges of WebAuthn ceremonies: one-time tokens whose secret is the challenge.

A challenge is consumed by one atomic command before the response is verified, so that neither a replay nor a second
attempt can use it.
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

from identity.call import Document
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.webauthn import ceremonies
from identity.errors import Invalid
from identity.ids import Secret, TenantId
from identity.services import Services

Ceremony = Literal["registration", "authentication", "hosted-registration", "hosted-authentication"]
"""The ceremonies of our own pages are separate: anyone can start one, and only the page may complete it."""

ANY_USER: Final = ""
"""The owner of a challenge for discoverable credentials, which identify their user themselves."""


@dataclasses.dataclass(frozen=True, slots=True)
class Challenge:
    """A consumed challenge: its value in base64url, its tenant and user, and the settings of the ceremony."""

    value: str = dataclasses.field(repr=False)
    tenant: Document
    user_id: str
    settings: Document

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])


async def issue(services: Services, tenant: Document, ceremony: Ceremony, user_id: str, settings: Document) -> Secret:
    """Issue a challenge of 256 bits. `settings` are stored with it, without null members."""
    lifetimes, is_registration = Lifetimes.of(tenant), ceremony.endswith("registration")
    ttl_seconds = lifetimes.passkey_registration_seconds if is_registration else lifetimes.passkey_login_seconds
    document = {name: value for name, value in settings.items() if value is not None}
    challenge = await services.tokens.one_time_tokens.issue(
        TenantId(tenant["id"]), _kind(ceremony), user_id, document, ttl_seconds
    )
    assert challenge is not None
    return challenge


async def consume(
    services: Services, tenant_id: TenantId | None, ceremony: Ceremony, client_data_json: str
) -> Challenge:
    """Consume the challenge that client data contains; only one of several callers receives it.

    Raises Invalid if it is unknown, expired or used, or belongs to the other ceremony or another tenant.
    """
    value = ceremonies.read_challenge(client_data_json)
    token = await services.tokens.one_time_tokens.consume(tenant_id, _kind(ceremony), value)
    tenant = None if token is None else await services.configuration.tenants.find_cached(None, token.tenant_id)
    if token is None or tenant is None or tenant["state"] != "Active":
        raise Invalid.field("invalid", ceremonies.CLIENT_DATA, "The challenge is unknown, expired or was used.")
    return Challenge(value, tenant, token.owner, token.document)


def _kind(ceremony: Ceremony) -> str:
    return f"webauthn-{ceremony}"
