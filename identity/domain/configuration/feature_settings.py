"""The settings of objects that belong to a feature of `license.features`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml
from identity.domain.objects.member_paths import value_at
from identity.domain.users.users import INTERNAL_CONNECTOR

ADVANCED_REGISTRATION: Final = "advancedRegistration"
ADVANCED_MULTI_FACTOR: Final = "advancedMultiFactorAuthentication"
CUSTOM_SCOPES: Final = "advancedOAuthScopesCustomScopes"
DPOP: Final = "dPoP"
OAUTH_SCOPES: Final = "advancedOAuthScopes"
THIRD_PARTY: Final = "advancedOAuthScopesThirdPartyApplications"
THREAT_DETECTION: Final = "threatDetection"
UNIVERSAL: Final = "universalApplication"

PARENTS: Final[Mapping[str, str]] = {
    CUSTOM_SCOPES: OAUTH_SCOPES,
    THIRD_PARTY: OAUTH_SCOPES,
    "webAuthnPlatformAuthenticators": "webAuthn",
    "webAuthnRoamingAuthenticators": "webAuthn",
}
"""Feature -> the feature that contains it and switches it off as well."""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A member of an object, and a predicate for the values that use the feature."""

    feature: str
    path: str
    uses: Callable[[Any], bool] = bool


def newly_used(resource: str, document: Document, stored: Document | None) -> Iterator[Setting]:
    """Yield the settings that use a feature, except those unchanged from the stored object."""
    for setting in SETTINGS.get(resource, ()):
        value = value_at(document, setting.path)
        is_unchanged = stored is not None and value_at(stored, setting.path) == value
        if setting.uses(value) and not is_unchanged:
            yield setting


def _has_external_connector(policies: Any) -> bool:
    return any(policy.get("connectorId") != INTERNAL_CONNECTOR for policy in policies or ())


def _has_sent_method(methods: Any) -> bool:
    return any(method.get("method") in {"email", "sms", "voice"} for method in methods or ())


def _prefers(attachment: str, web_authn: Any) -> bool:
    """Return whether an enabled WebAuthn workflow prefers this kind of authenticator."""
    return any(
        workflow.get("enabled") and workflow.get("authenticatorAttachmentPreference") == attachment
        for workflow in (web_authn or {}).values()
        if isinstance(workflow, dict)
    )


_TESTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "has_external_connector": _has_external_connector,
    "has_sent_method": _has_sent_method,
    "prefers_cross_platform": functools.partial(_prefers, "crossPlatform"),
    "prefers_platform": functools.partial(_prefers, "platform"),
}


def _setting(row: Document) -> Setting:
    uses = row["values"].__contains__ if "values" in row else _TESTS.get(row.get("test", ""), bool)
    return Setting(row["feature"], row["path"], uses)


SETTINGS: Final[Mapping[str, tuple[Setting, ...]]] = {
    resource: tuple(map(_setting, rows)) for resource, rows in load_yaml(__file__, "feature_settings.yaml").items()
}
"""The settings that belong to a feature, by resource."""


def of_authorization_request(
    application: Document, requested_scopes: frozenset[str], *, binds_key: bool
) -> Iterator[str]:
    """Yield the features that an authorization request uses.

    `requested_scopes` are its scopes; `binds_key` is whether it names a DPoP key.
    """
    oauth = application["oauthConfiguration"]
    if oauth["relationship"] == "ThirdParty":
        yield THIRD_PARTY
    if application["universalConfiguration"].get("universal"):
        yield UNIVERSAL
    if requested_scopes & {scope["name"] for scope in application["scopes"]}:
        yield CUSTOM_SCOPES
    if binds_key:
        yield DPOP
