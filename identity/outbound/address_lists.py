"""The operator's lists of IP addresses with a bad reputation, from files that are read once, at start-up.

A line is an address or a network; blank lines, and what follows a # or ;, are ignored.
"""

from __future__ import annotations

import bisect
import ipaddress
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from identity.errors import StartupError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_COMMENT: Final = re.compile(r"[#;].*")


class AddressLists:
    """The networks of all files, searched in logarithmic time."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        """Raise StartupError for a file that cannot be read, or that has a line which is no address or network."""
        networks = [network for file in files for network in _read(file)]
        self._ranges = {version: _ranges(networks, version) for version in (4, 6)}

    def contains(self, address: str) -> bool:
        """Return whether a list contains an address. An IPv4-mapped IPv6 address is the IPv4 address."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        ip = getattr(ip, "ipv4_mapped", None) or ip
        starts, ends = self._ranges[ip.version]
        index = bisect.bisect_right(starts, int(ip)) - 1
        return index >= 0 and int(ip) <= ends[index]


def _ranges(networks: Iterable[Network], version: int) -> tuple[list[int], list[int]]:
    """Return the first and the last addresses of the merged networks of a version, in ascending order."""
    if version == 4:
        merged: list[Network] = [*ipaddress.collapse_addresses(n for n in networks if n.version == 4)]
    else:
        merged = [*ipaddress.collapse_addresses(n for n in networks if n.version == 6)]
    return [int(network.network_address) for network in merged], [int(net.broadcast_address) for net in merged]


def _read(file: Path) -> list[Network]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"client_risk.blocklist_files: {file} cannot be read: {error}") from error
    networks: list[Network] = []
    for number, line in enumerate(lines, 1):
        text = _COMMENT.sub("", line).strip()
        if not text:
            continue
        try:
            networks.append(ipaddress.ip_network(text, strict=False))
        except ValueError as error:
            message = f"client_risk.blocklist_files: {file}:{number}: {text} is not an address or a network."
            raise StartupError(message) from error
    return networks
