"""Identity providers with a type of their own: a table of their endpoints, claims and deviations from the standards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml

CLAIMS: Final[Mapping[str, str]] = {
    "emailClaim": "email",
    "emailVerifiedClaim": "email_verified",
    "uniqueIdClaim": "sub",
    "usernameClaim": "preferred_username",
}
"""The default names of claims."""


@dataclasses.dataclass(frozen=True, slots=True)
class SocialProvider:
    """A row of `social_providers.yaml`, which describes the columns."""

    id: str
    authentication_type: str
    label: str
    settings: Mapping[str, str]
    oauth2: Document
    flow: str = "oauth2"
    linking_strategy: str = "LinkByEmail"
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reauthentication: Mapping[str, str] = dataclasses.field(default_factory=dict)
    profile: Mapping[str, str] = dataclasses.field(default_factory=dict)
    token: str = ""
    keeps: str = "refresh_token"
    pkce: bool = False
    nonce: bool = False
    login_hint: bool = False
    verifies_email: bool = False
    platform: bool = False


PROVIDERS: Final[Mapping[str, SocialProvider]] = {
    name: SocialProvider(**row) for name, row in load_yaml(__file__, "social_providers.yaml").items()
}
"""The rows by provider type."""


def published_id(provider: Mapping[str, Any]) -> str | None:
    """Return the id of a new shared provider without a name: applications and kickstart files refer to it."""
    row = PROVIDERS.get(str(provider.get("type")))
    return None if row is None or provider.get("name") or provider.get("tenantId") else row.id


def settings_of(provider: Document, application_id: str) -> Document:
    """Return the members of a provider, with the overrides of an application."""
    own = provider["applicationConfiguration"].get(application_id, {})
    return {**provider, **{name: value for name, value in own.items() if name not in {"data", "enabled"}}}


def oauth2_of(provider: Document, application_id: str) -> Document:
    """Return the constant and the configured members of `oauth2`."""
    row, settings = PROVIDERS[provider["type"]], settings_of(provider, application_id)
    given = {target: settings[name] for name, target in row.settings.items() if settings.get(name)}
    return {**CLAIMS, **row.oauth2, **given}


def is_redirectable(provider: Document, application_id: str) -> bool:
    """Return whether the login page can redirect to a provider; without a secret, codes cannot be exchanged."""
    return provider["type"] == "Apple" or "client_secret" in oauth2_of(provider, application_id)


def missing_profile(row: SocialProvider, user: Mapping[str, Any], claims: Mapping[str, Any]) -> Document:
    """Return the members of the user that claims fill: members with a value keep it."""
    return {
        target: claims[claim] for claim, target in row.profile.items() if claims.get(claim) and not user.get(target)
    }
