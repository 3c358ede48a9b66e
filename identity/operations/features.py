"""The features of `license.features`: whether what a caller wants is switched on."""

from __future__ import annotations

from collections.abc import Iterable

from identity.errors import NotLicensed
from identity.services import Services


def require(services: Services, feature: str | None) -> None:
    """Raise NotLicensed when the feature is switched off; what belongs to no feature is always on."""
    if feature in off(services, [feature]):
        raise NotLicensed(f"The feature {feature} is switched off.")


def off(services: Services, features: Iterable[str | None]) -> frozenset[str]:
    """Those of the features that are switched off."""
    return frozenset(feature for feature in features if feature and not services.config.license.has(feature))
