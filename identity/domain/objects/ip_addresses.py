"""IP addresses: their canonical form, and the network by which rate limits count them."""

from __future__ import annotations

import ipaddress
from typing import Final

_MAXIMUM_LENGTH: Final = 64
_IPV6_PREFIX: Final = 64
"""A customer commonly has an IPv6 network of this length."""


def canonical(text: str) -> str | None:
    """Return the canonical form of an IPv4 or IPv6 address, without a zone; None for anything else.

    An IPv4-mapped IPv6 address becomes the IPv4 address.
    """
    if len(text) > _MAXIMUM_LENGTH:
        return None
    try:
        ip = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def network(address: str) -> str:
    """Return the network of an address for rate limits: the address itself for IPv4, its /64 for IPv6."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((ip, _IPV6_PREFIX), strict=False)) if ip.version == 6 else str(ip)
