"""Why an authorization, pushed or token request is refused: the checks of the endpoints, without their effects.

No code, pushed request, assertion or proof is consumed and no token issued, so that a request that passes here may
still fail for one that was used before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call
from identity.domain.authorization import authorization_request
from identity.domain.authorization.authorization_request import PUSHED
from identity.domain.clients import security_profiles
from identity.errors import InvalidRequest, OAuth2Error, UnauthorizedClient, UnsupportedGrantType
from identity.operations import grants
from identity.operations.authorization import authorization, request_objects, request_sources
from identity.operations.clients import client_assertions, client_authentication, dpop_proofs
from identity.operations.clients.client_assertions import Signer
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import TenantHints
from identity.operations.clients.dpop_proofs import PresentedDpopProof
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request of a client: its form, its Authorization header, and its DPoP proof."""

    form: Mapping[str, str]
    authorization: str = ""
    dpop_proof: PresentedDpopProof | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """The check that refuses a request, and its error; `error` is None if all checks pass."""

    check: str
    error: OAuth2Error | None = None


def named_client(request: ClientRequest) -> str:
    """Return the client id of a request: that of its form, its Authorization header or its assertion."""
    try:
        return client_authentication.read_credentials(request.authorization, dict(request.form)).client_id
    except OAuth2Error:
        return request.form.get("client_id", "")


async def of_authorization_request(services: Services, call: Call, given: Mapping[str, str]) -> Diagnosis:
    """Check the parameters of an authorization request, or those that its request or request_uri contains."""
    check = "Request object, or pushed request"
    hints = TenantHints(parameter=given.get("tenantId"))
    try:
        found = await request_sources.resolve(services, call, hints, given, consumes=False)
        check = "Client and redirect URI"
        verified_client = await authorization.verify_client(services, call, hints, found)
        check = "Parameters"
        authorization.validate(call, verified_client)
    except OAuth2Error as error:
        return Diagnosis(check, error)
    return Diagnosis("All checks before the login pass")


async def of_pushed_request(services: Services, call: Call, request: ClientRequest) -> Diagnosis:
    """Check a request of the endpoint for pushed authorization requests (RFC 9126)."""
    check, form = "Client", request.form
    try:
        client = await _identify(services, call, request)
        check = "Client authentication"
        await _authenticate(services, call, request, client, "authorization_code")
        check = "Request object"
        if "request_uri" in form:
            raise InvalidRequest("unknown", "A request_uri cannot be pushed (the request_uri parameter).")
        given = {**await request_objects.unpack(services, call, client.client, form), PUSHED: ""}
        check = "Parameters"
        authorization_request.validate(given, client.client.application, origin=None, own_origin=call.origin.base_url)
        check = "DPoP proof"
        await _check_proof(services, call, request, client)
    except OAuth2Error as error:
        return Diagnosis(check, error)
    return Diagnosis("All checks of a pushed request pass")


async def of_token_request(services: Services, call: Call, request: ClientRequest) -> Diagnosis:
    """Check the client, the grant, the credentials and the DPoP proof of a token request."""
    check, grant_type = "Client", request.form.get("grant_type", "")
    try:
        client = await _identify(services, call, request)
        check = "Grant"
        if not grant_type:
            raise InvalidRequest("missing_grant_type", "The request is missing a required parameter: grant_type.")
        if grant_type not in grants.GRANTS:
            raise UnsupportedGrantType("invalid_grant_type", f"The grant_type is not supported: {grant_type[:100]}")
        if not security_profiles.may_use_grant(client.client.application, grant_type):
            raise UnauthorizedClient("grant_type_disabled", f"The grant {grant_type} is disabled for this client.")
        check = "Client authentication"
        await _authenticate(services, call, request, client, grant_type)
        check = "DPoP proof"
        if request.dpop_proof is None and client.client.oauth.dpop_bound_access_tokens:
            raise dpop_proofs.proof_required()
        await _check_proof(services, call, request, client)
    except OAuth2Error as error:
        return Diagnosis(check, error)
    return Diagnosis("All checks before the grant itself pass")


async def _identify(services: Services, call: Call, request: ClientRequest) -> IdentifiedClient:
    """Return the client of a request; its assertion is not consumed."""
    form = {name: value for name, value in request.form.items() if not name.startswith("client_assertion")}
    if client_assertions.is_presented(dict(request.form)):
        form["client_id"] = client_assertions.parse(request.authorization, dict(request.form)).client_id
    hints = TenantHints(parameter=form.get("tenantId"))
    return await client_authentication.identify(services, request.authorization, form, hints, call.origin.base_url)


async def _authenticate(
    services: Services, call: Call, request: ClientRequest, client: IdentifiedClient, grant_type: str
) -> None:
    form = dict(request.form)
    if client_assertions.is_presented(form):
        assertion = client_assertions.parse(request.authorization, form)
        await client_assertions.check(services, Signer.of(client.client), assertion, call.origin.base_url)
        return
    authenticated = client.authenticate(grant_type)
    authenticated.require_pkce(is_verified=any(name in form for name in ("code_verifier", "code_challenge", "request")))


async def _check_proof(services: Services, call: Call, request: ClientRequest, client: IdentifiedClient) -> None:
    if request.dpop_proof is not None:
        await dpop_proofs.check(services, call, client.client.tenant_id, request.dpop_proof, client.client.oauth)
