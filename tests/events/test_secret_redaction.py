"""Receivers that echo requests: the log contains the response without credentials."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from identity.domain.objects import secret_masking
from identity.events.changes import Event
from tests.events.samples import PAYLOADS
from tests.receiver import answers, receiving


async def echo(request: Any, writer: asyncio.StreamWriter) -> None:
    """Like request inspection services."""
    found = "\n".join(f"{name}: {value}" for name, value in request.header_list).encode() + b"\n" + request.body
    sent = {name.lower(): value for name, value in request.header_list}
    await answers(200, found, [f"X-Seen: {sent.get('authorization', '')}", "Content-Type: text/plain"])(request, writer)


async def attempt(engine: Any, event_type: str, **webhook: Any) -> dict[str, Any]:
    engine.enable(event_type)
    async with receiving(echo) as receiver, engine.working():
        engine.add_webhook(receiver.url, event_type, **webhook)
        await engine.bus.announce(engine.call(), [Event(event_type, PAYLOADS[event_type])])
        while await engine.states() != [("succeeded", 1)]:
            await asyncio.sleep(0.02)
    (found,) = await engine.log.find_all(None, {})
    kept: dict[str, Any] = found["deliveries"][0]["attempts"][0]
    return kept


@pytest.mark.requirement("webhooks-15.2-18")
async def test_echoed_basic_credentials_are_redacted(engine: Any) -> None:
    kept = await attempt(
        engine, "user.create", httpAuthenticationUsername="anna", httpAuthenticationPassword="correct horse"
    )
    pair = base64.b64encode(b"anna:correct horse").decode()
    assert pair not in str(kept)
    assert kept["responseHeaders"]["x-seen"] == "Basic ***"
    assert "Authorization: Basic ***\n" in kept["responseBody"]


@pytest.mark.requirement("webhooks-15.2-18")
async def test_echoed_header_values_are_redacted(engine: Any) -> None:
    headers = {"Authorization": "Bearer 0123456789abcdef", "X-Key": "sesame-sesame", "Accept": "text/plain", "X-N": "7"}
    kept = await attempt(engine, "user.create", headers=headers)
    assert "0123456789abcdef" not in str(kept)
    assert "sesame-sesame" not in str(kept)
    for line in ("Authorization: ***\n", "X-Key: ***\n", "Accept: text/plain\n", "X-N: 7\n"):
        assert line in kept["responseBody"]
    assert kept["responseHeaders"]["content-type"] == "text/plain"


@pytest.mark.requirement("webhooks-15.2-18")
async def test_echoed_tokens_of_an_event_are_redacted(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {"original": "an-old-access-token", "refreshToken": "a-refresh-token", "token": "head.claims.signature"}
    monkeypatch.setitem(PAYLOADS, "jwt.refresh", {**PAYLOADS["jwt.refresh"], **tokens})
    kept = await attempt(engine, "jwt.refresh")
    for name, token in tokens.items():
        assert token not in str(kept)
        assert f'"{name}":"***"' in kept["responseBody"]


SECRET = 'p\u00e4ss/w"rd + <more>'


@pytest.mark.requirement("webhooks-15.2-18")
@pytest.mark.parametrize(
    "written",
    [
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps(text).replace("/", "\\/"),  # as PHP does
        html.escape,
        lambda text: html.escape(text, quote=False),
        urllib.parse.quote,
        urllib.parse.quote_plus,
        lambda text: urllib.parse.quote(text, safe=""),
    ],
    ids=["json", "json-unicode", "php", "html", "html-text", "path", "form", "component"],
)
def test_a_secret_is_found_as_receivers_write_it(written: Callable[[str], str]) -> None:
    text = f"you sent {written(SECRET)}."
    assert secret_masking.redact(text, [SECRET]) == text.replace(written(SECRET).strip('"'), "***")
    assert "more" not in secret_masking.redact(text, [SECRET])


def test_a_secret_that_begins_with_another_leaves_nothing() -> None:
    assert secret_masking.redact("0123456789abcdef", ["0123456789", "0123456789abcdef"]) == "***"
