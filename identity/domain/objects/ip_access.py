"""IP access control lists: access of an address, and validation of the entries."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable

from identity.call import Document
from identity.errors import FieldError

DEFAULT = "*"

_PATH = "ipAccessControlList.entries"


def allows(entries: Iterable[Document], address: str) -> bool:
    """Return whether the list allows an address: by the range that contains it, or else by the default entry.

    Ranges are IPv4, so that the default entry applies to any other address.
    """
    verdict = "Block"
    number = _number(address)
    for entry in entries:
        if entry["startIPAddress"] == DEFAULT:
            verdict = entry["action"]
        elif number is not None and _start(entry) <= number <= _end(entry):
            return bool(entry["action"] == "Allow")
    return verdict == "Allow"


def arranged(entries: Iterable[Document]) -> list[Document]:
    """Return the entries as they are stored: the default first, without an end, then the ranges in order."""
    defaults = [{"action": e["action"], "startIPAddress": DEFAULT} for e in entries if e["startIPAddress"] == DEFAULT]
    ranges = [entry for entry in entries if entry["startIPAddress"] != DEFAULT]
    return defaults[:1] + sorted(ranges, key=lambda entry: (_start(entry), _end(entry)))


def problems(entries: list[Document]) -> list[FieldError]:
    """Return the problems of the entries: addresses, order of start and end, the default, overlaps."""
    errors = [error for index, entry in enumerate(entries) for error in _entry_problems(index, entry)]
    if all(entry["startIPAddress"] != DEFAULT for entry in entries):
        errors.append(FieldError.of("missing", _PATH, "One entry must have the start [*]: the default action."))
    if not errors:
        ranges = arranged(entries)[1:]
        if any(_end(one) >= _start(other) for one, other in itertools.pairwise(ranges)):
            errors.append(FieldError.of("invalid", _PATH, "The address ranges overlap."))
    return errors


def _entry_problems(index: int, entry: Document) -> list[FieldError]:
    path = f"{_PATH}[{index}]"
    if entry["startIPAddress"] == DEFAULT:
        return []
    errors = []
    start, end = _number(entry["startIPAddress"]), _number(entry.get("endIPAddress", ""))
    if start is None:
        errors.append(FieldError.of("invalid", f"{path}.startIPAddress", "The start must be an IPv4 address or [*]."))
    if not entry.get("endIPAddress"):
        errors.append(FieldError.missing(f"{path}.endIPAddress", "blank"))
    elif end is None or (start is not None and end < start):
        errors.append(
            FieldError.of("invalid", f"{path}.endIPAddress", "The end must be an IPv4 address, not before the start.")
        )
    return errors


def _start(entry: Document) -> int:
    return int(ipaddress.IPv4Address(entry["startIPAddress"]))


def _end(entry: Document) -> int:
    return int(ipaddress.IPv4Address(entry["endIPAddress"]))


def _number(address: str) -> int | None:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    return int(ip) if isinstance(ip, ipaddress.IPv4Address) else None
