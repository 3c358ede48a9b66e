"""The official Python client, unmodified, on passkeys."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from tests.authenticator import RELYING_PARTY, Passkey
from tests.conftest import SUPER_KEY
from tests.relying_party import RelyingParty


def successful(answer: Any, status: int = 200) -> Any:
    assert answer.status == status, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


@pytest.fixture
async def client(service, rp) -> FusionAuthClient:
    workflow = {"enabled": True}
    await rp.configure_tenant(
        webAuthnConfiguration={"enabled": True, "relyingPartyId": RELYING_PARTY, "bootstrapWorkflow": workflow}
    )
    made = FusionAuthClient(SUPER_KEY, service.base_url)
    made.set_tenant_id(rp.tenant["id"])
    return made


def register(client: FusionAuthClient, rp: RelyingParty, passkey: Passkey) -> Any:
    user_id = rp.user["id"]
    wanted = {"userId": user_id, "displayName": "Phone", "workflow": "bootstrap"}
    options = successful(client.start_web_authn_registration(wanted))["options"]
    created = {**passkey.create(options), "userId": user_id}
    return successful(client.complete_web_authn_registration(created))["credential"]


async def test_the_client_registers_uses_and_deletes_passkeys(client, rp) -> None:
    user_id = rp.user["id"]

    def start() -> Any:
        wanted = {"userId": user_id, "applicationId": rp.client_id, "workflow": "bootstrap"}
        return successful(client.start_web_authn_login(wanted))["options"]

    def work() -> None:
        passkey = Passkey()
        credential = register(client, rp, passkey)
        assert successful(client.retrieve_web_authn_credential(credential["id"]))["credential"] == credential
        assert successful(client.complete_web_authn_login(passkey.get(start())))["user"]["id"] == user_id
        asserted = successful(client.complete_web_authn_assertion(passkey.get(start())))["credential"]
        assert asserted["signCount"] == 2
        successful(client.delete_web_authn_credential(credential["id"]))
        register(client, rp, Passkey())
        assert len(successful(client.retrieve_web_authn_credentials_for_user(user_id))["credentials"]) == 1
        successful(client.delete_web_authn_credentials_for_user(user_id))
        assert successful(client.retrieve_web_authn_credentials_for_user(user_id))["credentials"] == []

    await asyncio.to_thread(work)


async def test_the_client_imports_passkeys(client, rp) -> None:
    passkey = Passkey()
    credential = {
        "algorithm": passkey.algorithm,
        "credentialId": passkey.id,
        "displayName": "Key",
        "name": "imported",
        "publicKey": passkey.pem(),
        "relyingPartyId": RELYING_PARTY,
        "userId": rp.user["id"],
    }

    def work() -> None:
        successful(client.import_web_authn_credential({"credentials": [credential]}))
        (found,) = successful(client.retrieve_web_authn_credentials_for_user(rp.user["id"]))["credentials"]
        assert found["credentialId"] == passkey.id

    await asyncio.to_thread(work)
