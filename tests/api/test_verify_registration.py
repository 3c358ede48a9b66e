"""/api/user/verify-registration over HTTP, and the login gates for unverified users and registrations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity.ids import new_id
from tests.api.test_notices import make_template
from tests.api.test_verify_email import GATED, Verification, codes, own_address
from tests.conftest import UNKNOWN_ID
from tests.mailbox import receiving

Document = dict[str, Any]

PATH = "/api/user/verify-registration"
PASSWORD = "password"


class RegistrationVerification(Verification):
    """A tenant with an application that verifies registrations by a form, and its mailbox."""

    application_id = ""
    template_id = ""

    async def change_application(self, **members: Any) -> None:
        answer = await self.api.patch(f"/api/application/{self.application_id}", json={"application": members})
        assert answer.status_code == 200, answer.text

    async def registered(self, **members: Any) -> Document:
        """The response to the creation of a user with a registration."""
        user = {"email": f"{new_id()}@example.com", "password": PASSWORD, **members.pop("user", {})}
        body = {"user": user, "registration": {"applicationId": self.application_id}, **members}
        answer = await self.api.post("/api/user/registration", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def registration(self, user_id: str) -> Document:
        answer = await self.api.get(f"/api/user/registration/{user_id}/{self.application_id}")
        return dict(answer.json()["registration"])

    async def log_in(self, client: httpx.AsyncClient, made: Document, **members: Any) -> httpx.Response:
        body = {"loginId": made["user"]["email"], "password": PASSWORD, "applicationId": self.application_id, **members}
        return await client.post("/api/login", json={name: value for name, value in body.items() if value is not None})


@pytest.fixture
async def scenario(tenant: Document, tenant_api: httpx.AsyncClient) -> AsyncIterator[RegistrationVerification]:
    async with receiving() as mailbox:
        scenario = RegistrationVerification(tenant_api, tenant["id"], mailbox)
        scenario.template_id = await make_template(tenant_api, "${verificationId} ${verificationOneTimeCode}")
        await scenario.configure(**mailbox.configuration())
        application = {
            "name": f"App {new_id()}",
            "verifyRegistration": True,
            "verificationEmailTemplateId": scenario.template_id,
            **GATED,
        }
        answer = await tenant_api.post("/api/application", json={"application": application})
        assert answer.status_code == 200, answer.text
        scenario.application_id = answer.json()["application"]["id"]
        yield scenario


@pytest.fixture
async def links(scenario: RegistrationVerification) -> RegistrationVerification:
    """The tenant with link verification and open gates."""
    await scenario.change_application(verificationStrategy="ClickableLink", unverified={"behavior": "Allow"})
    return scenario


@pytest.mark.requirement("users-8-3")
async def test_new_registration_receives_verification_link(links: RegistrationVerification, http, clock) -> None:
    made = await links.registered()
    assert not made["registration"]["verified"] and "registrationVerificationOneTimeCode" not in made
    verification_id, code = await links.mailed()
    assert (verification_id, code) == (made["registrationVerificationId"], "")
    shown = (await links.api.get(f"/api/user/{made['user']['id']}")).json()
    assert shown["registrationVerificationIds"] == {links.application_id: verification_id}
    found = await links.api.get("/api/user", params={"verificationId": verification_id})
    assert found.json()["user"]["id"] == made["user"]["id"]
    now = clock.now()
    answer = await http.post(f"{PATH}/{verification_id}")
    assert (answer.status_code, answer.content) == (200, b"")
    registration = await links.registration(made["user"]["id"])
    assert registration["verified"] and registration["verifiedInstant"] >= now
    assert (await http.post(f"{PATH}/{verification_id}")).status_code == 404
    assert "registrationVerificationIds" not in (await links.api.get(f"/api/user/{made['user']['id']}")).json()


@pytest.mark.requirement("users-8-15", "users-8-3")
async def test_existing_user_is_registered_and_verified_by_id_and_code(
    scenario: RegistrationVerification, http
) -> None:
    user = (await scenario.made())["user"]
    body = {"registration": {"applicationId": scenario.application_id}}
    made = (await scenario.api.post(f"/api/user/registration/{user['id']}", json=body)).json()
    verification_id, code = await scenario.mailed()
    found = (made["registrationVerificationId"], made["registrationVerificationOneTimeCode"])
    assert found == (verification_id, code) and len(code) == 6
    assert codes(await http.post(PATH, json={"verificationId": verification_id})) == {"oneTimeCode": ["missing"]}
    wrong = {"verificationId": verification_id, "oneTimeCode": "WRONG"}
    assert codes(await http.post(PATH, json=wrong)) == {"oneTimeCode": ["invalid"]}
    assert (await http.post(PATH, json={**wrong, "oneTimeCode": code})).status_code == 200
    assert (await scenario.registration(user["id"]))["verified"]


async def test_registration_without_verification_is_verified_immediately(scenario: RegistrationVerification) -> None:
    skipped = await scenario.registered(skipRegistrationVerification=True)
    await scenario.change_application(verifyRegistration=False)
    unasked = await scenario.registered()
    for made in (skipped, unasked):
        assert made["registration"]["verified"] and "registrationVerificationId" not in made and "token" in made
    assert scenario.mailbox.mails == []


async def test_user_and_registration_are_verified_separately(scenario: RegistrationVerification, http) -> None:
    await scenario.configure(verifyEmail=True, verificationEmailTemplateId=scenario.template_id)
    made = await scenario.registered()
    assert "token" not in made
    email = made["verificationIds"][0]
    assert {(await scenario.mailed())[0], (await scenario.mailed())[0]} == {
        email["id"],
        made["registrationVerificationId"],
    }
    assert (await http.post(f"/api/user/verify-email/{email['id']}")).status_code == 200
    assert not (await scenario.registration(made["user"]["id"]))["verified"]


@pytest.mark.requirement("users-8-16")
async def test_api_key_replaces_id_without_sending_mail(scenario: RegistrationVerification, http) -> None:
    made = await scenario.registered()
    await scenario.mailed()
    query = {"email": made["user"]["email"], "applicationId": scenario.application_id}
    quiet = [
        (await scenario.api.put(PATH, params={**query, name: "false"})).json()
        for name in ("sendVerifyRegistrationEmail", "sendVerifyPasswordEmail")
    ]
    sent = (await scenario.api.put(PATH, params=query)).json()
    assert await scenario.mailed() == (sent["verificationId"], sent["oneTimeCode"])
    for old in (made["registrationVerificationId"], *(one["verificationId"] for one in quiet)):
        assert (await http.post(PATH, json={"verificationId": old, "oneTimeCode": "ANY"})).status_code == 404
    assert (await http.post(PATH, json=sent)).status_code == 200


@pytest.mark.requirement("users-8-16")
async def test_anonymous_resend_reveals_nothing(scenario: RegistrationVerification, http) -> None:
    verified, unregistered = await scenario.registered(skipRegistrationVerification=True), await scenario.made()
    made = await scenario.registered()
    first = await scenario.mailed()
    for email in (f"{new_id()}@example.com", *(one["user"]["email"] for one in (verified, unregistered, made))):
        # The application says which tenant is meant.
        answer = await http.put(PATH, params={"email": email, "applicationId": scenario.application_id})
        assert (answer.status_code, answer.content) == (200, b"")
    verification_id, code = await scenario.mailed()
    # Who only knows the address makes no mail worthless.
    assert (verification_id, code) == first
    assert scenario.mailbox.mails[-1].recipients == [made["user"]["email"]]
    assert (await http.post(PATH, json={"verificationId": verification_id, "oneTimeCode": code})).status_code == 200
    await scenario.nothing_more()


async def test_invalid_requests_are_refused(scenario: RegistrationVerification, http) -> None:
    query = {"email": "unknown@example.com", "applicationId": scenario.application_id}
    assert codes(await scenario.api.put(PATH, params={"applicationId": scenario.application_id})) == {
        "email": ["blank"]
    }
    assert codes(await scenario.api.put(PATH, params={"email": "a@example.com"})) == {"applicationId": ["missing"]}
    assert codes(await scenario.api.put(PATH, params={**query, "applicationId": UNKNOWN_ID})) == {
        "applicationId": ["invalid"]
    }
    assert (await scenario.api.put(PATH, params=query)).status_code == 404
    unregistered = (await scenario.made())["user"]["email"]
    assert (await scenario.api.put(PATH, params={**query, "email": unregistered})).status_code == 404
    assert codes(await http.post(PATH, json={})) == {"verificationId": ["missing"]}
    assert (await http.post(PATH, json={"verificationId": new_id()})).status_code == 404
    await scenario.change_application(verifyRegistration=False)
    for client in (scenario.api, http):
        assert (await client.put(PATH, params=query)).status_code == 403


@pytest.mark.requirement("users-8-13")
async def test_mails_per_user_are_limited_by_tenant(scenario: RegistrationVerification, http) -> None:
    limit = {"sendRegistrationVerification": {"enabled": True, "limit": 1, "timePeriodInSeconds": 3600}}
    await scenario.change({"tenant": {"rateLimitConfiguration": limit}})
    query = {"email": (await scenario.registered())["user"]["email"], "applicationId": scenario.application_id}
    assert (await scenario.api.put(PATH, params=query)).status_code == 503
    quiet = await http.put(PATH, params=query)
    assert (quiet.status_code, quiet.content) == (200, b"")
    assert (await scenario.api.put(PATH, params={**query, "sendVerifyRegistrationEmail": False})).status_code == 200
    await scenario.mailed()
    await scenario.nothing_more()


@pytest.mark.requirement("users-8-15")
async def test_id_of_deleted_registration_is_invalid(links: RegistrationVerification, http, api) -> None:
    made = await links.registered()
    path = f"/api/user/registration/{made['user']['id']}/{links.application_id}"
    assert (await api.post(f"{PATH}/{made['registrationVerificationId']}")).status_code == 404
    assert (await links.api.delete(path)).status_code == 200
    assert (await http.post(f"{PATH}/{made['registrationVerificationId']}")).status_code == 404


async def test_attack_46_five_wrong_codes_invalidate_id(scenario: RegistrationVerification, http) -> None:
    made = await scenario.registered()
    body = {"verificationId": made["registrationVerificationId"], "oneTimeCode": "WRONG"}
    statuses = [(await http.post(PATH, json=body)).status_code for _ in range(6)]
    assert statuses == [400, 400, 400, 400, 400, 404]
    right = {**body, "oneTimeCode": made["registrationVerificationOneTimeCode"]}
    assert (await http.post(PATH, json=right)).status_code == 404


async def test_attack_46_of_64_concurrent_callers_one_succeeds(links: RegistrationVerification, http) -> None:
    made = await links.registered()
    path = f"{PATH}/{made['registrationVerificationId']}"
    headers = own_address()
    answers = await asyncio.gather(*(http.post(path, headers=headers) for _ in range(64)))
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 63
    assert (await links.registration(made["user"]["id"]))["verified"]


# The gates at a login


@pytest.mark.requirement("users-5-10", "users-8-17")
async def test_gated_user_gets_id_matching_mailed_code(scenario: RegistrationVerification, http) -> None:
    await scenario.configure(verifyEmail=True, verificationEmailTemplateId=scenario.template_id, **GATED)
    made = await scenario.registered(skipRegistrationVerification=True)
    first, code = await scenario.mailed()
    answer = await scenario.log_in(scenario.api, made)
    assert answer.status_code == 212
    body = answer.json()
    assert body.keys() == {"user", "emailVerificationId", "identityVerificationId"}
    assert body["emailVerificationId"] == body["identityVerificationId"] == first
    assert not answer.cookies
    # Only a caller with the password sees it.
    assert (await scenario.log_in(scenario.api, made, password="wrong")).status_code == 404
    right = {"verificationId": first, "oneTimeCode": code}
    assert (await http.post("/api/user/verify-email", json=right)).status_code == 200
    assert (await scenario.log_in(scenario.api, made)).status_code == 200


@pytest.mark.requirement("users-8-17")
async def test_gated_login_starts_verification_if_none_is_pending(scenario: RegistrationVerification, http) -> None:
    await scenario.configure(verifyEmail=True, verificationEmailTemplateId=scenario.template_id, **GATED)
    made = await scenario.registered(skipRegistrationVerification=True)
    first, _ = await scenario.mailed()
    wrong = {"verificationId": first, "oneTimeCode": "WRONG"}
    assert [(await http.post("/api/user/verify-email", json=wrong)).status_code for _ in range(6)][-1] == 404
    for application_id in (scenario.application_id, None):
        second = (await scenario.log_in(scenario.api, made, applicationId=application_id)).json()["emailVerificationId"]
    assert (await scenario.mailed())[0] == second != first
    await scenario.nothing_more()


@pytest.mark.requirement("users-5-10")
async def test_gated_registration_gets_its_id(scenario: RegistrationVerification, http) -> None:
    made = await scenario.registered()
    first, code = await scenario.mailed()
    answer = await scenario.log_in(scenario.api, made)
    assert (answer.status_code, answer.json().keys()) == (213, {"user", "registrationVerificationId"})
    assert answer.json()["registrationVerificationId"] == first
    assert (await http.post(PATH, json={"verificationId": first, "oneTimeCode": code})).status_code == 200
    assert (await scenario.log_in(scenario.api, made)).status_code == 200


@pytest.mark.requirement("users-8-17")
async def test_link_strategy_reveals_no_id_and_open_gates_stop_no_login(
    scenario: RegistrationVerification,
) -> None:
    await scenario.configure(verifyEmail=True, verificationEmailTemplateId=scenario.template_id)
    await scenario.configure(unverified={"behavior": "Gated"})
    await scenario.change_application(verificationStrategy="ClickableLink")
    made = await scenario.registered()
    stopped = await scenario.log_in(scenario.api, made)
    assert (stopped.status_code, stopped.json().keys()) == (212, {"user"})
    await scenario.configure(unverified={"behavior": "Allow"})
    stopped = await scenario.log_in(scenario.api, made)
    assert (stopped.status_code, stopped.json().keys()) == (213, {"user"})
    await scenario.change_application(unverified={"behavior": "Allow"})
    assert (await scenario.log_in(scenario.api, made)).status_code == 200


async def test_user_without_address_is_not_gated(scenario: RegistrationVerification) -> None:
    await scenario.configure(verifyEmail=True, verificationEmailTemplateId=scenario.template_id, **GATED)
    name = f"name-{new_id()}"
    await scenario.registered(user={"email": None, "username": name}, skipRegistrationVerification=True)
    login = {"loginId": name, "password": PASSWORD, "applicationId": scenario.application_id}
    assert (await scenario.api.post("/api/login", json=login)).status_code == 200
