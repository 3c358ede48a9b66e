"""Redirect URIs: validation at registration, matching, and adding response parameters.

URLs are not normalized: an exact match compares characters (RFC 9700 section 4.1.3). A wildcard matches at least one
character of the left-most host label, the port, a path segment or a query value, and never a delimiter, so that it
cannot change the host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from identity.domain.objects import cors

EXACT: Final = "ExactMatch"
WILDCARDS: Final = "AllowWildcards"

_FORBIDDEN_SCHEMES = frozenset({"javascript", "data", "vbscript", "file", "blob", "about", "view-source", "filesystem"})
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?(.*)", re.DOTALL)
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?(?=[/?]|$)(.*)")
_PARTS = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^/?:]+|\[[^\]]*\])(?::(?P<port>[^/?]*))?(?P<path>/[^?]*)?(?:\?(?P<query>.*))?"
)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_MAXIMUM_LENGTH = 2048


def registration_problem(url: str, policy: str) -> str | None:
    """Return why a URL may not be registered as redirect or origin URL, or None; wildcards need AllowWildcards."""
    problem = _unsafe_reason(url)
    if problem is not None:
        return problem
    if "*" in url and policy == WILDCARDS:
        return None if _pattern(url) is not None else "its wildcard is not allowed at this position"
    return None


def is_authorized(url: str, registered: Iterable[str], policy: str) -> bool:
    """Whether a redirect URI of a request matches one of the registered values under the policy."""
    if _unsafe_reason(url) is not None or "*" in url:
        return False
    return any(_matches(url, value, policy) for value in registered)


def is_origin_of(origin: str, registered: str, policy: str) -> bool:
    """Whether an origin, as browsers send it, is the origin of a registered URL; of a pattern, under AllowWildcards."""
    parts = _PARTS.fullmatch(registered)
    if parts is None or "*" in origin:
        return False
    port = "" if parts["port"] is None else f":{parts['port']}"
    own = _with_lowercase_host(f"{parts['scheme']}://{parts['host']}{port}")
    if "*" in own:
        pattern = _pattern(own) if policy == WILDCARDS else None
        return pattern is not None and pattern.fullmatch(origin) is not None
    return cors.canonical_origin(own) == origin


def is_on_this_machine(host: str) -> bool:
    """Return whether the host of a URL, without brackets, is the browser's own machine."""
    address = _address(host)
    if address is None:
        name = host.lower()
        return name == "localhost" or name.endswith(".localhost")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = address if mapped is None else mapped
    return address.is_loopback or address.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """Return the URL with parameters appended to its query, for any scheme (RFC 6749 section 4.1.2)."""
    if not parameters:
        return url
    separator = "&" if "?" in url else "?"
    if url.endswith(("?", "&")):
        separator = ""
    return url + separator + _encoded(parameters)


def with_fragment(url: str, parameters: Mapping[str, str]) -> str:
    """Return the URL with parameters as its fragment (RFC 6749 section 4.2.2), which registered URLs do not have."""
    return f"{url}#{_encoded(parameters)}"


def _encoded(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in parameters.items())


def _unsafe_reason(url: str) -> str | None:
    """Return why a URL is unsafe to redirect to, registered or not, or None."""
    if not url or len(url) > _MAXIMUM_LENGTH:
        return "it is empty or longer than 2048 characters"
    if not _PRINTABLE.fullmatch(url) or "\\" in url or '"' in url or "<" in url or ">" in url:
        return "it contains characters that a URL must not contain"
    absolute = _ABSOLUTE.fullmatch(url)
    if absolute is None:
        return "it is not an absolute URL"
    if "#" in url:
        return "it has a fragment"
    scheme, slashes, rest = absolute[1].lower(), absolute[2], absolute[3]
    if scheme in _FORBIDDEN_SCHEMES:
        return f"the scheme {scheme} is not allowed"
    if scheme in {"http", "https"}:
        return _unsafe_web_reason(rest) if slashes else "it has no host"
    return None if _can_be_split(url) else "its host is malformed"


def _can_be_split(url: str) -> bool:
    """Whether urlsplit accepts the URL: brackets in the host of any scheme must enclose an IPv6 address."""
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True


def _unsafe_web_reason(rest: str) -> str | None:
    authority, path = re.fullmatch(r"([^/?]*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]  # always matches
    if "@" in authority:
        return "it has user information"
    if "%" in authority:
        return "its host is encoded or has a zone"
    problem = _unsafe_ipv6_reason(authority) if authority.startswith("[") else _unsafe_host_reason(authority)
    if problem is not None:
        return problem
    if _has_dot_segments(path.partition("?")[0]):
        return "its path contains dot segments or encoded delimiters"
    return None


def _unsafe_host_reason(authority: str) -> str | None:
    host, _, port = authority.partition(":")
    if not host:
        return "it has no host"
    if host.endswith(".") or not re.fullmatch(r"[A-Za-z0-9._*-]+", host):
        return "its host is not a host name"
    # Browsers read 127.1, 0x7f.1 and 2130706433 as addresses.
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and _address(host) is None:
        return "its host is an IPv4 address that is not written as four decimal numbers"
    return None if re.fullmatch(r"[0-9]{1,5}|\*|", port) else "its port is not a number"


def _unsafe_ipv6_reason(authority: str) -> str | None:
    match = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](:[0-9]{1,5})?", authority)
    try:
        ipaddress.IPv6Address(match[1] if match else "")
    except ValueError:
        return "its host is not an IPv6 address"
    return None


def _has_dot_segments(path: str) -> bool:
    lowered = path.lower()
    if "%2f" in lowered or "%5c" in lowered or "%25" in lowered or "%00" in lowered or "//" in lowered:
        return True
    segments = lowered.replace("%2e", ".").split("/")
    return any(segment.partition(";")[0] in {".", ".."} for segment in segments)


def _matches(url: str, registered: str, policy: str) -> bool:
    if "*" in registered:
        pattern = _pattern(_with_lowercase_host(registered)) if policy == WILDCARDS else None
        return pattern is not None and pattern.fullmatch(_with_lowercase_host(url)) is not None
    return _with_lowercase_host(url) == _with_lowercase_host(registered) or _is_same_loopback(url, registered)


def _with_lowercase_host(url: str) -> str:
    """Return the URL with scheme and host in lower case."""
    match = re.match(r"https?://[^/?]*", url, re.IGNORECASE)
    return url if match is None else match[0].lower() + url[match.end() :]


def _is_same_loopback(url: str, registered: str) -> bool:
    """Whether two loopback URLs differ only in the port, which native apps choose at runtime (RFC 8252 section 7.3)."""
    one, other = _LOOPBACK.fullmatch(url), _LOOPBACK.fullmatch(registered)
    return one is not None and other is not None and one[1] == other[1] and one[3] == other[3]


@lru_cache(maxsize=1024)
def _pattern(registered: str) -> re.Pattern[str] | None:
    """Return the compiled pattern of a registered value, or None if a wildcard is at a wrong position."""
    parts = _PARTS.fullmatch(registered)
    if parts is None:
        return None
    host = _host_pattern(parts["host"])
    port = _port_pattern(parts["port"])
    path = _path_pattern(parts["path"] or "")
    query = _query_pattern(parts["query"])
    if host is None or port is None or path is None or query is None:
        return None
    return re.compile(f"{parts['scheme']}://{host}{port}{path}{query}")


def _host_pattern(host: str) -> str | None:
    if "*" not in host:
        return re.escape(host)
    labels = host.split(".")
    first, others = labels[0], labels[1:]
    is_address = all(label.isdigit() for label in others)
    if len(labels) < 3 or host.count("*") != 1 or "*" not in first or is_address:
        return None
    return _wildcard_pattern(first, r"[^.:/?]+") + "".join(rf"\.{re.escape(label)}" for label in others)


def _port_pattern(port: str | None) -> str | None:
    if port is None:
        return ""
    if port == "*":
        return ":[0-9]+"
    return None if "*" in port else f":{port}"


def _path_pattern(path: str) -> str | None:
    segments = path.split("/")
    if any(segment.count("*") > 1 for segment in segments):
        return None
    return "/".join(_wildcard_pattern(segment, r"(?!\.{1,2}(?:/|$|\?))[^/?]+") for segment in segments)


def _query_pattern(query: str | None) -> str | None:
    if query is None:
        return ""
    pairs = []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if "*" in name or ("*" in value and value != "*"):
            return None
        pairs.append(f"{re.escape(name)}=[^&]+" if value == "*" else re.escape(pair))
    return r"\?" + "&".join(pairs)


def _wildcard_pattern(text: str, wildcard: str) -> str:
    return wildcard.join(re.escape(piece) for piece in text.split("*"))
