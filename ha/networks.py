"""Servers on a network of their own, whose packets can be dropped: a partition, as a failed switch causes it.

Each server runs in a network namespace with its own address, connected to this machine by a bridge. It takes root, and
the programs `ip` and `iptables` (Debian: iproute2, iptables).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

_DIRECTIONS = ("INPUT", "OUTPUT")


def missing() -> str | None:
    """What this machine lacks for a partition, or None."""
    if os.geteuid() != 0:
        return "root"
    return next((program for program in ("ip", "iptables") if shutil.which(program) is None), None)


class Network:
    """A bridge and the namespaces of its servers, by address."""

    def __init__(self) -> None:
        # Networks of harnesses that run at the same time differ; 198.18.0.0/15 is for benchmarks (RFC 2544).
        self._id = f"ha{os.getpid()}"
        self._prefix = f"198.18.{os.getpid() % 250 + 1}"
        self._namespaces: dict[str, str] = {}

    def start(self) -> None:
        """Create the bridge."""
        _ip("link", "add", self._id, "type", "bridge")
        _ip("address", "add", f"{self._prefix}.1/24", "dev", self._id)
        _ip("link", "set", self._id, "up")

    def add_host(self) -> str:
        """Create a namespace; returns its address."""
        number = len(self._namespaces) + 2
        name, outer, inner = (f"{self._id}{letter}{number}" for letter in "nvw")
        address = f"{self._prefix}.{number}"
        _ip("netns", "add", name)
        self._namespaces[address] = name
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
        _ip("link", "set", outer, "master", self._id, "up")
        _ip("-n", name, "address", "add", f"{address}/24", "dev", inner)
        for device in (inner, "lo"):
            _ip("-n", name, "link", "set", device, "up")
        return address

    def command(self, address: str, command: Sequence[str]) -> list[str]:
        """The command that runs a program on this host."""
        return ["ip", "netns", "exec", self._namespaces[address], *command]

    def isolate(self, address: str) -> None:
        """Drop all packets to and from this host: connections stay open, and no error tells either side."""
        self._change_rules(address, "-A")

    def reconnect(self, address: str) -> None:
        """End the partition."""
        self._change_rules(address, "-D")

    def stop(self) -> None:
        """Remove everything; the servers must have ended."""
        for name in self._namespaces.values():
            _ip("netns", "delete", name)
        _ip("link", "delete", self._id)

    def _change_rules(self, address: str, action: str) -> None:
        for chain in _DIRECTIONS:
            rule = ["iptables", "--wait", action, chain, "!", "-i" if chain == "INPUT" else "-o", "lo", "-j", "DROP"]
            subprocess.run(self.command(address, rule), check=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextlib.contextmanager
def running() -> Iterator[Network]:
    """A network, removed afterwards."""
    network = Network()
    network.start()
    try:
        yield network
    finally:
        network.stop()
