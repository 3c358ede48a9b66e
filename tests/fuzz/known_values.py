"""Ids, tokens and other values that requests refer to, by the name of the member or parameter that takes them."""

from __future__ import annotations

import collections
import random
from typing import Any

_MAXIMUM_KEPT = 40
_TOKENS = {"access_token", "id_token", "refresh_token"}


class KnownValues:
    """Values by name. The first of each name stay; of the others the latest."""

    def __init__(self) -> None:
        self._values: dict[str, list[Any]] = collections.defaultdict(list)

    def add(self, name: str, *values: Any) -> None:
        """Add values of a name."""
        self._values[name] += values

    def of(self, name: str) -> list[Any]:
        """Return the values of a name; those of the singular for a plural."""
        return self._values.get(name) or self._values.get(name.removesuffix("s")) or []

    def first(self) -> dict[str, Any]:
        """Return the first value of each name."""
        return {name: values[0] for name, values in self._values.items() if values}

    def copy(self) -> KnownValues:
        """Return a copy that can grow on its own."""
        copied = KnownValues()
        for name, values in self._values.items():
            copied.add(name, *values)
        return copied

    def fill(self, node: Any, rng: random.Random, share: float = 0.5) -> None:
        """Replace about this share of the members of a JSON value whose names have values."""
        if isinstance(node, list):
            for item in node:
                self.fill(item, rng, share)
        elif isinstance(node, dict):
            for name, value in node.items():
                known = self.of(name)
                if known and not _has_objects(value) and rng.random() < share:
                    node[name] = [rng.choice(known)] if isinstance(value, list) else rng.choice(known)
                else:
                    self.fill(value, rng, share)

    def remember(self, node: Any, name: str = "") -> None:
        """Add the ids and tokens of a response under the names that paths and bodies have for them."""
        if isinstance(node, list):
            for item in node[:5]:
                self.remember(item, name.removesuffix("s"))
        elif isinstance(node, dict):
            for key, value in list(node.items())[:200]:
                if isinstance(value, str) and (key in {"id", *_TOKENS} or key.endswith("Id")):
                    self._keep(f"{name}Id" if key == "id" else key, value)
                else:
                    self.remember(value, key)

    def _keep(self, name: str, value: str) -> None:
        kept = self._values[name]
        if value not in kept:
            kept.append(value)
            del kept[10:-_MAXIMUM_KEPT]


def _has_objects(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))
