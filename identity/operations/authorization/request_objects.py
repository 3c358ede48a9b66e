"""Signed authorization requests: parameters that only the client can have written (RFC 9101, OpenID Connect Core 6.1).

Once there is an object nothing beside it counts (RFC 9101 section 6.3): what a browser was made to add or to change has
no effect. OpenID Connect Core 6.1 would take from outside what is missing inside; that is not done.

The `jti` of an object is not used up: the address with the object in it may be loaded again, as any other, and leads to
nothing but another login and another code for the same redirect URI. Who wants one use pushes the request (RFC 9126).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.authorization import client_authentication
from identity.domain.authorization import request_objects as rules
from identity.domain.authorization.authorization_request import SIGNED
from identity.domain.clients import security_profiles
from identity.errors import InvalidClient, InvalidRequestObject
from identity.instants import numeric_date
from identity.operations.clients import client_assertions
from identity.operations.clients.client_assertions import Signer
from identity.operations.clients.clients import Client
from identity.services import Services
from identity.tokens import jws
from identity.tokens.jws import Rejection, UnverifiedJwt, VerifiedJwt

PARAMETERS: Final = "oauth2/authorize.request.json"
ROUTING: Final = ("client_id", "tenantId")
"""What of an indirect request still counts outside: whose it is."""


async def unpack(services: Services, call: Call, client: Client, given: Mapping[str, Any]) -> Document:
    """The parameters that count: those of the request object, if there is one, marked as `SIGNED`; else `given`.

    Client id, tenant, and what is no parameter of an authorization request remain. Of a client that has nothing to
    sign with the object is left where it is: the checks refuse it as not supported. Raises InvalidRequestObject.
    """
    text = given.get("request")
    if text is None or not _may_sign(client):
        return dict(given)
    verified = await _verified(services, client, jws.parse(text))
    declared = services.schemas[PARAMETERS].schema["properties"]
    own = {name: value for name, value in given.items() if name in ROUTING or name not in declared}
    try:
        inside = rules.parameters(verified.claims, [name for name in declared if name not in ROUTING])
    except ValueError as error:
        raise _refused(str(error)) from error
    found = {**own, **inside, SIGNED: text}
    now = numeric_date(call.now)
    # After that, because a failure goes to the redirect URI that the client signed.
    is_strict = security_profiles.is_strict(client.application)
    problem = rules.problem(
        verified.header, verified.claims, given, client.client_id, client.issuer, now, is_strict=is_strict
    )
    if problem is not None:
        raise _refused(problem, found)
    return found


async def _verified(services: Services, client: Client, token: UnverifiedJwt | Rejection) -> VerifiedJwt:
    if isinstance(token, Rejection):
        raise _refused("is not a signed JWT")
    if client_assertions.is_signed_with_secret(token) and not _has_secret(client):
        raise _refused("is signed with a secret, which this client does not do")
    try:
        key = await client_assertions.signing_key(services, Signer.of(client), token)
    except InvalidClient as error:
        raise InvalidRequestObject(None, error.description) from error
    verified = await token.verified(key)
    if isinstance(verified, Rejection):
        raise _refused("is not signed by the client")
    return verified


def _may_sign(client: Client) -> bool:
    return _has_secret(client) or bool(client.oauth.keys() & {"jwks", "jwksURI"})


def _has_secret(client: Client) -> bool:
    return "client_secret_jwt" in client_authentication.methods(client.application)


def _refused(problem: str, found: Mapping[str, Any] | None = None) -> InvalidRequestObject:
    return InvalidRequestObject(None, f"The request object {problem} (the request parameter).", signed=found)
