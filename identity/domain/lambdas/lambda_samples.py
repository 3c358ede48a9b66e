"""Example arguments of lambdas, for test runs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.domain.lambdas import lambdas
from identity.domain.objects.data_files import load_yaml

_SAMPLES: Final[Mapping[str, Sequence[Any]]] = load_yaml(__file__, "lambda_samples.yaml")["samples"]


def arguments(kind: str) -> list[Any]:
    """Return example arguments of a lambda type; empty objects for a type that this service does not call."""
    found = _SAMPLES.get(kind) or _SAMPLES.get(lambdas.FUNCTIONS[kind], ({}, {}, {}, {}))
    return copy.deepcopy(list(found))
