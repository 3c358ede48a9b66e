"""Canonical origins, and recognition of the service's own origins."""

from __future__ import annotations

import pytest

from identity.domain.objects.cors import canonical_origin, is_same_host


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("*", "*"),
        ("https://app.example.com", "https://app.example.com"),
        (" HTTPS://App.Example.com/ ", "https://app.example.com"),
        ("https://app.example.com:443", "https://app.example.com"),
        ("http://app.example.com:80", "http://app.example.com"),
        ("http://app.example.com:443", "http://app.example.com:443"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:80", "http://[::1]"),
        ("ionic://localhost", "ionic://localhost"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
    ],
)
def test_origin_is_canonicalized(text: str, origin: str) -> None:
    assert canonical_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "app.example.com", "https://", "https:///", "://x", "https://a/b", "https://a?b", "https://u@a",
        "https://a b", "https://a:port", "https://a:123456", "https://*.example.com", "1http://a", "http://[::1",
        "http://a,http://b", "**",
    ],
)  # fmt: skip
def test_invalid_origins_are_rejected(text: str) -> None:
    assert canonical_origin(text) is None


@pytest.mark.requirement("core-17-14")
@pytest.mark.parametrize(
    ("origin", "base_url", "host", "is_same"),
    [
        ("https://id.example.com", "https://id.example.com", "internal:9011", True),
        ("https://id.example.com", "https://id.example.com/", "internal:9011", True),
        ("https://id.example.com", "https://id.example.com:443/path", "internal:9011", True),
        ("http://internal:9011", "https://id.example.com", "internal:9011", True),
        ("https://internal", "https://id.example.com", "INTERNAL:443", True),
        ("https://internal", "https://id.example.com", "internal", True),
        ("http://id.example.com", "https://id.example.com", "internal", False),
        ("https://id.example.com:444", "https://id.example.com", "id.example.com", False),
        ("https://evil.example.com", "https://id.example.com", "internal", False),
        ("https://internal.evil.com", "https://id.example.com", "internal", False),
        ("null", "https://id.example.com", "null", False),
        ("", "https://id.example.com", "", False),
        ("nonsense", "https://id.example.com", "nonsense", False),
        ("http://[", "https://id.example.com", "[", False),
    ],
)
def test_same_host_is_base_url_or_request_host(origin: str, base_url: str, host: str, is_same: bool) -> None:
    assert is_same_host(origin, base_url, host) is is_same
