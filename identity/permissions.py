"""Permissions of API keys: the endpoints that can be granted, and whether a key may make a call.

An endpoint is the path of a route without its ids; `/api/api-key` cannot be granted, because `keyManager` alone governs
it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

METHODS: Final = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})

_ALL = "DELETE GET PATCH POST PUT"
_SEARCH = "GET POST"

_TENANT_SCOPED: Final[Mapping[str, str]] = {
    "/api/application": _ALL,
    "/api/application/oauth-configuration": "GET",
    "/api/application/role": "DELETE PATCH POST PUT",
    "/api/application/scope": _ALL,
    "/api/application/search": _SEARCH,
    "/api/consent": _ALL,
    "/api/email/send": "POST",
    "/api/entity": _ALL,
    "/api/entity/grant": "DELETE GET POST PUT",
    "/api/entity/grant/search": _SEARCH,
    "/api/entity/search": "GET POST PUT",
    "/api/group": _ALL,
    "/api/group/member": "DELETE POST PUT",
    "/api/group/member/search": _SEARCH,
    "/api/group/search": _SEARCH,
    "/api/identity-provider": _ALL,
    "/api/identity-provider/link": "DELETE GET POST",
    "/api/identity-provider/link/pending": "GET",
    "/api/identity-provider/search": _SEARCH,
    "/api/identity-provider/test": _SEARCH,
    "/api/identity/verify": "POST",
    "/api/identity/verify/complete": "POST",
    "/api/identity/verify/send": "POST",
    "/api/identity/verify/start": "POST",
    "/api/jwt/refresh": "DELETE GET POST",
    "/api/jwt/vend": "POST",
    "/api/lambda": _ALL,
    "/api/login": "POST PUT",
    "/api/passwordless/start": "POST",
    "/api/report/login": "GET",
    "/api/system/audit-log": _SEARCH,
    "/api/system/audit-log/export": _SEARCH,
    "/api/system/audit-log/search": _SEARCH,
    "/api/system/version": "GET",
    "/api/tenant": _ALL,
    "/api/two-factor/secret": "GET",
    "/api/two-factor/send": "POST",
    "/api/two-factor/start": "POST",
    "/api/two-factor/status": _SEARCH,
    "/api/user": _ALL,
    "/api/user/action": "DELETE GET POST PUT",
    "/api/user/bulk": "DELETE",
    "/api/user/change-password": _SEARCH,
    "/api/user/comment": _SEARCH,
    "/api/user/comment/search": _SEARCH,
    "/api/user/consent": _ALL,
    "/api/user/family": "DELETE GET POST PUT",
    "/api/user/family/pending": "GET",
    "/api/user/family/request": "POST",
    "/api/user/forgot-password": "POST",
    "/api/user/import": "POST",
    "/api/user/refresh-token/import": "POST",
    "/api/user/registration": _ALL,
    "/api/user/scope-consent": "DELETE GET",  # an extension of our own
    "/api/user/search": "GET POST PUT",
    "/api/user/two-factor": "DELETE POST PUT",
    "/api/user/two-factor/recovery-code": _SEARCH,
    "/api/user/verify-email": "POST PUT",
    "/api/user/verify-registration": "POST PUT",
    "/api/webauthn": "DELETE GET",
    "/api/webauthn/import": "POST",
    "/api/webauthn/register/start": "POST",
    "/api/webauthn/start": "POST",
    "/oauth2/device/user-code": "POST",
}

# The permission table calls the webhook rows tenant scoped, the webhook sheet asks for a global key for every one of
# them. A webhook receives events about users of other tenants, so the stricter rule applies.
_GLOBAL: Final[Mapping[str, str]] = {
    "/api/connector": _ALL,
    "/api/consent/search": _SEARCH,
    "/api/email/template": _ALL,
    "/api/email/template/preview": "POST",
    "/api/email/template/search": _SEARCH,
    "/api/entity/type": _ALL,
    "/api/entity/type/permission": "DELETE PATCH POST PUT",
    "/api/entity/type/search": _SEARCH,
    "/api/form": _ALL,
    "/api/form/field": _ALL,
    "/api/integration": "GET PATCH PUT",
    "/api/ip-acl": _ALL,
    "/api/ip-acl/search": _SEARCH,
    "/api/key": "DELETE GET PUT",
    "/api/key/generate": "POST",
    "/api/key/import": "POST",
    "/api/key/search": _SEARCH,
    "/api/lambda/search": _SEARCH,
    "/api/logger": _SEARCH,
    "/api/message/template": _ALL,
    "/api/message/template/preview": "POST",
    "/api/messenger": _ALL,
    "/api/prometheus/metrics": "GET",
    "/api/reactor": "DELETE GET POST PUT",
    "/api/reactor/metrics": "GET",
    "/api/report/daily-active-user": "GET",
    "/api/report/monthly-active-user": "GET",
    "/api/report/registration": "GET",
    "/api/report/totals": "GET",
    "/api/status": "GET",
    "/api/system-configuration": "GET PATCH POST PUT",
    "/api/system/event-log": "GET",
    "/api/system/event-log/search": _SEARCH,
    "/api/system/log/export": _SEARCH,
    "/api/system/login-record/export": _SEARCH,
    "/api/system/login-record/search": _SEARCH,
    "/api/system/reindex": _SEARCH,
    "/api/system/webhook-attempt-log": "GET",
    "/api/system/webhook-event-log": "GET",
    "/api/system/webhook-event-log/search": _SEARCH,
    "/api/tenant/search": _SEARCH,
    "/api/theme": _ALL,
    "/api/theme/search": _SEARCH,
    "/api/user-action": _ALL,
    "/api/user-action-reason": _ALL,
    "/api/user/recent-login": "GET",
    "/api/webhook": _ALL,
    # Extensions of our own.
    "/api/webhook/dead-letter": "GET",
    "/api/webhook/recover": "POST",
    "/api/webhook/resend": "POST",
    "/api/webhook/secret": "DELETE POST",
    "/api/webhook/status": "PUT",
    "/api/webhook/test": "POST",
    "/api/webhook/search": _SEARCH,
}

# The permission table denies lambdas to tenant-scoped keys; the API reference, which takes precedence, allows reads.
_SHARED: Final = frozenset({"/api/consent", "/api/lambda"})
"""Objects shared by all tenants, which tenant-scoped keys may only read."""

ENDPOINTS: Final[Mapping[str, frozenset[str]]] = {
    endpoint: frozenset(methods.split()) for endpoint, methods in {**_TENANT_SCOPED, **_GLOBAL}.items()
}
"""The endpoints that can be granted, with their methods."""

KEY_MANAGER_ENDPOINT: Final = "/api/api-key"

Granted = Mapping[str, Collection[str]]
"""`permissions.endpoints` of a key; an empty one grants everything."""


def is_global_only(endpoint: str, method: str) -> bool:
    """Return whether the method of the endpoint requires a key without a tenant."""
    return endpoint in _GLOBAL or (endpoint in _SHARED and method != "GET")


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
