"""When a transaction with webhooks succeeds: the number of successes that each transaction type asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

_Rule = Callable[[int, int], bool]

NONE = "None"

_RULES: Mapping[str, _Rule] = MappingProxyType(
    {
        NONE: lambda _successes, _asked: True,
        "Any": lambda successes, _asked: successes >= 1,
        "SimpleMajority": lambda successes, asked: 2 * successes >= asked,
        "SuperMajority": lambda successes, asked: 3 * successes >= 2 * asked,
        "AbsoluteMajority": lambda successes, asked: successes == asked,
    }
)


def stricter(one: str, other: str) -> str:
    """The one of two transaction types that asks for more."""
    order = list(_RULES)
    return max(one, other, key=order.index)


def is_satisfied(transaction_type: str, successes: int, asked: int) -> bool:
    """Whether `successes` of `asked` webhooks let the change happen; where nobody is asked, nobody objects."""
    return asked == 0 or _RULES[transaction_type](successes, asked)
