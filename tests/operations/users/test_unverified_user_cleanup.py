"""Deletion of unverified users and registrations after the configured number of days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from identity import app
from identity.app import ADMINISTRATOR_APPLICATION_ID
from identity.ids import new_id
from identity.operations.users import unverified_user_cleanup
from tests import internals
from tests.api.test_families import make_family, put
from tests.api.test_user_consents import birth_date
from tests.conftest import DEFAULT_TENANT, EMAIL_TEMPLATE, ShiftedClock
from tests.receiver import answers, receiving
from tests.subscriber import Subscriber
from tests.veto import unchanged

Document = dict[str, Any]

DAY = 86_400
DAYS = 10
POLICY = {"unverified": {"enabled": True, "numberOfDaysToRetain": DAYS}}


class Cleanup:
    """A tenant and an application that delete unverified objects after ten days."""

    def __init__(self, api: httpx.AsyncClient, service: app.Service, tenant_id: str, application_id: str) -> None:
        self.api, self.service, self.tenant_id, self.application_id = api, service, tenant_id, application_id

    async def wait(self, clock: ShiftedClock, *, seconds: float) -> None:
        """Let time pass, with the turns of those hours taken: the service's own sweeper must not come between."""
        hour = 3600 * 1000
        for turn in (0, 1):
            value = str((clock.now() + seconds * 1000) // hour + turn).partition(".")[0]
            await internals.store(self.service, "one_time_ids").mark_used(
                DEFAULT_TENANT, "sweep", "unverified", value, 3600
            )
        clock.advance(seconds=seconds)

    async def sweep(self) -> None:
        await internals.run(self.service, unverified_user_cleanup.sweep)

    async def change_tenant(self, **members: Any) -> None:
        answer = await self.api.patch(f"/api/tenant/{self.tenant_id}", json={"tenant": members})
        assert answer.status_code == 200, answer.text

    async def change_application(self, **members: Any) -> None:
        answer = await self.api.patch(f"/api/application/{self.application_id}", json={"application": members})
        assert answer.status_code == 200, answer.text

    async def made(self, **members: Any) -> Document:
        user = {"email": f"{new_id()}@example.com", "password": "password", **members.pop("user", {})}
        path, body = "/api/user", {"user": user, **members}
        if "registration" in members:
            path = "/api/user/registration"
        answer = await self.api.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def registered(self, **members: Any) -> Document:
        return await self.made(registration={"applicationId": self.application_id}, skipVerification=True, **members)

    async def verify(self, kind: str, verification_id: str) -> None:
        assert (await self.api.post(f"/api/user/verify-{kind}/{verification_id}")).status_code == 200

    async def is_there(self, made: Document) -> bool:
        return (await self.api.get(f"/api/user/{made['user']['id']}")).status_code == 200

    async def is_registered(self, made: Document) -> bool:
        path = f"/api/user/registration/{made['user']['id']}/{self.application_id}"
        return (await self.api.get(path)).status_code == 200


@pytest.fixture
async def cleanup(service: app.Service, tenant: Document, tenant_api: httpx.AsyncClient) -> AsyncIterator[Cleanup]:
    body = {"application": {
        "name": f"App {new_id()}", "verifyRegistration": True, "verificationEmailTemplateId": EMAIL_TEMPLATE,
        "registrationDeletePolicy": POLICY,
    }}  # fmt: skip
    application = (await tenant_api.post("/api/application", json=body)).json()["application"]
    cleanup = Cleanup(tenant_api, service, tenant["id"], application["id"])
    email = {"verifyEmail": True, "verifyEmailWhenChanged": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    await cleanup.change_tenant(emailConfiguration=email, userDeletePolicy=POLICY)
    yield cleanup
    # The clock of the service is everybody's: what others move it by must not remove what they have just made.
    await cleanup.change_tenant(userDeletePolicy={"unverified": {"enabled": False}})
    await cleanup.change_application(registrationDeletePolicy={"unverified": {"enabled": False}})


@pytest.mark.requirement("users-8-21")
async def test_unverified_user_is_deleted_after_the_configured_days(cleanup: Cleanup, clock) -> None:
    made, verified, skipped = await cleanup.made(), await cleanup.made(), await cleanup.made(skipVerification=True)
    await cleanup.verify("email", verified["emailVerificationId"])
    nameless = await cleanup.made(user={"email": None, "username": f"name-{new_id()}"})
    await cleanup.wait(clock, seconds=DAYS * DAY - 60)
    await cleanup.sweep()
    assert await cleanup.is_there(made)
    await cleanup.wait(clock, seconds=120)
    await cleanup.sweep()
    assert not await cleanup.is_there(made)
    assert all([await cleanup.is_there(one) for one in (verified, skipped, nameless)])


@pytest.mark.requirement("console-25")
async def test_administrator_stays_whatever_the_tenant_deletes(service, api, clock) -> None:
    """Otherwise whoever may change the tenant would delete administrators who have not verified their address."""
    default = await api.get(f"/api/tenant/{DEFAULT_TENANT}")
    cleanup = Cleanup(api, service, DEFAULT_TENANT, "")
    email = {"verifyEmail": True, "verificationEmailTemplateId": EMAIL_TEMPLATE}
    await cleanup.change_tenant(emailConfiguration=email, userDeletePolicy=POLICY)
    try:
        ordinary = await cleanup.made()
        registration = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "roles": ["admin"]}
        made = await cleanup.made(registration=registration)
        await cleanup.wait(clock, seconds=DAYS * DAY + 60)
        await cleanup.sweep()
        assert not await cleanup.is_there(ordinary)
        assert await cleanup.is_there(made)
        await api.delete(f"/api/user/{made['user']['id']}", params={"hardDelete": "true"})
    finally:
        await api.put(f"/api/tenant/{DEFAULT_TENANT}", json={"tenant": default.json()["tenant"]})


async def test_new_address_restarts_the_period(cleanup: Cleanup, clock) -> None:
    young, old = await cleanup.made(), await cleanup.made()
    await cleanup.verify("email", old["emailVerificationId"])
    await cleanup.wait(clock, seconds=(DAYS - 1) * DAY)
    for made in (young, old):
        change = {"user": {"email": f"{new_id()}@example.com"}}
        assert (await cleanup.api.patch(f"/api/user/{made['user']['id']}", json=change)).status_code == 200
    await cleanup.wait(clock, seconds=2 * DAY)
    await cleanup.sweep()
    assert await cleanup.is_there(young)
    await cleanup.wait(clock, seconds=DAYS * DAY)
    await cleanup.sweep()
    assert not await cleanup.is_there(young) and await cleanup.is_there(old)


@pytest.mark.requirement("users-8-21")
async def test_disabled_policy_deletes_no_user(cleanup: Cleanup, clock) -> None:
    made, registered = await cleanup.made(), await cleanup.registered()
    await cleanup.wait(clock, seconds=(DAYS + 1) * DAY)
    await cleanup.change_tenant(userDeletePolicy={"unverified": {"enabled": False}})
    await cleanup.change_application(registrationDeletePolicy={"unverified": {"enabled": False}})
    await cleanup.sweep()
    await cleanup.change_tenant(userDeletePolicy=POLICY, emailConfiguration={"verifyEmail": False})
    await cleanup.change_application(registrationDeletePolicy=POLICY, verifyRegistration=False)
    await cleanup.sweep()
    assert await cleanup.is_there(made) and await cleanup.is_registered(registered)


@pytest.mark.requirement("users-8-22")
async def test_unverified_registration_is_deleted_without_its_user(cleanup: Cleanup, clock) -> None:
    made, verified = await cleanup.registered(), await cleanup.registered()
    await cleanup.verify("registration", verified["registrationVerificationId"])
    skipped = await cleanup.registered(skipRegistrationVerification=True)
    await cleanup.wait(clock, seconds=DAYS * DAY - 60)
    await cleanup.sweep()
    assert await cleanup.is_registered(made)
    await cleanup.wait(clock, seconds=120)
    await cleanup.sweep()
    assert not await cleanup.is_registered(made) and await cleanup.is_there(made)
    assert await cleanup.is_registered(verified) and await cleanup.is_registered(skipped)


@pytest.mark.requirement("event-user.delete", "users-8-23")
async def test_concurrent_sweeps_send_one_event(cleanup: Cleanup, clock) -> None:
    made, registered = await cleanup.made(), await cleanup.registered()
    await cleanup.wait(clock, seconds=(DAYS + 1) * DAY)
    async with receiving() as receiver:
        subscriber = Subscriber(cleanup.api, receiver, cleanup.tenant_id)
        kinds = [f"user.{what}{when}" for what in ("delete", "registration.delete") for when in ("", ".complete")]
        await subscriber.subscribe(kinds)
        await asyncio.gather(*(cleanup.sweep() for _ in range(3)))
        events = await subscriber.received(*kinds)
    for event, who in zip(events, (made, made, registered, registered), strict=True):
        assert event["user"]["id"] == event["linkedObjectId"] == who["user"]["id"]
    assert events[2]["registration"]["applicationId"] == events[2]["applicationId"] == cleanup.application_id


@pytest.mark.requirement("users-8-23")
async def test_vetoed_deletion_is_retried_and_others_proceed(cleanup: Cleanup, clock) -> None:
    made, registered = await cleanup.made(), await cleanup.registered()
    await cleanup.wait(clock, seconds=(DAYS + 1) * DAY)
    async with receiving(answers(500)) as receiver:
        subscriber = Subscriber(cleanup.api, receiver, cleanup.tenant_id)
        await subscriber.subscribe(["user.delete", "user.registration.delete"], "AbsoluteMajority")
        # Undeliverable mails are retried meanwhile.
        async with unchanged(cleanup.service, cleanup.tenant_id, except_for=("mails ",)):
            await cleanup.sweep()
        await subscriber.received("user.delete", "user.registration.delete")
        receiver.behaviour = answers(200)
        await cleanup.sweep()
        await subscriber.received("user.delete", "user.registration.delete")
    assert not await cleanup.is_there(made) and not await cleanup.is_registered(registered)


@pytest.mark.requirement("users-8-23")
async def test_user_verified_during_approval_is_kept(cleanup: Cleanup, clock) -> None:
    made = await cleanup.made()
    await cleanup.wait(clock, seconds=(DAYS + 1) * DAY)
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def behave(request: Any, writer: Any) -> None:
        is_asked.set()
        await may_answer.wait()
        await answers(200)(request, writer)

    async with receiving(behave) as receiver:
        subscriber = Subscriber(cleanup.api, receiver, cleanup.tenant_id)
        await subscriber.subscribe(["user.delete"], "AbsoluteMajority")
        sweep = asyncio.create_task(cleanup.sweep())
        await is_asked.wait()
        answer = await cleanup.api.post("/api/user/verify-email", json={"userId": made["user"]["id"]})
        assert answer.status_code == 200
        may_answer.set()
        await sweep
    assert await cleanup.is_there(made)


@pytest.mark.requirement("users-8-23")
async def test_several_batches_are_deleted(cleanup: Cleanup, clock, monkeypatch) -> None:
    monkeypatch.setattr(unverified_user_cleanup, "_BATCH", 2)
    made = [await cleanup.made() for _ in range(5)]
    await cleanup.wait(clock, seconds=(DAYS + 1) * DAY)
    await cleanup.sweep()
    assert not any([await cleanup.is_there(one) for one in made])


async def test_one_process_sweeps_per_hour(cleanup: Cleanup, clock) -> None:
    made = await cleanup.made()
    await cleanup.change_tenant(userDeletePolicy={"unverified": {"enabled": False}})
    clock.advance(seconds=3 * 365 * DAY)  # an hour that no other test uses
    await internals.run(cleanup.service, unverified_user_cleanup.sweep_hourly)
    await cleanup.change_tenant(userDeletePolicy=POLICY)
    await internals.run(cleanup.service, unverified_user_cleanup.sweep_hourly)
    assert await cleanup.is_there(made)
    clock.advance(seconds=3600)
    await internals.run(cleanup.service, unverified_user_cleanup.sweep_hourly)
    assert not await cleanup.is_there(made)


@pytest.mark.requirement("users-2.1-13")
async def test_orphaned_children_are_deleted_if_configured(cleanup: Cleanup, clock) -> None:
    parent = await cleanup.made(user={"birthDate": "1980-01-01"}, skipVerification=True)
    relative = await cleanup.made(user={"birthDate": "1980-01-01"}, skipVerification=True)
    child = {"birthDate": birth_date(9), "parentEmail": parent["user"]["email"]}
    alone, with_relative, taken_in = [await cleanup.made(user=dict(child), skipVerification=True) for _ in range(3)]
    await cleanup.change_tenant(familyConfiguration={"enabled": True, "deleteOrphanedAccountsDays": DAYS})
    for owner, member in ((relative, with_relative), (parent, taken_in)):
        family = await make_family(cleanup.api, owner["user"])
        assert (await put(cleanup.api, family, member["user"], role="Child")).status_code == 200
    await cleanup.wait(clock, seconds=DAYS * DAY - 60)
    await cleanup.change_tenant(familyConfiguration={"deleteOrphanedAccounts": True})
    await cleanup.sweep()
    assert await cleanup.is_there(alone)
    await cleanup.wait(clock, seconds=120)
    await cleanup.change_tenant(familyConfiguration={"deleteOrphanedAccounts": False})
    await cleanup.sweep()
    assert await cleanup.is_there(alone)
    await cleanup.change_tenant(familyConfiguration={"deleteOrphanedAccounts": True})
    async with receiving(answers(200)) as receiver:
        subscriber = Subscriber(cleanup.api, receiver, cleanup.tenant_id)
        await subscriber.subscribe(["user.delete", "user.delete.complete"])
        await cleanup.sweep()
        events = await subscriber.received("user.delete", "user.delete.complete")
    assert [event["user"]["id"] for event in events] == [alone["user"]["id"]] * 2
    assert [await cleanup.is_there(one) for one in (alone, with_relative, taken_in, parent)] == [
        False,
        True,
        True,
        True,
    ]
