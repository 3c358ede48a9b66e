"""Connectors: the full cycle, validation, secrets, and references."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.objects.secret_masking import MASK
from identity.ids import new_id
from tests import connectors, internals
from tests.conftest import UNKNOWN_ID
from tests.connectors import INTERNAL

GENERIC = connectors.generic("https://users.example.com/login")
LDAP = {
    "authenticationURL": "ldaps://directory.example.com",
    "baseStructure": "dc=example,dc=com",
    "connectTimeout": 1000,
    "identifyingAttribute": "uid",
    "loginIdAttribute": "mail",
    "readTimeout": 2000,
    "requestedAttributes": ["uid", "mail"],
    "securityMethod": "LDAPS",
    "systemAccountDN": "cn=reader,dc=example,dc=com",
    "systemAccountPassword": "the reader's password",
    "type": "LDAP",
}
RECONCILE = "function reconcile(user, attributes) { user.email = attributes.mail; }"


def codes(answer: Any) -> set[str]:
    assert answer.status_code == 400, answer.text
    return {error["code"] for found in answer.json()["fieldErrors"].values() for error in found}


async def make_lambda(api, kind: str = "LDAPConnectorReconcile") -> str:
    function = RECONCILE if kind == "LDAPConnectorReconcile" else "function populate(jwt, user, registration) {}"
    answer = await api.post("/api/lambda", json={"lambda": {"name": new_id(), "type": kind, "body": function}})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["lambda"]["id"])


@pytest.mark.requirement("core-13-20", "connectors-1")
async def test_internal_connector_exists_and_cannot_be_changed(api) -> None:
    path = f"/api/connector/{INTERNAL}"
    found = (await api.get(path)).json()["connector"]
    assert (found["name"], found["type"], found["debug"], found["data"]) == ("Default", "FusionAuth", False, {})
    assert found in (await api.get("/api/connector")).json()["connectors"]
    for answer in (
        await api.delete(path),
        await api.patch(path, json={"connector": {"debug": True}}),
        await api.put(path, json={"connector": GENERIC}),
    ):
        assert codes(answer) == {"[invalid]connectorId"}
    assert (await api.get(path)).json()["connector"] == found
    second = await api.post("/api/connector", json={"connector": {"name": new_id(), "type": "FusionAuth"}})
    assert codes(second) == {"[invalid]connector.type"}


@pytest.mark.requirement("connectors-1")
async def test_full_cycle_of_a_generic_connector(api) -> None:
    members = {
        "data": {"a": 1},
        "debug": True,
        "headers": {"X-Which": "one"},
        "httpAuthenticationPassword": "secret",
        "httpAuthenticationUsername": "someone",
    }
    wanted = {**GENERIC, "name": new_id(), **members}
    connector = (await api.post("/api/connector", json={"connector": wanted})).json()["connector"]
    assert {name: connector[name] for name in wanted} == wanted
    path = f"/api/connector/{connector['id']}"
    assert (await api.get(path)).json() == {"connector": connector}
    patched = (await api.patch(path, json={"connector": {"debug": False}})).json()["connector"]
    assert (patched["debug"], patched["httpAuthenticationPassword"]) == (False, "secret")
    replaced = (await api.put(path, json={"connector": {**GENERIC, "name": wanted["name"]}})).json()["connector"]
    assert (replaced["headers"], replaced["data"]) == ({}, {})
    assert "httpAuthenticationUsername" not in replaced
    changed_type = await api.put(path, json={"connector": {**LDAP, "name": wanted["name"]}})
    assert "[invalid]connector.type" in codes(changed_type)
    assert (await api.delete(path)).status_code == 200
    assert (await api.get(path)).status_code == 404


@pytest.mark.requirement("connectors-1")
async def test_full_cycle_of_an_ldap_connector(api) -> None:
    lambda_id = await make_lambda(api)
    wanted = {**LDAP, "name": new_id(), "lambdaConfiguration": {"reconcileId": lambda_id}}
    connector = (await api.post("/api/connector", json={"connector": wanted})).json()["connector"]
    assert {name: connector[name] for name in wanted} == wanted
    assert "headers" not in connector
    assert codes(await api.delete(f"/api/lambda/{lambda_id}")) == {"[inUse]lambdaId"}
    assert (await api.delete(f"/api/connector/{connector['id']}")).status_code == 200


@pytest.mark.requirement("connectors-1")
@pytest.mark.parametrize(
    ("base", "change", "expected"),
    [
        (GENERIC, {"type": "SQL"}, {"[invalid]connector.type"}),
        (GENERIC, {"name": " "}, {"[blank]connector.name"}),
        (GENERIC, {"authenticationURL": None}, {"[blank]connector.authenticationURL"}),
        (GENERIC, {"authenticationURL": "https://192.168.0.1/"}, {"[invalid]connector.authenticationURL"}),
        (GENERIC, {"authenticationURL": "http://users.example.com/"}, {"[invalid]connector.authenticationURL"}),
        (GENERIC, {"connectTimeout": 0}, {"[invalid]connector.connectTimeout"}),
        (GENERIC, {"readTimeout": None}, {"[missing]connector.readTimeout"}),
        (GENERIC, {"headers": {"A": "b\r\nc: d"}}, {"[invalid]connector.headers"}),
        (GENERIC, {"sslCertificateKeyId": UNKNOWN_ID}, {"[invalid]connector.sslCertificateKeyId"}),
        (LDAP, {}, {"[blank]connector.lambdaConfiguration.reconcileId"}),
        (
            LDAP,
            {"lambdaConfiguration": {"reconcileId": UNKNOWN_ID}},
            {"[invalid]connector.lambdaConfiguration.reconcileId"},
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, set) else "",
)
async def test_invalid_connector_is_refused(api, base, change, expected) -> None:
    answer = await api.post("/api/connector", json={"connector": {"name": new_id(), **base, **change}})
    assert codes(answer) == expected


@pytest.mark.requirement("connectors-1")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"securityMethod": "StartTLS"}, "[invalid]connector.securityMethod"),
        ({"securityMethod": "SASL"}, "[invalid]connector.securityMethod"),
        ({"authenticationURL": "https://directory.example.com"}, "[invalid]connector.authenticationURL"),
        ({"authenticationURL": "ldap://10.0.0.1"}, "[invalid]connector.authenticationURL"),
        ({"authenticationURL": "ldaps://directory.example.com:6379"}, "[invalid]connector.authenticationURL"),
        ({"authenticationURL": "ldaps://directory.example.com/dc=com?uid"}, "[invalid]connector.authenticationURL"),
        ({"systemAccountPassword": None}, "[blank]connector.systemAccountPassword"),
        ({"requestedAttributes": []}, "[blank]connector.requestedAttributes"),
    ],
)
async def test_invalid_ldap_connector_is_refused(api, change, expected) -> None:
    wanted = {"name": new_id(), **LDAP, "lambdaConfiguration": {"reconcileId": await make_lambda(api)}, **change}
    assert codes(await api.post("/api/connector", json={"connector": wanted})) == {expected}


@pytest.mark.requirement("connectors-1")
async def test_lambda_of_another_type_is_refused(api) -> None:
    wanted = {"name": new_id(), **LDAP, "lambdaConfiguration": {"reconcileId": await make_lambda(api, "JWTPopulate")}}
    answer = await api.post("/api/connector", json={"connector": wanted})
    assert codes(answer) == {"[invalid]connector.lambdaConfiguration.reconcileId"}


@pytest.mark.requirement("connectors-1")
async def test_secrets_are_sealed_and_dropped_with_their_address(service, api) -> None:
    wanted = {
        **LDAP,
        "name": new_id(),
        "lambdaConfiguration": {"reconcileId": await make_lambda(api)},
    }
    connector_id = await connectors.make(api, wanted)
    stored = await internals.database(service).collection("connectors").find_one({"_id": connector_id})
    assert stored["systemAccountPassword"].startswith("sealed:1:")
    masked = {**wanted, "systemAccountPassword": MASK}
    path = f"/api/connector/{connector_id}"
    moved = {**masked, "authenticationURL": "ldaps://elsewhere.example.com"}
    assert codes(await api.put(path, json={"connector": moved})) == {"[blank]connector.systemAccountPassword"}
    assert (await api.get(path)).json()["connector"]["authenticationURL"] == LDAP["authenticationURL"]


@pytest.mark.requirement("connectors-1")
async def test_connector_of_a_tenant_must_exist_and_cannot_be_deleted(api, tenant) -> None:
    policies = [{"connectorId": UNKNOWN_ID}]
    missing = await api.patch(f"/api/tenant/{tenant['id']}", json={"tenant": {"connectorPolicies": policies}})
    assert codes(missing) == {"[invalid]tenant.connectorPolicies[1].connectorId"}
    connector_id = await connectors.make(api, {**GENERIC, "name": new_id()})
    await connectors.use(api, tenant["id"], {"connectorId": connector_id})
    assert codes(await api.delete(f"/api/connector/{connector_id}")) == {"[inUse]connectorId"}
    await connectors.use(api, tenant["id"])
    assert (await api.delete(f"/api/connector/{connector_id}")).status_code == 200
