"""CAPTCHA providers, the widget of a tenant, and the evaluation of a provider's response."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from identity.call import Document
from identity.domain.objects.data_files import load_yaml

FIELD: Final = "captcha_token"
"""The form field of the token."""
MISSING: Final = "[blank]captcha_token"
INVALID: Final = "[invalid]captcha_token"
UNAVAILABLE: Final = "[unavailable]captcha_token"

_MAXIMUM_TOKEN: Final = 8192
_CONFIGURATION_ERRORS: Final = frozenset(
    {"bad-request", "invalid-input-secret", "missing-input-secret", "sitekey-secret-mismatch"}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """The URLs of a provider, and the sources that its widget needs in a Content-Security-Policy."""

    script_url: str
    verification_url: str
    sources: Mapping[str, Sequence[str]]
    sends_site_key: bool = False


PROVIDERS: Final[dict[str, Provider]] = {
    method: Provider(**row) for method, row in load_yaml(__file__, "captchas.yaml").items()
}
"""`captchaMethod` -> provider."""


@dataclasses.dataclass(frozen=True, slots=True)
class Widget:
    """The CAPTCHA of a page."""

    method: str
    site_key: str
    provider: Provider


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The evaluation of a response: the key of a page text (empty if the token is valid), and a note for operators."""

    message: str = ""
    note: str = ""


def find_widget(tenant: Document) -> Widget | None:
    """Return the CAPTCHA of a tenant's pages; None if it enables none, or has not both of its keys."""
    settings = tenant["captchaConfiguration"]
    if not settings["enabled"] or not settings.get("siteKey") or not settings.get("secretKey"):
        return None
    method = settings["captchaMethod"]
    return Widget(method, settings["siteKey"], PROVIDERS[method])


def token_problem(token: str) -> str:
    """Return the key of the page text for a token that no provider needs to see; empty for others."""
    if not token:
        return MISSING
    return INVALID if len(token) > _MAXIMUM_TOKEN else ""


def evaluate(response: Mapping[str, Any], method: str, threshold: float) -> Verdict:
    """Evaluate the response of a provider to a token.

    reCAPTCHA scores are 1 for people and 0 for programs; hCaptcha scores are risks, 0 for people and 1 for programs.
    A response without the score of a scoring method passes no one.
    """
    success, errors = response.get("success"), response.get("error-codes") or []
    if not isinstance(success, bool) or not isinstance(errors, list):
        return Verdict(UNAVAILABLE, "the response of the provider has an unknown form")
    if not success:
        wrong = sorted(_CONFIGURATION_ERRORS.intersection(str(error) for error in errors))
        return (
            Verdict(UNAVAILABLE, f"the provider rejected the configuration: {wrong[0]}") if wrong else Verdict(INVALID)
        )
    if method not in {"GoogleRecaptchaV3", "HCaptchaEnterprise"}:
        return Verdict()
    score = response.get("score")
    if not isinstance(score, int | float) or isinstance(score, bool):
        return Verdict(UNAVAILABLE, f"the response of the provider has no score, which {method} needs")
    passes = score >= threshold if method == "GoogleRecaptchaV3" else score <= threshold
    return Verdict() if passes else Verdict(INVALID)
