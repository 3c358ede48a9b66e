"""Step-up authentication (RFC 9470): the class of logins with a second factor, and requests that need it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.authorization.claims_request import RequestedClaim
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.domain.objects import stored_values
from identity.instants import NumericDate

_SECOND_FACTOR: Final = "mfa"


@dataclasses.dataclass(frozen=True, slots=True)
class StepUp:
    """The `stepUpConfiguration` of an application.

    `context_class` is the `acr` of logins with a second factor. `required_at_userinfo` and `maximum_age_at_userinfo`,
    in seconds, are what the userinfo endpoint requires of access tokens.
    """

    context_class: str
    required_at_userinfo: bool = False
    maximum_age_at_userinfo: int | None = None

    @classmethod
    def of(cls, oauth: OAuthSettings) -> StepUp | None:
        """Return the configuration, or None without one."""
        stored = oauth.step_up_configuration
        return None if stored is None else stored_values.from_document(cls, stored)


def is_configured(application: Document) -> bool:
    """Whether the application distinguishes logins with a second factor."""
    return "stepUpConfiguration" in application["oauthConfiguration"]


def supported_classes(oauth: OAuthSettings) -> tuple[str, ...]:
    """Return the authentication context classes that logins at the application can have."""
    step_up = StepUp.of(oauth)
    classes = (oauth.authentication_context_class, None if step_up is None else step_up.context_class)
    return tuple(name for name in classes if name is not None)


def achieved_class(oauth: OAuthSettings, authentication_methods: Collection[str]) -> str | None:
    """Return the `acr` of a login by these methods (`amr`), if it has any."""
    step_up = StepUp.of(oauth)
    if step_up is not None and _SECOND_FACTOR in authentication_methods:
        return step_up.context_class
    return oauth.authentication_context_class


def requires_second_factor(oauth: OAuthSettings, acr: RequestedClaim | None) -> bool:
    """Whether the first supported class of a request is that of logins with a second factor."""
    step_up = StepUp.of(oauth)
    if step_up is None or acr is None or acr.values is None:
        return False
    accepting = (RequestedClaim(values=(value,)) for value in acr.values)
    first = next((claim for claim in accepting if any(map(claim.accepts, supported_classes(oauth)))), None)
    return first is not None and first.accepts(step_up.context_class)


def userinfo_challenge(oauth: OAuthSettings, claims: Mapping[str, Any], now: NumericDate) -> dict[str, str] | None:
    """Return the parameters of the challenge for a token that userinfo does not accept (RFC 9470 section 3)."""
    step_up = StepUp.of(oauth)
    if step_up is None:
        return None
    maximum_age = step_up.maximum_age_at_userinfo
    lacks_class = step_up.required_at_userinfo and claims.get("acr") != step_up.context_class
    is_old = maximum_age is not None and now - claims.get("auth_time", 0) > maximum_age
    if not (lacks_class or is_old):
        return None
    challenge = {"acr_values": step_up.context_class} if step_up.required_at_userinfo else {}
    return challenge if maximum_age is None else {**challenge, "max_age": str(maximum_age)}
