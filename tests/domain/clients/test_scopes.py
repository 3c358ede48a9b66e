"""Scopes: syntax, classes, and the three policies for unknown ones."""

from __future__ import annotations

import pytest

from identity.domain.clients import scopes
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import InvalidScope
from tests.builders import make_application


def allowed(text: str, policy: str, **oauth):
    application = make_application({"unknownScopePolicy": policy, **oauth})
    application["scopes"] = [{"name": "orders:read", "required": False}]
    return scopes.apply_policy(scopes.parse(text), OAuthSettings.of(application), application["scopes"])


@pytest.mark.requirement("contract-authorize-scope", "oauth-1.9-31")
@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, ()), ("", ()), ("openid", ("openid",)), ("b a  b a ", ("b", "a")), ("Openid openid", ("Openid", "openid"))],
)
def test_scopes_keep_their_order_and_occur_once(text, expected):
    assert scopes.parse(text) == expected


@pytest.mark.requirement("oauth-1.9-30")
@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\tb", "a\nb", "é", "a\x00", " ".join(map(str, range(101)))])
def test_malformed_scope_is_refused(text):
    with pytest.raises(InvalidScope) as caught:
        scopes.parse(text)
    assert caught.value.reason == "unknown_scope"


@pytest.mark.requirement("oauth-1.9-18")
@pytest.mark.parametrize("policy", ["Allow", "Remove", "Reject"])
def test_known_scopes_pass_under_every_policy(policy):
    known = "openid offline_access address email phone profile orders:read"
    assert allowed(known, policy) == tuple(known.split())


@pytest.mark.parametrize(
    ("policy", "expected"), [("Allow", ("openid", "other", "email")), ("Remove", ("openid", "email"))]
)
def test_unknown_scope_is_kept_or_dropped(policy, expected):
    assert allowed("openid other email", policy) == expected


@pytest.mark.requirement("oauth-1.9-18")
@pytest.mark.parametrize("text", ["other", "openid Email", "orders", "orders:readx", "target-entity:x"])
def test_unknown_scope_is_rejected_by_default(text):
    with pytest.raises(InvalidScope) as caught:
        allowed(text, "Reject")
    assert (caught.value.error, caught.value.reason) == ("invalid_scope", "unknown_scope")


@pytest.mark.requirement("oauth-1.9-18")
def test_disabled_provided_scope_is_unknown():
    oauth = {"providedScopePolicy": {"phone": {"enabled": False}}}
    assert allowed("openid phone email", "Remove", **oauth) == ("openid", "email")


@pytest.mark.requirement("attack-28")
def test_attack_28_narrowing_never_raises():
    assert scopes.narrow(("email",), ("openid", "email")) == ("email",)
    with pytest.raises(InvalidScope):
        scopes.narrow(("email", "phone"), ("openid", "email"))
