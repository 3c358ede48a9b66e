"""CAPTCHAs: which tenants show one, and which responses of a provider pass."""

from __future__ import annotations

import pytest

from identity.domain.captcha.captchas import (
    INVALID,
    MISSING,
    PROVIDERS,
    UNAVAILABLE,
    evaluate,
    find_widget,
    token_problem,
)

KEYS = {"enabled": True, "captchaMethod": "HCaptcha", "siteKey": "site", "secretKey": "secret", "threshold": 0.5}


@pytest.mark.parametrize("change", [{"enabled": False}, {"siteKey": ""}, {"secretKey": None}])
def test_tenant_without_an_enabled_captcha_or_a_key_shows_none(change):
    assert find_widget({"captchaConfiguration": {**KEYS, **change}}) is None


@pytest.mark.parametrize("method", sorted(PROVIDERS))
def test_every_method_has_a_widget_from_its_provider_only(method):
    widget = find_widget({"captchaConfiguration": {**KEYS, "captchaMethod": method}})
    assert widget is not None
    assert widget.provider is PROVIDERS[method]
    hosts = ("hcaptcha.com",) if method.startswith("H") else ("google.com", "gstatic.com")
    sources = [
        source.rstrip("/").removesuffix("/recaptcha") for row in widget.provider.sources.values() for source in row
    ]
    assert all(source.startswith("https://") and source.endswith(hosts) for source in sources)


@pytest.mark.parametrize(
    ("method", "response", "message"),
    [
        ("GoogleRecaptchaV2", {"success": True}, ""),
        ("GoogleRecaptchaV2", {"success": False, "error-codes": ["timeout-or-duplicate"]}, INVALID),
        ("GoogleRecaptchaV2", {"success": False}, INVALID),
        ("GoogleRecaptchaV2", {"success": False, "error-codes": ["invalid-input-secret"]}, UNAVAILABLE),
        ("GoogleRecaptchaV2", {"success": "true"}, UNAVAILABLE),
        ("GoogleRecaptchaV2", {"success": True, "error-codes": "x"}, UNAVAILABLE),
        ("GoogleRecaptchaV2", {}, UNAVAILABLE),
        ("GoogleRecaptchaV3", {"success": True, "score": 0.5}, ""),
        ("GoogleRecaptchaV3", {"success": True, "score": 0.4}, INVALID),
        ("GoogleRecaptchaV3", {"success": False, "score": 0.9}, INVALID),
        ("GoogleRecaptchaV3", {"success": True}, UNAVAILABLE),
        ("GoogleRecaptchaV3", {"success": True, "score": True}, UNAVAILABLE),
        ("GoogleRecaptchaV3", {"success": True, "score": "0.9"}, UNAVAILABLE),
        ("HCaptcha", {"success": True, "score": 1}, ""),
        ("HCaptcha", {"success": False, "error-codes": ["sitekey-secret-mismatch"]}, UNAVAILABLE),
        ("HCaptchaEnterprise", {"success": True, "score": 0.5}, ""),
        ("HCaptchaEnterprise", {"success": True, "score": 0.6}, INVALID),
        ("HCaptchaEnterprise", {"success": True}, UNAVAILABLE),
    ],
)
def test_response_passes_by_success_and_score(method, response, message):
    verdict = evaluate(response, method, 0.5)
    assert verdict.message == message
    assert bool(verdict.note) == (message == UNAVAILABLE)


def test_tokens_that_no_provider_could_have_issued_are_not_sent():
    assert token_problem("") == MISSING
    assert token_problem("x" * 8193) == INVALID
    assert token_problem("x") == ""
