"""Masking of secret members."""

from __future__ import annotations

from typing import Any

import pytest

from identity.domain.objects.secret_masking import MASK, masked


@pytest.mark.requirement("core-15-11")
@pytest.mark.parametrize(
    "name",
    [
        "password", "httpAuthenticationPassword", "clientSecret", "secret", "secretKey", "privateKey", "apiKey", "key",
        "salt", "token", "refreshToken", "access_token", "changePasswordId", "verificationId", "code_verifier",
        "oneTimePassword", "PASSWORD", "Authorization", "Cookie", "Set-Cookie", "accessKey",
        "credential", "credentials", "recoveryCode",
    ],
)  # fmt: skip
def test_texts_of_secret_members_are_masked_at_every_depth(name: str) -> None:
    assert masked({name: "hush"}) == {name: MASK}
    assert masked([{"a": {name: "hush", "b": 1}}]) == [{"a": {name: MASK, "b": 1}}]
    assert masked({name: ["hush", "hush"]}) == {name: [MASK, MASK]}


@pytest.mark.requirement("core-15-11")
@pytest.mark.parametrize(
    "value",
    [
        {"passwordChangeRequired": True, "passwordLastUpdateInstant": 5},
        {"passwordValidationRules": {"minLength": 8}},
        {"passwordEncryptionConfiguration": {"encryptionScheme": "salted-pbkdf2-hmac-sha256"}},
        {"signingKeyId": "an id", "tokenType": "Bearer", "keyId": "an id", "secretary": "Ada"},
        {"jwtConfiguration": {"refreshTokenExpirationPolicy": "Fixed"}},
        {"token": {"id": "an object is looked into"}},
        {"token": 5, "password": None},
        "just text", 5, None, True, [], {},
    ],
)  # fmt: skip
def test_other_values_are_unchanged(value: Any) -> None:
    assert masked(value) == value


def test_every_value_of_a_token_map_is_masked() -> None:
    value = {"tokens": {"google": "hush", "deep": {"er": ["hush", 5]}}}
    assert masked(value) == {"tokens": {"google": MASK, "deep": {"er": [MASK, 5]}}}


def test_signed_tokens_are_masked_inside_any_text() -> None:
    assert masked("Bearer eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl and more") == f"Bearer {MASK} and more"
    assert masked({"note": ["eyJhbGciOi.eyJzdWIiOi."]}) == {"note": [MASK]}
    assert masked("a.b-eyJhbGciOi.eyJzdWIiOi.c2ln.eyJhbGciOi.eyJzdWIiOi.c2ln") == f"a.b-{MASK}.{MASK}"


@pytest.mark.parametrize(
    "text", ["eyJhbGciOi", "eyJhbGciOi.eyJzdWIiOi", "eyJhbGciOi..c2ln", "eyJ.eyJ.c2ln", "heyJhbGciOi.a.b"]
)
def test_text_with_the_start_of_a_token_is_unchanged(text: str) -> None:
    assert masked(text) == text


def test_masking_takes_linear_time() -> None:
    """A megabyte of them: quadratic time would be noticed."""
    text = "eyJaaaa-" * 130_000
    assert masked(text) == text


def test_original_value_is_not_modified() -> None:
    value = {"password": "hush", "list": [{"secret": "hush"}]}
    masked(value)
    assert value == {"password": "hush", "list": [{"secret": "hush"}]}
