"""Permissions of API keys: the endpoints that can be granted, and whether a key may make a call.

An endpoint is the path of a route without its ids; `/api/api-key` cannot be granted, because `keyManager` alone governs
it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

METHODS: Final = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})

_TABLE: Final[Mapping[str, Mapping[str, str]]] = json.loads(Path(__file__).with_suffix(".json").read_text())
"""The methods of each endpoint, for keys of a tenant and for global keys.

The published permission table calls the webhook endpoints tenant scoped, but their documentation requires a global key.
A webhook receives events about users of other tenants, so the stricter rule applies.
"""

# The permission table denies lambdas to tenant-scoped keys; the API reference, which takes precedence, allows reads.
_SHARED: Final = frozenset({"/api/consent", "/api/lambda"})
"""Objects shared by all tenants, which tenant-scoped keys may only read."""

ENDPOINTS: Final[Mapping[str, frozenset[str]]] = {
    endpoint: frozenset(methods.split()) for section in _TABLE.values() for endpoint, methods in section.items()
}
"""The endpoints that can be granted, with their methods."""

KEY_MANAGER_ENDPOINT: Final = "/api/api-key"

Granted = Mapping[str, Collection[str]]
"""`permissions.endpoints` of a key; an empty one grants everything."""


def is_global_only(endpoint: str, method: str) -> bool:
    """Return whether the method of the endpoint requires a key without a tenant."""
    return endpoint in _TABLE["global"] or (endpoint in _SHARED and method != "GET")


def endpoint_of(path: str) -> str:
    """Return the endpoint of a route's path template, such as `/api/entity/{entityId}/grant`."""
    return "/" + "/".join(segment for segment in path.split("/") if segment and not segment.startswith("{"))


def may_call(granted: Granted, endpoint: str, method: str) -> bool:
    """Return whether a key with these permissions may use the method of the endpoint."""
    return not granted or method in granted.get(endpoint, ())


def may_change(granted: Granted, endpoint: str) -> bool:
    """Return whether a key with these permissions may create or change objects of the endpoint."""
    return any(may_call(granted, endpoint, method) for method in ("PATCH", "POST", "PUT"))


def covers(granted: Granted, wanted: Granted) -> bool:
    """Return whether the permissions `granted` include those of `wanted`."""
    if not granted:
        return True
    if not wanted:
        return False
    return all(set(methods) <= set(granted.get(endpoint, ())) for endpoint, methods in wanted.items())


def unknown_entries(wanted: Granted) -> list[str]:
    """Return the endpoints and methods of `wanted` that do not exist, as readable texts."""
    unknown = [endpoint for endpoint in wanted if endpoint not in ENDPOINTS]
    for endpoint, methods in wanted.items():
        unknown += [f"{method} {endpoint}" for method in methods if method not in ENDPOINTS.get(endpoint, METHODS)]
    return unknown
