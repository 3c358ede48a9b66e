"""IP access control lists: judging an address, and the rules that a list's entries must keep."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable

from identity.call import Document
from identity.errors import FieldError

DEFAULT = "*"

_PATH = "ipAccessControlList.entries"


def allows(entries: Iterable[Document], address: str) -> bool:
    """Whether the list lets an address in: the range that holds it decides, else the default entry.

    An address that is not IPv4 is judged by the default alone, because ranges are IPv4.
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
    """The entries as they are stored: one default first, without an end, then the ranges in order."""
    defaults = [{"action": e["action"], "startIPAddress": DEFAULT} for e in entries if e["startIPAddress"] == DEFAULT]
    ranges = [entry for entry in entries if entry["startIPAddress"] != DEFAULT]
    return defaults[:1] + sorted(ranges, key=lambda entry: (_start(entry), _end(entry)))


def problems(entries: list[Document]) -> list[FieldError]:
    """What is wrong with a list's entries: addresses, order of start and end, the default, overlaps."""
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
        errors.append(
            FieldError.of("blank", f"{path}.endIPAddress", f"You must specify the [{path}.endIPAddress] property.")
        )
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
