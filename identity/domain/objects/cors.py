"""Cross-origin requests (CORS protocol of the Fetch standard): whether a page of another origin may make a call."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from identity.domain.objects.stored_values import from_document, stored_as

ANY = "*"

_OF_PROTOCOLS = ("DPoP",)
"""Headers that are always allowed for an allowed call: a DPoP proof is created by a script with its own key."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253})(:[0-9]{1,5})?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}")
_USUAL_PORTS = {"http": ":80", "https": ":443"}


@dataclasses.dataclass(frozen=True, slots=True)
class CrossOrigin:
    """A cross-origin request; for a preflight, the request that would follow it."""

    origin: str
    method: str
    headers: tuple[str, ...] = ()
    is_preflight: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """The reason why a call is not allowed."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Cors:
    """`systemConfiguration.corsConfiguration`, parsed."""

    enabled: bool
    debug: bool
    allow_credentials: bool
    exposed_headers: tuple[str, ...]
    origins: tuple[str, ...] = stored_as("allowedOrigins")
    methods: tuple[str, ...] = stored_as("allowedMethods")
    headers: tuple[str, ...] = stored_as("allowedHeaders")
    max_age_seconds: int = stored_as("preflightMaxAgeInSeconds")

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> Cors:
        """Parse the stored configuration, which is valid."""
        return from_document(cls, configuration)

    def evaluate(self, request: CrossOrigin) -> Refused | dict[str, str]:
        """Return the headers of the response, or why the request is refused.

        The complete origin is compared and returned only if it is in the list, so that no input is reflected.
        """
        if ANY not in self.origins and request.origin not in self.origins:
            return Refused(f"the origin [{request.origin[:300]}] is not allowed")
        if request.method not in self.methods:
            return Refused(f"the method [{request.method[:20]}] is not allowed")
        if request.is_preflight and (name := self._unknown_header(request.headers)) is not None:
            return Refused(f"the header [{name[:100]}] is not allowed")
        return self._granted(request)

    def _unknown_header(self, names: tuple[str, ...]) -> str | None:
        known = {name.lower() for name in (*self.headers, *_OF_PROTOCOLS)}
        return None if ANY in known else next((name for name in names if name.lower() not in known), None)

    def _granted(self, request: CrossOrigin) -> dict[str, str]:
        headers = {"Access-Control-Allow-Origin": ANY if ANY in self.origins else request.origin, "Vary": "Origin"}
        if self.allow_credentials:
            headers["Access-Control-Allow-Credentials"] = "true"
        if request.is_preflight:
            headers["Access-Control-Allow-Methods"] = ", ".join(self.methods)
            headers["Access-Control-Max-Age"] = str(self.max_age_seconds)
            asked = {name.lower() for name in request.headers}
            allowed = [*self.headers, *(name for name in _OF_PROTOCOLS if name.lower() in asked)]
            if allowed:
                headers["Access-Control-Allow-Headers"] = ", ".join(dict.fromkeys(allowed))
        elif self.exposed_headers:
            headers["Access-Control-Expose-Headers"] = ", ".join(self.exposed_headers)
        return headers


def canonical_origin(text: str) -> str | None:
    """Return an origin as browsers send it (RFC 6454 section 6.2), and `*` unchanged; None for anything else."""
    if text == ANY:
        return text
    scheme, separator, host = text.strip().lower().rstrip("/").partition("://")
    if not separator or not _SCHEME.fullmatch(scheme) or not _HOST.fullmatch(host):
        return None
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS.get(scheme, '/'))}"


def is_same_host(origin: str, base_url: str, host: str) -> bool:
    """Return whether a request comes from a page of the service: of its base URL, or of the host of the request.

    The scheme of the host is not compared, because a proxy may have terminated TLS. Such a request gets no CORS
    headers.
    """
    scheme, _, authority = origin.partition("://")
    own = canonical_origin(f"{scheme}://{host}")
    return bool(authority) and origin in {own, canonical_origin("/".join(base_url.split("/", 3)[:3]))}
