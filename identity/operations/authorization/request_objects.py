"""Signed authorization requests (JAR): parameters authenticated by the client (RFC 9101, OpenID Connect Core 6.1).

Parameters outside a request object are ignored (RFC 9101 section 6.3), so that a browser can neither add nor change
one. This differs from OpenID Connect Core 6.1, which falls back to them.

The `jti` of a request object is not consumed: reloading its URL only leads to another login and another code for the
same redirect URI. A client that needs single use pushes the request (RFC 9126).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.authorization import client_authentication
from identity.domain.authorization import request_objects as request_object_rules
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
"""Parameters that are read outside a pushed or signed request, because they identify its client."""


async def unpack(services: Services, call: Call, client: Client, given: Mapping[str, Any]) -> Document:
    """Return the parameters of the request object, marked as `SIGNED`; without one the parameters given.

    `client_id`, `tenantId` and parameters that are no authorization parameters are kept. For a client without keys the
    object stays in place, and validation rejects it as not supported. Raises InvalidRequestObject.
    """
    text = given.get("request")
    if text is None or not _may_sign(client):
        return dict(given)
    verified = await _verify(services, client, jws.parse(text))
    declared = services.schemas[PARAMETERS].schema["properties"]
    kept = {name: value for name, value in given.items() if name in ROUTING or name not in declared}
    try:
        inside = request_object_rules.parameters(verified.claims, [name for name in declared if name not in ROUTING])
    except ValueError as error:
        raise _invalid(str(error)) from error
    found = {**kept, **inside, SIGNED: text}
    now = numeric_date(call.now)
    # Last, because errors are redirected to the redirect URI that the client signed.
    is_strict = security_profiles.is_strict(client.application)
    problem = request_object_rules.problem(
        verified.header, verified.claims, given, client.presented_client_id, client.issuer, now, is_strict=is_strict
    )
    if problem is not None:
        raise _invalid(problem, found)
    return found


async def _verify(services: Services, client: Client, token: UnverifiedJwt | Rejection) -> VerifiedJwt:
    if isinstance(token, Rejection):
        raise _invalid("is not a signed JWT")
    if client_assertions.is_signed_with_secret(token) and not _has_secret(client):
        raise _invalid("is signed with a secret, which this client does not use")
    try:
        key = await client_assertions.signing_key(services, Signer.of(client), token)
    except InvalidClient as error:
        raise InvalidRequestObject(None, error.description) from error
    verified = await token.verified(key)
    if isinstance(verified, Rejection):
        raise _invalid("is not signed by the client")
    return verified


def _may_sign(client: Client) -> bool:
    return _has_secret(client) or client.oauth.jwks is not None or client.oauth.jwks_uri is not None


def _has_secret(client: Client) -> bool:
    return "client_secret_jwt" in client_authentication.methods(client.application)


def _invalid(problem: str, found: Mapping[str, Any] | None = None) -> InvalidRequestObject:
    return InvalidRequestObject(None, f"The request object {problem} (the request parameter).", signed=found)
