"""The log: two styles, request ids, no secrets, no forged lines."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from identity import logs
from identity.ids import Secret


@pytest.fixture(autouse=True)
def restored():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    names = {name: logging.getLogger(name).level for name in logs._QUIET}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in names.items():
        logging.getLogger(name).setLevel(before)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.fixture
def log():
    stream = io.StringIO()
    logs.configure("info", "json", stream)
    return stream


def entries(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.requirement("project-12")
def test_an_entry_is_one_json_object_with_time_level_logger_and_request_id(log):
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        structlog.get_logger("identity.web").info("request", status=200)
    (entry,) = entries(log)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "event": "request",
        "level": "info",
        "logger": "identity.web",
        "request_id": "r-1",
        "status": 200,
    }


def test_libraries_come_out_in_the_same_form(log):
    logging.getLogger("library").warning("took %d ms", 3)
    (entry,) = entries(log)
    assert (entry["event"], entry["level"], entry["logger"]) == ("took 3 ms", "warning", "library")


def test_a_traceback_is_part_of_its_entry(log):
    try:
        raise ValueError("client_secret=hunter2")
    except ValueError:
        structlog.get_logger().exception("failed")
    (entry,) = entries(log)
    assert "ValueError: client_secret=***" in entry["exception"]


@pytest.mark.requirement("attack-56", "design-state-30")
@pytest.mark.parametrize(
    "value",
    [
        Secret("hunter2"),
        {"password": "hunter2"},
        {"headers": {"Authorization": "hunter2", "Cookie": "sso=hunter2"}},
        [{"nested": ({"client_secret": "hunter2"},)}],
        "GET /oauth2/authorize?client_id=a&code=hunter2&state=s",
        {"changePasswordId": "hunter2", "body": {"oneTimeCode": "hunter2", "trustToken": "hunter2"}},
        "mongodb://identity:hunter2@127.0.0.1/?replicaSet=rs0",
        "redis://:hunter2@cache/0",
        "Authorization: Bearer hunter2hunter2",
        "eyJhbGciOiJSUzI1NiJ9.hunter2.hunter2",
    ],
)
@pytest.mark.parametrize("style", ["json", "console"])
def test_secrets_are_not_logged(value, style):
    stream = io.StringIO()
    logs.configure("debug", style, stream)
    structlog.get_logger("identity").info("message", value=value)
    logging.getLogger("library").info("message %r", value if isinstance(value, str) else logs.mask(value))
    assert "hunter2" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 2


@pytest.mark.requirement("attack-71")
def test_input_cannot_forge_a_line():
    stream = io.StringIO()
    logs.configure("info", "console", stream)
    structlog.get_logger("identity").info("login failed", login_id="a\n2026-01-01 [info] login succeeded\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


FORGED = "a\r\n2026-01-01T00:00:00Z [info     ] login succeeded\x1b[2J\u2028b"


@pytest.mark.requirement("audit-a8-logs")
@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize("logger", ["own", "library", "exception"])
def test_attack_input_in_a_message_cannot_forge_a_line(style, logger):
    """The console renderer escapes values by itself, but writes the message and tracebacks as they are."""
    stream = io.StringIO()
    logs.configure("info", style, stream)
    if logger == "own":
        structlog.get_logger("identity").info(f"login of {FORGED} failed")
    elif logger == "library":
        logging.getLogger("library").warning("login of %s failed", FORGED)
    else:
        try:
            raise ValueError(FORGED)
        except ValueError:
            structlog.get_logger("identity").exception("failed")
    text = stream.getvalue()
    assert "login succeeded" in text
    assert not {"\x1b", "\r", "\u2028"} & set(text)
    if style == "json" or logger != "exception":
        assert text.count("\n") == 1
    assert not any(line.startswith("2026-01-01") for line in text.splitlines())


def test_the_level_can_be_changed_while_running(log):
    logger = structlog.get_logger("identity")
    logger.debug("unseen")
    logs.configure("debug", "json", log)
    logger.debug("seen")
    logging.getLogger("pymongo.command").debug("never seen")
    assert [entry["event"] for entry in entries(log)] == ["seen"]


def test_values_that_json_cannot_represent_are_logged_as_text(log):
    structlog.get_logger().info("odd", value=object, bytes=b"\xff")
    assert entries(log)[0]["value"] == "<class 'object'>"


def lines_of(style: str, logger: str) -> list[str]:
    stream = io.StringIO()
    logs.configure("info", style, stream)
    for reason in ("refused", "a b", "it's", "x=y", "forged\nline", "a token: eyJhbGciOi.eyJzdWIi.c2ln", ""):
        members = {"route": "/api/user/{userId}", "status": 404, "ms": 1.5, "user_id": None, "reason": reason}
        structlog.get_logger(logger).log(logging.INFO, "request", **members)
    return [line.replace(logger, "LOGGER")[27:] for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("style", ["console", "json"])
def test_access_log_has_the_format_of_the_other_entries(style):
    def parsed(lines: list[str]) -> list[object]:
        return [line if style == "console" else line.split("timestamp")[0] for line in lines]

    assert parsed(lines_of(style, logs.ACCESS)) == parsed(lines_of(style, "identity.other"))


@pytest.mark.requirement("operate-15")
def test_an_outage_is_one_entry_in_ten_seconds_with_the_number_of_suppressed_ones(log, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    for _ in range(50):
        structlog.get_logger().warning("a store is unavailable", outage="AutoReconnect")
    structlog.get_logger().warning("a store is unavailable", outage="OOM: the memory limit is reached")
    structlog.get_logger().warning("job queue unavailable", outage="AutoReconnect")
    now[0] += 11
    structlog.get_logger().warning("a store is unavailable", outage="AutoReconnect")
    found = [(entry["event"], entry["outage"][:13], entry.get("suppressed")) for entry in entries(log)]
    assert found == [
        ("a store is unavailable", "AutoReconnect", None),
        ("a store is unavailable", "OOM: the memo", None),
        ("job queue unavailable", "AutoReconnect", None),
        ("a store is unavailable", "AutoReconnect", 49),
    ]


@pytest.mark.requirement("operate-15")
def test_a_traceback_that_repeats_is_written_once(log):
    for number in range(5):
        try:
            raise ValueError(f"number {number}")
        except ValueError:
            structlog.get_logger().exception("request failed", number=number)
    found = entries(log)
    assert [entry["number"] for entry in found] == [0, 1, 2, 3, 4]
    assert ["exception" in entry for entry in found] == [True, False, False, False, False]
    assert {entry.get("error") for entry in found[1:]} == {"ValueError"}
