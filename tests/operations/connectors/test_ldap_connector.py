"""Logins through LDAP connectors: the lambda makes the user; failures of directory and lambda."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from identity.ids import new_id
from tests import connectors, directory, internals
from tests.directory import BASE, PASSWORD, READER, READER_PASSWORD, DirectoryServer
from tests.ports import free_port

UNREACHABLE = f"ldap://127.0.0.1:{free_port()}"
LAMBDA = """
function reconcile(user, attributes) {
  user.id = attributes.employeeNumber;
  user.email = Array.isArray(attributes.mail) ? attributes.mail[0] : attributes.mail;
  user.username = attributes.uid;
  user.lastName = attributes.sn;
  user.data.groups = ["directory"];
  user.registrations.push({applicationId: "APPLICATION"});
}
"""


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[DirectoryServer]:
    async with directory.running_directory() as running:
        yield running


async def connect(key: Any, server: DirectoryServer, body: str, **members: Any) -> str:
    """Let the client's tenant use the directory; `body` is the reconcile lambda."""
    wanted = {"name": new_id(), "type": "LDAPConnectorReconcile", "body": body}
    lambda_id = (await key.post("/api/lambda", json={"lambda": wanted})).json()["lambda"]["id"]
    settings = {
        "type": "LDAP",
        "name": new_id(),
        "authenticationURL": f"ldap://127.0.0.1:{server.port}",
        "securityMethod": "None",
        "baseStructure": BASE,
        "systemAccountDN": READER,
        "systemAccountPassword": READER_PASSWORD,
        "loginIdAttribute": "uid",
        "identifyingAttribute": "uid",
        "requestedAttributes": ["uid", "sn", "mail", "employeeNumber"],
        "connectTimeout": 20_000,
        "readTimeout": 20_000,
        "lambdaConfiguration": {"reconcileId": lambda_id},
    }
    connector_id = await connectors.make(key, {**settings, **members})
    await connectors.use(key, key.headers["X-FusionAuth-TenantId"], {"connectorId": connector_id})
    return connector_id


async def log_in(key: Any, login_id: str, password: str = PASSWORD) -> Any:
    return await key.post("/api/login", json={"loginId": login_id, "password": password})


@pytest.mark.requirement("connectors-2", "connectors-8")
async def test_lambda_makes_the_user_of_the_entry(key, rp, server) -> None:
    connector_id = await connect(key, server, LAMBDA.replace("APPLICATION", rp.client_id))
    assert (await log_in(key, "grace", "wrong")).status_code == 404
    answer = await log_in(key, "grace")
    assert answer.status_code == 200, answer.text
    user = answer.json()["user"]
    assert (user["id"], user["connectorId"]) == ("8d6d9b1e-5d0c-4c37-9f5c-4fb3d5e3a002", connector_id)
    assert (user["email"], user["username"], user["lastName"]) == ("grace@directory.example.com", "grace", "Hopper")
    assert user["data"] == {"groups": ["directory"]}
    assert [one["applicationId"] for one in user["registrations"]] == [rp.client_id]


@pytest.mark.requirement("connectors-7", "connectors-8")
@pytest.mark.parametrize(
    ("body", "members", "reason"),
    [
        ("function reconcile(user, attributes) { throw new Error('no'); }", {}, "its lambda failed"),
        ("function reconcile(user, attributes) { user.email = attributes.mail; }", {}, "the user has no id"),
        ("function reconcile(user, attributes) {}", {"systemAccountPassword": "x"}, "system account could not bind"),
        (
            "function reconcile(user, attributes) {}",
            {"authenticationURL": UNREACHABLE},
            "ConnectionRefused",
        ),
    ],
    ids=["lambda", "id", "account", "port"],
)
async def test_failures_are_logged(service, key, rp, server, body, members, reason) -> None:
    connector_id = await connect(key, server, body, debug=True, **members)
    assert (await log_in(key, "grace")).status_code == 404
    rows = internals.database(service).collection("event_logs").find({"message": {"$regex": connector_id}})
    messages = [row["message"] async for row in rows]
    assert len(messages) == 1
    assert reason in messages[0]
    assert PASSWORD not in messages[0]
    assert READER_PASSWORD not in messages[0]
    assert (await rp.log_in_by_api(key)).status_code == 200
