"""Cross-origin requests (the Fetch standard's CORS protocol): whether a page of another site may make this call."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

ANY = "*"

_OF_PROTOCOLS = ("DPoP",)
"""Headers that any page may send that may make the call at all: a proof that a script makes, of a key that it has."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]{1,253})(:[0-9]{1,5})?")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}")
_USUAL_PORTS = {"http": ":80", "https": ":443"}


@dataclasses.dataclass(frozen=True, slots=True)
class CrossOrigin:
    """What a browser says of a request; of a preflight, of the request that it wants to make."""

    origin: str
    method: str
    headers: tuple[str, ...] = ()
    is_preflight: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Why a page may not make the call."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Cors:
    """`systemConfiguration.corsConfiguration`, ready to be asked."""

    enabled: bool
    debug: bool
    allow_credentials: bool
    origins: frozenset[str]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    exposed_headers: tuple[str, ...]
    max_age_seconds: int

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> Cors:
        """From the stored configuration, which has passed its checks."""
        return cls(
            configuration["enabled"],
            configuration["debug"],
            configuration["allowCredentials"],
            frozenset(configuration["allowedOrigins"]),
            tuple(configuration["allowedMethods"]),
            tuple(configuration["allowedHeaders"]),
            tuple(configuration["exposedHeaders"]),
            configuration["preflightMaxAgeInSeconds"],
        )

    def judge(self, request: CrossOrigin) -> Refused | dict[str, str]:
        """The headers of the answer, or why there is none.

        An origin is compared whole and answered only when it is in the list: nothing that a caller wrote is reflected.
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
    """An origin as browsers send it (RFC 6454 section 6.2), `*` as it is; None for what is no origin."""
    if text == ANY:
        return text
    scheme, separator, host = text.strip().lower().rstrip("/").partition("://")
    if not separator or not _SCHEME.fullmatch(scheme) or not _HOST.fullmatch(host):
        return None
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS.get(scheme, '/'))}"


def is_same_host(origin: str, base_url: str, host: str) -> bool:
    """Whether a request comes from a page of the service itself: of its base URL, or of the host it was made to.

    The scheme of the latter is not compared, because a proxy may have taken TLS off. Nothing is lost by that: such a
    request gets no CORS headers at all.
    """
    scheme, _, authority = origin.partition("://")
    own = canonical_origin(f"{scheme}://{host}")
    return bool(authority) and origin in {own, canonical_origin("/".join(base_url.split("/", 3)[:3]))}
