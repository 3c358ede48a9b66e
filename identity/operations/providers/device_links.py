"""Scopes `idp-link:<identityProviderId>:<token>[:<token>...]`: link an account at a provider in the device grant.

The tokens are verified when the device requests authorization, and the account is linked to the user who approves the
device: a JWT of an ExternalJWT provider, an ID token that an OpenIDConnect provider issued to our own client, or what
the platform of a console provider issues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from identity.call import Call, Document
from identity.domain.providers import identity_providers as rules
from identity.domain.providers.external_identities import ExternalIdentity
from identity.errors import Invalid, InvalidScope, ServiceError, Unauthorized
from identity.ids import parse_id
from identity.operations.clients.clients import Client
from identity.operations.limits import failed_login_limits
from identity.operations.objects import features
from identity.operations.providers import console_tokens, external_jwt, openid_connect
from identity.operations.providers.login_trace import LoginTrace
from identity.services import Services

SCOPE_PREFIX: Final = "idp-link:"


def split_scopes(requested: Iterable[str]) -> tuple[str | None, tuple[str, ...]]:
    """The scope that links an account, if there is one, and all others. Raises InvalidScope for more than one."""
    links = [scope for scope in requested if scope.startswith(SCOPE_PREFIX)]
    if len(links) > 1:
        raise InvalidScope("unknown_scope", "Only one account can be linked by a device.")
    return links[0] if links else None, tuple(scope for scope in requested if not scope.startswith(SCOPE_PREFIX))


async def store_pending_link(services: Services, call: Call, client: Client, scope: str, ttl_seconds: int) -> str:
    """Verify the token of the scope and answer the id of the link that waits for its user. Raises InvalidScope."""
    provider_id, _, rest = scope[len(SCOPE_PREFIX) :].partition(":")
    provider = await _provider(services, client, provider_id)
    limit = failed_login_limits.address_limits(call)
    if await services.limits.rate_limits.consume(client.tenant_id, limit) is not None:
        raise InvalidScope("unknown_scope", "Too many tokens of identity providers were refused lately.")
    trace = LoginTrace()
    try:
        identity = await _identified(services, call, client, provider, rest, trace)
    except (Invalid, Unauthorized) as error:
        await trace.record(services, call, provider, f"a device was refused: {error.log_detail or error.message}")
        raise _refused(f"The token for the identity provider {provider['name']} cannot be trusted.") from error
    except ServiceError:
        await services.limits.rate_limits.refund(client.tenant_id, limit)
        raise
    await services.limits.rate_limits.refund(client.tenant_id, limit)
    await trace.record(services, call, provider, "a device brings an account along")
    link = {
        "displayName": identity.display_name,
        "email": identity.email,
        "identityProviderId": provider["id"],
        "identityProviderUserId": identity.unique_id,
        "token": identity.token,
        "username": identity.username,
    }
    known = {name: value for name, value in link.items() if value is not None}
    return await services.sessions.pending_links.issue(client.tenant_id, known, ttl_seconds)


async def _provider(services: Services, client: Client, provider_id: str) -> Document:
    """The provider, if the application may use it and its tokens can be verified here. Raises InvalidScope."""
    named = parse_id(provider_id)
    provider = None if named is None else await services.configuration.identity_providers.find_cached(None, named)
    if (
        provider is None
        or not rules.is_available_to(provider, client.tenant_id)
        or rules.find_enabled_settings(provider, client.client_id) is None
    ):
        raise _refused(f"The identity provider is unknown: {provider_id[:100]}")
    features.require_provider(services, provider)
    if provider["type"] not in {*rules.AUTHENTICATION_TYPES, *console_tokens.VERIFIERS}:
        raise _refused(f"Accounts at identity providers of type {provider['type']} cannot be linked by a device.")
    if provider["linkingStrategy"] in {"Disabled", "Unsupported"}:
        raise _refused(f"The identity provider {provider['name']} takes no links.")
    return provider


async def _identified(
    services: Services, call: Call, client: Client, provider: Document, token: str, trace: LoginTrace
) -> ExternalIdentity:
    if provider["type"] in console_tokens.VERIFIERS:
        tokens = token.split(":")
        return await console_tokens.identify(services, call, provider, client.client_id, tokens, trace)
    if provider["type"] == rules.EXTERNAL_JWT:
        return await external_jwt.identify(services, call, provider, token, trace)
    return await openid_connect.identify_by_id_token(services, call, provider, client.client_id, token, trace)


def _refused(description: str) -> InvalidScope:
    return InvalidScope("unknown_scope", description)
