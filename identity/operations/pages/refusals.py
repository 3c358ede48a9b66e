"""Why an authorization or token request is refused: the checks of the endpoints, without their effects.

No code is consumed and no token issued, so that a request that passes here may still fail for its code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call
from identity.domain.clients import security_profiles
from identity.errors import InvalidRequest, OAuth2Error, UnauthorizedClient, UnsupportedGrantType
from identity.operations import grants
from identity.operations.authorization import authorization
from identity.operations.clients import client_authentication
from identity.operations.clients.clients import TenantHints
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnosis:
    """The check that refuses a request, and its error; `error` is None if all checks pass."""

    check: str
    error: OAuth2Error | None = None


async def of_authorization_request(services: Services, call: Call, given: Mapping[str, str]) -> Diagnosis:
    """Check the parameters of an authorization request."""
    check = "Client and redirect URI"
    try:
        verified_client = await authorization.verify_client(
            services, call, TenantHints(parameter=given.get("tenantId")), given
        )
        check = "Parameters"
        authorization.validate(call, verified_client)
    except OAuth2Error as error:
        return Diagnosis(check, error)
    return Diagnosis("All checks before the login pass")


async def of_token_request(
    services: Services, call: Call, authorization_header: str, form: Mapping[str, str]
) -> Diagnosis:
    """Check the client, the grant and the credentials of a token request. A client assertion is not checked."""
    check, grant_type = "Client", form.get("grant_type", "")
    kept = {name: value for name, value in form.items() if not name.startswith("client_assertion")}
    hints = TenantHints(parameter=form.get("tenantId"))
    try:
        client = await client_authentication.identify(services, authorization_header, kept, hints, call.origin.base_url)
        check = "Grant"
        if not grant_type:
            raise InvalidRequest("missing_grant_type", "The request is missing a required parameter: grant_type.")
        if grant_type not in grants.GRANTS:
            raise UnsupportedGrantType("invalid_grant_type", f"The grant_type is not supported: {grant_type[:100]}")
        if not security_profiles.may_use_grant(client.client.application, grant_type):
            raise UnauthorizedClient("grant_type_disabled", f"The grant {grant_type} is disabled for this client.")
        if "client_assertion" not in form:
            check = "Client authentication"
            client.require(grant_type, pkce_verified="code_verifier" in form)
    except OAuth2Error as error:
        return Diagnosis(check, error)
    return Diagnosis("All checks before the grant itself pass")
