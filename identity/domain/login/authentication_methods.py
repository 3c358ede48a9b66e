"""Authentication method references (RFC 8176): the `amr` claim of each authenticationType."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from identity.domain.objects.data_files import load_yaml

_TABLE: Final = load_yaml(__file__, "authentication_methods.yaml")
_METHODS: Final[Mapping[str, list[str]]] = _TABLE["first"]
_FEDERATED: Final = frozenset(_TABLE["federated"])
_SECOND: Final[Mapping[str, list[str]]] = _TABLE["second"]


def of(authentication_type: str, second_factor: str = "") -> tuple[str, ...]:
    """Return the references of an authenticationType; none where the user did not authenticate.

    A federated login is `fed`, a value that RFC 8176 does not define: how the identity provider authenticated the user
    is unknown. `second_factor` is the method of the second factor, if any.
    """
    first = ["fed"] if authentication_type in _FEDERATED else _METHODS.get(authentication_type, [])
    return tuple(dict.fromkeys((*first, *(_SECOND.get(second_factor, ()) if first else ()))))
