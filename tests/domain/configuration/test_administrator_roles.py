"""The roles of administrators, as sets of permissions."""

from __future__ import annotations

from typing import Any

import pytest

from identity import permissions
from identity.domain.configuration import administrator_roles as roles
from identity.domain.configuration.administrator_roles import Authority
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from identity.web.console.navigation import may_call

TENANT = new_id()


def authority(*names: str, tenantId: str | None = TENANT) -> Authority | None:  # noqa: N803 (a member of `data`)
    data = {"tenantId": tenantId} if "tenant-admin" in names and tenantId is not None else {}
    registration: dict[str, Any] = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": list(names), "data": data}
    return roles.of_user({"id": new_id(), "tenantId": TENANT, "registrations": [registration]})


@pytest.mark.parametrize(
    ("role", "call", "allowed"),
    [
        ("admin", "DELETE /api/tenant", True),
        ("admin", "POST /api/api-key", True),
        ("user-manager", "POST /api/user", True),
        ("user-manager", "PUT /api/user/registration", True),
        ("user-manager", "DELETE /api/identity-provider/link", True),
        ("user-manager", "GET /api/application", True),
        ("user-manager", "PUT /api/application", False),
        ("user-manager", "POST /api/user-action", False),
        ("user-manager", "POST /api/user/action", True),
        ("user-manager", "DELETE /api/tenant", False),
        ("user-manager", "POST /api/api-key", False),
        ("user-manager", "GET /api/key", False),
        ("developer", "POST /api/application", True),
        ("developer", "PUT /api/key", True),
        ("developer", "POST /api/webhook/test", True),
        ("developer", "DELETE /api/identity-provider", True),
        ("developer", "POST /api/identity-provider/link", False),
        ("developer", "GET /api/user", False),
        ("developer", "PATCH /api/tenant", False),
        ("developer", "GET /api/api-key", False),
        ("auditor", "GET /api/user", True),
        ("auditor", "POST /api/user/search", True),
        ("auditor", "GET /api/system/audit-log/search", True),
        ("auditor", "GET /api/user/two-factor/recovery-code", False),
        ("auditor", "GET /api/application/oauth-configuration", False),
        ("user-manager", "GET /api/application/oauth-configuration", False),
        ("developer", "GET /api/application/oauth-configuration", True),
        ("auditor", "POST /api/user", False),
        ("auditor", "GET /api/api-key", False),
        ("tenant-admin", "PATCH /api/tenant", True),
        ("tenant-admin", "POST /api/user", True),
        ("tenant-admin", "POST /api/webhook", False),
        ("tenant-admin", "POST /api/api-key", False),
        ("user_manager", "POST /api/user", True),
        ("unknown", "GET /api/user", False),
    ],
)
def test_role_permits(role: str, call: str, allowed: bool) -> None:
    method, path = call.split()
    assert may_call(authority(role), method, path) is allowed


@pytest.mark.parametrize("role", ["auditor"])
def test_auditor_changes_nothing(role: str) -> None:
    found = authority(role)
    assert found is not None
    for endpoint, methods in permissions.ENDPOINTS.items():
        for method in methods - {"GET"}:
            if not endpoint.endswith(("/search", "/export", "/preview", "/status")):
                assert not may_call(found, method, endpoint), (method, endpoint)


def test_tenant_admin_administers_the_tenant_that_the_registration_names() -> None:
    other = new_id()
    named = authority("tenant-admin", tenantId=other)
    assert named is not None
    assert named.tenant_id == other
    assert authority("tenant-admin", tenantId="nonsense") is None
    assert authority("tenant-admin", tenantId=None) is None


def test_roles_are_combined_and_a_global_one_takes_precedence() -> None:
    both = authority("user-manager", "developer")
    assert may_call(both, "POST", "/api/user")
    assert may_call(both, "POST", "/api/application")
    found = authority("tenant-admin", "auditor")
    assert found is not None
    assert found.tenant_id is None
    assert authority("tenant-admin", "admin") == Authority({}, is_key_manager=True)


def test_every_permission_of_a_role_exists() -> None:
    for role in roles.DESCRIPTIONS:
        found = authority(role)
        assert found is not None
        assert not permissions.unknown_entries(found.permissions)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("admin",), ("admin",), True),
        (("admin",), ("tenant-admin",), True),
        (("user-manager",), ("admin",), False),
        (("user-manager",), ("user-manager",), True),
        (("user-manager",), ("auditor",), False),
        (("tenant-admin",), ("admin",), False),
        (("tenant-admin",), ("tenant-admin",), True),
        (("tenant-admin",), ("user-manager",), False),
    ],
)
def test_authority_covers(one: tuple[str, ...], other: tuple[str, ...], expected: bool) -> None:
    mine, theirs = authority(*one), authority(*other)
    assert mine is not None
    assert theirs is not None
    assert mine.covers(theirs) is expected
