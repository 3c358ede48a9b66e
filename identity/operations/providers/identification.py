"""The account that a request, an authorization response or a device proves, by the type of the provider.

A provider that manages domains authenticates users of those domains only, whatever its type.
"""

from __future__ import annotations

from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers.external_identities import ExternalIdentity
from identity.domain.providers.social_providers import PROVIDERS
from identity.errors import Invalid, Unauthorized
from identity.operations.clients.clients import Client
from identity.operations.providers import console_tokens, external_jwt, openid_connect, social_login
from identity.operations.providers.login_trace import LoginTrace
from identity.services import Services


async def by_request(
    services: Services, call: Call, provider: Document, client: Client, request: Document, trace: LoginTrace
) -> ExternalIdentity:
    """Return the account of an API request. Raises Invalid, also for types without logins, and Unauthorized."""
    data = request["data"]
    if provider["type"] == provider_rules.OPENID_CONNECT:
        identity = await openid_connect.identify(services, call, provider, client.client_id, data, trace)
    elif provider["type"] == provider_rules.EXTERNAL_JWT:
        token = request.get("encodedJWT") or data.get("token")
        identity = await external_jwt.identify(services, call, provider, token, trace)
    elif provider["type"] in PROVIDERS:
        identity = await social_login.identify(services, call, provider, client.client_id, data, trace)
    else:
        raise unsupported(provider["type"])
    return _of_managed_domain(provider, identity)


async def by_response(
    services: Services, call: Call, provider: Document, client: Client, response: Mapping[str, str], trace: LoginTrace
) -> ExternalIdentity:
    """Return the account of an authorization response, which contains the `redirect_uri`. Raises as `by_request`."""
    if provider["type"] in PROVIDERS:
        identity = await social_login.identify(
            services, call, provider, client.client_id, response, trace, return_to=response["redirect_uri"]
        )
    else:
        identity = await openid_connect.identify(services, call, provider, client.client_id, response, trace)
    return _of_managed_domain(provider, identity)


async def by_device_token(
    services: Services, call: Call, provider: Document, client: Client, token: str, trace: LoginTrace
) -> ExternalIdentity:
    """Return the account of the token of a device. Raises as `by_request`."""
    if provider["type"] in console_tokens.VERIFIERS:
        tokens = token.split(":")
        identity = await console_tokens.identify(services, call, provider, client.client_id, tokens, trace)
    elif provider["type"] == provider_rules.OPENID_CONNECT:
        identity = await openid_connect.identify_by_id_token(services, call, provider, client.client_id, token, trace)
    else:
        return await by_request(services, call, provider, client, {"data": {"token": token}}, trace)
    return _of_managed_domain(provider, identity)


def _of_managed_domain(provider: Document, identity: ExternalIdentity) -> ExternalIdentity:
    """Return the identity. Raises Unauthorized for an address of a domain that the provider does not manage.

    A username in the form of an address counts as one. The claims of an external JWT must have an address.
    """
    requires_address = provider["type"] == provider_rules.EXTERNAL_JWT and provider["domains"]
    is_missing = requires_address and identity.email is None
    if is_missing or not all(provider_rules.manages(provider, address) for address in identity.addresses):
        raise Unauthorized(log_detail="the provider does not manage the domain of the email or username")
    return identity


def unsupported(kind: str) -> Invalid:
    """Return the error for a type of provider without logins."""
    message = f"Users cannot log in through identity providers of type {kind} here."
    return Invalid.field("invalid", "identityProviderId", message)
