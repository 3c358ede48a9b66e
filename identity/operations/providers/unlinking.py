"""Unlinking of accounts: the link is deleted, and the provider is asked to revoke the token that it kept (RFC 7009)."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers import social_providers
from identity.errors import Invalid
from identity.ids import TenantId
from identity.operations.objects import event_logs
from identity.operations.providers import openid_connect, social_login
from identity.operations.providers.openid_connect import ProviderEndpoints
from identity.operations.users import identity_provider_links
from identity.outbound.federation import FederationError
from identity.services import Services


async def unlink(
    services: Services, call: Call, *, provider_id: str | None, account: str | None, user_id: str | None
) -> None:
    """Delete the link of an account to a user, then revoke its token.

    The link stays deleted if the provider cannot be reached. Raises NotFound, and Invalid when an id is missing.
    """
    link = await identity_provider_links.delete(
        services, call, provider_id=provider_id, account=account, user_id=user_id
    )
    provider = await services.configuration.identity_providers.find_cached(None, link["identityProviderId"])
    if provider is None or not link.get("token"):
        return
    try:
        await _revoke(services, call, provider, link["token"])
    except (FederationError, Invalid) as error:
        reason = error.log_detail if isinstance(error, Invalid) else str(error)
        message = f"The identity provider {provider['name']} ({provider['id']}) did not revoke a token: {reason}"
        tenant_id = TenantId(link["tenantId"])
        subject = f"provider {provider['id']}"
        await event_logs.debug(services, call.within(tenant_id), tenant_id, subject, message, "Error")


async def _revoke(services: Services, call: Call, provider: Document, token: str) -> None:
    """Revoke a token, if the provider has a revocation endpoint. Raises FederationError and Invalid."""
    row = social_providers.PROVIDERS.get(provider["type"])
    endpoints = await _resolve_endpoints(services, call, provider)
    url = None if endpoints is None else {**endpoints.oauth2, **endpoints.published}.get("revocation_endpoint")
    if endpoints is None or not isinstance(url, str):
        return
    if reason := provider_rules.transport_problem(url, services.config.identity_providers.allowed_networks):
        raise FederationError(f"its revocation_endpoint cannot be used: {reason}")
    kept = "refresh_token" if row is None else row.keeps
    form, basic = openid_connect.authenticate_client(endpoints.oauth2, {"token": token, "token_type_hint": kept})
    await services.outbound.federation.post_form(url, form, basic=basic)


async def _resolve_endpoints(services: Services, call: Call, provider: Document) -> ProviderEndpoints | None:
    """Return the endpoints with the client of the provider: links do not state the application that made them."""
    if provider["type"] == provider_rules.OPENID_CONNECT:
        return await openid_connect.resolve_endpoints(services, call, provider["oauth2"])
    row = social_providers.PROVIDERS.get(provider["type"])
    if row is None or "revocation_endpoint" not in row.oauth2:
        return None
    return await social_login.resolve_endpoints(services, call, provider, "", {})
