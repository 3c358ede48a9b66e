"""Events of passwords, and vetoes of password changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from identity import app
from identity.ids import new_id
from tests import internals
from tests.conftest import EMAIL_TEMPLATE
from tests.password_reset import NEW_PASSWORD, PasswordReset, make_template, password_reset
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD
from tests.subscriber import Subscriber
from tests.veto import unchanged

RESET = ("user.password.reset.start", "user.password.reset.send", "user.password.reset.success", "user.password.update")
COMMON = "letmein123"


@pytest.fixture
async def scenario(service: app.Service, api) -> AsyncIterator[PasswordReset]:
    async with password_reset(service, api) as found:
        yield found


@asynccontextmanager
async def subscriber(
    scenario: PasswordReset, *types: str, status: int = 200, kind: str = "None"
) -> AsyncIterator[Subscriber]:
    async with receiving(answers(status)) as receiver:
        found = Subscriber(scenario.key, receiver, scenario.tenant_id)
        await found.subscribe(types, kind)
        yield found


@pytest.mark.requirement(
    "event-user.password.reset.start", "event-user.password.reset.success", "event-user.password.update", "users-7-31"
)
async def test_password_reset_raises_events_from_start_to_success(scenario: PasswordReset) -> None:
    async with subscriber(scenario, *RESET) as webhooks:
        scenario.anonymous.headers["X-Forwarded-For"] = "192.0.2.7"
        body = {"loginId": scenario.rp.login_id, "eventInfo": {"ipAddress": "198.51.100.1"}}
        assert (await scenario.anonymous.post("/api/user/forgot-password", json=body)).status_code == 200
        started, sent = await webhooks.received(*RESET[:2])
        for event in (started, sent):
            assert event["user"]["id"] == event["linkedObjectId"] == scenario.rp.user["id"]
            assert event["info"]["ipAddress"] == "192.0.2.7"
        change_id = await scenario.change_id()
        # This one was not sent.
        await webhooks.received("user.password.reset.start")
        assert (await scenario.change(change_id)).status_code == 200
        succeeded, updated = await webhooks.received(*RESET[2:])
        assert succeeded["user"]["id"] == updated["user"]["id"] == scenario.rp.user["id"]
        assert not any(secret in str([started, sent, succeeded, updated]) for secret in (change_id, NEW_PASSWORD))
        by_login_id = {"loginId": scenario.rp.login_id, "password": "a third battery"}
        assert (await scenario.key.post("/api/user/change-password", json=by_login_id)).status_code == 200
        await webhooks.received("user.password.update")


@pytest.mark.requirement("event-jwt.refresh-token.revoke-5", "event-user.email.verified-4", "users-7-31")
async def test_password_change_raises_events_of_its_consequences(scenario: PasswordReset) -> None:
    mails = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    user = await scenario.key.post(
        "/api/user", json={"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}}
    )
    registration = {"registration": {"applicationId": scenario.rp.client_id}}
    user_id = user.json()["user"]["id"]
    await scenario.key.post(f"/api/user/registration/{user_id}", json=registration)
    email = user.json()["user"]["email"]
    assert (await scenario.log_in(loginId=email)).status_code == 200
    await scenario.rp.configure_tenant(emailConfiguration=mails)
    names = ("jwt.refresh-token.revoke", "user.email.verified", "user.identity.verified", *RESET[2:])
    async with subscriber(scenario, *names) as webhooks:
        assert (await scenario.change(await scenario.mailed_id(loginId=email))).status_code == 200
        revoked, verified, *_ = await webhooks.received(*names)
        assert revoked["userId"] == verified["user"]["id"] == user_id
        assert verified["user"]["verified"] is True


@pytest.mark.requirement("users-7-32")
@pytest.mark.parametrize("kind", ["jwt.refresh-token.revoke", "user.email.verified"])
async def test_a_veto_of_a_change_of_password_leaves_the_id_and_the_password(
    scenario: PasswordReset, kind: str
) -> None:
    assert (await scenario.log_in()).status_code == 200
    if kind == "user.email.verified":
        mails = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
        email = f"{new_id()}@example.com"
        await scenario.rp.configure_tenant(emailConfiguration=mails)
        made = await scenario.key.post("/api/user", json={"user": {"email": email, "password": PASSWORD}})
        assert made.status_code == 200
        await scenario.mailbox.wait_for(1)
        body = {"loginId": email}
        await scenario.anonymous.post("/api/user/forgot-password", json=body)
        mails = await scenario.mailbox.wait_for(2)
        change_id = mails[1].part("plain").partition("/password/change/")[2].partition("?")[0]
    else:
        change_id = await scenario.change_id()
    async with subscriber(scenario, kind, status=500, kind="AbsoluteMajority") as webhooks:
        async with unchanged(scenario.service, scenario.tenant_id):
            refused = await scenario.change(change_id)
        assert refused.status_code == 504, refused.text
        await webhooks.received(kind)
    await scenario.rp.configure_tenant(eventConfiguration={"events": {kind: {"enabled": False}}})
    assert (await scenario.change(change_id)).status_code == 200


# Breaches


async def detect(scenario: PasswordReset, on_login: str, **members: object) -> None:
    """Enable the detection of common passwords, one of which the user has."""
    body = {"loginId": scenario.rp.login_id, "password": COMMON}
    assert (await scenario.key.post("/api/user/change-password", json=body)).status_code == 200
    detection = {"enabled": True, "matchMode": "Low", "onLogin": on_login, **members}
    await scenario.rp.configure_tenant(passwordValidationRules={"breachDetection": detection})


@pytest.mark.requirement("event-user.password.breach", "users-7-28")
async def test_breached_password_raises_an_event_at_each_login_and_one_mail(scenario: PasswordReset, api) -> None:
    template_id = await make_template(api, "${user.email} ${user.breachedPasswordStatus}")
    await detect(scenario, "NotifyUser", notifyUserEmailTemplateId=template_id)
    async with subscriber(scenario, "user.password.breach") as webhooks:
        for _ in range(2):
            assert (await scenario.log_in(COMMON)).status_code == 200
            (event,) = await webhooks.received("user.password.breach")
            assert event["user"]["breachedPasswordStatus"] == "CommonPassword"
            assert COMMON not in str(event)
    (mail,) = await scenario.mailbox.wait_for(1)
    assert mail.part("plain").strip() == f"{scenario.rp.login_id} CommonPassword"
    stored = await scenario.stored()
    assert stored["breachedPasswordStatus"] == "CommonPassword" and stored["breachedPasswordLastCheckedInstant"]
    # A new password that is none of them is looked for as well, and found to be nothing.
    assert (await scenario.change(await scenario.change_id())).status_code == 200
    assert (await scenario.stored())["breachedPasswordStatus"] == "None"
    assert (await scenario.log_in(NEW_PASSWORD)).status_code == 200
    assert len(scenario.mailbox.mails) == 1


@pytest.mark.requirement("event-user.password.breach", "users-7-22", "users-7-28")
async def test_a_breached_password_has_to_be_changed_where_the_tenant_has_it(scenario: PasswordReset) -> None:
    await detect(scenario, "RequireChange")
    async with subscriber(scenario, "user.password.breach", "user.login.success") as webhooks:
        waiting = await scenario.log_in(COMMON)
        assert (waiting.status_code, waiting.json()["changePasswordReason"]) == (203, "Breached")
        await webhooks.received("user.password.breach")
        stored = await scenario.stored()
        assert (stored["passwordChangeRequired"], stored["passwordChangeReason"]) == (True, "Breached")
        change_id = waiting.json()["changePasswordId"]
        assert (await scenario.change(change_id, "Password123")).status_code == 400
        assert (await scenario.change(change_id)).status_code == 200
        assert (await scenario.log_in(NEW_PASSWORD)).status_code == 200
        await webhooks.received("user.login.success")


@pytest.mark.requirement("event-user.password.breach")
async def test_breached_password_raises_an_event_before_the_second_factor(scenario: PasswordReset) -> None:
    await detect(scenario, "RecordOnly")
    await scenario.rp.configure_tenant(
        multiFactorConfiguration={"loginPolicy": "Required", "authenticator": {"enabled": True}}
    )
    async with subscriber(scenario, "user.password.breach", "user.login.success") as webhooks:
        assert (await scenario.log_in(COMMON)).status_code == 242
        await webhooks.received("user.password.breach")
    assert (await scenario.stored())["breachedPasswordStatus"] == "CommonPassword"


@pytest.mark.requirement("event-user.password.breach")
@pytest.mark.parametrize("vetoed", ["user.password.breach", "user.login.success"])
async def test_vetoed_login_does_not_store_the_password_status(scenario: PasswordReset, vetoed: str) -> None:
    await detect(scenario, "RecordOnly")
    ours = {"modifyEncryptionSchemeOnLogin": True, "encryptionScheme": "salted-sha256", "encryptionSchemeFactor": 1}
    await scenario.rp.configure_tenant(passwordEncryptionConfiguration=ours)
    async with subscriber(scenario, vetoed, status=500, kind="AbsoluteMajority") as webhooks:
        async with unchanged(scenario.service, scenario.tenant_id):
            assert (await scenario.log_in(COMMON)).status_code == 504
        await webhooks.received(vetoed)
    await scenario.rp.configure_tenant(eventConfiguration={"events": {vetoed: {"enabled": False}}})
    assert (await scenario.log_in(COMMON)).status_code == 200
    # What was found is noted though the password was hashed anew by the same login.
    assert (await scenario.stored())["breachedPasswordStatus"] == "CommonPassword"
    kept = await internals.store(scenario.service, "users").get(scenario.tenant_id, scenario.rp.user["id"])
    assert kept["private"]["password"]["scheme"] == "salted-sha256"


@pytest.mark.requirement("event-user.password.breach", "users-7-28")
@pytest.mark.parametrize(("on_login", "status"), [("Off", None), ("RecordOnly", "CommonPassword")])
async def test_a_breached_password_is_recorded_or_not_even_looked_for(
    scenario: PasswordReset, on_login, status
) -> None:
    await detect(scenario, on_login)
    assert (await scenario.log_in(COMMON)).status_code == 200
    assert (await scenario.stored()).get("breachedPasswordStatus") == status
    counts = (await scenario.key.get("/api/reactor/metrics")).json()["metrics"]["breachedPasswordMetrics"]
    if status is None:
        assert scenario.tenant_id not in counts
    else:
        common = dict.fromkeys(("matchedCommonPasswordCount", "matchedCommonPasswordsCount"), 1)
        expected = {"actionRequired": 1, "passwordsCheckedCount": 1, **common}
        assert {name: count for name, count in counts[scenario.tenant_id].items() if count} == expected
