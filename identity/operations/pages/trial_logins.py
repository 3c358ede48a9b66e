"""Logins by which an administrator tries an application: the authorization code flow, with every message shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.authorization import hosted_backend as hosted_backend_rules
from identity.domain.clients import redirect_uris
from identity.errors import InvalidRequest
from identity.operations import grants
from identity.operations.authorization import first_party_redirects
from identity.operations.clients import bearer_tokens, client_authentication, clients
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.issuance import userinfo
from identity.operations.limits import anonymous_request_limits
from identity.operations.pages import code_flow
from identity.operations.pages.code_flow import CodeFlow, LoginRedirect
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """A completed login: the messages between client and provider; `claims` are those of the userinfo endpoint."""

    authorization_request: str
    authorization_response: Mapping[str, str]
    token_request: Mapping[str, str]
    token_response: Document
    claims: Document


async def begin(
    services: Services, call: Call, application: Document, administrator_id: str, browser_secret: str, scope: str
) -> LoginRedirect:
    """Start a login to an application. Raises InvalidRequest and UnauthorizedClient."""
    client = await _client(services, application["tenantId"], application["id"])
    hosted_backend_rules.require_supported(client.application)
    flow = CodeFlow(client, browser_secret)
    parameters = flow.parameters(first_party_redirects.trial_uri(call, client.client_id), scope)
    location = redirect_uris.with_query(call.origin.base_url + code_flow.AUTHORIZE, parameters)
    pending = {"administratorId": administrator_id, "clientId": client.client_id, "location": location}
    anonymous_request_limits.require_maximum_size(pending)
    return await flow.store(services, call, services.sessions.trial_logins, location, pending)


async def complete(
    services: Services, call: Call, client_id: str, administrator_id: str, browser_secret: str, given: Mapping[str, str]
) -> Trial:
    """Exchange the code of an authorization response, once and only for the administrator who started the login.

    Raises InvalidRequest, and the errors of the token endpoint.
    """
    found = await services.sessions.trial_logins.consume_across_tenants(given.get("state", ""), browser_secret)
    if found is None or (found[1]["clientId"], found[1]["administratorId"]) != (client_id, administrator_id):
        raise InvalidRequest("unknown", "This login has expired, was completed already, or was started elsewhere.")
    tenant_id, pending = found
    if "error" in given:
        return Trial(pending["location"], given, {}, {}, {})
    client = first_party_redirects.for_trial(call, await _client(services, tenant_id, client_id))
    form = code_flow.token_request(pending, first_party_redirects.trial_uri(call, client_id), given.get("code", ""))
    response: dict[str, Any] = await grants.exchange(services, call, client_authentication.internal(client), form)
    bearer = await bearer_tokens.verify(services, call, response["access_token"])
    claims = await userinfo.claims_of(services, call, bearer)
    return Trial(pending["location"], given, {"client_id": client_id, **form}, response, claims)


async def _client(services: Services, tenant_id: str, client_id: str) -> Client:
    return await clients.get_client(services, TenantHints(parameter=tenant_id), client_id)
