"""Events survive the death of the process, before and during a delivery and with the receiver down."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests import plain_http
from tests.operator.processes import Process
from tests.receiver import Receiver, answers, hangs, receiving, until

KEY = "the-key-of-this-test-0123456789012345678901"
USERS = 12


def kickstart(url: str) -> str:
    """An instance whose default tenant sends events about new users to one webhook."""
    enabled = {name: {"enabled": True} for name in ("user.create", "user.create.complete")}
    events = {"user.create": True, "user.create.complete": True, "kickstart.success": True}
    webhook = {"url": url, "connectTimeout": 500, "readTimeout": 30_000, "global": True, "eventsEnabled": events}
    tenant = {
        "method": "PATCH",
        "url": "/api/tenant/#{FUSIONAUTH_TENANT_ID}",
        "body": {"tenant": {"eventConfiguration": {"events": enabled}}},
    }
    made = {"method": "POST", "url": "/api/webhook", "body": {"webhook": webhook}}
    return json.dumps({"apiKeys": [{"key": KEY}], "requests": [tenant, made]})


async def start(folder: Path, url: str, **settings: int) -> Process:
    file = folder / "kickstart.json"
    file.write_text(kickstart(url))
    process = Process(
        folder / "var",
        kickstart__file=file,
        webhooks__allowed_networks="[127.0.0.0/8]",
        webhooks__lease_seconds=5,
        # What is down is tried again and again: a pause of half a minute would outlast the patience of the test.
        webhooks__breaker_minimum_attempts=1000,
        webhooks__schedule="[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
        **settings,
    )
    await asyncio.to_thread(process.wait_until_ready)
    return process


async def create_users(process: Process) -> list[str]:
    """The ids of users whose creation was acknowledged."""
    async with plain_http.client(process.url, headers={"Authorization": KEY}) as api:
        made = [
            await api.post(
                "/api/user", json={"user": {"email": f"user{number}@example.com", "password": "a good password"}}
            )
            for number in range(USERS)
        ]
    assert all(answer.status_code == 200 for answer in made)
    return [answer.json()["user"]["id"] for answer in made]


def users_by_event(receiver: Receiver, event_type: str) -> dict[str, Any]:
    """Event id -> user id, of the events of a type that arrived, however often."""
    events = [request.event for request in receiver.requests]
    return {event["id"]: event.get("user", {}).get("id") for event in events if event["type"] == event_type}


async def stop(process: Process, number: int) -> None:
    await asyncio.to_thread(process.stop, number)
    process.output.close()


@pytest.mark.requirement("service-24", "webhooks-15.2-1", "webhooks-15.3-38")
async def test_killed_during_deliveries_loses_no_event_and_repeats_only_under_the_same_id(tmp_path: Path) -> None:
    async with receiving(hangs) as receiver:
        process = await start(tmp_path, receiver.url)
        users = await create_users(process)
        await receiver.wait_for(1)
        await stop(process, signal.SIGKILL)
        receiver.behaviour = answers(200)
        process = await start(tmp_path, receiver.url, ahead_seconds=5)  # the leases have expired
        await until(lambda: set(users_by_event(receiver, "user.create.complete").values()) == set(users))
        await until(lambda: set(users_by_event(receiver, "user.create").values()) == set(users))
        assert len(users_by_event(receiver, "user.create")) == USERS
        assert len(users_by_event(receiver, "user.create.complete")) == USERS
        assert len(users_by_event(receiver, "kickstart.success")) == 1
        await stop(process, signal.SIGTERM)


async def test_recovered_receiver_gets_all_events(tmp_path: Path) -> None:
    async with receiving() as receiver:
        port, url = receiver.port, receiver.url
        await receiver.stop()
        process = await start(tmp_path, url)
        users = await create_users(process)
        await stop(process, signal.SIGKILL)
        process = await start(tmp_path, url, ahead_seconds=5)
        await receiver.start(port)
        await until(lambda: set(users_by_event(receiver, "user.create.complete").values()) == set(users))
        await until(lambda: set(users_by_event(receiver, "user.create").values()) == set(users))
        await stop(process, signal.SIGTERM)
