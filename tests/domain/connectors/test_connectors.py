"""Which connectors authenticate a login."""

from __future__ import annotations

import pytest

from identity.domain.connectors import connectors
from identity.domain.users.users import INTERNAL_CONNECTOR
from tests.builders import make_tenant, make_user

POLICIES = [
    {"connectorId": "a", "domains": ["Acme.com"], "migrate": True},
    {"connectorId": "b", "domains": ["*"]},
    {"connectorId": INTERNAL_CONNECTOR, "domains": ["*"], "migrate": False},
]
INTERNAL = [INTERNAL_CONNECTOR]


@pytest.mark.requirement("connectors-5")
@pytest.mark.parametrize(
    ("login_id", "expected"),
    [
        ("ada@acme.com", ["a", "b", *INTERNAL]),
        (" Ada@ACME.COM ", ["a", "b", *INTERNAL]),
        ("ada@sub.acme.com", ["b", *INTERNAL]),
        ("acme.com", ["b", *INTERNAL]),
        ("acme.com@example.com", ["b", *INTERNAL]),
        ("ada", ["b", *INTERNAL]),
    ],
)
def test_unknown_login_id_follows_order_and_domains(login_id: str, expected: list[str]) -> None:
    tenant = make_tenant() | {"connectorPolicies": [{"migrate": False, **one} for one in POLICIES]}
    found = connectors.applicable_policies(tenant, None, login_id)
    assert [policy.connector_id for policy in found] == expected
    assert [policy.migrates for policy in found if policy.connector_id == "a"] in ([True], [])


@pytest.mark.requirement("connectors-5", "connectors-6")
@pytest.mark.parametrize(
    ("connector_id", "expected"),
    [(INTERNAL_CONNECTOR, INTERNAL), ("a", ["a"]), ("b", ["b"]), ("removed", ["b", *INTERNAL])],
)
def test_stored_user_belongs_to_one_connector(connector_id: str, expected: list[str]) -> None:
    tenant = make_tenant() | {"connectorPolicies": [{"migrate": False, **one} for one in POLICIES]}
    user = make_user() | {"connectorId": connector_id}
    found = connectors.applicable_policies(tenant, user, "user@example.com")
    assert [policy.connector_id for policy in found] == expected
