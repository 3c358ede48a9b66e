"""Rate limits of failed logins: by account, by IP address, and by both.

An attempt is counted before the credentials are compared and refunded if they were correct. Only time resets a counter.
A tenant that enables `rateLimitConfiguration.failedLogin` limits the account itself, wherever attempts come from.
Without that setting the owner of an account cannot be locked out by deliberate failures: after `ACCOUNT_FAILURES`
failures each network has `NETWORK_FAILURES` more attempts at the account, so that guessing from many addresses is slow
while the owner, at another address, can still log in.

The address is `Call.user_address`: callers with an API key and authenticated clients act for many users, and count only
under an address that they state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from identity.call import Call, Document
from identity.domain.objects import ip_addresses
from identity.domain.users import users as user_rules
from identity.errors import Unavailable
from identity.ids import TenantId
from identity.services import Services
from identity.store.rate_limits import Limit

ACCOUNT_FAILURES: Final = 100
"""The number of failures per account and window before attempts are limited by network as well."""
NETWORK_FAILURES: Final = 10
ADDRESS_FAILURES: Final = 500
FAILURE_WINDOW_SECONDS: Final = 900
TOO_MANY: Final = "Too many failed attempts."


@dataclasses.dataclass(frozen=True, slots=True)
class CountedAttempt:
    """The limits that an attempt counts against; with `wait_seconds` it was rejected and counts against none."""

    limits: Sequence[Limit]
    wait_seconds: int | None = None


async def count_attempt(
    services: Services, call: Call, tenant: Document, user: Document | None, login_id: str = ""
) -> CountedAttempt:
    """Count an attempt at an account. An unknown login id is counted in its place, with the same results."""
    tenant_id = TenantId(tenant["id"])
    account = user_rules.limit_key(login_id) if user is None else str(user["id"])
    configured = tenant["rateLimitConfiguration"]["failedLogin"]
    limit = Limit("login-account", account, ACCOUNT_FAILURES, FAILURE_WINDOW_SECONDS)
    if configured["enabled"]:
        limit = Limit("login-account", account, configured["limit"], configured["timePeriodInSeconds"])
    wait_seconds = await services.limits.rate_limits.consume(tenant_id, [limit])
    if wait_seconds is not None and configured["enabled"]:
        return CountedAttempt((), wait_seconds)
    counted = [limit] if wait_seconds is None else []
    others = [*([] if counted else _by_network(call, account)), *address_limits(call)]
    wait_seconds = await services.limits.rate_limits.consume(tenant_id, others)
    if wait_seconds is not None:
        await services.limits.rate_limits.refund(tenant_id, counted)
        return CountedAttempt((), wait_seconds)
    return CountedAttempt((*counted, *others))


async def refund_attempt(services: Services, tenant: Document, attempt: CountedAttempt) -> None:
    """Refund an attempt that succeeded, or whose credentials were not compared."""
    await services.limits.rate_limits.refund(TenantId(tenant["id"]), attempt.limits)


def address_limits(call: Call) -> list[Limit]:
    """Return the limit of failures of the user's address across accounts; none if the address is unknown."""
    address = call.user_address
    if address is None:
        return []
    return [Limit("login-address", ip_addresses.network(address), ADDRESS_FAILURES, FAILURE_WINDOW_SECONDS)]


def address_attempt(services: Services, call: Call) -> AbstractAsyncContextManager[None]:
    """Limit an address that guesses ids or codes, which a tenant can configure to be short.

    An exception of the block counts as a guess. Raises Unavailable.
    """
    tenant_id = call.tenant_id or services.runtime.default_tenant_id
    return services.limits.rate_limits.attempt(tenant_id, address_limits(call), TOO_MANY)


def too_many_attempts(wait_seconds: int) -> Unavailable:
    """Return the error of a rejected attempt."""
    return Unavailable.for_seconds(wait_seconds, TOO_MANY)


def _by_network(call: Call, account: str) -> list[Limit]:
    address = call.user_address
    if address is None:
        return []
    subject = f"{account} {ip_addresses.network(address)}"
    return [Limit("login-account-network", subject, NETWORK_FAILURES, FAILURE_WINDOW_SECONDS)]
