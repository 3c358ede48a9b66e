"""`event.info`: the origin of the request that caused an event."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import ip_addresses
from identity.errors import Invalid

_TEXTS = ("deviceDescription", "deviceName", "deviceType", "ipAddress", "os", "userAgent")
_PLACE = ("city", "country", "region", "zipcode")
_COORDINATES = {"latitude": 90, "longitude": 180}
_LONGEST_NAME = 255
_LONGEST_TEXT = 1000
_MOST_DATA_BYTES = 10_000
"""The maximum length of texts from callers without an API key, because they are stored with every event."""


Locate = Callable[[str], Document | None]
"""Finds the location of an address: its members, or None."""


def build(call: Call, locate: Locate | None = None) -> Document:
    """Return the caller's `eventInfo`, completed with the address and user agent of the request.

    Callers with an API key, such as a backend that logs a user in, may state `ipAddress` and `location`. From other
    callers both are ignored, as are long values. The location of the address is used if none is stated. Members of
    another name or type are dropped.
    """
    given = call.event_info
    info: Document = {name: given[name] for name in _TEXTS if isinstance(given.get(name), str) and given[name]}
    if isinstance(given.get("data"), dict):
        info["data"] = given["data"]
    if not call.may_state_origin:
        info = {name: value for name, value in info.items() if name != "ipAddress" and not _is_long(value)}
    elif isinstance(given.get("location"), dict) and (location := _location(given["location"])):
        info["location"] = location
    for name, value in (("ipAddress", call.origin.ip_address), ("userAgent", call.origin.user_agent)):
        if name not in info and value:
            info[name] = value
    if locate is not None and "location" not in info and (found := locate(info.get("ipAddress", ""))):
        info["location"] = _location(found)
    return info


def validated(info: Document) -> Document:
    """Return the `eventInfo` of a caller that may state the address, with the address in canonical form.

    Raises Invalid for an `ipAddress` that is not an IP address; a blank one, or one that is not a string, counts as
    absent.
    """
    stated = info.get("ipAddress")
    if not isinstance(stated, str) or not stated.strip():
        return {name: value for name, value in info.items() if name != "ipAddress"}
    return {**info, "ipAddress": address(stated, "eventInfo.ipAddress")}


def address(text: str, path: str) -> str:
    """Return the canonical form of an IP address in the member `path`. Raises Invalid."""
    found = ip_addresses.canonical(text)
    if found is None:
        raise Invalid.field("invalid", path, f"The [{path}] must be an IPv4 or IPv6 address.")
    return found


def _is_long(value: str | Document) -> bool:
    return len(value) > _LONGEST_TEXT if isinstance(value, str) else len(json.dumps(value)) > _MOST_DATA_BYTES


def _location(given: Mapping[str, Any]) -> Document:
    place: Document = {name: given[name] for name in _PLACE if _is_name(given.get(name))}
    for name, furthest in _COORDINATES.items():
        value = given.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and -furthest <= value <= furthest:
            place[name] = value
    shown = ", ".join(place[name] for name in ("city", "region", "country") if name in place)
    return {**place, "displayString": shown} if shown else place


def _is_name(value: object) -> bool:
    """Return whether a stated location is valid; its texts are limited because they are stored with every login."""
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME
