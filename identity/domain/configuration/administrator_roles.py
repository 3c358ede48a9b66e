"""The roles of the administrators' application: each is a set of the permissions that API keys have."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from identity import permissions
from identity.call import AdministratorCaller, ApiKeyCaller, Document
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.objects.data_files import load_yaml
from identity.ids import parse_id

ADMIN: Final = "admin"
USER_MANAGER: Final = "user-manager"
DEVELOPER: Final = "developer"
AUDITOR: Final = "auditor"
TENANT_ADMIN: Final = "tenant-admin"

DESCRIPTIONS: Final[Mapping[str, str]] = {
    ADMIN: "May do everything",
    USER_MANAGER: "May manage the users of every tenant",
    DEVELOPER: "May manage applications, keys, webhooks and identity providers",
    AUDITOR: "May read everything except secrets, and change nothing",
    TENANT_ADMIN: "May manage the tenant that data.tenantId of the registration names",
}

_ALIASES: Final = {"user_manager": USER_MANAGER}
"""Names of earlier versions."""
_PREFIXES: Final[Mapping[str, Mapping[str, list[str]]]] = load_yaml(__file__, "administrator_roles.yaml")
_SECRETS: Final = (
    "/api/application/oauth-configuration",
    "/api/two-factor/secret",
    "/api/user/change-password",
    "/api/user/two-factor/recovery-code",
)
"""Endpoints that reveal or create secrets on GET."""


@dataclasses.dataclass(frozen=True, slots=True)
class Authority:
    """The permissions that the roles of a user grant; as for an API key, empty `permissions` grant everything."""

    permissions: permissions.Granted
    tenant_id: str | None = None
    is_key_manager: bool = False

    def covers(self, other: Authority) -> bool:
        """Whether a holder of this authority may act on behalf of a holder of the other one."""
        is_same_scope = self.tenant_id in {None, other.tenant_id}
        return is_same_scope and permissions.covers(self.permissions, other.permissions)


def of_user(user: Document) -> Authority | None:
    """Return the authority of a user whose registration has the roles of its groups; None without any.

    A role for every tenant takes precedence over `tenant-admin`, which restricts all permissions to the tenant that
    `data.tenantId` of the registration names, and grants nothing without one.
    """
    registration = registration_of(user)
    if registration is None:
        return None
    roles = {_ALIASES.get(name, name) for name in registration["roles"]}
    if ADMIN in roles:
        return Authority({}, is_key_manager=True)
    if granted := _merged(roles):
        return Authority(granted)
    if TENANT_ADMIN in roles:
        tenant_id = parse_id(registration.get("data", {}).get("tenantId"))
        return None if tenant_id is None else Authority({}, tenant_id)
    return None


def lacks_tenant(user: Document) -> bool:
    """Return whether a user with the role `tenant-admin` has no authority, because no tenant is named."""
    registration = registration_of(user)
    return registration is not None and TENANT_ADMIN in registration["roles"] and of_user(user) is None


def of_caller(caller: ApiKeyCaller) -> Authority:
    """Return the authority of an API key, or of an administrator."""
    api_key = caller.api_key
    return Authority(api_key["permissions"]["endpoints"], caller.tenant_id, api_key["keyManager"])


def registration_of(user: Document) -> Document | None:
    """Return the user's registration for the administrators' application."""
    found = (one for one in user["registrations"] if one["applicationId"] == ADMINISTRATOR_APPLICATION_ID)
    return next(found, None)


def is_appointed_since(user: Document, instant: int) -> bool:
    """Return whether a user was registered for the administrators' application after an instant."""
    registration = registration_of(user)
    return registration is not None and bool(registration["insertInstant"] > instant)


def caller_of(user: Document, authority: Authority) -> AdministratorCaller:
    """Return the caller of a signed-in administrator."""
    grant: Document = {
        "id": user["id"],
        "keyManager": authority.is_key_manager,
        "metaData": {"attributes": {"description": name_of(user)}},
        "permissions": {"endpoints": authority.permissions},
    }
    if authority.tenant_id is not None:
        grant["tenantId"] = authority.tenant_id
    return AdministratorCaller(grant)


def name_of(user: Document) -> str:
    """Return the name of a person in logs and on pages: the full name and the login id."""
    parts = (str(user[name]) for name in ("firstName", "lastName") if user.get(name))
    name = str(user.get("fullName") or " ".join(parts))
    login_id = str(user.get("email") or user.get("username") or user.get("phoneNumber") or user["id"])
    return f"{name} ({login_id})" if name else login_id


def missing_roles(roles: Collection[Document]) -> list[Document]:
    """Return the roles that an administrators' application with these roles lacks."""
    present = {role["name"] for role in roles}
    return [role for role in role_documents() if role["name"] not in present]


def role_documents() -> Iterator[Document]:
    """Yield the roles of a new administrators' application."""
    for name, description in DESCRIPTIONS.items():
        yield {"name": name, "description": description, "isSuperRole": name == ADMIN}


def _merged(roles: Collection[str]) -> dict[str, list[str]]:
    granted: dict[str, set[str]] = {}
    for role in roles:
        for endpoint, methods in _GRANTED.get(role, {}).items():
            granted.setdefault(endpoint, set()).update(methods)
    return {endpoint: sorted(methods) for endpoint, methods in sorted(granted.items())}


def _is_below(endpoint: str, prefixes: Collection[str]) -> bool:
    """Whether an endpoint is one of these, or below one of them."""
    return any(endpoint == prefix or endpoint.startswith(f"{prefix}/") for prefix in prefixes)


def _readable(endpoint: str) -> frozenset[str]:
    """Return the methods that change nothing: GET, and POST for a search."""
    if _is_below(endpoint, _SECRETS):
        return frozenset()
    reading = {"GET", "POST"} if endpoint.endswith(("/search", "/export", "/preview", "/status")) else {"GET"}
    return permissions.ENDPOINTS[endpoint] & reading


def _reads(prefixes: Collection[str]) -> dict[str, frozenset[str]]:
    return {endpoint: _readable(endpoint) for endpoint in permissions.ENDPOINTS if endpoint.startswith(tuple(prefixes))}


def _all(prefixes: Collection[str], excluded: Collection[str]) -> dict[str, frozenset[str]]:
    return {
        endpoint: methods
        for endpoint, methods in permissions.ENDPOINTS.items()
        if _is_below(endpoint, prefixes) and not _is_below(endpoint, excluded)
    }


def _of_prefixes(role: str) -> dict[str, frozenset[str]]:
    prefixes = _PREFIXES[role]
    return {**_reads(prefixes["reads"]), **_all(prefixes["writes"], prefixes["excluded"])}


_GRANTED: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    USER_MANAGER: {
        **_of_prefixes(USER_MANAGER),
        "/api/group/member": permissions.ENDPOINTS["/api/group/member"],
        "/api/system/login-record/search": permissions.ENDPOINTS["/api/system/login-record/search"],
    },
    DEVELOPER: _of_prefixes(DEVELOPER),
    AUDITOR: {endpoint: methods for endpoint in permissions.ENDPOINTS if (methods := _readable(endpoint))},
}
