"""Security profiles of an application: `baseline`, without restrictions, and `strict`, which enforces RFC 9700.

    contradictions  settings of an application that are rejected together with strict
    shortcomings    the same for a baseline application, and those of its tenant, as reported by check-config

Whatever the settings, strict requires PKCE and exact redirect URIs, excludes the implicit and password grants, limits
the lifetime of codes, and makes refresh tokens that are bound to no key single-use. An application that also requires
pushed requests and DPoP has to authenticate as in FAPI 2.0 (docs/oauth/profiles.md).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Final

from identity.call import Document
from identity.domain.clients import redirect_uris
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.domain.clients.refresh_tokens import RefreshTokenPolicy
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.objects.owner_settings import RevocationPolicy

BASELINE: Final = "baseline"
STRICT: Final = "strict"
MAXIMUM_CODE_SECONDS: Final = 60
"""The maximum lifetime of a code under strict (FAPI 2.0 Security Profile 5.3.2.1)."""
MAXIMUM_GRACE_SECONDS: Final = 60
"""The maximum grace period of single-use refresh tokens, during which theft is not detected."""

_REFUSED_GRANTS: Final = {
    "implicit": ("RFC 9700 section 2.1.2", "the implicit grant puts access tokens into URLs"),
    "password": ("RFC 9700 section 2.4", "the password grant shows passwords to the client"),
}
_PRIVATE_USE = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+", re.IGNORECASE)
_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\])(:[0-9]+)?(/.*|\?.*)?")
_PKCS1_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512"})
_ID_TOKEN_ALGORITHMS: Final = frozenset({"ES256", "PS256", "Ed25519"})
_FAPI_METHODS: Final = frozenset({"private_key_jwt", "self_signed_tls_client_auth", "tls_client_auth"})


@dataclasses.dataclass(frozen=True, slots=True)
class Shortcoming:
    """A setting that does not comply with strict: its dotted path, the problem, and the specification."""

    path: str
    problem: str
    rule: str


def is_strict(application: Document) -> bool:
    """Whether the application has the profile strict."""
    return bool(application["oauthConfiguration"].get("profile") == STRICT)


def may_use_grant(application: Document, grant_type: str) -> bool:
    """Whether the application enables a grant, and its profile allows it."""
    if is_strict(application) and grant_type in _REFUSED_GRANTS:
        return False
    return grant_type in application["oauthConfiguration"]["enabledGrants"]


def allows_tokens_by_api(application: Document) -> bool:
    """Whether logins and refreshes over the API issue tokens.

    Under strict only the token endpoint does, which authenticates the client; also if tokens have to be bound to a key
    (RFC 9449) or a certificate (RFC 8705), for which the API has no proof.
    """
    return not (is_strict(application) or _has_bound_access_tokens(application["oauthConfiguration"]))


def allows_hybrid_flow(application: Document) -> bool:
    """Whether the hybrid response types are enabled; under strict they are not."""
    return bool(application["oauthConfiguration"].get("hybridResponseTypesEnabled")) and not is_strict(application)


def pkce_policy(application: Document) -> str:
    """Return the effective proofKeyForCodeExchangePolicy."""
    if is_strict(application):
        return "Required"
    return str(application["oauthConfiguration"]["proofKeyForCodeExchangePolicy"])


def is_redirect_uri_authorized(url: str, application: Document) -> bool:
    """Whether a redirect URI is the application's, by the effective policy."""
    oauth = application["oauthConfiguration"]
    if not is_strict(application):
        return redirect_uris.is_authorized(url, oauth["authorizedRedirectURLs"], oauth["authorizedURLValidationPolicy"])
    compliant = [registered for registered in oauth["authorizedRedirectURLs"] if _redirect_problem(registered) is None]
    return redirect_uris.is_authorized(url, compliant, redirect_uris.EXACT)


def code_lifetime_seconds(tenant: Document, application: Document) -> int:
    """Return the lifetime of the application's codes."""
    seconds = Lifetimes.of(tenant).authorization_code_seconds
    return min(seconds, MAXIMUM_CODE_SECONDS) if is_strict(application) else seconds


def refresh_policy(tenant: Document, application: Document) -> RefreshTokenPolicy:
    """Return the effective policy of the application's refresh tokens: its own if it is enabled, else the tenant's."""
    own = application["jwtConfiguration"]
    policy = RefreshTokenPolicy.of(own if own["enabled"] else tenant["jwtConfiguration"])
    if not (is_strict(application) and _needs_rotation(application)):
        return policy
    return dataclasses.replace(policy, is_one_time=True, grace_seconds=min(policy.grace_seconds, MAXIMUM_GRACE_SECONDS))


def revokes_on_reuse(tenant: Document, application: Document) -> bool:
    """Whether reusing a rotated refresh token revokes it with all its access tokens."""
    is_strictly_rotated = is_strict(application) and _needs_rotation(application)
    return RevocationPolicy.of(tenant).on_one_time_token_reuse or is_strictly_rotated


def is_algorithm_allowed(oauth: OAuthSettings, algorithm: object) -> bool:
    """Whether a client with these settings may sign with `algorithm`.

    Under strict RSA keys sign with PSS only, whatever the `alg` of the JWK (FAPI 2.0 section 5.4.1).
    """
    return oauth.profile != STRICT or algorithm not in _PKCS1_ALGORITHMS


def contradictions(application: Document) -> Iterator[Shortcoming]:
    """Yield the settings of an application that contradict strict."""
    oauth, prefix = application["oauthConfiguration"], "application.oauthConfiguration"
    if oauth["proofKeyForCodeExchangePolicy"] != "Required":
        yield Shortcoming(f"{prefix}.proofKeyForCodeExchangePolicy", "must be Required", "RFC 9700 section 2.1.1")
    yield from _redirect_contradictions(oauth, prefix)
    for index, grant_type in enumerate(oauth["enabledGrants"]):
        if grant_type in _REFUSED_GRANTS:
            rule, why = _REFUSED_GRANTS[grant_type]
            yield Shortcoming(f"{prefix}.enabledGrants[{index}]", f"must not be {grant_type}: {why}", rule)
    if oauth.get("hybridResponseTypesEnabled"):
        problem = "must be false: tokens come from the token endpoint alone"
        yield Shortcoming(f"{prefix}.hybridResponseTypesEnabled", problem, "RFC 9700 section 2.1.2")
    yield from _key_contradictions(oauth, prefix)
    if application["jwtConfiguration"]["enabled"] and _needs_rotation(application):
        yield from _reuse_contradictions(application["jwtConfiguration"], "application.jwtConfiguration")
    if oauth.get("requirePushedAuthorizationRequests") and _has_bound_access_tokens(oauth):
        yield from _fapi_contradictions(oauth, prefix)


def id_token_contradictions(algorithm: str | None) -> Iterator[Shortcoming]:
    """Yield the problem of the algorithm that signs the ID tokens of a strict application."""
    if algorithm not in _ID_TOKEN_ALGORITHMS:
        problem = "must name an ES256, PS256 or EdDSA key, or be left to a tenant that names one"
        yield Shortcoming("application.jwtConfiguration.idTokenKeyId", problem, "FAPI 2.0 section 5.4.1")


def shortcomings(tenant: Document, application: Document, id_token_algorithm: str | None) -> Iterator[Shortcoming]:
    """Yield everything in which an application does not comply with strict, including settings of its tenant.

    `id_token_algorithm` is that of the key that signs the application's ID tokens, None for a client secret.
    """
    if not is_strict(application):
        yield Shortcoming("application.oauthConfiguration.profile", "is not strict", "RFC 9700")
        yield from _weak_settings(tenant, application)
    yield from contradictions(application)
    yield from id_token_contradictions(id_token_algorithm)
    if re.fullmatch(r"https://[^?#]+", tenant["issuer"]) is None:
        problem = "must be an https URL without query and fragment"
        yield Shortcoming("tenant.issuer", problem, "RFC 9207 section 2")


def report(tenant: Document, application: Document, id_token_algorithm: str | None) -> Document:
    """Return the profile of an application and its shortcomings, for operators."""
    return {
        "applicationId": application["id"],
        "name": application["name"],
        "tenantId": tenant["id"],
        "tenantName": tenant["name"],
        "profile": STRICT if is_strict(application) else BASELINE,
        "shortcomings": [dataclasses.asdict(found) for found in shortcomings(tenant, application, id_token_algorithm)],
    }


def _weak_settings(tenant: Document, application: Document) -> Iterator[Shortcoming]:
    """Yield the settings that strict would override."""
    if code_lifetime_seconds(tenant, application) > MAXIMUM_CODE_SECONDS:
        path = "tenant.externalIdentifierConfiguration.authorizationGrantIdTimeToLiveInSeconds"
        yield Shortcoming(path, f"must be at most {MAXIMUM_CODE_SECONDS}", "FAPI 2.0 section 5.3.2.1")
    if not _needs_rotation(application):
        return
    if not application["jwtConfiguration"]["enabled"]:
        yield from _reuse_contradictions(tenant["jwtConfiguration"], "tenant.jwtConfiguration")
    if not revokes_on_reuse(tenant, application):
        path = "tenant.jwtConfiguration.refreshTokenRevocationPolicy.onOneTimeTokenReuse"
        yield Shortcoming(path, "must be true where tokens are bound to no key", "RFC 9700 section 4.14.2")


def _redirect_contradictions(oauth: Document, prefix: str) -> Iterator[Shortcoming]:
    if oauth["authorizedURLValidationPolicy"] != redirect_uris.EXACT:
        path = f"{prefix}.authorizedURLValidationPolicy"
        yield Shortcoming(path, f"must be {redirect_uris.EXACT}", "RFC 9700 section 2.1")
    for index, url in enumerate(oauth["authorizedRedirectURLs"]):
        problem = _redirect_problem(url)
        if problem is not None:
            yield Shortcoming(f"{prefix}.authorizedRedirectURLs[{index}]", *problem)


def _redirect_problem(url: str) -> tuple[str, str] | None:
    """Return the problem of a redirect URI and the rule: https, or that of a native app (RFC 8252 section 7)."""
    if "*" in url:
        return "must not contain a wildcard", "RFC 9700 section 2.1"
    scheme = url.partition(":")[0].lower()
    if scheme == "https" or _PRIVATE_USE.fullmatch(scheme) or _LOOPBACK.fullmatch(url):
        return None
    if scheme == "http":
        return "must be https, or http at 127.0.0.1 or [::1]", "RFC 9700 section 2.6"
    return "must have a scheme of the app's own, with the dots of a domain", "RFC 8252 section 7.1"


def _key_contradictions(oauth: Document, prefix: str) -> Iterator[Shortcoming]:
    """Yield registered public keys with an algorithm that strict does not allow."""
    for index, jwk in enumerate(oauth.get("jwks", {}).get("keys", ())):
        if jwk.get("alg") in _PKCS1_ALGORITHMS:
            path = f"{prefix}.jwks.keys[{index}]"
            yield Shortcoming(path, "must have an alg of PS256, PS384 or PS512, or none", "FAPI 2.0 section 5.4.1")


def _fapi_contradictions(oauth: Document, prefix: str) -> Iterator[Shortcoming]:
    """Yield the authentication methods that FAPI 2.0 does not allow."""
    methods = set(oauth.get("clientAuthenticationMethods", ()))
    if not methods or methods - _FAPI_METHODS:
        problem = "must be private_key_jwt or a method of mutual TLS, and no other"
        yield Shortcoming(f"{prefix}.clientAuthenticationMethods", problem, "FAPI 2.0 section 5.3.2.1")


def _needs_rotation(application: Document) -> bool:
    """Whether the application gets refresh tokens that are bound to no key, and hence need rotation."""
    oauth: dict[str, Any] = application["oauthConfiguration"]
    issues_refresh_tokens = oauth["generateRefreshTokens"] and "refresh_token" in oauth["enabledGrants"]
    return bool(issues_refresh_tokens and not _has_bound_access_tokens(oauth))


def _has_bound_access_tokens(oauth: Document) -> bool:
    return bool(oauth.get("dpopBoundAccessTokens") or oauth.get("tlsClientCertificateBoundAccessTokens"))


def _reuse_contradictions(jwt_configuration: Document, prefix: str) -> Iterator[Shortcoming]:
    """Yield the settings that allow to reuse refresh tokens."""
    policy = RefreshTokenPolicy.of(jwt_configuration)
    if not policy.is_one_time:
        problem = "must be OneTimeUse where tokens are bound to no key"
        yield Shortcoming(f"{prefix}.refreshTokenUsagePolicy", problem, "RFC 9700 section 2.2.2")
    if policy.grace_seconds > MAXIMUM_GRACE_SECONDS:
        path = f"{prefix}.refreshTokenOneTimeUseConfiguration.gracePeriodInSeconds"
        problem = f"must be at most {MAXIMUM_GRACE_SECONDS}"
        yield Shortcoming(path, problem, "RFC 9700 section 4.14.2")
