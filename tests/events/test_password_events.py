"""Events of passwords, and vetoes of password changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from identity import app
from identity.ids import new_id
from tests import doors
from tests.conftest import EMAIL_TEMPLATE
from tests.hearing import Hearing
from tests.receiver import answers, receiving
from tests.relying_party import PASSWORD
from tests.resetting import NEW_PASSWORD, Resetting, make_template, resetting
from tests.veto import unchanged

RESET = ("user.password.reset.start", "user.password.reset.send", "user.password.reset.success", "user.password.update")
COMMON = "letmein123"


@pytest.fixture
async def place(service: app.Service, api) -> AsyncIterator[Resetting]:
    async with resetting(service, api) as found:
        yield found


@asynccontextmanager
async def hearing(place: Resetting, *types: str, status: int = 200, kind: str = "None") -> AsyncIterator[Hearing]:
    async with receiving(answers(status)) as receiver:
        found = Hearing(place.key, receiver, place.tenant_id)
        await found.listen(types, kind)
        yield found


@pytest.mark.requirement(
    "event-user.password.reset.start", "event-user.password.reset.success", "event-user.password.update", "users-7-31"
)
async def test_password_reset_raises_events_from_start_to_success(place: Resetting) -> None:
    async with hearing(place, *RESET) as webhooks:
        place.nobody.headers["X-Forwarded-For"] = "192.0.2.7"
        body = {"loginId": place.rp.login_id, "eventInfo": {"ipAddress": "198.51.100.1"}}
        assert (await place.nobody.post("/api/user/forgot-password", json=body)).status_code == 200
        started, sent = await webhooks.heard(*RESET[:2])
        for event in (started, sent):
            assert event["user"]["id"] == event["linkedObjectId"] == place.rp.user["id"]
            assert event["info"]["ipAddress"] == "192.0.2.7"
        change_id = await place.change_id()
        # Nobody was sent this one.
        await webhooks.heard("user.password.reset.start")
        assert (await place.change(change_id)).status_code == 200
        succeeded, updated = await webhooks.heard(*RESET[2:])
        assert succeeded["user"]["id"] == updated["user"]["id"] == place.rp.user["id"]
        assert not any(secret in str([started, sent, succeeded, updated]) for secret in (change_id, NEW_PASSWORD))
        by_login_id = {"loginId": place.rp.login_id, "password": "a third battery"}
        assert (await place.key.post("/api/user/change-password", json=by_login_id)).status_code == 200
        await webhooks.heard("user.password.update")


@pytest.mark.requirement("event-jwt.refresh-token.revoke-5", "event-user.email.verified-4", "users-7-31")
async def test_password_change_raises_events_of_its_consequences(place: Resetting) -> None:
    mails = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    user = await place.key.post("/api/user", json={"user": {"email": f"{new_id()}@example.com", "password": PASSWORD}})
    registration = {"registration": {"applicationId": place.rp.client_id}}
    user_id = user.json()["user"]["id"]
    await place.key.post(f"/api/user/registration/{user_id}", json=registration)
    email = user.json()["user"]["email"]
    assert (await place.log_in(loginId=email)).status_code == 200
    await place.rp.configure_tenant(emailConfiguration=mails)
    names = ("jwt.refresh-token.revoke", "user.email.verified", "user.identity.verified", *RESET[2:])
    async with hearing(place, *names) as webhooks:
        assert (await place.change(await place.mailed_id(loginId=email))).status_code == 200
        revoked, verified, *_ = await webhooks.heard(*names)
        assert revoked["userId"] == verified["user"]["id"] == user_id
        assert verified["user"]["verified"] is True


@pytest.mark.requirement("users-7-32")
@pytest.mark.parametrize("kind", ["jwt.refresh-token.revoke", "user.email.verified"])
async def test_a_veto_of_a_change_of_password_leaves_the_id_and_the_password(place: Resetting, kind: str) -> None:
    assert (await place.log_in()).status_code == 200
    if kind == "user.email.verified":
        mails = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
        email = f"{new_id()}@example.com"
        await place.rp.configure_tenant(emailConfiguration=mails)
        made = await place.key.post("/api/user", json={"user": {"email": email, "password": PASSWORD}})
        assert made.status_code == 200
        await place.mailbox.wait_for(1)
        body = {"loginId": email}
        await place.nobody.post("/api/user/forgot-password", json=body)
        mails = await place.mailbox.wait_for(2)
        change_id = mails[1].part("plain").partition("/password/change/")[2].partition("?")[0]
    else:
        change_id = await place.change_id()
    async with hearing(place, kind, status=500, kind="AbsoluteMajority") as webhooks:
        async with unchanged(place.service, place.tenant_id):
            refused = await place.change(change_id)
        assert refused.status_code == 504, refused.text
        await webhooks.heard(kind)
    await place.rp.configure_tenant(eventConfiguration={"events": {kind: {"enabled": False}}})
    assert (await place.change(change_id)).status_code == 200


# Breaches


async def detect(place: Resetting, on_login: str, **members: object) -> None:
    """Enable the detection of common passwords, one of which the user has."""
    body = {"loginId": place.rp.login_id, "password": COMMON}
    assert (await place.key.post("/api/user/change-password", json=body)).status_code == 200
    detection = {"enabled": True, "matchMode": "Low", "onLogin": on_login, **members}
    await place.rp.configure_tenant(passwordValidationRules={"breachDetection": detection})


@pytest.mark.requirement("event-user.password.breach", "users-7-28")
async def test_breached_password_raises_an_event_at_each_login_and_one_mail(place: Resetting, api) -> None:
    template_id = await make_template(api, "${user.email} ${user.breachedPasswordStatus}")
    await detect(place, "NotifyUser", notifyUserEmailTemplateId=template_id)
    async with hearing(place, "user.password.breach") as webhooks:
        for _ in range(2):
            assert (await place.log_in(COMMON)).status_code == 200
            (event,) = await webhooks.heard("user.password.breach")
            assert event["user"]["breachedPasswordStatus"] == "CommonPassword"
            assert COMMON not in str(event)
    (mail,) = await place.mailbox.wait_for(1)
    assert mail.part("plain").strip() == f"{place.rp.login_id} CommonPassword"
    stored = await place.stored()
    assert stored["breachedPasswordStatus"] == "CommonPassword" and stored["breachedPasswordLastCheckedInstant"]
    # A new password that is none of them is looked for as well, and found to be nothing.
    assert (await place.change(await place.change_id())).status_code == 200
    assert (await place.stored())["breachedPasswordStatus"] == "None"
    assert (await place.log_in(NEW_PASSWORD)).status_code == 200
    assert len(place.mailbox.mails) == 1


@pytest.mark.requirement("event-user.password.breach", "users-7-22", "users-7-28")
async def test_a_breached_password_has_to_be_changed_where_the_tenant_has_it(place: Resetting) -> None:
    await detect(place, "RequireChange")
    async with hearing(place, "user.password.breach", "user.login.success") as webhooks:
        waiting = await place.log_in(COMMON)
        assert (waiting.status_code, waiting.json()["changePasswordReason"]) == (203, "Breached")
        await webhooks.heard("user.password.breach")
        stored = await place.stored()
        assert (stored["passwordChangeRequired"], stored["passwordChangeReason"]) == (True, "Breached")
        change_id = waiting.json()["changePasswordId"]
        assert (await place.change(change_id, "Password123")).status_code == 400
        assert (await place.change(change_id)).status_code == 200
        assert (await place.log_in(NEW_PASSWORD)).status_code == 200
        await webhooks.heard("user.login.success")


@pytest.mark.requirement("event-user.password.breach")
async def test_breached_password_raises_an_event_before_the_second_factor(place: Resetting) -> None:
    await detect(place, "RecordOnly")
    await place.rp.configure_tenant(
        multiFactorConfiguration={"loginPolicy": "Required", "authenticator": {"enabled": True}}
    )
    async with hearing(place, "user.password.breach", "user.login.success") as webhooks:
        assert (await place.log_in(COMMON)).status_code == 242
        await webhooks.heard("user.password.breach")
    assert (await place.stored())["breachedPasswordStatus"] == "CommonPassword"


@pytest.mark.requirement("event-user.password.breach")
@pytest.mark.parametrize("vetoed", ["user.password.breach", "user.login.success"])
async def test_vetoed_login_does_not_store_the_password_status(place: Resetting, vetoed: str) -> None:
    await detect(place, "RecordOnly")
    ours = {"modifyEncryptionSchemeOnLogin": True, "encryptionScheme": "salted-sha256", "encryptionSchemeFactor": 1}
    await place.rp.configure_tenant(passwordEncryptionConfiguration=ours)
    async with hearing(place, vetoed, status=500, kind="AbsoluteMajority") as webhooks:
        async with unchanged(place.service, place.tenant_id):
            assert (await place.log_in(COMMON)).status_code == 504
        await webhooks.heard(vetoed)
    await place.rp.configure_tenant(eventConfiguration={"events": {vetoed: {"enabled": False}}})
    assert (await place.log_in(COMMON)).status_code == 200
    # What was found is noted though the password was hashed anew by the same login.
    assert (await place.stored())["breachedPasswordStatus"] == "CommonPassword"
    kept = await doors.store(place.service, "users").get(place.tenant_id, place.rp.user["id"])
    assert kept["private"]["password"]["scheme"] == "salted-sha256"


@pytest.mark.requirement("event-user.password.breach", "users-7-28")
@pytest.mark.parametrize(("on_login", "status"), [("Off", None), ("RecordOnly", "CommonPassword")])
async def test_a_breached_password_is_recorded_or_not_even_looked_for(place: Resetting, on_login, status) -> None:
    await detect(place, on_login)
    assert (await place.log_in(COMMON)).status_code == 200
    assert (await place.stored()).get("breachedPasswordStatus") == status
    counts = (await place.key.get("/api/reactor/metrics")).json()["metrics"]["breachedPasswordMetrics"]
    if status is None:
        assert place.tenant_id not in counts
    else:
        expected = {"actionRequired": 1, "matchedCommonPasswordsCount": 1, "passwordsCheckedCount": 1}
        assert {name: count for name, count in counts[place.tenant_id].items() if count} == expected
