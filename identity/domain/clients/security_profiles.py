"""Profiles of an application: `baseline`, which adds nothing, and `strict`, what RFC 9700 asks of an OAuth client.

    contradictions  what an application's own settings say against strict: they are refused together with it
    shortcomings    the same for an application that is baseline, and what its tenant adds: what check-config tells

What an application cannot say for itself is settled here where it is used: under strict PKCE is always required,
redirect URIs match exactly, implicit and password are no grants, codes are short-lived, and the refresh tokens of a
client without a secret are for one use, whatever the tenant says. Where an application also wants its requests pushed
and its tokens bound by DPoP, the rules of FAPI 2.0 for authenticating clients come on top (docs/oauth/profiles.md).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.clients import redirect_uris
from identity.domain.clients.refresh_tokens import RefreshTokenPolicy

BASELINE: Final = "baseline"
STRICT: Final = "strict"
MAXIMUM_CODE_SECONDS: Final = 60
"""The longest life of a code under strict (FAPI 2.0 Security Profile 5.3.2.1)."""
MAXIMUM_GRACE_SECONDS: Final = 60
"""How long at most a refresh token of one use goes on counting: nobody's theft is noticed in that time."""

_REFUSED_GRANTS: Final = {
    "implicit": ("RFC 9700 section 2.1.2", "the implicit grant puts access tokens into URLs"),
    "password": ("RFC 9700 section 2.4", "the password grant shows passwords to the client"),
}
_PRIVATE_USE = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+", re.IGNORECASE)
_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\])(:[0-9]+)?(/.*|\?.*)?")
_PKCS1_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512"})
_ID_TOKEN_ALGORITHMS: Final = frozenset({"ES256", "PS256", "Ed25519"})
_FAPI_METHODS: Final = frozenset({"private_key_jwt"})


@dataclasses.dataclass(frozen=True, slots=True)
class Shortcoming:
    """One setting that is less than strict: its dotted path, what is wrong with it, and the rule that says so."""

    path: str
    problem: str
    rule: str


def is_strict(application: Document) -> bool:
    """Whether the application has the profile strict."""
    return bool(application["oauthConfiguration"].get("profile") == STRICT)


def may_use_grant(application: Document, grant_type: str) -> bool:
    """Whether the application has a grant: enabled, and not one that its profile rules out."""
    if is_strict(application) and grant_type in _REFUSED_GRANTS:
        return False
    return grant_type in application["oauthConfiguration"]["enabledGrants"]


def allows_tokens_by_api(application: Document) -> bool:
    """Whether logins and refreshes over the API give tokens.

    Under strict the token endpoint alone does, which asks who the client is; and where tokens have to be bound to a key
    (RFC 9449), because nothing over the API proves one.
    """
    return not (is_strict(application) or application["oauthConfiguration"].get("dpopBoundAccessTokens"))


def allows_hybrid_flow(application: Document) -> bool:
    """Whether the hybrid response types are switched on; under strict a code comes alone."""
    return bool(application["oauthConfiguration"].get("hybridResponseTypesEnabled")) and not is_strict(application)


def pkce_policy(application: Document) -> str:
    """The proofKeyForCodeExchangePolicy that holds."""
    if is_strict(application):
        return "Required"
    return str(application["oauthConfiguration"]["proofKeyForCodeExchangePolicy"])


def is_authorized(url: str, application: Document) -> bool:
    """Whether a redirect URI is the application's, by the policy that holds."""
    oauth = application["oauthConfiguration"]
    if not is_strict(application):
        return redirect_uris.is_authorized(url, oauth["authorizedRedirectURLs"], oauth["authorizedURLValidationPolicy"])
    fit = [known for known in oauth["authorizedRedirectURLs"] if _redirect_problem(known) is None]
    return redirect_uris.is_authorized(url, fit, redirect_uris.EXACT)


def code_lifetime_seconds(tenant: Document, application: Document) -> int:
    """How long a code of the application lives."""
    seconds: int = tenant["externalIdentifierConfiguration"]["authorizationGrantIdTimeToLiveInSeconds"]
    return min(seconds, MAXIMUM_CODE_SECONDS) if is_strict(application) else seconds


def refresh_policy(application: Document, jwt_configuration: Document) -> RefreshTokenPolicy:
    """The policy of the application's refresh tokens, of which `jwt_configuration` is what its settings say."""
    policy = RefreshTokenPolicy.of(jwt_configuration)
    if not (is_strict(application) and _needs_rotation(application)):
        return policy
    return dataclasses.replace(policy, is_one_time=True, grace_seconds=min(policy.grace_seconds, MAXIMUM_GRACE_SECONDS))


def revokes_on_reuse(tenant: Document, application: Document) -> bool:
    """Whether a refresh token that is used after it was rotated out ends with all that came of it."""
    policy = tenant["jwtConfiguration"]["refreshTokenRevocationPolicy"]
    return bool(policy["onOneTimeTokenReuse"]) or (is_strict(application) and _needs_rotation(application))


def is_algorithm_allowed(oauth: Mapping[str, Any], algorithm: object) -> bool:
    """Whether a client with this oauthConfiguration may sign with `algorithm`.

    Under strict an RSA key signs with PSS only, whether or not its JWK has an `alg` (FAPI 2.0 section 5.4.1).
    """
    return oauth.get("profile") != STRICT or algorithm not in _PKCS1_ALGORITHMS


def contradictions(application: Document) -> Iterator[Shortcoming]:
    """What the settings of an application say against strict."""
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
        yield from _reuses(application["jwtConfiguration"], "application.jwtConfiguration")
    if oauth.get("requirePushedAuthorizationRequests") and oauth.get("dpopBoundAccessTokens"):
        yield from _fapi_contradictions(oauth, prefix)


def id_token_contradictions(algorithm: str | None) -> Iterator[Shortcoming]:
    """What is wrong with the algorithm of the key that signs the ID tokens of a strict application."""
    if algorithm not in _ID_TOKEN_ALGORITHMS:
        problem = "must name an ES256, PS256 or EdDSA key, or be left to a tenant that names one"
        yield Shortcoming("application.jwtConfiguration.idTokenKeyId", problem, "FAPI 2.0 section 5.4.1")


def shortcomings(tenant: Document, application: Document, id_token_algorithm: str | None) -> Iterator[Shortcoming]:
    """All in which an application is less than strict; of what its tenant says only what does not change with it.

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
    """Which profile an application has and what it lacks of strict, for an operator."""
    return {
        "applicationId": application["id"],
        "name": application["name"],
        "tenantId": tenant["id"],
        "tenantName": tenant["name"],
        "profile": STRICT if is_strict(application) else BASELINE,
        "shortcomings": [dataclasses.asdict(found) for found in shortcomings(tenant, application, id_token_algorithm)],
    }


def _weak_settings(tenant: Document, application: Document) -> Iterator[Shortcoming]:
    """What strict makes harmless by itself."""
    if code_lifetime_seconds(tenant, application) > MAXIMUM_CODE_SECONDS:
        path = "tenant.externalIdentifierConfiguration.authorizationGrantIdTimeToLiveInSeconds"
        yield Shortcoming(path, f"must be at most {MAXIMUM_CODE_SECONDS}", "FAPI 2.0 section 5.3.2.1")
    if not _needs_rotation(application):
        return
    if not application["jwtConfiguration"]["enabled"]:
        yield from _reuses(tenant["jwtConfiguration"], "tenant.jwtConfiguration")
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
    """What is wrong with a redirect URI, and by which rule: https, or a native app's own (RFC 8252 section 7)."""
    if "*" in url:
        return "must not hold a wildcard", "RFC 9700 section 2.1"
    scheme = url.partition(":")[0].lower()
    if scheme == "https" or _PRIVATE_USE.fullmatch(scheme) or _LOOPBACK.fullmatch(url):
        return None
    if scheme == "http":
        return "must be https, or http at 127.0.0.1 or [::1]", "RFC 9700 section 2.6"
    return "must have a scheme of the app's own, with the dots of a domain", "RFC 8252 section 7.1"


def _key_contradictions(oauth: Document, prefix: str) -> Iterator[Shortcoming]:
    """Registered public keys that are restricted to an algorithm that strict refuses."""
    for index, jwk in enumerate(oauth.get("jwks", {}).get("keys", ())):
        if jwk.get("alg") in _PKCS1_ALGORITHMS:
            path = f"{prefix}.jwks.keys[{index}]"
            yield Shortcoming(path, "must have an alg of PS256, PS384 or PS512, or none", "FAPI 2.0 section 5.4.1")


def _fapi_contradictions(oauth: Document, prefix: str) -> Iterator[Shortcoming]:
    """How a client authenticates that pushes its requests and binds its tokens; what it names, it has to use."""
    if set(oauth.get("clientAuthenticationMethods", ())) != _FAPI_METHODS:
        problem = "must be private_key_jwt alone"
        yield Shortcoming(f"{prefix}.clientAuthenticationMethods", problem, "FAPI 2.0 section 5.3.2.1")


def _needs_rotation(application: Document) -> bool:
    """Whether refresh tokens are given that are not bound to a key, which would keep a thief from using them."""
    oauth: dict[str, Any] = application["oauthConfiguration"]
    has_them = oauth["generateRefreshTokens"] and "refresh_token" in oauth["enabledGrants"]
    return bool(has_them and not oauth.get("dpopBoundAccessTokens"))


def _reuses(jwt_configuration: Document, prefix: str) -> Iterator[Shortcoming]:
    """How refresh tokens may be used more often than once."""
    policy = RefreshTokenPolicy.of(jwt_configuration)
    if not policy.is_one_time:
        problem = "must be OneTimeUse where tokens are bound to no key"
        yield Shortcoming(f"{prefix}.refreshTokenUsagePolicy", problem, "RFC 9700 section 2.2.2")
    if policy.grace_seconds > MAXIMUM_GRACE_SECONDS:
        path = f"{prefix}.refreshTokenOneTimeUseConfiguration.gracePeriodInSeconds"
        problem = f"must be at most {MAXIMUM_GRACE_SECONDS}"
        yield Shortcoming(path, problem, "RFC 9700 section 4.14.2")
