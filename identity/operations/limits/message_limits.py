"""Limits of messages to a user: the tenant's `rateLimitConfiguration`, one row per kind of message.

Without a configured limit a default protects users against floods, since anonymous callers can request most kinds. The
number of messages that one IP address can request is limited as well, whatever users they are for.
"""

from __future__ import annotations

from typing import Final, Literal

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.objects import ip_addresses
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
_TOO_MANY: Final = "Too many messages requested."

DEFAULT_MESSAGES: Final = 50
DEFAULT_WINDOW_SECONDS: Final = 900
"""The number of messages of a kind per user and window, where the tenant configures no limit."""

ADDRESS_MESSAGES: Final = 100
ADDRESS_WINDOW_SECONDS: Final = 900
"""The number of messages of a kind that one address can request of a tenant per window."""


async def count_message(services: Services, tenant: Document, kind: MessageKind, user_id: str) -> None:
    """Count a message to a user. Raises Unavailable when the tenant's limit for this kind is exceeded."""
    configured = tenant["rateLimitConfiguration"][kind]
    limit = Limit(f"{_PREFIX}-{kind}-unlimited", user_id, DEFAULT_MESSAGES, DEFAULT_WINDOW_SECONDS)
    if configured["enabled"]:
        limit = Limit(f"{_PREFIX}-{kind}", user_id, configured["limit"], configured["timePeriodInSeconds"])
    await services.limits.rate_limits.count(TenantId(tenant["id"]), [limit], _TOO_MANY)


async def count_message_from_address(services: Services, call: Call, tenant: Document, kind: MessageKind) -> None:
    """Count a message that an IP address requests, whether or not its user exists. Raises Unavailable.

    Callers with an API key act for others and are not counted.
    """
    if isinstance(call.caller, ApiKeyCaller):
        return
    network = ip_addresses.network(call.origin.ip_address)
    limit = Limit(f"{_PREFIX}-{kind}-address", network, ADDRESS_MESSAGES, ADDRESS_WINDOW_SECONDS)
    await services.limits.rate_limits.count(TenantId(tenant["id"]), [limit], _TOO_MANY)
