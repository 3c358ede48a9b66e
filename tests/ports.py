"""Free ports for programs that tests start."""

from __future__ import annotations

import contextlib
import secrets
import socket
from pathlib import Path

_LOWEST = 10_000


def free_port() -> int:
    """A port that no program of this machine uses.

    It is below those that the system chooses for connections, which could take it before the program listens.
    """
    chosen_by_system = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = _LOWEST + secrets.randbelow(chosen_by_system - _LOWEST)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
