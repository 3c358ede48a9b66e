"""Receiver faults in background deliveries and in transactions; none of them blocks other receivers.

receiver_faults.py defines the expected result of each attempt; the tests check how the service handles it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from identity.errors import WebhookTransactionFailed
from identity.events.changes import Event
from identity.ids import Secret
from identity.operations.webhooks.webhook_event_logs import attempt_response
from identity.outbound.http import HttpClient
from tests import certificates
from tests.events.conftest import LOOPBACK
from tests.events.receiver_faults import CLIENT_KEY, SCHEDULED_SECONDS, Fault, faults
from tests.events.samples import PAYLOADS
from tests.receiver import receiving, until

CREATE = Event("user.create", PAYLOADS["user.create"])
LONG_MS = 20_000
"""Timeouts for receivers that answer, sufficient for a busy machine."""


@pytest.fixture
async def encrypting(engine: Any, tmp_path: Path) -> AsyncIterator[Any]:
    """The engine with the certificate authority of the tests and a client certificate."""
    file = tmp_path / "ca.pem"
    file.write_text(certificates.authority().pem)
    await engine.http.close()
    engine.http = HttpClient(allowed_networks=LOOPBACK, ca_file=file)
    client = certificates.make("client", certificates.authority(), address=None)

    async def client_certificate(key_id: str) -> tuple[str, Secret]:
        if key_id != CLIENT_KEY:
            raise LookupError(key_id)
        return client.pem, Secret(client.key_pem)

    engine.client_certificate = client_certificate
    yield engine
    await engine.http.close()


@contextlib.asynccontextmanager
async def facing(engine: Any) -> AsyncIterator[dict[str, Fault]]:
    """A webhook for each fault: webhook id -> fault."""
    async with contextlib.AsyncExitStack() as stack:
        met = {}
        for fault in faults():
            timeouts = {"connectTimeout": LONG_MS, "readTimeout": LONG_MS}
            url = await stack.enter_async_context(fault.running())
            webhook = engine.add_webhook(url, "user.create", **{**timeouts, **fault.webhook})
            met[webhook["id"]] = fault
        yield met


async def deliveries(engine: Any) -> dict[str, dict[str, Any]]:
    """Webhook id -> its one delivery."""
    return {row["webhookId"]: dict(row) async for row in engine.database.collection("deliveries").find({})}


def problems(fault: Fault, row: dict[str, Any]) -> list[str]:
    """The differences from the table in the logged attempt and in the next one."""
    if len(row["attempts"]) != 1:
        return [f"{len(row['attempts'])} attempts"]
    attempt = attempt_response(row["webhookId"], row["attempts"][0], 1)
    said, data = attempt["webhookCallResponse"], attempt["data"]
    wanted = -1 if fault.status is None else fault.status
    found = [] if said["statusCode"] == wanted else [f"status {said['statusCode']}: {said.get('exception')}"]
    kind, _, words = said.get("exception", "").partition(": ")
    if kind not in (fault.kinds or ("",)) or bool(words) != bool(fault.kinds):
        found.append(f"exception {said.get('exception')}")
    if fault.answer is not None and data.get("responseBody", "") != fault.answer:
        found.append(f"answer {data.get('responseBody')!r:.100}")
    if attempt["attemptResult"] != ("Success" if fault.succeeds else "Failure"):
        found.append(attempt["attemptResult"])
    return found + _continuation(fault, row, attempt)


def _continuation(fault: Fault, row: dict[str, Any], attempt: dict[str, Any]) -> list[str]:
    """Whether it is retried or given up as expected."""
    if fault.ends:
        state = "succeeded" if fault.succeeds else "given up"
        return [] if (row["state"], "nextAttempt" in row) == (state, False) else [row["state"]]
    next_attempt = attempt["data"].get("nextAttemptInstant", 0)
    wait_seconds = (next_attempt - attempt["endInstant"]) / 1000
    is_right = row["state"] == "due" and next_attempt == row.get("nextAttempt")
    return [] if is_right and fault.waits_about(wait_seconds) else [f"{row['state']}, again in {wait_seconds} s"]


@pytest.mark.requirement(
    "webhooks-15.3-1",
    "webhooks-15.3-24",
    "webhooks-faults-1",
    "webhooks-faults-10",
    "webhooks-faults-11",
    "webhooks-faults-12",
    "webhooks-faults-2",
    "webhooks-faults-3",
    "webhooks-faults-4",
    "webhooks-faults-5",
    "webhooks-faults-6",
    "webhooks-faults-7",
    "webhooks-faults-8",
    "webhooks-faults-9",
)
async def test_every_fault_is_logged_and_retried_and_blocks_no_other(encrypting: Any) -> None:
    engine = encrypting
    engine.enable("user.create")
    async with receiving() as good, facing(engine) as met:
        well = engine.add_webhook(good.url, "user.create")
        await engine.bus.announce(engine.call(), [CREATE])
        async with engine.working():
            await good.wait_for(1)
            await until(lambda: _all_tried(engine))
        rows = await deliveries(engine)
    assert rows[well["id"]]["state"] == "succeeded"
    assert {met[key].name: found for key in met if (found := problems(met[key], rows[key]))} == {}


async def _all_tried(engine: Any) -> bool:
    return all(attempts for _, attempts in await engine.states())


@pytest.mark.requirement(
    "webhooks-faults-1",
    "webhooks-faults-10",
    "webhooks-faults-11",
    "webhooks-faults-12",
    "webhooks-faults-2",
    "webhooks-faults-3",
    "webhooks-faults-4",
    "webhooks-faults-5",
    "webhooks-faults-6",
    "webhooks-faults-7",
    "webhooks-faults-8",
    "webhooks-faults-9",
)
async def test_failed_approval_request_counts_as_the_first_attempt(
    encrypting: Any,
) -> None:
    engine = encrypting
    engine.enable("user.create", transaction="Any")
    async with receiving() as good, facing(engine) as met:
        well = engine.add_webhook(good.url, "user.create")
        await engine.bus.request_approval(engine.call(), [CREATE])
        rows = await deliveries(engine)
    assert rows[well["id"]]["state"] == "succeeded"
    # Who must agree is not dropped because something in between says 410 once: a delivery finds out whether it is so.
    met = {key: dataclasses.replace(each, wait_seconds=SCHEDULED_SECONDS) if each.status == 410 else each
           for key, each in met.items()}  # fmt: skip
    assert {met[key].name: found for key in met if (found := problems(met[key], rows[key]))} == {}


@pytest.mark.requirement(
    "webhooks-faults-1",
    "webhooks-faults-10",
    "webhooks-faults-11",
    "webhooks-faults-12",
    "webhooks-faults-2",
    "webhooks-faults-3",
    "webhooks-faults-4",
    "webhooks-faults-5",
    "webhooks-faults-6",
    "webhooks-faults-7",
    "webhooks-faults-8",
    "webhooks-faults-9",
)
async def test_every_fault_of_a_transactional_receiver_is_a_veto(encrypting: Any) -> None:
    engine = encrypting
    engine.enable("user.create", transaction="AbsoluteMajority")
    async with facing(engine) as met:
        by_id = {webhook["id"]: webhook for webhook in engine.webhooks}
        results = await asyncio.gather(*(_agrees(engine, by_id[key]) for key in met))
        rows = await deliveries(engine)
    agreed = {fault.name: result for fault, result in zip(met.values(), results, strict=True)}
    assert agreed == {fault.name: fault.succeeds for fault in met.values()}
    ended = {fault.name: rows[key]["state"] for key, fault in met.items()}
    assert ended == {fault.name: "succeeded" if fault.succeeds else "vetoed" for fault in met.values()}
    assert all(len(row["attempts"]) == 1 and "nextAttempt" not in row for row in rows.values())


async def _agrees(engine: Any, webhook: dict[str, Any]) -> bool:
    """Whether a change is made that requires the approval of this webhook."""
    alone = dataclasses.replace(engine, webhooks=[webhook], registry=prometheus_client.CollectorRegistry())
    try:
        await alone.bus.request_approval(alone.call(), [CREATE])
    except WebhookTransactionFailed:
        return False
    return True
