"""The settings of objects that belong to a feature of `license.features`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.users.users import INTERNAL_CONNECTOR

ADVANCED_IDENTITY_PROVIDERS: Final = "advancedIdentityProviders"
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

ADVANCED_PROVIDERS: Final = frozenset(
    {"EpicGames", "Nintendo", "SAMLv2IdPInitiated", "SonyPSN", "Steam", "Twitch", "Xbox"}
)
"""The identity provider types of the feature advancedIdentityProviders."""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A member of an object, and a predicate for the values that use the feature."""

    feature: str
    path: str
    uses: Callable[[Any], bool] = bool


def newly_used(resource: str, document: Document, stored: Document | None) -> Iterator[Setting]:
    """Yield the settings that use a feature, except those unchanged from the stored object."""
    for setting in SETTINGS.get(resource, ()):
        value = _value(document, setting.path)
        is_unchanged = stored is not None and _value(stored, setting.path) == value
        if setting.uses(value) and not is_unchanged:
            yield setting


def _value(document: Document, path: str) -> Any:
    value: Any = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _is(*values: str) -> Callable[[Any], bool]:
    return lambda value: value in values


def _settings(feature: str, *paths: str) -> tuple[Setting, ...]:
    return tuple(Setting(feature, path) for path in paths)


def _has_external_connector(policies: Any) -> bool:
    return any(policy.get("connectorId") != INTERNAL_CONNECTOR for policy in policies or ())


def _has_sent_method(methods: Any) -> bool:
    return any(method.get("method") in {"email", "sms", "voice"} for method in methods or ())


def _prefers(attachment: str) -> Callable[[Any], bool]:
    """Return a predicate: whether an enabled WebAuthn workflow prefers this kind of authenticator."""
    return functools.partial(_has_workflow, attachment)


def _has_workflow(attachment: str, web_authn: Any) -> bool:
    return any(
        workflow.get("enabled") and workflow.get("authenticatorAttachmentPreference") == attachment
        for workflow in (web_authn or {}).values()
        if isinstance(workflow, dict)
    )


_MULTI_FACTOR_LAMBDA = "lambdaConfiguration.multiFactorRequirementId"
_SHARED: Final = (
    *_settings("intelligentMFA", _MULTI_FACTOR_LAMBDA),
    *_settings("multiFactorLambdas", _MULTI_FACTOR_LAMBDA),
    *_settings("webAuthn", "webAuthnConfiguration.enabled"),
    Setting("webAuthnPlatformAuthenticators", "webAuthnConfiguration", _prefers("platform")),
    Setting("webAuthnRoamingAuthenticators", "webAuthnConfiguration", _prefers("crossPlatform")),
    *_settings(THREAT_DETECTION, "accessControlConfiguration.uiIPAccessControlListId"),
)
_LIMITS: Final = (
    *("failedLogin", "forgotPassword", "sendEmailVerification", "sendPasswordless", "sendPasswordlessPhone"),
    *("sendPhoneVerification", "sendRegistrationVerification", "sendTwoFactor"),
)
_CONVERTERS: Final = (
    *("scimEnterpriseUserRequestConverterId", "scimEnterpriseUserResponseConverterId"),
    *("scimGroupRequestConverterId", "scimGroupResponseConverterId"),
    *("scimUserRequestConverterId", "scimUserResponseConverterId"),
)

SETTINGS: Final[Mapping[str, tuple[Setting, ...]]] = {
    "apiKey": _settings(THREAT_DETECTION, "ipAccessControlListId"),
    "application": (
        *_SHARED,
        *_settings("advancedLambdas", "lambdaConfiguration.selfServiceRegistrationValidationId"),
        Setting("advancedRegistration", "registrationConfiguration.type", _is("advanced")),
        *_settings(
            "advancedRegistration",
            "formConfiguration.adminRegistrationFormId",
            "formConfiguration.selfServiceFormId",
            "registrationConfiguration.formId",
        ),
        *_settings(
            "applicationMultiFactorAuthentication",
            *(f"multiFactorConfiguration.{name}" for name in ("loginPolicy", "trustPolicy")),
            *(f"multiFactorConfiguration.{way}.templateId" for way in ("email", "sms", "voice")),
        ),
        *_settings("applicationThemes", "themeId"),
        *_settings(CUSTOM_SCOPES, "scopes"),
        *_settings(DPOP, "oauthConfiguration.dpopBoundAccessTokens", "oauthConfiguration.dpopNonceRequired"),
        Setting(OAUTH_SCOPES, "oauthConfiguration.consentMode", _is("NeverPrompt", "RememberDecision")),
        Setting(THIRD_PARTY, "oauthConfiguration.relationship", _is("ThirdParty")),
        *_settings(UNIVERSAL, "universalConfiguration.universal"),
    ),
    "identityProvider": (Setting(ADVANCED_IDENTITY_PROVIDERS, "type", _is(*ADVANCED_PROVIDERS)),),
    "lambda": (
        Setting("advancedLambdas", "type", _is("LoginValidation", "SelfServiceRegistrationValidation")),
        Setting("multiFactorLambdas", "type", _is("MFARequirement")),
        Setting("scimServer", "type", lambda kind: str(kind).startswith("SCIMServer")),
    ),
    "tenant": (
        *_SHARED,
        *_settings("advancedLambdas", "lambdaConfiguration.loginValidationId"),
        *_settings(
            ADVANCED_MULTI_FACTOR, *(f"multiFactorConfiguration.{way}.enabled" for way in ("email", "sms", "voice"))
        ),
        *_settings("advancedRegistration", "formConfiguration.adminUserFormId"),
        *_settings("breachedPasswordDetection", "passwordValidationRules.breachDetection.enabled"),
        Setting("connectors", "connectorPolicies", _has_external_connector),
        *_settings(
            "scimServer", "scimServerConfiguration.enabled", *(f"lambdaConfiguration.{name}" for name in _CONVERTERS)
        ),
        *_settings(
            THREAT_DETECTION,
            "captchaConfiguration.enabled",
            "registrationConfiguration.blockedDomains",
            *(f"rateLimitConfiguration.{name}.enabled" for name in _LIMITS),
        ),
    ),
    "user": (Setting(ADVANCED_MULTI_FACTOR, "twoFactor.methods", _has_sent_method),),
}
"""Resource name -> its settings that belong to a feature."""


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
