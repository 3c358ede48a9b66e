"""Rules of token exchange (RFC 8693): actors, scopes, audiences and lifetime."""

from __future__ import annotations

import pytest

from identity.domain.authorization import token_exchange
from identity.domain.authorization.token_exchange import TokenExchangePolicy
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.errors import InvalidRequest, InvalidScope, InvalidTarget

ISSUER = "https://id.example.com"
ACTOR = {"sub": "gateway"}
OAUTH = OAuthSettings(
    provided_scope_policy={name: {"enabled": True} for name in ("address", "email", "phone", "profile")},
    unknown_scope_policy="Reject",
)


@pytest.mark.requirement("oauth-12-32")
@pytest.mark.parametrize("may_act", [
    {"sub": "gateway"}, {"sub": "gateway", "iss": ISSUER}, {"client_id": "gateway"}, {"sub": "gateway", "exp": 1},
])  # fmt: skip
def test_named_actor_may_act(may_act):
    token_exchange.require_may_act({"iss": ISSUER, "may_act": may_act}, ACTOR, "gateway")


@pytest.mark.requirement("oauth-12-32")
@pytest.mark.parametrize("may_act", [
    {}, None, "gateway", ["gateway"], {"exp": 1}, {"sub": "another"}, {"sub": ["gateway"]},
    {"sub": "gateway", "iss": "https://other.example.com"}, {"sub": "gateway", "client_id": "another"},
])  # fmt: skip
def test_other_parties_may_not_act(may_act):
    with pytest.raises(InvalidRequest):
        token_exchange.require_may_act({"iss": ISSUER, "may_act": may_act}, ACTOR, "gateway")


@pytest.mark.requirement("oauth-12-32")
def test_earlier_actors_are_kept_in_order():
    first = token_exchange.act_claim({}, {"sub": "one"}, 2)
    second = token_exchange.act_claim({"act": first}, {"sub": "two"}, 2)
    assert second == {"sub": "two", "act": {"sub": "one"}}
    assert token_exchange.act_claim({"act": second}, None, 2) == second
    assert token_exchange.act_claim({}, None, 2) is None
    with pytest.raises(InvalidRequest):
        token_exchange.act_claim({"act": second}, {"sub": "three"}, 2)


@pytest.mark.requirement("oauth-12-31")
@pytest.mark.parametrize(("requested", "granted"), [
    (None, ("openid", "email")), ("email", ("email",)), ("email openid", ("email", "openid")),
])  # fmt: skip
def test_scopes_are_kept_or_narrowed(requested, granted):
    held = ("openid", "offline_access", "email", "unknown-to-the-client")
    assert token_exchange.granted_scopes(requested, held, OAUTH, []) == granted


@pytest.mark.requirement("oauth-12-31")
@pytest.mark.parametrize("requested", ["phone", "email phone", "offline_access", "unknown-to-the-client"])
def test_scopes_are_never_widened(requested):
    held = ("openid", "offline_access", "email", "unknown-to-the-client")
    with pytest.raises(InvalidScope):
        token_exchange.granted_scopes(requested, held, OAUTH, [])


@pytest.mark.requirement("oauth-12-31")
def test_audiences_are_those_of_the_application():
    policy = TokenExchangePolicy(audiences=("orders", "https://api.example.com"))
    assert token_exchange.requested_audiences("orders https://api.example.com orders", policy) == policy.audiences
    assert token_exchange.requested_audiences(None, policy) == ()
    with pytest.raises(InvalidTarget):
        token_exchange.requested_audiences("orders billing", policy)


@pytest.mark.requirement("oauth-12-31")
def test_new_token_does_not_outlive_the_presented_ones():
    assert token_exchange.lifetime_seconds(3600, 1000, [{"exp": 9000}]) == 3600
    assert token_exchange.lifetime_seconds(3600, 1000, [{"exp": 1500}]) == 500
    assert token_exchange.lifetime_seconds(3600, 1000, [{"exp": 1500}, {"exp": 1010}]) == 10
