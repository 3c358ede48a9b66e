"""Client authentication by JWT: private_key_jwt and client_secret_jwt (RFC 7523, OpenID Connect Core 9).

The algorithm selects the method, and only the key material of that method is used: a public key is never an HMAC
secret. Each assertion is accepted once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

from identity.call import Document
from identity.domain.authorization import client_authentication
from identity.domain.clients import client_assertions as client_assertion_rules
from identity.domain.clients import security_profiles
from identity.errors import InvalidClient
from identity.ids import TenantId
from identity.instants import NumericDate, numeric_date
from identity.operations.clients.clients import Client
from identity.outbound.client_key_fetch import ClientKeysError
from identity.services import Services
from identity.tokens import jws, signing_keys
from identity.tokens.jws import Rejection, UnverifiedJwt
from identity.tokens.signing_keys import SigningKey


@dataclasses.dataclass(frozen=True, slots=True)
class Signer:
    """A client or an entity that signs JWTs, and its key material."""

    tenant_id: TenantId
    issuer: str
    client_id: str
    methods: tuple[str, ...]
    secret: str = dataclasses.field(repr=False)
    application: Document | None = None
    is_strict: bool = False

    @classmethod
    def of(cls, client: Client) -> Signer:
        """Return the signer of an application."""
        return cls(
            client.tenant_id,
            client.issuer,
            client.client_id,
            client_authentication.methods(client.application),
            client.oauth.client_secret,
            client.application,
            security_profiles.is_strict(client.application),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Assertion:
    """An unverified assertion and the client that it claims to be from."""

    client_id: str
    method: Literal["private_key_jwt", "client_secret_jwt"]
    token: UnverifiedJwt = dataclasses.field(repr=False)


def is_presented(form: Document) -> bool:
    """Whether a request has a parameter of client assertions."""
    return "client_assertion" in form or "client_assertion_type" in form


def parse(authorization: str, form: Document) -> Assertion:
    """Parse the assertion of a request (RFC 7521 section 4.2). Raises InvalidClient."""
    if authorization or "client_secret" in form:
        raise _invalid("The client authenticates by two methods.")
    if form.get("client_assertion_type") != client_assertion_rules.JWT_BEARER:
        reason = "invalid_client_authentication_scheme"
        raise InvalidClient(reason, f"The client_assertion_type must be {client_assertion_rules.JWT_BEARER}.")
    if "client_assertion" not in form:
        raise InvalidClient("client_authentication_missing", "The client_assertion is missing.")
    token = jws.parse(form["client_assertion"])
    if isinstance(token, Rejection) or not token.claims.get("sub"):
        raise _invalid("The client_assertion is not a signed JWT that names its client as sub.")
    client_id = str(token.claims["sub"])
    if form.get("client_id", client_id) != client_id:
        raise InvalidClient("client_id_mismatch", "The client_id is not that of the client_assertion.")
    return Assertion(client_id, "client_secret_jwt" if is_signed_with_secret(token) else "private_key_jwt", token)


async def verify(services: Services, signer: Signer, assertion: Assertion, base_url: str) -> None:
    """Verify an assertion and consume its `jti`. Raises InvalidClient."""
    claims = await check(services, signer, assertion, base_url)
    await _consume(services, signer, claims, numeric_date(services.clock.now()))


async def check(services: Services, signer: Signer, assertion: Assertion, base_url: str) -> Document:
    """Verify an assertion without consuming it, and return its claims. Raises InvalidClient."""
    client_authentication.require_method(assertion.method, signer.methods)
    key = await signing_key(services, signer, assertion.token)
    verified = await assertion.token.verified(key)
    if isinstance(verified, Rejection):
        raise _invalid("The client_assertion is not signed by the client.")
    now = numeric_date(services.clock.now())
    audiences = _audiences(signer, filter(None, (base_url, services.config.mutual_tls.alias)))
    problem = client_assertion_rules.type_problem(verified.header) or client_assertion_rules.problem(
        verified.claims, assertion.client_id, audiences, now, is_strict=signer.is_strict
    )
    if problem is not None:
        raise _invalid(f"The client_assertion {problem}.")
    return verified.claims


async def signing_key(services: Services, signer: Signer, token: UnverifiedJwt) -> SigningKey | None:
    """Return the signer's key for a JWT with this header: its secret, or one of its public keys.

    Raises InvalidClient if its keys cannot be fetched.
    """
    if is_signed_with_secret(token):
        algorithm = token.header["alg"]
        key = signing_keys.from_shared_secret(algorithm, signer.secret)
        if key is None:
            raise _invalid(f"The client secret is too short for {algorithm}.")
        return key
    if signer.application is None:
        return None
    try:
        now = services.clock.now()
        return await services.tokens.client_keys.find(signer.tenant_id, signer.application, token.header, now)
    except ClientKeysError as error:
        # Without the cause, which would let a caller probe the internal network.
        raise _invalid("The keys of the client cannot be fetched from its jwksURI.") from error


def is_signed_with_secret(token: UnverifiedJwt) -> bool:
    """Whether the header names a symmetric algorithm (HMAC)."""
    return token.header.get("alg") in signing_keys.SECRET_ALGORITHMS


def _audiences(signer: Signer, base_urls: Iterable[str]) -> tuple[str, ...]:
    """Return the accepted audiences: the issuer; under baseline also the token and PAR endpoints at the base URLs.

    Older clients name the endpoint (OpenID Connect Core 9, RFC 9126 section 2). An attacker who makes a client use this
    endpoint URL for the attacker's server could replay the assertion here, so strict clients have to name the issuer
    (FAPI 2.0 section 5.3.2.1).
    """
    if signer.is_strict:
        return (signer.issuer,)
    prefixes = [prefix for base_url in base_urls for prefix in (base_url, f"{base_url}/{signer.tenant_id}")]
    return (signer.issuer, *(f"{prefix}/oauth2/{name}" for prefix in prefixes for name in ("token", "par")))


async def _consume(services: Services, signer: Signer, claims: Document, now: NumericDate) -> None:
    ttl_seconds = client_assertion_rules.effective_expiration(claims) + client_assertion_rules.LEEWAY_SECONDS - now
    is_first = await services.tokens.one_time_ids.mark_used(
        signer.tenant_id, "client-assertion", signer.client_id, claims["jti"], ttl_seconds
    )
    if not is_first:
        raise _invalid("The client_assertion was used before.")


def _invalid(description: str) -> InvalidClient:
    return InvalidClient("invalid_client_authentication", description)
