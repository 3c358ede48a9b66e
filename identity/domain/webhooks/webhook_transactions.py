"""Transaction types: how many of the webhooks must approve an event before its change is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

_Rule = Callable[[int, int], bool]

NONE = "None"

_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        NONE: lambda _approvals, _webhooks: True,
        "Any": lambda approvals, _webhooks: approvals >= 1,
        "SimpleMajority": lambda approvals, webhooks: 2 * approvals >= webhooks,
        "SuperMajority": lambda approvals, webhooks: 3 * approvals >= 2 * webhooks,
        "AbsoluteMajority": lambda approvals, webhooks: approvals == webhooks,
    }
)


def stricter(one: str, other: str) -> str:
    """The transaction type of the two that requires more approvals."""
    order = list(_RULES)
    return max(one, other, key=order.index)


def is_satisfied(transaction_type: str, approvals: int, webhooks: int) -> bool:
    """Whether `approvals` of `webhooks` suffice; without webhooks every type is satisfied."""
    return webhooks == 0 or _RULES[transaction_type](approvals, webhooks)
