"""Mails survive the death of the process, during a delivery and during an outage of the mail server."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests import plain_http
from tests.mailbox import Mailbox, receiving
from tests.operator.processes import Process

KEY = "the-key-of-this-test-0123456789012345678901"
TEMPLATE = "5c1a4f5e-0f7e-4d3a-9a52-6d1d6e0a0003"
READERS = [f"reader{number}@example.com" for number in range(8)]


LEASE_SECONDS = 60
"""After so long the leases of a killed process have expired."""


def kickstart(port: int) -> str:
    """An instance with a template, whose default tenant sends its mail to a port."""
    template = {"name": "A mail", "defaultSubject": "s", "defaultHtmlTemplate": "h", "defaultTextTemplate": "t"}
    configuration = {"host": "127.0.0.1", "port": port, "defaultFromEmail": "service@example.com"}
    requests = [
        {"method": "POST", "url": f"/api/email/template/{TEMPLATE}", "body": {"emailTemplate": template}},
        {
            "method": "PATCH",
            "url": "/api/tenant/#{FUSIONAUTH_TENANT_ID}",
            "body": {"tenant": {"emailConfiguration": configuration}},
        },
    ]
    return json.dumps({"apiKeys": [{"key": KEY}], "requests": requests})


async def start(folder: Path, port: int, **settings: int) -> Process:
    file = folder / "kickstart.json"
    file.write_text(kickstart(port))
    process = Process(
        folder / "var",
        kickstart__file=file,
        email__allowed_networks='["127.0.0.1/32"]',
        email__timeout_seconds=2,
        email__schedule=json.dumps([1] * 30),
        **settings,
    )
    await asyncio.to_thread(process.wait_until_ready)
    return process


async def send(process: Process) -> None:
    async with plain_http.client(process.url, headers={"Authorization": KEY}) as api:
        body = {"toAddresses": [{"address": address} for address in READERS]}
        answer = await api.post(f"/api/email/send/{TEMPLATE}", json=body)
    assert (answer.status_code, answer.json()) == (202, {})


async def stop(process: Process, number: int) -> None:
    await asyncio.to_thread(process.stop, number)
    process.output.close()


def has_reached_everybody(mailbox: Mailbox) -> bool:
    return {mail.recipients[0] for mail in mailbox.mails} == set(READERS)


@pytest.mark.requirement("core-18-templates-17")
async def test_killed_in_the_middle_loses_no_mail_and_repeats_only_under_the_same_id(tmp_path: Path) -> None:
    async with receiving() as mailbox:
        mailbox.hangs = True
        process = await start(tmp_path, mailbox.port)
        await send(process)
        await mailbox.until(lambda: mailbox.connections > 0)
        await stop(process, signal.SIGKILL)
        mailbox.hangs = False
        process = await start(tmp_path, mailbox.port, ahead_seconds=LEASE_SECONDS)
        await mailbox.until(lambda: has_reached_everybody(mailbox))
        await stop(process, signal.SIGTERM)
    assert len({mail.message["Message-ID"] for mail in mailbox.mails}) == len(READERS)


@pytest.mark.requirement("core-18-templates-17")
async def test_recovered_mail_server_gets_all_mails(tmp_path: Path) -> None:
    async with receiving() as gone:
        port = gone.port
    process = await start(tmp_path, port)
    await send(process)
    await stop(process, signal.SIGKILL)
    process = await start(tmp_path, port, ahead_seconds=LEASE_SECONDS)
    async with receiving(port=port) as back:
        await back.until(lambda: has_reached_everybody(back))
        await stop(process, signal.SIGTERM)
