"""Configured headers: validation and sending (attack 62)."""

from __future__ import annotations

import pytest

from identity.domain.webhooks.webhook_headers import problem, sendable, unsendable


@pytest.mark.requirement("attack-62", "webhooks-2-8")
@pytest.mark.parametrize(
    "headers",
    [
        {"": "x"},
        {"  ": "x"},
        {"X-A\r\nX-B": "x"},
        {"X-A\n": "x"},
        {"X-A": "x\r\nX-B: y"},
        {"X-A": "x\ny"},
        {"X-A": "x\0"},
        {"X-A\0": "x"},
        {"X-A: x": "y"},
        {"Host": "evil"},
        {"host": "evil"},
        {" Host ": "evil"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Expect": "100-continue"},
        {"X-FusionAuth-Signature-JWT": "forged"},
        {"x-fusionauth-signature-jwt": "forged"},
        {"Webhook-Signature": "forged"},
        {"webhook-id": "forged"},
        {"WEBHOOK-TIMESTAMP": "0"},
        {"Webhook-Via": "0123456789abcdef"},
        {"TraceParent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"tracestate": "a=b"},
    ],
)
def test_attack_62_reserved_headers_are_rejected(headers: dict[str, str]) -> None:
    assert problem(headers) is not None


def test_ordinary_headers_pass() -> None:
    headers = {"Authorization": "Bearer x", "X-Empty": "", "Header 1": "value 1", "Content-Type": "text/plain"}
    assert problem(headers) is None


@pytest.mark.requirement("webhooks-2-7")
def test_invalid_header_name_is_stored_but_not_sent() -> None:
    headers = {"Header 1": "value 1", "X-Good": "yes"}
    assert sendable(headers) == {"X-Good": "yes"}
    assert unsendable(headers) == ["Header 1"]


def test_content_type_cannot_be_configured() -> None:
    assert sendable({"content-type": "text/plain", "X-A": "1"}) == {"X-A": "1"}


def test_last_header_wins_case_insensitively() -> None:
    assert sendable({"X-A": "1", "x-a": "2"}) == {"x-a": "2"}
