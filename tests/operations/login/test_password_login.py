"""Password login: outcomes, their order, failure counts, and events."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import httpx
import pytest

from identity import app
from identity.call import AnonymousCaller, Call, Origin
from identity.domain.login import login_outcomes
from identity.domain.login.login_outcomes import LoginResult
from identity.errors import Unavailable, WebhookTransactionFailed
from identity.ids import TenantId, new_id
from identity.operations.limits import failed_login_limits
from identity.operations.login import password_login
from identity.services import Services
from tests import webhooks
from tests.conftest import EMAIL_TEMPLATE
from tests.receiver import answers, receiving, until

PASSWORD = "correct horse battery staple"


class Logins:
    """A tenant with a user who logs in."""

    def __init__(self, service: app.Service, api: httpx.AsyncClient) -> None:
        self.services = service.services
        self.api = api
        self.tenant_id = TenantId(api.headers["X-FusionAuth-TenantId"])
        self.user: dict[str, Any] = {}
        self.application: dict[str, Any] | None = None

    async def configure(self, **tenant: Any) -> None:
        answer = await self.api.patch(f"/api/tenant/{self.tenant_id}", json={"tenant": tenant})
        assert answer.status_code == 200, answer.text

    async def add_user(self, **members: Any) -> None:
        wanted = {"email": f"{new_id()}@example.com", "username": "Ann", "password": PASSWORD, **members}
        answer = await self.api.post("/api/user", json={"user": wanted})
        assert answer.status_code == 200, answer.text
        self.user = answer.json()["user"]

    async def change_user(self, **members: Any) -> None:
        answer = await self.api.patch(f"/api/user/{self.user['id']}", json={"user": members})
        assert answer.status_code == 200, answer.text

    async def register(self, **application: Any) -> None:
        answer = await self.api.post("/api/application", json={"application": {"name": new_id(), **application}})
        assert answer.status_code == 200, answer.text
        self.application = answer.json()["application"]
        body = {"registration": {"applicationId": self.application["id"]}}
        made = await self.api.post(f"/api/user/registration/{self.user['id']}", json=body)
        assert made.status_code == 200, made.text

    async def stored(self) -> dict[str, Any]:
        return await self.services.directory.users.get(self.tenant_id, self.user["id"])

    async def log_in(
        self, login_id: str | None = None, password: str = PASSWORD, *, address: str | None = None, **types: Any
    ) -> LoginResult:
        origin = Origin(address or _address(), "test", new_id(), "http://localhost")
        call = Call(self.tenant_id, AnonymousCaller(), self.services.clock.now(), origin)
        credentials = password_login.Credentials(login_id or self.user["email"], password, **types)
        application = self.application
        if application is not None:
            application = await self.services.configuration.applications.get(self.tenant_id, application["id"])
        return await password_login.authenticate(self.services, call, credentials, application)


def _address() -> str:
    raw = int(new_id().replace("-", "")[:6], 16)
    return f"10.{raw >> 16 & 255}.{raw >> 8 & 255}.{raw & 255}"


@pytest.fixture
async def logins(service: app.Service, tenant_api: httpx.AsyncClient) -> Logins:
    made = Logins(service, tenant_api)
    await made.add_user()
    return made


async def test_correct_password_logs_in_and_is_recorded(logins: Logins) -> None:
    await logins.register()
    assert logins.application is not None
    result = await logins.log_in(f" {logins.user['email'].upper()} ")
    assert isinstance(result, login_outcomes.LoggedIn)
    assert result.registration is not None
    stored = await logins.stored()
    noted = stored["lastLoginInstant"]
    assert noted == result.user["lastLoginInstant"] == result.registration["lastLoginInstant"]
    assert stored["registrations"][0]["lastLoginInstant"] == noted
    assert {entry["type"]: entry.get("lastLoginInstant") for entry in stored["identities"]} == {
        "email": noted,
        "username": None,
    }
    assert stored["lastUpdateInstant"] == result.user["lastUpdateInstant"]
    shown = (await logins.api.get(f"/api/user/{logins.user['id']}")).json()["user"]
    assert shown["lastLoginInstant"] == noted


async def test_a_user_without_a_registration_logs_in_without_one(logins: Logins) -> None:
    await logins.register()
    assert logins.application is not None
    await logins.api.delete(f"/api/user/registration/{logins.user['id']}/{logins.application['id']}")
    result = await logins.log_in("ann")
    assert isinstance(result, login_outcomes.LoggedIn) and result.registration is None


@pytest.mark.parametrize("password", ["wrong", "", PASSWORD.upper(), PASSWORD + " ", "x" * 1_000_000, "\x00"])
async def test_any_other_password_is_wrong(logins: Logins, password: str) -> None:
    assert await logins.log_in(password=password) == login_outcomes.WrongCredentials()
    assert "lastLoginInstant" not in await logins.stored()


@pytest.mark.requirement("attack-44", "oauth-1.9-5")
async def test_unknown_user_wrong_type_and_other_tenant_are_wrong_credentials(
    logins: Logins, service: app.Service, api: httpx.AsyncClient
) -> None:
    assert await logins.log_in("unknown@example.com") == login_outcomes.WrongCredentials()
    assert await logins.log_in("ann", types=("email",)) == login_outcomes.WrongCredentials()
    elsewhere = Logins(service, api)
    assert await elsewhere.log_in(logins.user["email"]) == login_outcomes.WrongCredentials()
    await logins.change_user(usernameStatus="PENDING")
    assert await logins.log_in("ann") == login_outcomes.WrongCredentials()
    assert isinstance(await logins.log_in(), login_outcomes.LoggedIn)


async def test_user_state_is_revealed_only_with_the_correct_password(logins: Logins, clock: Any) -> None:
    states: list[tuple[Any, dict[str, Any]]] = [
        (login_outcomes.Expired, {"expiry": 1}),
        (login_outcomes.PasswordChangeRequired, {"expiry": None, "passwordChangeRequired": True}),
    ]
    for outcome, change in states:
        await logins.change_user(**change)
        assert isinstance(await logins.log_in(), outcome)
        assert await logins.log_in(password="wrong") == login_outcomes.WrongCredentials()
    await logins.api.delete(f"/api/user/{logins.user['id']}")
    assert isinstance(await logins.log_in(), login_outcomes.Deactivated)
    assert await logins.log_in(password="wrong") == login_outcomes.WrongCredentials()
    assert "lastLoginInstant" not in await logins.stored()


@pytest.mark.requirement("oauth-1.9-6")
async def test_a_second_factor_is_never_skipped(logins: Logins) -> None:
    await logins.change_user(twoFactor={"methods": [{"method": "email", "email": "a@example.com"}]})
    assert isinstance(await logins.log_in(), login_outcomes.SecondFactorRequired)


@pytest.mark.requirement("oauth-1.9-6")
async def test_gates_for_unverified_users_and_registrations(logins: Logins) -> None:
    await logins.register(
        verifyRegistration=True, verificationEmailTemplateId=EMAIL_TEMPLATE, unverified={"behavior": "Gated"}
    )
    assert isinstance(await logins.log_in(), login_outcomes.RegistrationNotVerified)
    gate = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE, "unverified": {"behavior": "Gated"}}
    await logins.configure(emailConfiguration=gate)
    assert isinstance(await logins.log_in(), login_outcomes.EmailNotVerified)


@pytest.mark.requirement("oauth-1.9-6")
async def test_expired_password_has_to_be_changed(logins: Logins, clock: Any) -> None:
    await logins.configure(maximumPasswordAge={"enabled": True, "days": 3})
    assert isinstance(await logins.log_in(), login_outcomes.LoggedIn)
    clock.advance(seconds=3 * 86_400 + 1)
    result = await logins.log_in()
    assert isinstance(result, login_outcomes.PasswordChangeRequired) and result.reason == "Expired"


async def test_a_password_below_new_rules_has_to_be_changed(logins: Logins) -> None:
    await logins.configure(passwordValidationRules={"requireNumber": True})
    assert isinstance(await logins.log_in(), login_outcomes.LoggedIn)
    await logins.configure(passwordValidationRules={"validateOnLogin": True})
    result = await logins.log_in()
    assert isinstance(result, login_outcomes.PasswordChangeRequired) and result.reason == "Validation"


@pytest.mark.requirement("design-state-9")
async def test_login_rehashes_the_password_with_the_tenants_scheme(logins: Logins) -> None:
    scheme = {"encryptionScheme": "salted-pbkdf2-hmac-sha256", "encryptionSchemeFactor": 1000}
    await logins.configure(passwordEncryptionConfiguration=scheme)
    await logins.log_in()
    assert (await logins.stored())["private"]["password"]["scheme"] == "argon2id"
    await logins.configure(passwordEncryptionConfiguration={"modifyEncryptionSchemeOnLogin": True})
    assert await logins.log_in(password="wrong") == login_outcomes.WrongCredentials()
    assert (await logins.stored())["private"]["password"]["scheme"] == "argon2id"
    for _ in range(2):
        assert isinstance(await logins.log_in(), login_outcomes.LoggedIn)
        password = (await logins.stored())["private"]["password"]
        assert (password["scheme"], password["factor"]) == ("salted-pbkdf2-hmac-sha256", 1000)


async def test_password_is_rehashed_before_the_second_factor(logins: Logins) -> None:
    scheme = {"encryptionScheme": "salted-pbkdf2-hmac-sha256", "encryptionSchemeFactor": 1000}
    await logins.configure(passwordEncryptionConfiguration={**scheme, "modifyEncryptionSchemeOnLogin": True})
    await logins.change_user(twoFactor={"methods": [{"method": "email", "email": "a@example.com"}]})
    assert isinstance(await logins.log_in(), login_outcomes.SecondFactorRequired)
    assert (await logins.stored())["private"]["password"]["scheme"] == "salted-pbkdf2-hmac-sha256"


@pytest.mark.requirement("attack-48")
async def test_account_is_limited_after_too_many_failures_by_any_login_id(logins: Logins) -> None:
    await logins.configure(
        rateLimitConfiguration={"failedLogin": {"enabled": True, "limit": 3, "timePeriodInSeconds": 60}}
    )
    for name in (logins.user["email"], "ann", "ANN"):
        assert await logins.log_in(name, "wrong") == login_outcomes.WrongCredentials()
    result = await logins.log_in()
    assert isinstance(result, login_outcomes.TooManyAttempts) and 0 < result.wait_seconds <= 60
    await logins.add_user(username="bob")
    assert isinstance(await logins.log_in(), login_outcomes.LoggedIn)


async def test_unknown_users_are_counted_like_known_ones(logins: Logins) -> None:
    await logins.configure(
        rateLimitConfiguration={"failedLogin": {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}}
    )
    assert await logins.log_in("unknown", "wrong") == login_outcomes.WrongCredentials()
    assert isinstance(await logins.log_in("UNKNOWN", "wrong"), login_outcomes.TooManyAttempts)


@pytest.mark.requirement("attack-48")
async def test_success_neither_counts_nor_resets_failures(logins: Logins) -> None:
    await logins.configure(
        rateLimitConfiguration={"failedLogin": {"enabled": True, "limit": 2, "timePeriodInSeconds": 60}}
    )
    assert await logins.log_in(password="wrong") == login_outcomes.WrongCredentials()
    for _ in range(4):
        assert isinstance(await logins.log_in(), login_outcomes.LoggedIn)
    assert await logins.log_in(password="wrong") == login_outcomes.WrongCredentials()
    assert isinstance(await logins.log_in(), login_outcomes.TooManyAttempts)


async def test_unverified_attempt_is_not_counted(logins: Logins) -> None:
    await logins.configure(
        rateLimitConfiguration={"failedLogin": {"enabled": True, "limit": 1, "timePeriodInSeconds": 60}}
    )
    services = logins.services

    class Busy:
        async def verify(self, *_arguments: Any, **_named: Any) -> bool:
            raise Unavailable

    logins.services = with_passwords(services, Busy())
    for _ in range(2):
        with pytest.raises(Unavailable):
            await logins.log_in()
    logins.services = services
    assert isinstance(await logins.log_in(), login_outcomes.LoggedIn)


@pytest.mark.requirement("attack-48")
async def test_concurrent_guesses_do_not_exceed_the_limit(logins: Logins) -> None:
    await logins.configure(
        rateLimitConfiguration={"failedLogin": {"enabled": True, "limit": 3, "timePeriodInSeconds": 60}}
    )
    results = await asyncio.gather(*(logins.log_in(password=f"guess {n}") for n in range(24)))
    assert sum(result == login_outcomes.WrongCredentials() for result in results) == 3


@pytest.mark.requirement("attack-48")
async def test_address_limit_applies_to_all_users(logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_login_limits, "ADDRESS_FAILURES", 3)
    for n in range(3):
        assert await logins.log_in(f"user-{n}", "wrong", address="2001:db8::1") == login_outcomes.WrongCredentials()
    assert isinstance(await logins.log_in(address="2001:db8::2"), login_outcomes.TooManyAttempts)
    assert isinstance(await logins.log_in(address="2001:db8:1::1"), login_outcomes.LoggedIn)


def with_passwords(services: Services, pool: Any) -> Services:
    return dataclasses.replace(services, runtime=dataclasses.replace(services.runtime, passwords=pool))


def watch(logins: Logins) -> list[str]:
    """The comparisons from now on, in order: `verify` for a user's hash, `verify_decoy` for an unknown user."""
    calls: list[str] = []
    pool = logins.services.runtime.passwords

    class Watched:
        async def verify(self, *arguments: Any, **named: Any) -> bool:
            calls.append("verify")
            return await pool.verify(*arguments, **named)

        async def verify_decoy(self, *arguments: Any, **named: Any) -> None:
            calls.append("verify_decoy")
            await pool.verify_decoy(*arguments, **named)

    logins.services = with_passwords(logins.services, Watched())
    return calls


@pytest.mark.requirement("attack-44")
async def test_attack_44_wrong_password_of_a_cheaper_scheme_takes_the_same_time(logins: Logins) -> None:
    await logins.add_user(username=new_id(), encryptionScheme="salted-md5", factor=1)
    calls = watch(logins)
    assert await logins.log_in(logins.user["email"], "wrong") == login_outcomes.WrongCredentials()
    assert calls == ["verify", "verify_decoy"]
    assert isinstance(await logins.log_in(logins.user["email"]), login_outcomes.LoggedIn)
    assert calls == ["verify", "verify_decoy", "verify"]


@pytest.mark.requirement("attack-44")
async def test_unknown_user_takes_the_time_of_a_wrong_password(logins: Logins) -> None:
    calls = watch(logins)
    await logins.log_in(password="wrong")
    await logins.log_in("unknown", "wrong")
    await logins.api.delete(f"/api/user/{logins.user['id']}")
    await logins.log_in(password="wrong")
    assert calls == ["verify", "verify_decoy", "verify"]


def events_of(receiver: Any) -> list[dict[str, Any]]:
    return sorted((request.event for request in receiver.requests), key=lambda event: event["createInstant"])


async def subscribe(logins: Logins, url: str, transaction_type: str, *types: str) -> None:
    await webhooks.subscribe(logins.api, {"id": logins.tenant_id}, url, types, transaction_type)


async def test_events_are_sent_for_known_users_only(logins: Logins) -> None:
    await logins.register()
    assert logins.application is not None
    async with receiving() as receiver:
        await subscribe(logins, receiver.url, "None", "user.login.success", "user.login.failed")
        await logins.log_in("unknown", "wrong")
        await logins.log_in(password="wrong", address="192.0.2.7")
        await receiver.wait_for(1)
        await logins.log_in(address="192.0.2.7")
        await receiver.wait_for(2)
        failed, success = events_of(receiver)
    assert (failed["type"], success["type"]) == ("user.login.failed", "user.login.success")
    for event in (failed, success):
        assert event["applicationId"] == logins.application["id"]
        assert event["authenticationType"] == "PASSWORD"
        assert event["ipAddress"] == event["info"]["ipAddress"] == "192.0.2.7"
        assert event["linkedObjectId"] == event["user"]["id"] == logins.user["id"]
        assert event["tenantId"] == logins.tenant_id
        assert "private" not in event["user"]
    assert failed["reason"] == {"code": "credentials"} and "connectorId" not in failed
    assert success["connectorId"] == "e3306678-a53a-4964-9040-1c96f36dda72"


async def test_veto_prevents_a_login_and_does_not_affect_failures(logins: Logins) -> None:
    async with receiving(answers(500)) as receiver:
        await subscribe(logins, receiver.url, "AbsoluteMajority", "user.login.success", "user.login.failed")
        before = await logins.stored()
        with pytest.raises(WebhookTransactionFailed):
            await logins.log_in()
        assert await logins.stored() == before
        assert await logins.log_in(password="wrong") == login_outcomes.WrongCredentials()
        await until(lambda: len(receiver.requests) >= 2)
