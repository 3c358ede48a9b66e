"""Scopes `idp-link:<identityProviderId>:<token>[:<token>...]`: link an account at a provider in the device grant.

The tokens are verified when the device requests authorization, and the account is linked to the user who approves the
device: a JWT of an ExternalJWT provider, an ID token that an OpenIDConnect provider issued to the configured client, or
a token that the API login accepts for the type of the provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from identity.call import Call, Document
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers.social_providers import PROVIDERS
from identity.errors import Invalid, InvalidScope, ServiceError, Unauthorized
from identity.ids import parse_id
from identity.operations.clients.clients import Client
from identity.operations.limits import failed_login_limits
from identity.operations.objects import features
from identity.operations.providers import identification
from identity.operations.providers.login_trace import LoginTrace
from identity.services import Services

SCOPE_PREFIX: Final = "idp-link:"


def split_scopes(requested: Iterable[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the scope that links an account, if there is one, and all others. Raises InvalidScope for several."""
    links = [scope for scope in requested if scope.startswith(SCOPE_PREFIX)]
    if len(links) > 1:
        raise InvalidScope("unknown_scope", "Only one account can be linked by a device.")
    return links[0] if links else None, tuple(scope for scope in requested if not scope.startswith(SCOPE_PREFIX))


async def store_pending_link(services: Services, call: Call, client: Client, scope: str, ttl_seconds: int) -> str:
    """Verify the token of a scope, and return the id of the stored link. Raises InvalidScope."""
    provider_id, _, rest = scope[len(SCOPE_PREFIX) :].partition(":")
    provider = await _get_provider(services, client, provider_id)
    limit = failed_login_limits.address_limits(call)
    if await services.limits.rate_limits.consume(client.tenant_id, limit) is not None:
        raise InvalidScope("unknown_scope", "Too many tokens of identity providers were refused lately.")
    trace = LoginTrace()
    try:
        identity = await identification.by_device_token(services, call, provider, client, rest, trace)
    except (Invalid, Unauthorized) as error:
        await trace.record(services, call, provider, f"a device was refused: {error.log_detail or error.message}")
        raise _refused(f"The token for the identity provider {provider['name']} cannot be trusted.") from error
    except ServiceError:
        await services.limits.rate_limits.refund(client.tenant_id, limit)
        raise
    await services.limits.rate_limits.refund(client.tenant_id, limit)
    await trace.record(services, call, provider, "an account for a device")
    link = identity.pending_link(provider["id"])
    return await services.sessions.pending_links.issue(client.tenant_id, link, ttl_seconds)


async def _get_provider(services: Services, client: Client, provider_id: str) -> Document:
    """Return the provider, if it is enabled and its tokens can be verified. Raises InvalidScope."""
    known_id = parse_id(provider_id)
    provider = known_id and await services.configuration.identity_providers.find_cached(None, known_id)
    if not provider or not provider_rules.is_enabled_for(provider, client.tenant_id, client.client_id):
        raise _refused(f"The identity provider is unknown: {provider_id[:100]}")
    features.require_provider(services, provider)
    row = PROVIDERS.get(provider["type"])
    if provider["type"] not in provider_rules.AUTHENTICATION_TYPES or (row is not None and not row.token):
        raise _refused(f"Accounts at identity providers of type {provider['type']} cannot be linked by a device.")
    if provider["linkingStrategy"] in {"Disabled", "Unsupported"}:
        raise _refused(f"The identity provider {provider['name']} does not support links.")
    return provider


def _refused(description: str) -> InvalidScope:
    return InvalidScope("unknown_scope", description)
