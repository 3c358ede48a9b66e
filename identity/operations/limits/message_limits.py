"""How often a user may be sent messages: `rateLimitConfiguration` of the tenant, one row for each kind of message.

Where a tenant limits nothing a user still gets no flood of them: strangers may ask for most kinds. So that nobody
writes to one user after the other, an address may only ask for so many, whoever they are for.
"""

from __future__ import annotations

from typing import Final, Literal

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.objects import ip_addresses
from identity.errors import Unavailable
from identity.ids import TenantId
from identity.services import Services
from identity.store.rate_limits import Limit

MessageKind = Literal[
    "forgotPassword",
    "sendEmailVerification",
    "sendPasswordless",
    "sendPhoneVerification",
    "sendRegistrationVerification",
    "sendTwoFactor",
]
_PREFIX: Final = "send"

DEFAULT_MESSAGES: Final = 50
DEFAULT_WINDOW_SECONDS: Final = 900
"""How many messages of a kind a user is sent, and in which time, where the tenant says nothing of them."""

ADDRESS_MESSAGES: Final = 100
ADDRESS_WINDOW_SECONDS: Final = 900
"""How many messages of a kind one address may ask a tenant for, and in which time."""


async def count_message(services: Services, tenant: Document, kind: MessageKind, user_id: str) -> None:
    """Count a message to a user. Raises Unavailable when the tenant allows no more of this kind for now."""
    configured = tenant["rateLimitConfiguration"][kind]
    limit = Limit(f"{_PREFIX}-{kind}-unlimited", user_id, DEFAULT_MESSAGES, DEFAULT_WINDOW_SECONDS)
    if configured["enabled"]:
        limit = Limit(f"{_PREFIX}-{kind}", user_id, configured["limit"], configured["timePeriodInSeconds"])
    wait_seconds = await services.rate_limits.consume(TenantId(tenant["id"]), [limit])
    if wait_seconds is not None:
        raise Unavailable(f"Too many messages were asked for. Try again in {wait_seconds} seconds.")


async def count_message_from_address(services: Services, call: Call, tenant: Document, kind: MessageKind) -> None:
    """Count a message that the call's address asks for, by page or API, for somebody or nobody. Raises Unavailable.

    Callers with an API key are not counted: they ask for others.
    """
    if isinstance(call.caller, ApiKeyCaller):
        return
    asking = ip_addresses.network(call.origin.ip_address)
    limit = Limit(f"{_PREFIX}-{kind}-address", asking, ADDRESS_MESSAGES, ADDRESS_WINDOW_SECONDS)
    wait_seconds = await services.rate_limits.consume(TenantId(tenant["id"]), [limit])
    if wait_seconds is not None:
        raise Unavailable(f"Too many messages were asked for. Try again in {wait_seconds} seconds.")
