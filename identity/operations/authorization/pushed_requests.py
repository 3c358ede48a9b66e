"""Pushed authorization requests (RFC 9126): store the request of a client and return its request_uri."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.authorization import authorization_request
from identity.domain.authorization.authorization_request import PUSHED, SIGNED
from identity.errors import InvalidDpopProof, InvalidRequest
from identity.ids import new_secret
from identity.operations.authorization import request_objects
from identity.operations.authorization.request_objects import PARAMETERS, ROUTING
from identity.operations.authorization.request_sources import PREFIX
from identity.operations.clients import dpop_proofs
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.limits import anonymous_request_limits
from identity.operations.objects import features
from identity.services import Services

TTL_SECONDS: Final = 60
"""The lifetime of a pushed request; the client redirects the browser at once (RFC 9126 section 2.2)."""


async def push(
    services: Services,
    call: Call,
    authenticated: AuthenticatedClient,
    form: Document,
    dpop_proof: dpop_proofs.PresentedDpopProof | None = None,
) -> Document:
    """Validate an authorization request as the authorization endpoint does, store it, and return its request_uri.

    The client authenticates as at the token endpoint (RFC 9126 section 2.1). A DPoP proof binds the code to its key
    (RFC 9449 section 10.1). Raises OAuth2Error.
    """
    client = authenticated.client
    authenticated.require_pkce(is_verified="code_challenge" in form or "request" in form)
    if "request_uri" in form:
        raise InvalidRequest("unknown", "A request_uri cannot be pushed (the request_uri parameter).")
    given = {**await request_objects.unpack(services, call, client, form), PUSHED: ""}
    authenticated.require_pkce(is_verified="code_challenge" in given)
    validated = authorization_request.validate(given, client.application, origin=None, own_origin=call.origin.base_url)
    binds_key = validated.dpop_jkt is not None
    features.require_request(services, client.application, validated.scopes, binds_key=binds_key)
    declared = services.schemas[PARAMETERS].schema["properties"]
    request = {name: value for name, value in given.items() if name in declared and name not in ROUTING}
    if SIGNED in given:
        request[SIGNED] = ""
    if not authenticated.has_credentials:
        anonymous_request_limits.require_maximum_size(request)
        await anonymous_request_limits.count_request(services, client.tenant_id, call.origin.ip_address)
    key_thumbprint = await dpop_proofs.verify_proof(services, call, client.tenant_id, dpop_proof, client.oauth)
    if key_thumbprint is not None and request.setdefault("dpop_jkt", key_thumbprint) != key_thumbprint:
        raise InvalidDpopProof(None, "The DPoP proof is of another key than dpop_jkt.")
    secret = new_secret()
    await services.tokens.pushed_requests.save(client.tenant_id, client.client_id, secret, request, TTL_SECONDS)
    return {"expires_in": TTL_SECONDS, "request_uri": PREFIX + secret}
