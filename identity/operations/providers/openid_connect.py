"""OpenID Connect: a code for the claims of a user (OpenID Connect Core 1.0, section 3.1.3).

What the provider publishes under its issuer decides everything: endpoints, keys, and who its ID tokens must be from.
Without an issuer there are no keys to check an ID token with, and only userinfo counts. Claims come from userinfo
first, then from the ID token; both must speak of one person.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.providers import external_identities
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.identity_providers import effective_oauth2, transport_problem
from identity.errors import FieldError, GeneralError, Invalid, Unauthorized
from identity.ids import Secret
from identity.instants import numeric_date
from identity.operations.objects import crud
from identity.operations.providers.login_trace import LoginTrace
from identity.outbound.federation import FederationError
from identity.services import Services
from identity.tokens import external_keys, jws
from identity.tokens.jws import FindExternalKey
from identity.tokens.signing_keys import SigningKey

_LEEWAY_SECONDS = 60
"""How far a provider's clock may be ahead of ours."""

_TOKENS = ("access_token", "id_token", "refresh_token")


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderEndpoints:
    """A provider as it is spoken to for one application; `published` is what its issuer says of it."""

    oauth2: Document
    issuer: str | None
    token_endpoint: str
    userinfo_endpoint: str | None
    jwks_uri: str | None
    published: Document = dataclasses.field(default_factory=dict, repr=False)


async def identify(
    services: Services, call: Call, provider: Document, application_id: str, data: Mapping[str, str], trace: LoginTrace
) -> ExternalIdentity:
    """Who the code was given to.

    Raises Invalid where the provider gives no usable answer, Unauthorized where what it says cannot be trusted.
    """
    absent = [name for name in ("code", "redirect_uri") if not data.get(name)]
    crud.require_no_errors(
        [FieldError.of("blank", f"data.{n}", f"You must specify the [data.{n}] property.") for n in absent]
    )
    spoken_to = await resolve_endpoints(services, call, effective_oauth2(provider, application_id))
    # The authorization response may name its issuer (RFC 9207): then it is no other provider's code.
    if data.get("iss") and spoken_to.issuer is not None and data["iss"] != spoken_to.issuer:
        raise Unauthorized(log_detail="the authorization response is of another issuer")
    tokens = await _exchanged(services, spoken_to, data)
    if not external_identities.is_storable({name: tokens[name] for name in _TOKENS if name in tokens}):
        raise Unauthorized(log_detail="the tokens cannot be kept")
    trace.add(f"token endpoint gave: {', '.join(name for name in _TOKENS if name in tokens)}")
    id_token = await _verified(services, call, spoken_to, tokens.get("id_token"), data.get("nonce"))
    userinfo = await _userinfo(services, spoken_to, tokens.get("access_token"))
    if not external_identities.is_storable(userinfo) or not external_identities.is_storable(id_token):
        raise Unauthorized(log_detail="the claims cannot be kept")
    trace.add_claims("userinfo", userinfo)
    trace.add_claims("id token", id_token)
    if "sub" in userinfo and "sub" in id_token and userinfo["sub"] != id_token["sub"]:
        raise Unauthorized(log_detail="userinfo and id token speak of different users")
    found = external_identities.parse(
        spoken_to.oauth2,
        {**id_token, **userinfo},
        lambda_arguments=(userinfo, id_token, {name: tokens[name] for name in _TOKENS if name in tokens}),
        token=_text(tokens.get("refresh_token")),
    )
    if found is None:
        raise Unauthorized(log_detail="the provider gives no unique id")
    return found


async def identify_by_id_token(
    services: Services, call: Call, provider: Document, application_id: str, id_token: str, trace: LoginTrace
) -> ExternalIdentity:
    """Who an ID token speaks of that our own client at the provider was given.

    Raises Invalid where the provider gives no usable answer, Unauthorized where the token cannot be trusted, which it
    never can without an issuer whose keys are known.
    """
    spoken_to = await resolve_endpoints(services, call, effective_oauth2(provider, application_id))
    claims = await _verified(services, call, spoken_to, id_token, None)
    if not claims or not external_identities.is_storable(claims):
        raise Unauthorized(log_detail="there are no keys to check the id token with, or its claims cannot be kept")
    trace.add_claims("id token", claims)
    found = external_identities.parse(spoken_to.oauth2, claims, lambda_arguments=())
    if found is None:
        raise Unauthorized(log_detail="the id token lacks the claim of the unique id")
    return found


async def resolve_endpoints(services: Services, call: Call, oauth2: Document) -> ProviderEndpoints:
    """Endpoints and keys: what the issuer publishes wins over what is configured. Raises Invalid."""
    issuer = oauth2.get("issuer")
    published: Document = {}
    if issuer is not None:
        try:
            published = await services.outbound.federation.configuration(issuer, call.now)
        except FederationError as error:
            raise provider_error("OpenIDConnectToken", str(error)) from error
    urls = {name: published.get(name) or oauth2.get(name) for name in ("token_endpoint", "userinfo_endpoint")}
    urls["jwks_uri"] = published.get("jwks_uri")
    networks = services.config.identity_providers.allowed_networks
    for name, url in urls.items():
        if url is not None and (not isinstance(url, str) or transport_problem(url, networks)):
            raise provider_error("OpenIDConnectToken", f"its {name} cannot be used")
    if urls["token_endpoint"] is None:
        raise provider_error("OpenIDConnectToken", "it publishes no token_endpoint")
    endpoints = (urls["token_endpoint"], urls["userinfo_endpoint"], urls["jwks_uri"])
    return ProviderEndpoints(oauth2, issuer, *endpoints, published)


async def _exchanged(services: Services, spoken_to: ProviderEndpoints, data: Mapping[str, str]) -> Document:
    """The token response; the client authenticates in the one of three ways that is configured."""
    oauth2 = spoken_to.oauth2
    method, client_id = oauth2["clientAuthenticationMethod"], oauth2["client_id"]
    form = {"grant_type": "authorization_code", "code": data["code"], "redirect_uri": data["redirect_uri"]}
    if data.get("code_verifier"):
        form["code_verifier"] = data["code_verifier"]
    basic = None
    if method == "client_secret_basic":
        basic = (client_id, Secret(oauth2["client_secret"]))
    else:
        form["client_id"] = client_id
        if method == "client_secret_post":
            form["client_secret"] = oauth2["client_secret"]
    try:
        return await services.outbound.federation.exchange(spoken_to.token_endpoint, form, basic)
    except FederationError as error:
        raise provider_error("OpenIDConnectToken", str(error)) from error


async def _userinfo(services: Services, spoken_to: ProviderEndpoints, access_token: object) -> Document:
    if spoken_to.userinfo_endpoint is None or not isinstance(access_token, str):
        return {}
    try:
        return await services.outbound.federation.userinfo(spoken_to.userinfo_endpoint, access_token)
    except FederationError as error:
        raise provider_error("OpenIDConnectUserinfo", str(error)) from error


def key_finder(services: Services, call: Call, jwks_uri: str) -> FindExternalKey:
    """Find the key of a token in a published key set, which is fetched again once for an unknown key."""

    async def find(header: Mapping[str, object]) -> SigningKey | None:
        try:
            known = external_keys.from_jwk_set(await services.outbound.federation.keys(jwks_uri, call.now), header)
            if known is not None:
                return known
            # After a key rotation the cached set lacks the new key.
            return external_keys.from_jwk_set(
                await services.outbound.federation.keys(jwks_uri, call.now, refetch=True), header
            )
        except FederationError as error:
            raise provider_error("OpenIDConnectToken", str(error)) from error

    return find


async def _verified(
    services: Services, call: Call, spoken_to: ProviderEndpoints, id_token: object, nonce: str | None
) -> Document:
    """The claims of the ID token (OpenID Connect Core 3.1.3.7); none without a token, or without keys to check it."""
    if not isinstance(id_token, str) or spoken_to.issuer is None or spoken_to.jwks_uri is None:
        if nonce is not None:
            raise Unauthorized(log_detail="there is no id token to find the nonce in")
        return {}
    verified = await jws.verify_external(id_token, key_finder(services, call, spoken_to.jwks_uri))
    if isinstance(verified, jws.Rejection):
        raise Unauthorized(log_detail=f"the id token is {verified.value}")
    claims, now = verified.claims, numeric_date(call.now)
    reason = _problem(claims, spoken_to.issuer, spoken_to.oauth2["client_id"], nonce)
    if reason is None and (jws.check_times({**claims, "nbf": 0}, now) or claims.get("iat", 0) > now + _LEEWAY_SECONDS):
        reason = "has expired, or is of the future"
    if reason is not None:
        raise Unauthorized(log_detail=f"the id token {reason}")
    return claims


def _problem(claims: Mapping[str, object], issuer: str, client_id: str, nonce: str | None) -> str | None:
    """Why a well signed ID token is not for us."""
    if claims.get("iss") != issuer:
        return "is of another issuer"
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if client_id not in named or claims.get("azp", client_id) != client_id or (len(named) > 1 and "azp" not in claims):
        return "is for another client"
    if not claims.get("sub") or "iat" not in claims:
        return "lacks sub or iat"
    return "has another nonce" if nonce is not None and claims.get("nonce") != nonce else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def provider_error(step: str, reason: str) -> Invalid:
    """The provider gave no usable answer; why, is for the log: a caller could explore our network with it."""
    message = "The identity provider gave no usable answer: the code may be spent, or the provider is out of order."
    error = GeneralError(f"[ExternalAuthenticationException]{step}", message)
    return Invalid(general=[error], log_detail=reason)
