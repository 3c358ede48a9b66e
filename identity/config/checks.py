"""Warnings about a valid but unsafe configuration."""

from __future__ import annotations

import ipaddress
import socket

from identity.config.sections import Config


def warnings(settings: Config) -> list[str]:
    """The settings to change before the service can be reached from other machines."""
    server = settings.server
    if server.base_url is not None or _is_loopback(server.address):
        return []
    situation = f"the service listens on {server.address}, which is not a loopback address"
    effect = "issuers, links and redirects follow the Host header of each request"
    remedy = "Set server.base_url to the public address, such as https://login.example.com"
    return [f"server.base_url is not set while {situation}: {effect}. {remedy}"]


def _is_loopback(host: str) -> bool:
    """Whether only this machine can connect. An unresolvable name counts as such: the service then fails to start."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
