"""Connections of protocols other than HTTP, through the address guard."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Sequence

from identity.outbound.addresses import Network, forbidden_reason
from identity.outbound.name_resolution import Addresses, NameResolver


class ForbiddenAddressError(Exception):
    """The service may not connect to any address of a host; the message is the reason."""


async def connect(
    resolver: NameResolver, host: str, port: int, allowed: Sequence[Network], timeout_seconds: float
) -> socket.socket:
    """Connect to the first permitted address of a host that accepts a connection; the socket is non-blocking.

    Raises ForbiddenAddressError, UnknownNameError, TimeoutError if the name is not resolved in time, and OSError.
    """
    addresses = await _addresses(resolver, host, timeout_seconds)
    reasons = {address: forbidden_reason(address, allowed) for address in addresses}
    permitted = [address for address, reason in reasons.items() if reason is None]
    if not permitted:
        raise ForbiddenAddressError(str(reasons[addresses[0]]))
    for address in permitted[:-1]:
        with contextlib.suppress(OSError):
            return await _connect_to(address, port)
    return await _connect_to(permitted[-1], port)


async def _addresses(resolver: NameResolver, host: str, timeout_seconds: float) -> Addresses:
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        return await resolver.resolve(host, timeout_seconds)


async def _connect_to(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return connection
