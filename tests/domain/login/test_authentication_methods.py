"""Mapping of authenticationType to the methods of RFC 8176."""

from __future__ import annotations

import pytest

from identity.domain.login import authentication_methods


@pytest.mark.requirement("oauth-1.8-18")
@pytest.mark.parametrize(
    ("authentication_type", "methods"),
    [
        ("PASSWORD", ("pwd",)),
        ("LDAP_CONNECTOR", ("pwd",)),
        ("ONE_TIME_PASSWORD", ("otp",)),
        ("PASSWORDLESS", ("otp",)),
        ("WebAuthn", ("hwk",)),
        ("OPENID_CONNECT", ("fed",)),
        ("FEDERATED_JWT", ("fed",)),
        ("SAMLv2IdpInitiated", ("fed",)),
        ("PING", ()),
        ("REFRESH_TOKEN", ()),
        ("unheard of", ()),
    ],
)
def test_authentication_type_determines_amr(authentication_type, methods):
    assert authentication_methods.of(authentication_type) == methods


@pytest.mark.requirement("oauth-1.8-18")
@pytest.mark.parametrize(
    ("authentication_type", "second_factor", "methods"),
    [
        ("PASSWORD", "authenticator", ("pwd", "otp", "mfa")),
        ("PASSWORD", "sms", ("pwd", "otp", "sms", "mfa")),
        ("PASSWORD", "recoveryCode", ("pwd", "otp", "mfa")),
        ("PASSWORDLESS", "email", ("otp", "mfa")),
        ("OPENID_CONNECT", "authenticator", ("fed", "otp", "mfa")),
        ("PASSWORD", "trust", ("pwd",)),
        ("PASSWORD", "", ("pwd",)),
        ("PING", "authenticator", ()),
    ],
)
def test_amr_has_both_factors(authentication_type, second_factor, methods):
    assert authentication_methods.of(authentication_type, second_factor) == methods
