"""OpenID Connect: a code for the claims of a user (OpenID Connect Core 1.0, section 3.1.3).

The metadata that a provider publishes under its issuer determines its endpoints, its keys, and the issuer of its ID
tokens. Without an issuer there are no keys to verify an ID token with, and only userinfo is used. Claims of userinfo
take precedence over those of the ID token; both must be about the same user.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping

from identity.call import Call, Document
from identity.domain.providers import external_identities, reauthentication
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.identity_providers import effective_oauth2, transport_problem
from identity.domain.providers.reauthentication import LEEWAY_SECONDS
from identity.errors import FieldError, GeneralError, Invalid, Unauthorized
from identity.ids import Secret
from identity.instants import numeric_date
from identity.operations.objects import crud
from identity.operations.providers.login_trace import LoginTrace
from identity.outbound.federation import FederationError
from identity.services import Services
from identity.tokens import external_keys, jws
from identity.tokens.external_keys import KeySet
from identity.tokens.jws import Rejection, VerifiedJwt
from identity.tokens.signing_keys import SECRET_ALGORITHMS, from_shared_secret

_ENDPOINTS = ("jwks_uri", "token_endpoint", "userinfo_endpoint")
_TOKENS = ("access_token", "id_token", "refresh_token")


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderEndpoints:
    """The endpoints and settings of a provider for one application; `published` is the metadata of its issuer."""

    oauth2: Document
    issuer: str | None
    token_endpoint: str
    userinfo_endpoint: str | None
    jwks_uri: str | None
    published: Document = dataclasses.field(default_factory=dict, repr=False)


FetchUserinfo = Callable[[Services, Call, ProviderEndpoints, object], Awaitable[Document]]
"""(services, call, endpoints, access token) -> claims of the user."""


async def identify(
    services: Services, call: Call, provider: Document, application_id: str, data: Mapping[str, str], trace: LoginTrace
) -> ExternalIdentity:
    """Exchange the code for tokens, and return the identity of the user.

    Raises Invalid for an unusable response of the provider, Unauthorized for one that cannot be trusted.
    """
    missing = [name for name in ("code", "redirect_uri") if not data.get(name)]
    crud.require_no_errors([FieldError.missing(f"data.{n}", "blank") for n in missing])
    endpoints = await resolve_endpoints(services, call, effective_oauth2(provider, application_id))
    tokens = await exchange_code(services, endpoints, data)
    return await identify_by_tokens(services, call, endpoints, tokens, data.get("nonce"), trace)


async def identify_by_tokens(
    services: Services,
    call: Call,
    endpoints: ProviderEndpoints,
    tokens: Document,
    nonce: str | None,
    trace: LoginTrace,
    fetch_userinfo: FetchUserinfo | None = None,
) -> ExternalIdentity:
    """Return the identity of the user of a token response. Raises as `identify`."""
    if not external_identities.is_storable({name: tokens[name] for name in _TOKENS if name in tokens}):
        raise Unauthorized(log_detail="the tokens cannot be stored")
    trace.add(f"token endpoint: {', '.join(name for name in _TOKENS if name in tokens)}")
    id_token = await _verify_id_token(services, call, endpoints, tokens.get("id_token"), nonce)
    userinfo = await (fetch_userinfo or _userinfo)(services, call, endpoints, tokens.get("access_token"))
    if not external_identities.is_storable(userinfo) or not external_identities.is_storable(id_token):
        raise Unauthorized(log_detail="the claims cannot be stored")
    trace.add_claims("userinfo", userinfo)
    trace.add_claims("id token", id_token)
    if "sub" in userinfo and "sub" in id_token and userinfo["sub"] != id_token["sub"]:
        raise Unauthorized(log_detail="userinfo and id token are about different users")
    identity = external_identities.parse(
        endpoints.oauth2,
        external_identities.merge_claims(endpoints.oauth2, id_token, userinfo),
        lambda_arguments=(userinfo, id_token, {name: tokens[name] for name in _TOKENS if name in tokens}),
        token=_text(tokens.get("refresh_token")),
    )
    if identity is None:
        raise Unauthorized(log_detail="the claims have no unique id")
    auth_instant = reauthentication.auth_instant(id_token, call.now)
    return dataclasses.replace(identity, auth_instant=auth_instant, id_token=tokens["id_token"] if id_token else None)


async def identify_by_id_token(
    services: Services, call: Call, provider: Document, application_id: str, id_token: str, trace: LoginTrace
) -> ExternalIdentity:
    """Return the identity in an ID token for the configured client.

    Raises Invalid for an unusable response of the provider, Unauthorized for a token that cannot be trusted, as every
    token of a provider without an issuer.
    """
    endpoints = await resolve_endpoints(services, call, effective_oauth2(provider, application_id))
    claims = await _verify_id_token(services, call, endpoints, id_token, None)
    if not claims or not external_identities.is_storable(claims):
        raise Unauthorized(log_detail="there are no keys for the id token, or its claims cannot be stored")
    trace.add_claims("id token", claims)
    identity = external_identities.parse(endpoints.oauth2, claims, lambda_arguments=())
    if identity is None:
        raise Unauthorized(log_detail="the id token lacks the claim of the unique id")
    return dataclasses.replace(identity, auth_instant=reauthentication.auth_instant(claims, call.now))


async def resolve_endpoints(services: Services, call: Call, oauth2: Document) -> ProviderEndpoints:
    """Return endpoints and keys; published ones take precedence over configured ones. Raises Invalid."""
    issuer = oauth2.get("issuer")
    published: Document = {}
    # The key sets of published providers are known.
    if issuer is not None and "jwks_uri" not in oauth2:
        try:
            published = await services.outbound.federation.configuration(issuer, call.now)
        except FederationError as error:
            raise provider_error("OpenIDConnectToken", str(error)) from error
    urls = {name: published.get(name) or oauth2.get(name) for name in _ENDPOINTS}
    networks = services.config.identity_providers.allowed_networks
    for name, url in urls.items():
        if url is not None and (not isinstance(url, str) or transport_problem(url, networks)):
            raise provider_error("OpenIDConnectToken", f"its {name} cannot be used")
    if urls["token_endpoint"] is None:
        raise provider_error("OpenIDConnectToken", "it publishes no token_endpoint")
    return ProviderEndpoints(
        oauth2, issuer, urls["token_endpoint"], urls["userinfo_endpoint"], urls["jwks_uri"], published
    )


async def exchange_code(services: Services, endpoints: ProviderEndpoints, data: Mapping[str, str]) -> Document:
    """Return the token response; the client authenticates with the configured method.

    Raises Invalid for an unusable response of the provider, Unauthorized for a code of another issuer.
    """
    # The authorization response may name its issuer (RFC 9207), which prevents mix-up attacks.
    if data.get("iss") and endpoints.issuer is not None and data["iss"] != endpoints.issuer:
        raise Unauthorized(log_detail="the authorization response is of another issuer")
    given = {name: data[name] for name in ("code", "code_verifier", "redirect_uri") if data.get(name)}
    form, basic = authenticate_client(endpoints.oauth2, {"grant_type": "authorization_code", **given})
    try:
        return await services.outbound.federation.exchange(endpoints.token_endpoint, form, basic)
    except FederationError as error:
        raise provider_error("OpenIDConnectToken", str(error)) from error


def authenticate_client(oauth2: Document, form: dict[str, str]) -> tuple[dict[str, str], tuple[str, Secret] | None]:
    """Return a form and HTTP Basic credentials with the configured client authentication (RFC 6749 section 2.3.1)."""
    method, client_id = oauth2["clientAuthenticationMethod"], oauth2["client_id"]
    if method == "client_secret_basic":
        return form, (client_id, Secret(oauth2["client_secret"]))
    secret = {"client_secret": oauth2["client_secret"]} if method == "client_secret_post" else {}
    return {**form, "client_id": client_id, **secret}, None


async def _userinfo(services: Services, call: Call, endpoints: ProviderEndpoints, access_token: object) -> Document:
    if endpoints.userinfo_endpoint is None or not isinstance(access_token, str):
        return {}
    federation, emails_endpoint = services.outbound.federation, endpoints.oauth2.get("emails_endpoint")
    try:
        response = await federation.userinfo(endpoints.userinfo_endpoint, access_token)
        claims = await _verify_userinfo(services, call, endpoints, response)
        if emails_endpoint is None:
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        return claims | _primary_email(endpoints.oauth2, await federation.get_json(emails_endpoint, headers=headers))
    except FederationError as error:
        raise provider_error("OpenIDConnectUserinfo", str(error)) from error


def _primary_email(oauth2: Document, emails: object) -> Document:
    """Return the email claims of the primary address in a list of addresses; without one they are null."""
    known = [one for one in emails if isinstance(one, dict)] if isinstance(emails, list) else []
    primary = next((one for one in known if one.get("primary") is True), {})
    return {oauth2["emailClaim"]: primary.get("email"), oauth2["emailVerifiedClaim"]: primary.get("verified") is True}


async def verify_with_key_set(
    services: Services, call: Call, jwks_uri: str, token: str, algorithms: Collection[str] = external_keys.ALGORITHMS
) -> VerifiedJwt | Rejection:
    """Verify a token with a key of a published set, which is fetched again if no cached key has signed it.

    After a rotation the cached set lacks the new key, or has the old one under its id. Raises Invalid.
    """
    unverified = jws.parse(token)
    if isinstance(unverified, Rejection):
        return unverified
    header, federation = unverified.header, services.outbound.federation
    if header.get("alg") not in algorithms:
        return Rejection.INVALID
    try:
        jwks = await federation.keys(jwks_uri, call.now)
        verified = await unverified.verified(KeySet(jwks).find(header, algorithms))
        if verified is not Rejection.INVALID:
            return verified
        newer = await federation.keys(jwks_uri, call.now, lacking=jwks, kid=str(header.get("kid", "")))
    except FederationError as error:
        raise provider_error("OpenIDConnectToken", str(error)) from error
    return verified if newer is jwks else await unverified.verified(KeySet(newer).find(header, algorithms))


async def _verify(
    services: Services, call: Call, endpoints: ProviderEndpoints, token: str, algorithm: str | None
) -> Document:
    """Return the claims of a token that the provider signed, of its issuer and for our client.

    The configuration decides whether the client secret or a published key verifies a token: never its header, which
    could have a public key used as the secret (RFC 8725 section 3.1). Raises Unauthorized and Invalid.
    """
    if algorithm in SECRET_ALGORITHMS:
        key = from_shared_secret(algorithm, endpoints.oauth2.get("client_secret", ""))
        unverified = jws.parse(token)
        verified = unverified if isinstance(unverified, Rejection) else await unverified.verified(key)
    elif endpoints.jwks_uri is None:
        raise Unauthorized(log_detail="there are no keys to verify a token with")
    else:
        algorithms = external_keys.ALGORITHMS if algorithm is None else (algorithm,)
        verified = await verify_with_key_set(services, call, endpoints.jwks_uri, token, algorithms)
    if isinstance(verified, Rejection):
        raise Unauthorized(log_detail=f"the signed response is {verified.value}")
    return verified.claims


async def _verify_id_token(
    services: Services, call: Call, endpoints: ProviderEndpoints, id_token: object, nonce: str | None
) -> Document:
    """Return the claims of the ID token (OpenID Connect Core 3.1.3.7); none without a token or without keys."""
    algorithm = endpoints.oauth2.get("id_token_signed_response_alg")
    has_keys = endpoints.jwks_uri is not None or algorithm in SECRET_ALGORITHMS
    if not isinstance(id_token, str) or endpoints.issuer is None or not has_keys:
        if nonce is not None:
            raise Unauthorized(log_detail="there is no id token with the nonce")
        return {}
    claims, now = await _verify(services, call, endpoints, id_token, algorithm), numeric_date(call.now)
    reason = _problem(claims, endpoints.issuer, endpoints.oauth2["client_id"], nonce)
    if reason is None and (jws.check_times({**claims, "nbf": 0}, now) or claims.get("iat", 0) > now + LEEWAY_SECONDS):
        reason = "has expired, or was issued in the future"
    if reason is not None:
        raise Unauthorized(log_detail=f"the id token {reason}")
    return claims


async def _verify_userinfo(
    services: Services, call: Call, endpoints: ProviderEndpoints, claims: Document | str
) -> Document:
    """Return the claims of a response, which is signed if the provider is configured to (OpenID Connect Core 5.3.2)."""
    oauth2, now = endpoints.oauth2, numeric_date(call.now)
    algorithm = oauth2.get("userinfo_signed_response_alg")
    if isinstance(claims, dict):
        if algorithm is not None:
            raise Unauthorized(log_detail="userinfo is not signed")
        return claims
    found = await _verify(services, call, endpoints, claims, algorithm)
    audience = found.get("aud", oauth2["client_id"])
    if found.get("iss", endpoints.issuer) != endpoints.issuer or oauth2["client_id"] not in (
        audience if isinstance(audience, list) else [audience]
    ):
        raise Unauthorized(log_detail="userinfo is of another issuer, or for another client")
    if "exp" in found and jws.check_times({**found, "nbf": 0}, now):
        raise Unauthorized(log_detail="userinfo has expired")
    return found


def _problem(claims: Mapping[str, object], issuer: str, client_id: str, nonce: str | None) -> str | None:
    """Return why an ID token with a valid signature is not acceptable, or None."""
    if claims.get("iss") != issuer:
        return "is of another issuer"
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    has_azp = "azp" in claims or len(audiences) == 1
    if client_id not in audiences or claims.get("azp", client_id) != client_id or not has_azp:
        return "is for another client"
    if not claims.get("sub") or "iat" not in claims:
        return "lacks sub or iat"
    return "has another nonce" if nonce is not None and claims.get("nonce") != nonce else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def provider_error(step: str, reason: str) -> Invalid:
    """Return the error for an unusable response; the reason, which could describe the network, is only logged."""
    message = "The identity provider gave no usable answer: the code may be spent, or the provider is out of order."
    error = GeneralError(f"[ExternalAuthenticationException]{step}", message)
    return Invalid(general=[error], log_detail=reason)
