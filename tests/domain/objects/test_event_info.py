"""`event.info`: stated values take precedence over those of the request."""

from __future__ import annotations

from typing import Any

import pytest

from identity.call import AnonymousCaller, ApiKeyCaller, Call, Caller, Origin
from identity.domain.objects import event_info
from identity.instants import Instant

KEYED = ApiKeyCaller({})


def info(
    given: dict[str, Any], ip_address: str = "192.0.2.7", user_agent: str = "Browser/1", caller: Caller = KEYED
) -> dict[str, Any]:
    call = Call(None, caller, Instant(0), Origin(ip_address, user_agent, "r", "http://x"), given)
    return event_info.build(call)


def test_address_and_user_agent_default_to_the_request() -> None:
    assert info({}) == {"ipAddress": "192.0.2.7", "userAgent": "Browser/1"}


@pytest.mark.requirement("core-1.2-8")
def test_stated_values_take_precedence() -> None:
    assert info({"ipAddress": "198.51.100.1", "os": "Linux"}) == {
        "ipAddress": "198.51.100.1",
        "os": "Linux",
        "userAgent": "Browser/1",
    }


@pytest.mark.requirement("audit-a6")
def test_stated_address_and_location_require_an_api_key() -> None:
    given = {"ipAddress": "198.51.100.1", "location": {"city": "Denver"}, "os": "Linux"}
    assert info(given, caller=AnonymousCaller()) == {"ipAddress": "192.0.2.7", "os": "Linux", "userAgent": "Browser/1"}


def test_complete_event_info_is_retained() -> None:
    assert info({}, "", "") == {}


def test_unknown_and_mistyped_members_are_dropped() -> None:
    given = {"ipAddress": 7, "deviceName": "", "password": "secret", "data": [1], "location": "here"}
    assert info(given) == {"ipAddress": "192.0.2.7", "userAgent": "Browser/1"}


@pytest.mark.requirement("core-1.2-8")
def test_long_values_of_anonymous_callers_are_dropped() -> None:
    long = {"deviceName": "x" * 1001, "os": "x" * 1000, "data": {"a": "x" * 10_000}}
    usual = {"ipAddress": "192.0.2.7", "userAgent": "Browser/1"}
    assert info(long, caller=AnonymousCaller()) == {**usual, "os": "x" * 1000}
    assert info({"data": {"a": "x" * 9000}}, caller=AnonymousCaller())["data"] == {"a": "x" * 9000}
    call = Call(None, ApiKeyCaller({}), Instant(0), Origin("192.0.2.7", "Browser/1", "r", "http://x"), long)
    assert event_info.build(call) == {**usual, **long}


def test_location_gets_its_display_string() -> None:
    location = {"city": "Denver", "country": "US", "latitude": 39.7, "longitude": True, "planet": "Earth"}
    assert info({"location": location, "data": {"a": 1}}) == {
        "data": {"a": 1},
        "ipAddress": "192.0.2.7",
        "location": {"city": "Denver", "country": "US", "displayString": "Denver, US", "latitude": 39.7},
        "userAgent": "Browser/1",
    }


def test_invalid_locations_are_dropped() -> None:
    given = {"city": "x" * 256, "region": "CO", "latitude": 90.1, "longitude": -180}
    assert info({"location": given})["location"] == {"displayString": "CO", "longitude": -180, "region": "CO"}
    assert "location" not in info({"location": {"latitude": 10**400, "city": ""}})


def test_location_defaults_to_that_of_the_address() -> None:
    def locate(address: str) -> dict[str, Any] | None:
        return {"city": "Denver"} if address == "198.51.100.1" else None

    def located(given: dict[str, Any]) -> Any:
        call = Call(None, KEYED, Instant(0), Origin("192.0.2.7", "", "r", "http://x"), given)
        return event_info.build(call, locate).get("location")

    assert located({"ipAddress": "198.51.100.1"}) == {"city": "Denver", "displayString": "Denver"}
    assert located({"ipAddress": "198.51.100.1", "location": {"city": "Paris"}})["city"] == "Paris"
    assert located({}) is None
