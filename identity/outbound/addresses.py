"""The address guard against server-side request forgery: allowed addresses, ports and URLs of outgoing requests.

`check_url` validates a URL that a caller wants to save: syntax, IP addresses, ports, and names that exist only within
a machine or a cloud. `forbidden_reason` checks the address of a connection about to be opened, which also blocks names
that resolve to internal addresses and DNS rebinding.
"""

from __future__ import annotations

import ipaddress
import json
import re
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from identity.config.sections import AllowedNetworks

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_MAX_URL_LENGTH = 8192
_MAX_HOST_LENGTH = 253

_LISTS = json.loads(Path(__file__).with_suffix(".json").read_text())
_NOT_PUBLIC_V4 = [(ipaddress.IPv4Network(network), kind) for network, kind in _LISTS["notPublicV4"].items()]
# Everything outside 2000::/3 is refused below; these entries lie within it or give a more precise reason.
_NOT_PUBLIC_V6 = [(ipaddress.IPv6Network(network), kind) for network, kind in _LISTS["notPublicV6"].items()]
# The last 32 bits of these are an IPv4 address to which a gateway forwards the packet.
_IPV4_EMBEDDING_V6 = tuple(map(ipaddress.IPv6Network, ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")))
_GLOBAL_UNICAST_V6 = ipaddress.IPv6Network("2000::/3")

# Cloud metadata services, which also return credentials. Only an allowed network of exactly this address permits one.
_METADATA_ADDRESSES = frozenset(map(ipaddress.ip_address, _LISTS["metadataAddresses"]))
_METADATA_NAMES = frozenset(_LISTS["metadataNames"])

# Services of other protocols that an HTTP request could attack.
_FORBIDDEN_PORTS = frozenset(_LISTS["forbiddenPorts"])
_LDAP_PORTS = frozenset({389, 636})

_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")
_LOOKS_LIKE_A_NUMBER = re.compile(r"(0[xX][0-9A-Fa-f]*|[0-9]+)")
_DOTTED_QUAD = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")


def forbidden_reason(address: str, allowed: Sequence[Network]) -> str | None:
    """Why connections to this IP address are forbidden, or None if they are allowed.

    The reason names the setting that would allow it, if `allowed` is an `AllowedNetworks`.

    An IPv4-mapped IPv6 address (::ffff:0:0/96) is checked as the IPv4 address. All other IPv6 forms that embed an IPv4
    address (NAT64, 6to4, Teredo, ISATAP, IPv4-compatible) are forbidden.
    """
    try:
        ip = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return f"[{address}] is not an IP address"
    if ip in _METADATA_ADDRESSES or _embedded_ipv4(ip) in _METADATA_ADDRESSES:
        is_named = any(ip in network and network.num_addresses == 1 for network in allowed)
        return None if is_named else _refusal(ip, "cloud metadata", allowed)
    if any(ip in network for network in allowed if network.version == ip.version):
        return None
    kind = _kind_v4(ip) if isinstance(ip, ipaddress.IPv4Address) else _kind_v6(ip)
    return None if kind is None else _refusal(ip, kind, allowed)


def forbidden_port(port: int) -> str | None:
    """Why connections to this port are forbidden, or None if they are allowed."""
    return (
        f"port {port} belongs to another kind of service" if port in _FORBIDDEN_PORTS or not 0 < port < 65536 else None
    )


def check_url(url: str, allowed: Sequence[Network]) -> str | None:
    """Why requests to this URL are forbidden, as far as known without DNS, or None if they are allowed.

    Allowed are absolute http and https URLs with a host and without user information and fragment (RFC 3986 section
    3) that contain no forbidden address in any notation, no cloud metadata host, and no forbidden port.
    """
    if (reason := _forbidden_text(url)) is not None:
        return reason
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        return str(error)
    if "@" in parts.netloc:
        return "it has user information; use the authentication settings instead"
    if parts.netloc.endswith(":"):
        return "its port is empty"
    if port is not None and (reason := forbidden_port(port)) is not None:
        return reason
    return _forbidden_host(parts.netloc.removesuffix(f":{port}"), allowed)


def check_ldap_url(url: str, allowed: Sequence[Network]) -> str | None:
    """Why connections to this LDAP URL are forbidden, as far as known without DNS, or None if they are allowed.

    Allowed are ldap and ldaps URLs (RFC 4516) of a host and a port; the search is configured apart.
    """
    if re.search(r"[^\x21-\x7e]", url) or not re.fullmatch(r"ldaps?://[^/?#@]+/?", url, re.IGNORECASE):
        return "it is not an ldap or ldaps URL of a host and a port only"
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        return str(error)
    if port is not None and port not in _LDAP_PORTS and (reason := forbidden_port(port)) is not None:
        return reason
    return _forbidden_host(parts.netloc.removesuffix(f":{port}"), allowed)


def _forbidden_text(url: str) -> str | None:
    if len(url) > _MAX_URL_LENGTH:
        return f"it is longer than {_MAX_URL_LENGTH} characters"
    if re.search(r"[^\x21-\x7e]|[\\<>\"`{}|^]", url):
        return "it has characters that a URL must percent-encode (RFC 3986)"
    if not re.match(r"https?://", url, re.IGNORECASE):
        return "it is not an absolute http or https URL"
    return "it has a fragment" if "#" in url else None


def _forbidden_host(host: str, allowed: Sequence[Network]) -> str | None:
    if not host:
        return "it has no host"
    if host.startswith("["):
        if not host.endswith("]") or "%" in host:
            return "its host is not an IPv6 address without a zone"
        return forbidden_reason(host[1:-1], allowed)
    if host.endswith("."):
        return "its host ends with a dot"
    if len(host) > _MAX_HOST_LENGTH or not _NAME.fullmatch(host):
        return "its host is not a name of letters, digits, hyphens and dots (write an international name as xn--...)"
    # Resolvers accept 127.1, 0x7f.1, 0177.0.0.1 and 2130706433 as addresses; only the dotted quad is allowed here.
    if _LOOKS_LIKE_A_NUMBER.fullmatch(host.rpartition(".")[2]):
        if not _DOTTED_QUAD.fullmatch(host):
            return "its host is an IPv4 address that is not written as four decimal numbers"
        return forbidden_reason(host, allowed)
    return _forbidden_name(host.lower(), allowed)


def _forbidden_name(name: str, allowed: Sequence[Network]) -> str | None:
    if name in _METADATA_NAMES:
        return f"[{name}] is a cloud metadata host"
    if name == "localhost" or name.endswith(".localhost"):
        reasons = [forbidden_reason(address, allowed) for address in ("127.0.0.1", "::1")]
        return reasons[0] if all(reasons) else None
    return None


def _unwrapped(ip: Address) -> Address:
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return ip if mapped is None else mapped


def _embedded_ipv4(ip: Address) -> Address | None:
    """The IPv4 address that a gateway would extract from this IPv6 address, or None."""
    if not isinstance(ip, ipaddress.IPv6Address):
        return None
    if ip.sixtofour is not None:
        return ip.sixtofour
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if any(ip in network for network in _IPV4_EMBEDDING_V6) else None


def _kind_v4(ip: ipaddress.IPv4Address) -> str | None:
    return next((kind for network, kind in _NOT_PUBLIC_V4 if ip in network), None)


def _kind_v6(ip: ipaddress.IPv6Address) -> str | None:
    kind = next((kind for network, kind in _NOT_PUBLIC_V6 if ip in network), None)
    if kind is None and (int(ip) >> 32) & 0xFDFFFFFF == 0x00005EFE:
        return "ISATAP"
    if kind is None and ip not in _GLOBAL_UNICAST_V6:
        return "not global unicast"
    return kind


def _refusal(ip: Address, kind: str, allowed: Sequence[Network]) -> str:
    remedy = f"; {allowed.setting} can let it through" if isinstance(allowed, AllowedNetworks) else ""
    return f"the address {ip} is not public ({kind}){remedy}"
