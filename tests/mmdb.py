"""Writes small MaxMind files for tests (MaxMind DB file format 2.0): a tree of addresses, and records behind it."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_RECORD_BITS = 24
_SEPARATOR = bytes(16)
_METADATA = b"\xab\xcd\xefMaxMind.com"


class _Long(int):
    """A number of 32 bits; others have 16."""


class _Wide(int):
    """A number of 64 bits."""


def write(file: Path, records: Mapping[str, Any]) -> Path:
    """A file that has a record for each of these networks of IPv4."""
    nodes: list[list[int | bytes | None]] = [[None, None]]
    for network, record in records.items():
        _put(nodes, ipaddress.IPv4Network(network), _encoded(record))
    data, offsets = b"", dict[bytes, int]()
    for node in nodes:
        for leaf in node:
            if isinstance(leaf, bytes) and leaf not in offsets:
                offsets[leaf] = len(data)
                data += leaf
    tree = b"".join(_pointer(leaf, len(nodes), offsets) for node in nodes for leaf in node)
    about = {
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": _Wide(1_700_000_000),
        "database_type": "Test-City",
        "description": {"en": "A test"},
        "ip_version": 4,
        "languages": ["en"],
        "node_count": _Long(len(nodes)),
        "record_size": _RECORD_BITS,
    }
    file.write_bytes(tree + _SEPARATOR + data + _METADATA + _encoded(about))
    return file


def _put(nodes: list[list[int | bytes | None]], network: ipaddress.IPv4Network, record: bytes) -> None:
    bits = f"{int(network.network_address):032b}"[: network.prefixlen]
    here = 0
    for bit in map(int, bits[:-1]):
        step = nodes[here][bit]
        if not isinstance(step, int):
            nodes.append([None, None])
            step = nodes[here][bit] = len(nodes) - 1
        here = step
    nodes[here][int(bits[-1])] = record


def _pointer(leaf: int | bytes | None, count: int, offsets: Mapping[bytes, int]) -> bytes:
    value = count if leaf is None else leaf
    if isinstance(value, bytes):
        value = count + len(_SEPARATOR) + offsets[value]
    return value.to_bytes(_RECORD_BITS // 8, "big")


def _encoded(value: Any) -> bytes:
    if isinstance(value, Mapping):
        return _control(7, len(value)) + b"".join(_encoded(name) + _encoded(one) for name, one in value.items())
    if isinstance(value, list):
        return _control(11, len(value)) + b"".join(map(_encoded, value))
    if isinstance(value, float):
        return _control(3, 8) + struct.pack(">d", value)
    if isinstance(value, int):
        raw = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
        kind = {_Long: 6, _Wide: 9}.get(type(value), 5)
        return _control(kind, len(raw)) + raw
    raw = str(value).encode()
    return _control(2, len(raw)) + raw


def _control(kind: int, size: int) -> bytes:
    """The byte or two before a value; sizes beyond 28 take one more."""
    short, rest = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return bytes([kind << 5 | short]) + rest if kind < 8 else bytes([short, kind - 7]) + rest


BERLIN = {
    "city": {"names": {"en": "Berlin"}},
    "country": {"iso_code": "DE"},
    "location": {"latitude": 52.52, "longitude": 13.405},
    "postal": {"code": "10117"},
    "subdivisions": [{"iso_code": "BE"}],
}
SYDNEY = {
    "city": {"names": {"en": "Sydney"}},
    "country": {"iso_code": "AU"},
    "location": {"latitude": -33.87, "longitude": 151.21},
}
"""City records of two places that are too far apart for an hour's travel."""
