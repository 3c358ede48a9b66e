"""Reauthentication at a provider: `prompt` and `max_age` are forwarded, and the `auth_time` of the ID token is checked.

OpenID Connect Core 1.0, sections 3.1.2.1 and 3.1.3.7. A provider with `forwardPrompt` false gets neither, and its
`auth_time` is ignored: the login counts as an authentication at the time of the response.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.providers.social_providers import PROVIDERS
from identity.instants import Instant, later

LEEWAY_SECONDS: Final = 60
"""The tolerated clock difference to a provider."""

_OPENID_CONNECT: Final = "OpenIDConnect"


@dataclasses.dataclass(frozen=True, slots=True)
class Reauthentication:
    """The authentication that a request requires of a provider.

    `earliest_instant` is the earliest acceptable `auth_time`; `requires_auth_time`: the ID token must have one.
    """

    earliest_instant: Instant
    requires_auth_time: bool

    def problem(self, auth_instant: Instant | None) -> str | None:
        """Return why an authentication does not satisfy the request, or None."""
        if auth_instant is None:
            return "the id token has no auth_time, which max_age requires" if self.requires_auth_time else None
        if auth_instant < self.earliest_instant:
            return "the user authenticated at the provider before the time that prompt or max_age requires"
        return None


def forwards_prompt(provider: Mapping[str, Any]) -> bool:
    """Return whether `prompt=login` and `max_age` are forwarded to a provider, and its `auth_time` is used."""
    return bool(provider.get("forwardPrompt", True))


def required(
    provider: Mapping[str, Any], given: Mapping[str, Any], now: Instant, *, has_id_token: bool
) -> Reauthentication | None:
    """Return what a valid authorization request requires of a provider that it is sent to now; None for nothing.

    Only an OpenID Connect provider has to state the time: other types cannot be configured to.
    """
    seconds = _maximum_age(given)
    if seconds is None or not forwards_prompt(provider):
        return None
    requires_auth_time = has_id_token and "max_age" in given and provider["type"] == _OPENID_CONNECT
    return Reauthentication(later(now, seconds=-seconds - LEEWAY_SECONDS), requires_auth_time)


def parameters(
    provider: Mapping[str, Any], oauth2: Mapping[str, Any], given: Mapping[str, Any], *, has_id_token: bool
) -> dict[str, str]:
    """Return the parameters that request a reauthentication, and the configured `prompt`.

    Those of OpenID Connect are for its providers only: OAuth 2.0 does not define them.
    """
    row, prompts, found = PROVIDERS.get(provider["type"]), str(oauth2.get("prompt", "")).split(), {}
    seconds = _maximum_age(given) if forwards_prompt(provider) else None
    if row is not None:
        return dict(row.reauthentication) if seconds == 0 else {}
    if seconds is not None and has_id_token:
        prompts += ["login"] if seconds == 0 and "login" not in prompts else []
        found = {"max_age": given["max_age"]} if "max_age" in given else {}
    return {**found, **({"prompt": " ".join(prompts)} if prompts else {})}


def auth_instant(claims: Document, now: Instant) -> Instant | None:
    """Return when the user authenticated, by verified claims; None if they do not state it. It is never after now."""
    return min(Instant(claims["auth_time"] * 1000), now) if "auth_time" in claims else None


def _maximum_age(given: Mapping[str, Any]) -> int | None:
    """Return the maximum age of the authentication in seconds, 0 for `prompt=login`; None for any age."""
    if "login" in str(given.get("prompt", "")).split(" "):
        return 0
    return int(given["max_age"]) if "max_age" in given else None
