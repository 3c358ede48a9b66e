"""Logout at the identity provider of a session that ended here (OpenID Connect RP-Initiated Logout 1.0).

The provider returns to the callback, which continues at the URL of the logout here. A provider that cannot be reached,
or that publishes no endpoint, does not prevent the logout.
"""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.clients import redirect_uris
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.providers import identity_providers as provider_rules
from identity.errors import Invalid
from identity.ids import TenantId
from identity.operations.objects import event_logs
from identity.operations.providers import openid_connect
from identity.services import Services

CALLBACK_PATH: Final = "/oauth2/logout/callback"
"""The URL that operators register at their providers for the return after a logout."""

_MAXIMUM_HINT: Final = 4_096
"""The longest ID token that is sent in a URL."""
_KIND: Final = "providerLogout"


async def start(
    services: Services, call: Call, tenant: Document, provider_session: Document | None, target: str
) -> str | None:
    """Return the URL at the provider that ends its session; None if there is none to end. Then continue at `target`."""
    if provider_session is None:
        return None
    provider = await services.configuration.identity_providers.find_cached(None, provider_session["providerId"])
    if provider is None or not provider["enabled"] or not provider.get("logoutAtProvider"):
        return None
    oauth2 = provider_rules.effective_oauth2(provider, provider_session["applicationId"])
    try:
        endpoints = await openid_connect.resolve_endpoints(services, call, oauth2)
    except Invalid as error:
        await _log(services, call, tenant, provider, error.log_detail)
        return None
    url = endpoints.published.get("end_session_endpoint") or oauth2.get("end_session_endpoint")
    if not isinstance(url, str) or "#" in url or not url.isascii() or not provider_rules.is_web_url(url):
        await _log(services, call, tenant, provider, "it has no usable end_session_endpoint")
        return None
    ttl_seconds = Lifetimes.of(tenant).login_intent_seconds
    state = await services.tokens.one_time_tokens.issue(
        TenantId(tenant["id"]), _KIND, provider["id"], {"target": target}, ttl_seconds
    )
    parameters = {
        "client_id": oauth2["client_id"],
        "post_logout_redirect_uri": call.origin.base_url + CALLBACK_PATH,
        "state": state,
    }
    hint = provider_session["idToken"]
    if hint is not None and len(hint) <= _MAXIMUM_HINT:
        parameters["id_token_hint"] = hint
    return redirect_uris.with_query(url, parameters)


async def complete(services: Services, state: str | None) -> str | None:
    """Consume the state of a return, and return the URL to continue at; None for an unknown one.

    The state is not bound to the browser: it leads to a URL of the tenant only, and grants nothing.
    """
    if not state:
        return None
    found = await services.tokens.one_time_tokens.consume(None, _KIND, state)
    return None if found is None else str(found.document["target"])


async def _log(services: Services, call: Call, tenant: Document, provider: Document, reason: str) -> None:
    tenant_id = TenantId(tenant["id"])
    message = f"A logout at the identity provider {provider['name']} ({provider['id']}) failed: {reason}"
    await event_logs.debug(services, call.within(tenant_id), tenant_id, f"provider {provider['id']}", message, "Error")
