"""Clients that authenticate by a JWT of theirs: private_key_jwt, client_secret_jwt (RFC 7523, OpenID Connect Core 9).

The algorithm says which of the two it is, and only the material of that one is asked: a public key is never a secret,
and a secret never a key. What is verified counts once.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from identity.call import Document
from identity.domain.authorization import client_authentication
from identity.domain.clients import client_assertions as rules
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
    """Whoever may sign: a client or an entity, and what it can be known by."""

    tenant_id: TenantId
    issuer: str
    client_id: str
    methods: tuple[str, ...]
    secret: str = dataclasses.field(repr=False)
    application: Document | None = None
    is_strict: bool = False

    @classmethod
    def of(cls, client: Client) -> Signer:
        """The client as one that signs."""
        return cls(
            client.tenant_id,
            client.issuer,
            client.client_id,
            client_authentication.methods(client.application),
            client.oauth["clientSecret"],
            client.application,
            security_profiles.is_strict(client.application),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion that nobody has verified yet, and the client that it claims to be of."""

    client_id: str
    method: Literal["private_key_jwt", "client_secret_jwt"]
    token: UnverifiedJwt = dataclasses.field(repr=False)


def is_presented(form: Document) -> bool:
    """Whether a request authenticates by an assertion, or means to."""
    return "client_assertion" in form or "client_assertion_type" in form


def read(authorization: str, form: Document) -> Assertion:
    """The assertion of a request (RFC 7521 section 4.2). Raises InvalidClient."""
    if authorization or "client_secret" in form:
        raise _refused("The client authenticates in two ways.")
    if form.get("client_assertion_type") != rules.JWT_BEARER:
        reason = "invalid_client_authentication_scheme"
        raise InvalidClient(reason, f"The client_assertion_type must be {rules.JWT_BEARER}.")
    if "client_assertion" not in form:
        raise InvalidClient("client_authentication_missing", "The client_assertion is missing.")
    token = jws.parse(form["client_assertion"])
    if isinstance(token, Rejection) or not token.claims.get("sub"):
        raise _refused("The client_assertion is not a signed JWT that names its client as sub.")
    client_id = str(token.claims["sub"])
    if form.get("client_id", client_id) != client_id:
        raise InvalidClient("client_id_mismatch", "The client_id is not that of the client_assertion.")
    return Assertion(client_id, "client_secret_jwt" if is_by_secret(token) else "private_key_jwt", token)


async def verify(services: Services, signer: Signer, assertion: Assertion, base_url: str) -> None:
    """Verify an assertion, and use it up. Raises InvalidClient."""
    client_authentication.require_method(assertion.method, signer.methods)
    key = await signing_key(services, signer, assertion.token)
    verified = await assertion.token.verified(key)
    if isinstance(verified, Rejection):
        raise _refused("The client_assertion is not signed by the client.")
    now = numeric_date(services.clock.now())
    audiences = _audiences(signer, base_url)
    problem = rules.type_problem(verified.header) or rules.problem(
        verified.claims, assertion.client_id, audiences, now, is_strict=signer.is_strict
    )
    if problem is not None:
        raise _refused(f"The client_assertion {problem}.")
    await _use_up(services, signer, verified.claims, now)


async def signing_key(services: Services, signer: Signer, token: UnverifiedJwt) -> SigningKey | None:
    """The key by which the signer may have signed a JWT with this header: its secret, or one of its public keys.

    Raises InvalidClient when they cannot be had.
    """
    if is_by_secret(token):
        algorithm = token.header["alg"]
        key = signing_keys.from_shared_secret(algorithm, signer.secret)
        if key is None:
            raise _refused(f"The client secret is too short for {algorithm}.")
        return key
    if signer.application is None:
        return None
    try:
        now = services.clock.now()
        return await services.client_keys.find(signer.tenant_id, signer.application, token.header, now)
    except ClientKeysError as error:
        # Why, is for nobody: a caller could explore our network with it.
        raise _refused("The keys of the client cannot be had from its jwksURI.") from error


def is_by_secret(token: UnverifiedJwt) -> bool:
    """Whether the header names an algorithm for which both sides hold the same secret."""
    return token.header.get("alg") in signing_keys.SECRET_ALGORITHMS


def _audiences(signer: Signer, base_url: str) -> tuple[str, ...]:
    """What this server may be called: by its issuer; by the address of an endpoint only where it is not strict.

    Clients of old take the token endpoint, and the pushed ones theirs (OpenID Connect Core 9, RFC 9126 section 2). An
    attacker who makes a client believe that this is the address of his own server could use what he is sent here, so
    that a strict client has to name the issuer (FAPI 2.0 section 5.3.2.1).
    """
    if signer.is_strict:
        return (signer.issuer,)
    geoip = (base_url, f"{base_url}/{signer.tenant_id}")
    return (signer.issuer, *(f"{place}/oauth2/{name}" for place in geoip for name in ("token", "par")))


async def _use_up(services: Services, signer: Signer, claims: Document, now: NumericDate) -> None:
    ttl_seconds = rules.effective_expiration(claims) + rules.LEEWAY_SECONDS - now
    is_first = await services.one_time_ids.mark_used(
        signer.tenant_id, "client-assertion", signer.client_id, claims["jti"], ttl_seconds
    )
    if not is_first:
        raise _refused("The client_assertion was used before.")


def _refused(description: str) -> InvalidClient:
    return InvalidClient("invalid_client_authentication", description)
