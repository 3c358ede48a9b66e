"""The features of `license.features`: refuse calls and settings of disabled features."""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Document
from identity.domain.configuration import feature_settings
from identity.errors import GeneralError, NotLicensed
from identity.events.catalogue import EVENTS
from identity.services import Services


def require(services: Services, feature: str | None) -> None:
    """Raise NotLicensed if the feature is disabled; None is always enabled."""
    if feature in off(services, [feature]):
        raise NotLicensed(f"The feature {feature} is switched off.")


def off(services: Services, features: Iterable[str | None]) -> frozenset[str]:
    """Return the features that are disabled, by themselves or with the feature that contains them."""
    return frozenset(feature for feature in features if feature and not is_on(services, feature))


def is_on(services: Services, feature: str) -> bool:
    """Return whether the feature is enabled."""
    names = {feature, feature_settings.PARENTS.get(feature, feature)}
    return all(services.config.license.has(name) for name in names)


def problems(services: Services, resource: str, document: Document, stored: Document | None) -> list[GeneralError]:
    """Return an error for each disabled feature whose settings the object starts to use.

    Settings of the stored object may stay, so that the rest of it can be changed.
    """
    if services.config.license.features is None:
        return []
    settings = list(feature_settings.newly_used(resource, document, stored))
    return [
        error
        for feature in sorted(off(services, (setting.feature for setting in settings)))
        for error in _refusal(resource, feature, [one.path for one in settings if one.feature == feature])
    ]


def _refusal(resource: str, feature: str, paths: Iterable[str]) -> tuple[GeneralError, ...]:
    names = ", ".join(f"[{resource}.{path}]" for path in paths)
    return NotLicensed(f"The feature {feature} is switched off: {names}.").general


def event_problems(services: Services, names: Iterable[str]) -> list[GeneralError]:
    """Return an error with the events whose feature is disabled."""
    wanted = [EVENTS[name] for name in names if name in EVENTS]
    missing = off(services, (event.feature for event in wanted))
    refused = ", ".join(sorted(event.name for event in wanted if event.feature in missing))
    return list(NotLicensed(f"The feature of these events is switched off: {refused}.").general) if missing else []


def require_request(
    services: Services, application: Document, scopes: Iterable[str], *, binds_key: bool = False
) -> None:
    """Raise NotLicensed for an authorization request that uses a disabled feature."""
    for feature in feature_settings.of_authorization_request(application, frozenset(scopes), binds_key=binds_key):
        require(services, feature)


def require_provider(services: Services, provider: Document) -> None:
    """Raise NotLicensed for a login through a type of identity provider whose feature is disabled."""
    for setting in feature_settings.newly_used("identityProvider", provider, None):
        require(services, setting.feature)
