"""The account that a request or an authorization response proves, by the type of the provider."""

from __future__ import annotations

from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.social_providers import PROVIDERS
from identity.errors import Invalid
from identity.operations.clients.clients import Client
from identity.operations.providers import external_jwt, openid_connect, social_login
from identity.operations.providers.login_trace import LoginTrace
from identity.services import Services


async def by_request(
    services: Services, call: Call, provider: Document, client: Client, request: Document, trace: LoginTrace
) -> ExternalIdentity:
    """Return the account of an API request. Raises Invalid, also for types without logins, and Unauthorized."""
    data = request["data"]
    if provider["type"] == provider_rules.OPENID_CONNECT:
        return await openid_connect.identify(services, call, provider, client.client_id, data, trace)
    if provider["type"] == provider_rules.EXTERNAL_JWT:
        token = request.get("encodedJWT") or data.get("token")
        return await external_jwt.identify(services, call, provider, token, trace)
    if provider["type"] in PROVIDERS:
        return await social_login.identify(services, call, provider, client.client_id, data, trace)
    raise unsupported(provider["type"])


async def by_response(
    services: Services, call: Call, provider: Document, client: Client, response: Mapping[str, str], trace: LoginTrace
) -> ExternalIdentity:
    """Return the account of an authorization response, which contains the `redirect_uri`. Raises as `by_request`."""
    if provider["type"] in PROVIDERS:
        return await social_login.identify(
            services, call, provider, client.client_id, response, trace, return_to=response["redirect_uri"]
        )
    return await openid_connect.identify(services, call, provider, client.client_id, response, trace)


def unsupported(kind: str) -> Invalid:
    """Return the error for a type of provider without logins."""
    message = f"Users cannot log in through identity providers of type {kind} here."
    return Invalid.field("invalid", "identityProviderId", message)
