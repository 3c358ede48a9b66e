"""The strict security profile: conflicting settings, implied settings, and gaps of baseline applications."""

from __future__ import annotations

import pytest

from identity.domain.clients import security_profiles
from tests.builders import make_application, make_tenant

GOOD = {
    "profile": "strict",
    "proofKeyForCodeExchangePolicy": "Required",
    "authorizedRedirectURLs": ["https://app.example.com/cb", "http://127.0.0.1/cb", "http://[::1]:8/cb", "com.ex:/cb"],
}
PUBLIC = {"clientAuthenticationPolicy": "NotRequired"}
FAPI = {
    "requirePushedAuthorizationRequests": True,
    "dpopBoundAccessTokens": True,
    "clientAuthenticationMethods": ["private_key_jwt"],
}
REUSABLE = {"enabled": True, "refreshTokenUsagePolicy": "Reusable"}


def make(oauth=None, **members):
    return make_application({**GOOD, **(oauth or {})}, **members)


def paths(application) -> list[str]:
    return [found.path.removeprefix("application.") for found in security_profiles.contradictions(application)]


def lacks(tenant, application) -> set[str]:
    return {found.path for found in security_profiles.shortcomings(tenant, application, "ES256")}


@pytest.mark.parametrize("oauth", [{}, FAPI, {**PUBLIC, "dpopBoundAccessTokens": True}])
def test_compliant_application_has_no_contradictions(oauth):
    assert paths(make(oauth)) == []


@pytest.mark.requirement("oauth-12-27")
@pytest.mark.parametrize(
    ("oauth", "path", "rule"),
    [
        ({"proofKeyForCodeExchangePolicy": "NotRequired"}, "proofKeyForCodeExchangePolicy", "RFC 9700 section 2.1.1"),
        (
            {"proofKeyForCodeExchangePolicy": "NotRequiredWhenUsingClientAuthentication"},
            "proofKeyForCodeExchangePolicy",
            "RFC 9700 section 2.1.1",
        ),
        ({"authorizedURLValidationPolicy": "AllowWildcards"}, "authorizedURLValidationPolicy", "RFC 9700 section 2.1"),
        ({"enabledGrants": ["authorization_code", "implicit"]}, "enabledGrants[1]", "RFC 9700 section 2.1.2"),
        ({"enabledGrants": ["password"]}, "enabledGrants[0]", "RFC 9700 section 2.4"),
        ({"hybridResponseTypesEnabled": True}, "hybridResponseTypesEnabled", "RFC 9700 section 2.1.2"),
        (
            {name: value for name, value in FAPI.items() if name != "clientAuthenticationMethods"},
            "clientAuthenticationMethods",
            "FAPI 2.0 section 5.3.2.1",
        ),
        (
            {**FAPI, "clientAuthenticationMethods": ["private_key_jwt", "client_secret_basic"]},
            "clientAuthenticationMethods",
            "FAPI 2.0 section 5.3.2.1",
        ),
    ],
)
def test_contradiction_names_setting_and_rule(oauth, path, rule):
    found = list(security_profiles.contradictions(make(oauth)))
    assert [(each.path, each.rule) for each in found] == [(f"application.oauthConfiguration.{path}", rule)]


@pytest.mark.requirement("oauth-12-27")
@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://app.example.com/cb", "RFC 9700 section 2.6"),
        ("http://localhost/cb", "RFC 9700 section 2.6"),
        ("http://127.0.0.1.example.com/cb", "RFC 9700 section 2.6"),
        ("https://*.app.example.com/cb", "RFC 9700 section 2.1"),
        ("myapp:/cb", "RFC 8252 section 7.1"),
    ],
)
def test_redirect_uri_is_https_or_a_native_apps_own(url, rule):
    application = make({"authorizedRedirectURLs": ["https://good.example.com/", url]})
    found = list(security_profiles.contradictions(application))
    assert [(each.path, each.rule) for each in found] == [
        ("application.oauthConfiguration.authorizedRedirectURLs[1]", rule)
    ]
    assert not security_profiles.is_redirect_uri_authorized(url, application)
    assert security_profiles.is_redirect_uri_authorized("https://good.example.com/", application)


def test_refresh_tokens_are_for_one_use_unless_they_are_bound_to_a_key():
    tenant, bound = make_tenant(), make({"dpopBoundAccessTokens": True})
    for application in (make(PUBLIC), make()):
        assert security_profiles.refresh_policy(tenant, application).is_one_time
        assert security_profiles.revokes_on_reuse(tenant, application)
    assert not security_profiles.refresh_policy(tenant, bound).is_one_time
    tenant["jwtConfiguration"]["refreshTokenRevocationPolicy"]["onOneTimeTokenReuse"] = False
    assert security_profiles.revokes_on_reuse(tenant, make(PUBLIC))
    assert not security_profiles.revokes_on_reuse(tenant, bound)
    for oauth in (PUBLIC, {}, {"clientAuthenticationMethods": ["client_secret_jwt"]}):
        assert paths(make(oauth, jwtConfiguration=REUSABLE)) == ["jwtConfiguration.refreshTokenUsagePolicy"]
    for without in (
        {"generateRefreshTokens": False}, {"enabledGrants": ["authorization_code"]}, {"dpopBoundAccessTokens": True},
    ):  # fmt: skip
        assert paths(make({**PUBLIC, **without}, jwtConfiguration=REUSABLE)) == []


def test_grace_period_is_at_most_a_minute():
    long = {"refreshTokenOneTimeUseConfiguration": {"gracePeriodInSeconds": 3600}}
    tenant = make_tenant(jwtConfiguration=long)
    grace = {
        name: security_profiles.refresh_policy(tenant, application).grace_seconds
        for name, application in (("strict", make()), ("bound", make({"dpopBoundAccessTokens": True})))
    }
    assert grace == {"strict": 60, "bound": 3600}
    own = {"enabled": True, "refreshTokenUsagePolicy": "OneTimeUse", **long}
    path = "jwtConfiguration.refreshTokenOneTimeUseConfiguration.gracePeriodInSeconds"
    assert paths(make(PUBLIC, jwtConfiguration=own)) == [path]
    assert f"tenant.{path}" in lacks(tenant, make({**PUBLIC, "profile": "baseline"}))


def test_code_lifetime_is_at_most_a_minute():
    tenant = make_tenant(externalIdentifierConfiguration={"authorizationGrantIdTimeToLiveInSeconds": 600})
    assert security_profiles.code_lifetime_seconds(tenant, make()) == 60
    assert security_profiles.code_lifetime_seconds(tenant, make({"profile": "baseline"})) == 600
    assert security_profiles.code_lifetime_seconds(make_tenant(), make()) == 30


def test_strict_profile_overrides_stored_settings():
    application = make(
        {"enabledGrants": ["implicit", "password", "authorization_code"], "hybridResponseTypesEnabled": True}
    )
    application["oauthConfiguration"]["proofKeyForCodeExchangePolicy"] = "NotRequired"
    assert [
        grant
        for grant in ("implicit", "password", "authorization_code")
        if security_profiles.may_use_grant(application, grant)
    ] == ["authorization_code"]
    assert not security_profiles.allows_hybrid_flow(application)
    assert security_profiles.pkce_policy(application) == "Required"


def test_application_without_a_profile_is_baseline():
    application = make({"enabledGrants": ["implicit"]})
    del application["oauthConfiguration"]["profile"]
    assert not security_profiles.is_strict(application)
    assert security_profiles.may_use_grant(application, "implicit")
    assert security_profiles.is_redirect_uri_authorized("com.ex:/cb", application)


def test_baseline_recommendations_depend_on_the_tenant():
    tenant = make_tenant(
        issuer="acme.com", externalIdentifierConfiguration={"authorizationGrantIdTimeToLiveInSeconds": 300}
    )
    strict, baseline = make(PUBLIC), make({**PUBLIC, "profile": "baseline"})
    assert lacks(tenant, strict) == {"tenant.issuer"}
    assert lacks(tenant, baseline) == {
        "application.oauthConfiguration.profile",
        "tenant.externalIdentifierConfiguration.authorizationGrantIdTimeToLiveInSeconds",
        "tenant.issuer",
        "tenant.jwtConfiguration.refreshTokenUsagePolicy",
    }


@pytest.mark.parametrize(("issuer", "lacking"), [("https://id.example.com/t", 0), ("https://x?y", 1), ("http://x", 1)])
def test_issuer_is_an_https_url(issuer, lacking):
    assert len(lacks(make_tenant(issuer=issuer), make())) == lacking


@pytest.mark.requirement("audit-b7-id-token-key")
@pytest.mark.parametrize(
    ("algorithm", "lacking"),
    [("ES256", 0), ("PS256", 0), ("Ed25519", 0), ("RS256", 1), ("ES384", 1), ("HS256", 1), (None, 1)],
)
def test_id_tokens_are_signed_with_es256_ps256_or_eddsa(algorithm, lacking):
    tenant = make_tenant(issuer="https://id.example.com")
    for application in (make(), make({"profile": "baseline"})):
        found = [each.path for each in security_profiles.shortcomings(tenant, application, algorithm)]
        assert found.count("application.jwtConfiguration.idTokenKeyId") == lacking
