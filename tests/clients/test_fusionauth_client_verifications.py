"""The official Python client, unmodified, on verifications."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from fusionauth.fusionauth_client import FusionAuthClient

from identity import app
from identity.ids import new_id
from tests.conftest import EMAIL_TEMPLATE, SUPER_KEY
from tests.relying_party import PASSWORD


def successful(answer: Any) -> Any:
    assert answer.status == 200, (answer.status, answer.error_response, answer.exception)
    return answer.success_response


async def with_client(service: app.Service, tenant: dict[str, Any], work: Callable[[FusionAuthClient], None]) -> None:
    client = FusionAuthClient(SUPER_KEY, service.base_url)
    client.set_tenant_id(tenant["id"])
    email = {
        "verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE, "verificationStrategy": "FormField",
        "unverified": {"behavior": "Gated"},
    }  # fmt: skip
    successful(await asyncio.to_thread(client.patch_tenant, tenant["id"], {"tenant": {"emailConfiguration": email}}))
    await asyncio.to_thread(work, client)


def make(client: FusionAuthClient) -> dict[str, Any]:
    user = {"email": f"{new_id()}@example.com", "password": PASSWORD}
    return dict(successful(client.create_user({"user": user})))


@pytest.mark.requirement("users-8-27")
async def test_the_client_verifies_addresses_in_every_form(service, tenant) -> None:
    def work(client: FusionAuthClient) -> None:
        made = make(client)
        email, user_id = made["user"]["email"], made["user"]["id"]
        assert successful(client.retrieve_user_by_verification_id(made["emailVerificationId"]))["user"]["id"] == user_id
        successful(client.generate_email_verification_id(email))
        successful(client.resend_email_verification_with_application_template(None, email))
        sent = successful(client.resend_email_verification(email))
        assert client.verify_email_address({**sent, "oneTimeCode": "WRONG"}).status == 400
        successful(client.verify_email_address(sent))
        assert successful(client.retrieve_user(user_id))["user"]["verified"]
        other = make(client)
        successful(client.verify_email_address_by_user_id({"userId": other["user"]["id"]}))
        assert successful(client.retrieve_user(other["user"]["id"]))["user"]["verified"]
        third = make(client)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            # The older form has no place for the code that this tenant asks for.
            assert client.verify_email(third["emailVerificationId"]).status == 400

    await with_client(service, tenant, work)


@pytest.mark.requirement("users-8-27")
async def test_the_client_verifies_registrations_in_every_form(service, tenant) -> None:
    def work(client: FusionAuthClient) -> None:
        settings = {"verifyRegistration": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
        application = successful(client.create_application({"application": {"name": new_id(), **settings}}))[
            "application"
        ]
        user = make(client)["user"]
        made = successful(client.register({"registration": {"applicationId": application["id"]}}, user["id"]))
        assert not made["registration"]["verified"]
        successful(client.resend_registration_verification(user["email"], application["id"]))
        started = successful(client.generate_registration_verification_id(user["email"], application["id"]))
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            assert client.verify_registration(made["registrationVerificationId"]).status == 404
        successful(client.verify_user_registration(started))
        assert successful(client.retrieve_registration(user["id"], application["id"]))["registration"]["verified"]

    await with_client(service, tenant, work)


@pytest.mark.requirement("users-8-27")
async def test_the_client_verifies_identities_step_by_step(service, tenant) -> None:
    def work(client: FusionAuthClient) -> None:
        first, second = make(client)["user"], make(client)["user"]
        successful(client.verify_identity({"loginId": first["email"], "loginIdType": "email"}))
        begun = successful(client.start_verify_identity({"loginId": second["email"], "loginIdType": "email"}))
        successful(client.send_verify_identity({"verificationId": begun["verificationId"]}))
        assert successful(client.complete_verify_identity(begun)) == {"state": {}}
        for user in (first, second):
            assert successful(client.retrieve_user(user["id"]))["user"]["verified"]

    await with_client(service, tenant, work)
