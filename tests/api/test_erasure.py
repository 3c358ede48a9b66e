"""Erasure of deleted users: a person leaves traces everywhere, is deleted, and a worker leaves nothing but ids."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pymongo.errors import AutoReconnect

from identity import app
from identity.events.catalogue import EVENTS
from identity.ids import new_id
from identity.operations.configuration import tenants
from identity.operations.objects import event_logs
from identity.operations.users import erasure, unverified_user_cleanup
from identity.services import Services
from tests import internals, relying_party, webhooks
from tests.conftest import ROOT, SUPER_KEY, Build, ShiftedClock, checking_client
from tests.receiver import Received, answers, until
from tests.relying_party import PASSWORD, RelyingParty

Document = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Person:
    """A person whose data is found by a unique marker, by two IP addresses and by a phone number."""

    mark: str = dataclasses.field(default_factory=lambda: f"mark{secrets.token_hex(6)}")

    @property
    def email(self) -> str:
        return f"{self.mark}@example.com"

    @property
    def phone(self) -> str:
        return f"+1555{int(self.mark[4:], 16) % 10**7:07}"

    @property
    def address(self) -> str:
        """The address of the browser."""
        return f"2001:db8:1{self.mark[4:7]}:1{self.mark[7:10]}::1"

    @property
    def browser(self) -> dict[str, str]:
        return {"X-Forwarded-For": self.address, "User-Agent": f"Browser/9.1 {self.mark}"}

    @property
    def event_info(self) -> Document:
        """The origin that a backend states."""
        address = self.address.replace("::1", "::2")
        return {"ipAddress": address, "userAgent": f"Backend {self.mark}", "deviceName": f"{self.mark}-phone"}

    @property
    def user(self) -> Document:
        return {
            "email": self.email,
            "username": f"{self.mark}-name",
            "firstName": f"First{self.mark}",
            "fullName": f"First{self.mark} Last{self.mark}",
            "mobilePhone": self.phone,
            "birthDate": "1980-05-17",
            "data": {"note": self.mark},
            "password": PASSWORD,
        }

    @property
    def markers(self) -> tuple[str, ...]:
        return self.mark, self.phone, self.address, str(self.event_info["ipAddress"])


@pytest.fixture
def person() -> Person:
    return Person()


INSTANCE_LOGS = ("audit_logs", "event_logs", "events audit-log.create", "events event-log.create", "deliveries")
"""What the deletion of a tenant does not search: rows of the instance name no tenant."""


@pytest.fixture(scope="module")
def module_clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture(scope="module")
async def service(build: Build, module_clock: ShiftedClock) -> AsyncIterator[app.Service]:
    """A service of its own, whose stores are searched from end to end."""
    settings = {"audit__api_writes": "true", "webhooks__schedule": "[3600, 3600]"}
    async with build(clock=module_clock, **settings) as running:
        yield running


async def send(client: httpx.AsyncClient, method: str, path: str, body: Any = None, **settings: Any) -> Document:
    answer = await client.request(method, path, json=body, **settings)
    assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
    return dict(answer.json()) if answer.content else {}


async def echo(request: Received, writer: Any) -> None:
    """Respond with the event, as receivers do that log what they get."""
    await answers(200, request.body[:8000], [f"X-Echo: {request.event['type']}"])(request, writer)


async def searched(service: app.Service, person: Person) -> list[str]:
    """Return where MongoDB or Redis contain a marker, in any case."""
    database, found = internals.database(service).motor, []
    for name in await database.list_collection_names():
        async for row in database[name].find({}):
            text = json.dumps(row, default=repr, ensure_ascii=False).lower()
            place = f"{name} {row.get('type', '')}"
            found += [f"{place}: {text[max(0, text.index(m) - 80) :][:200]}" for m in person.markers if m in text]
    client = internals.redis(service).client
    async for key in client.scan_iter(match=internals.redis(service).key("*")):
        text = f"{key} {await dumped(client, key)}".lower()
        found += [f"{key}: {marker}" for marker in person.markers if marker in text]
    return found


async def dumped(client: Any, key: str) -> str:
    kind = await client.type(key)
    reads = {"string": client.get, "hash": client.hgetall, "set": client.smembers}
    if kind in reads:
        return str(await reads[kind](key))
    return str(await (client.lrange(key, 0, -1) if kind == "list" else client.zrange(key, 0, -1)))


async def settled(service: app.Service) -> None:
    """Wait until no delivery is due now."""
    deliveries = internals.database(service).collection("deliveries")

    async def due() -> int:
        return int(await deliveries.count_documents({"state": "due", "attempts": []}))

    while await due():
        await asyncio.sleep(0.02)


async def prepared(api: httpx.AsyncClient, receiver_url: str) -> RelyingParty:
    """Return an application in a new tenant, which the client uses from then on; a webhook receives all events."""
    rp = await relying_party.make(api)
    types = sorted(EVENTS)
    tenant_types = [name for name in types if not EVENTS[name].is_of_instance]
    await webhooks.enable_events(api, rp.tenant["id"], tenant_types)
    every = {"global": True, "tenantIds": [], "eventsEnabled": dict.fromkeys(types, True)}
    await webhooks.make_webhook(api, rp.tenant, receiver_url, **every)
    # Mails and text messages stay in their queues: nothing listens at these ports.
    await rp.configure_tenant(
        emailConfiguration={
            "host": "127.0.0.1",
            "port": 1,
            "defaultFromEmail": "service@example.com",
            "forgotPasswordEmailTemplateId": (await template(api))["id"],
        },
        familyConfiguration={"enabled": True, "allowChildRegistrations": True},
    )
    api.headers["X-FusionAuth-TenantId"] = rp.tenant["id"]
    return rp


async def leave_traces(service: app.Service, api: httpx.AsyncClient, rp: RelyingParty, person: Person) -> str:
    """Let the person use everything that stores personal data; return the id."""
    registration = {
        "applicationId": rp.client_id,
        "data": {"card": f"{person.mark}-registration"},
        "username": f"{person.mark}-reg",
    }
    body = {"user": person.user, "registration": registration, "eventInfo": person.event_info}
    user = (await send(api, "POST", "/api/user/registration", body))["user"]
    user_id = str(user["id"])
    login = RelyingParty(rp.tenant, rp.application, user, api)
    async with checking_client(service.base_url, headers=person.browser) as browser:
        tokens = await login.tokens(browser, browser)
        assert (await login.refresh(browser, tokens["refresh_token"])).status_code == 200
        await login.code(browser, nonce=f"{person.mark}-nonce")  # never redeemed
        shown = await login.authorize(
            browser, client_id=rp.client_id, scope="openid", login_hint=person.email, prompt="login"
        )
        assert shown.status_code == 200
        refused = await login.token(browser, grant_type="authorization_code", code="unknown", redirect_uri="https://x")
        assert refused.status_code == 400
        forgotten = {"loginId": person.email, "applicationId": rp.client_id, "state": {"x": f"{person.mark}-state"}}
        await send(api, "POST", "/api/user/forgot-password", {**forgotten, "eventInfo": person.event_info})
    credentials = {"loginId": person.email, "applicationId": rp.client_id, "eventInfo": person.event_info}
    stated = {"ipAddress": person.event_info["ipAddress"]}
    await send(api, "POST", "/api/login", {**credentials, **stated, "password": PASSWORD})
    assert (await api.post("/api/login", json={**credentials, "password": "wrong"})).status_code == 404
    await send(
        api,
        "PATCH",
        f"/api/user/{user_id}",
        {"user": {"data": {"note": f"{person.mark}-2"}}, "eventInfo": person.event_info},
    )
    await send(api, "POST", f"/api/email/send/{(await template(api))['id']}", {"userIds": [user_id]})
    comment = {"userId": user_id, "commenterId": user_id, "comment": f"{person.mark}-comment"}
    await send(api, "POST", "/api/user/comment", {"userComment": comment})
    group = (await send(api, "POST", "/api/group", {"group": {"name": new_id()}}))["group"]
    members = {"members": {group["id"]: [{"userId": user_id, "data": {"x": f"{person.mark}-member"}}]}}
    await send(api, "POST", "/api/group/member", members)
    child = {"username": new_id(), "password": PASSWORD, "parentEmail": person.email, "birthDate": "2020-01-01"}
    await send(api, "POST", "/api/user", {"user": child})
    await send(api, "POST", "/api/user/family", {"familyMember": {"userId": user_id, "role": "Adult"}})
    row = {
        "insertUser": "support@example.com",
        "message": f"Changed the address of {person.email}",
        "reason": f"{person.mark} moved",
        "newValue": {"street": f"{person.mark} street"},
        "oldValue": {"id": user_id},
    }
    await send(api, "POST", "/api/system/audit-log", {"auditLog": row})
    await log_message(service, f"The lambda printed: {json.dumps(person.user)} of {user_id}")
    await log_message(service, f"The server refused\n{person.email}: unknown")
    return user_id


async def template(api: httpx.AsyncClient) -> Document:
    text = "Hello ${user.firstName} ${user.email}"
    parts = {"defaultSubject": "To ${user.firstName}", "defaultHtmlTemplate": text, "defaultTextTemplate": text}
    body = {"emailTemplate": {"name": new_id(), "fromEmail": "service@example.com", **parts}}
    return dict((await send(api, "POST", "/api/email/template", body))["emailTemplate"])


async def log_message(service: app.Service, message: str) -> None:
    await internals.run(service, event_logs.record, internals.call(service), "Debug", message)


async def run_worker(service: app.Service, clock: ShiftedClock) -> None:
    """Let the time pass that requests in progress have, and run the erasure."""
    clock.advance(seconds=erasure.GRACE_SECONDS + 1)
    await internals.run(service, erasure.sweep)


@pytest.fixture
async def glob(service: app.Service) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a key that has all permissions, which creates the tenant of the test."""
    async with checking_client(service.base_url, headers={"Authorization": SUPER_KEY}) as client:
        yield client
        for webhook in (await client.get("/api/webhook")).json()["webhooks"]:
            await client.delete(f"/api/webhook/{webhook['id']}")


async def make_person(api: httpx.AsyncClient, **members: Any) -> str:
    body = {"user": {"email": f"{new_id()}@example.com", "password": PASSWORD, **members}}
    return str((await send(api, "POST", "/api/user", body))["user"]["id"])


async def delete(api: httpx.AsyncClient, user_id: str) -> None:
    await send(api, "DELETE", f"/api/user/{user_id}?hardDelete=true")


async def erasures_of(service: app.Service, rp: RelyingParty) -> int:
    return int(await internals.store(service, "erasures").count(rp.tenant["id"]))


@pytest.mark.requirement("personal-1")
async def test_nothing_but_ids_remains_of_a_deleted_person(service, glob, receiver, module_clock, person) -> None:
    receiver.behaviour = echo
    rp = await prepared(glob, receiver.url)
    user_id = await leave_traces(service, glob, rp, person)
    before = {place.partition(" ")[0].partition(":")[0] for place in await searched(service, person)}
    kinds = {place.split(":")[1] for place in await searched(service, person) if place.count(":") > 2}
    assert before >= {
        "users", "events", "deliveries", "login_records", "refresh_tokens", "audit_logs", "event_logs", "user_comments",
        "group_members",
    }  # fmt: skip
    assert kinds >= {"ticket", "code", "refused-requests", "failed-logins"}
    mails = internals.store(service, "mails")
    assert await mails.count(rp.tenant["id"]) > 0
    await settled(service)
    await delete(glob, user_id)
    await settled(service)
    assert {"user.delete", "user.delete.complete"} <= {request.event["type"] for request in receiver.requests}
    await run_worker(service, module_clock)
    assert "\n".join(await searched(service, person)) == ""
    assert (await mails.count(rp.tenant["id"]), await erasures_of(service, rp)) == (0, 0)
    events = internals.database(service).motor["events"]
    assert await events.count_documents({"linkedObjectId": user_id}) > 5, "the events remain, with their ids"


@pytest.mark.requirement("personal-1")
async def test_pending_deletion_is_delivered_whole_and_erased_afterwards(
    service, glob, receiver, module_clock, person
) -> None:
    rp = await relying_party.make(glob)
    glob.headers["X-FusionAuth-TenantId"] = rp.tenant["id"]
    receiver.behaviour = answers(503)
    await webhooks.subscribe(glob, rp.tenant, receiver.url, ["user.create", "user.delete"])
    user_id = await make_person(glob, email=person.email, firstName=person.user["firstName"])
    await settled(service)
    await delete(glob, user_id)
    await settled(service)
    await run_worker(service, module_clock)
    assert await erasures_of(service, rp) == 1
    before, receiver.behaviour = len(receiver.requests), echo
    module_clock.advance(seconds=6000)
    internals.run(service, wake)
    await until(lambda: {"user.create", "user.delete"} <= {one.event["type"] for one in receiver.requests[before:]})
    delivered = {one.event["type"]: one.event for one in receiver.requests[before:]}
    assert delivered["user.delete"]["user"]["email"] == person.email
    created = delivered["user.create"]
    assert (created["user"]["id"], created["tenantId"]) == (user_id, rp.tenant["id"])
    assert person.mark not in json.dumps(created).lower()
    await all_delivered(service)
    await run_worker(service, module_clock)
    assert "\n".join(await searched(service, person)) == ""
    assert await erasures_of(service, rp) == 0


def wake(services: Services) -> None:
    services.outbound.wake_workers()


async def all_delivered(service: app.Service) -> None:
    deliveries = internals.database(service).collection("deliveries")
    while await deliveries.count_documents({"state": "due"}):
        await asyncio.sleep(0.05)


@pytest.mark.requirement("personal-1")
async def test_interrupted_erasure_is_completed_later(
    service, glob, receiver, module_clock, person, monkeypatch
) -> None:
    rp = await prepared(glob, receiver.url)
    user_id = await leave_traces(service, glob, rp, person)
    await settled(service)
    store = internals.store(service, "login_records")

    async def is_killed(*_arguments: Any) -> None:
        raise AutoReconnect

    with monkeypatch.context() as patch:
        patch.setattr(store, "erase", is_killed)
        answer = await glob.delete(f"/api/user/{user_id}?hardDelete=true")
        assert answer.status_code == 503
    assert await erasures_of(service, rp) == 1
    await settled(service)
    with monkeypatch.context() as patch:
        patch.setattr(internals.store(service, "personal_keys"), "delete_of_users_across_tenants", is_killed)
        with pytest.raises(AutoReconnect):
            await run_worker(service, module_clock)
    await run_worker(service, module_clock)
    assert "\n".join(await searched(service, person)) == ""


@pytest.mark.requirement("personal-1")
async def test_deactivation_erases_nothing(service, glob, receiver, module_clock, person) -> None:
    rp = await prepared(glob, receiver.url)
    user_id = await make_person(glob)
    await send(glob, "DELETE", f"/api/user/{user_id}")
    assert await erasures_of(service, rp) == 0
    await run_worker(service, module_clock)
    found = await webhooks.logs_of(glob, user_id)
    created = next(one["event"] for one in found if one["eventType"] == "user.create")
    assert created["event"]["user"]["email"].endswith("@example.com")


@pytest.mark.requirement("personal-1")
async def test_unverified_user_is_erased_after_cleanup(service, glob, receiver, module_clock, person) -> None:
    rp = await prepared(glob, receiver.url)
    verification = {"verifyEmail": True, "verificationEmailTemplateId": (await template(glob))["id"]}
    policy = {"unverified": {"enabled": True, "numberOfDaysToRetain": 1}}
    await rp.configure_tenant(emailConfiguration=verification, userDeletePolicy=policy)
    await make_person(glob, email=person.email)
    await settled(service)
    module_clock.advance(seconds=2 * 86_400)
    await internals.run(service, unverified_user_cleanup.sweep)
    assert await erasures_of(service, rp) == 1
    await settled(service)
    await run_worker(service, module_clock)
    assert "\n".join(await searched(service, person)) == ""


@pytest.mark.requirement("personal-1")
async def test_deleted_tenant_leaves_no_data_of_its_users(service, glob, receiver, module_clock, person) -> None:
    receiver.behaviour = echo
    rp = await prepared(glob, receiver.url)
    await leave_traces(service, glob, rp, person)
    await settled(service)
    del glob.headers["X-FusionAuth-TenantId"]
    await send(glob, "DELETE", f"/api/tenant/{rp.tenant['id']}?async=true")
    await internals.run(service, tenants.finish_deletions)
    await run_worker(service, module_clock)
    left = [place for place in await searched(service, person) if not place.startswith(INSTANCE_LOGS)]
    assert "\n".join(left) == ""


@pytest.mark.requirement("personal-1")
async def test_other_users_keep_their_data(service, glob, receiver, module_clock, person) -> None:
    rp = await prepared(glob, receiver.url)
    gone, stays = await make_person(glob, email=person.email), await make_person(glob, email="stays@example.com")
    group = (await send(glob, "POST", "/api/group", {"group": {"name": new_id()}}))["group"]
    members = [{"userId": gone, "data": {"x": f"{person.mark}"}}, {"userId": stays, "data": {"x": "of the other"}}]
    await send(glob, "POST", "/api/group/member", {"members": {group["id"]: members}})
    started = {"loginId": "stays@example.com", "applicationId": rp.client_id, "sendForgotPasswordEmail": False}
    change = (await send(glob, "POST", "/api/user/forgot-password", started))["changePasswordId"]
    await settled(service)
    await delete(glob, gone)
    await settled(service)
    await run_worker(service, module_clock)
    assert "\n".join(await searched(service, person)) == ""
    assert (await glob.get(f"/api/user/change-password/{change}")).status_code == 200
    events = internals.database(service).motor["events"]
    added = json.loads((await events.find_one({"linkedObjectId": group["id"], "type": "group.member.add"}))["body"])
    assert [member["userId"] for member in added["event"]["members"]] == [gone, stays]
    assert added["event"]["members"][1]["data"] == {"x": "of the other"}
    created = json.loads((await events.find_one({"linkedObjectId": stays, "type": "user.create"}))["body"])
    assert created["event"]["user"]["email"] == "stays@example.com"


@pytest.mark.requirement("personal-1")
async def test_audit_log_keeps_who_did_what(service, glob, receiver, module_clock, person) -> None:
    await prepared(glob, receiver.url)
    user_id = await make_person(glob, email=person.email)
    body = {
        "auditLog": {
            "insertUser": person.email,
            "message": "Paid a bill",
            "newValue": {"a": 1},
            "data": {"userId": user_id},
        }
    }
    own = (await send(glob, "POST", "/api/system/audit-log", body))["auditLog"]
    await delete(glob, user_id)
    await run_worker(service, module_clock)
    row = (await send(glob, "GET", f"/api/system/audit-log/{own['id']}"))["auditLog"]
    assert row["insertUser"] == user_id
    assert "newValue" not in row
    search = {"search": {"message": f"DELETE /api/user/{user_id}"}}
    (deletion,) = (await send(glob, "POST", "/api/system/audit-log/search", search))["auditLogs"]
    assert (deletion["data"]["method"], deletion["data"]["ipAddress"]) == ("DELETE", "127.0.0.1")


@pytest.mark.requirement("personal-1")
async def test_one_process_erases_in_each_interval(service, module_clock, monkeypatch) -> None:
    store, runs = internals.store(service, "erasures"), []
    find = store.find_users_across_tenants

    async def counted(*arguments: Any) -> Any:
        if arguments[2] == "":  # the first batch of a run
            runs.append(arguments)
        return await find(*arguments)

    monkeypatch.setattr(store, "find_users_across_tenants", counted)
    for interval in (1, 2):
        module_clock.advance(seconds=erasure.INTERVAL_SECONDS)
        await asyncio.gather(*(internals.run(service, erasure.sweep_regularly) for _ in range(8)))
        assert len(runs) == interval


@pytest.mark.requirement("personal-1")
async def test_every_collection_and_key_is_in_the_table_of_the_documentation(service) -> None:
    documented = (ROOT / "docs/users/personal-data.md").read_text()
    collections = await internals.database(service).motor.list_collection_names()
    assert [name for name in collections if f"`{name}`" not in documented] == []
    sources = "".join(path.read_text() for path in (ROOT / "identity/store").glob("*.py"))
    kinds = {*re.findall(r'_redis\.key\(\s*"([a-z-]+)"', sources), "failed-logins", "refused-requests"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in documented] == []
