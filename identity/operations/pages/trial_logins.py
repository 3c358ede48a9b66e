"""Logins by which an administrator tries an application: the authorization code flow, with every message shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from identity.call import Call, Document
from identity.domain.authorization import hosted_backend as hosted_backend_rules
from identity.domain.authorization import pkce
from identity.domain.clients import redirect_uris
from identity.domain.objects.external_identifiers import Lifetimes
from identity.errors import InvalidRequest
from identity.ids import new_secret
from identity.operations import grants
from identity.operations.authorization import trial_callback
from identity.operations.clients import bearer_tokens, clients
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.issuance import userinfo
from identity.operations.limits import anonymous_request_limits
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class TrialLogin:
    """A started login: the authorization request, the browser's secret for the response, and the lifetime."""

    location: str
    browser_secret: str
    ttl_seconds: int


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
) -> TrialLogin:
    """Start a login to an application. Raises InvalidRequest and UnauthorizedClient."""
    client = await _client(services, application["tenantId"], application["id"])
    hosted_backend_rules.require_supported(client.application)
    secret, state, verifier = browser_secret or new_secret(), new_secret(), new_secret()
    await anonymous_request_limits.count_request(services, client.tenant_id, call.origin.ip_address)
    parameters = {
        "client_id": client.client_id,
        "code_challenge": pkce.challenge(verifier),
        "code_challenge_method": pkce.METHOD,
        "redirect_uri": trial_callback.redirect_uri(call, client.client_id),
        "response_type": "code",
        "scope": scope,
        "state": state,
        "tenantId": client.tenant_id,
    }
    location = redirect_uris.with_query(f"{call.origin.base_url}/oauth2/authorize", parameters)
    pending: Document = {
        "administratorId": administrator_id,
        "clientId": client.client_id,
        "codeVerifier": verifier,
        "location": location,
    }
    anonymous_request_limits.require_maximum_size(pending)
    ttl_seconds = Lifetimes.of(client.tenant).login_intent_seconds
    await services.sessions.trial_logins.issue(client.tenant_id, state, secret, pending, ttl_seconds)
    return TrialLogin(location, secret, ttl_seconds)


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
    client = trial_callback.with_redirect_uri(call, await _client(services, tenant_id, client_id))
    form = {
        "grant_type": "authorization_code",
        "code": given.get("code", ""),
        "code_verifier": pending["codeVerifier"],
        "redirect_uri": trial_callback.redirect_uri(call, client_id),
    }
    response: dict[str, Any] = await grants.exchange(services, call, IdentifiedClient.internal(client), form)
    bearer = await bearer_tokens.verify(services, call, response["access_token"])
    claims = await userinfo.claims_of(services, call, bearer)
    return Trial(pending["location"], given, {"client_id": client_id, **form}, response, claims)


async def _client(services: Services, tenant_id: str, client_id: str) -> Client:
    return await clients.get_client(services, TenantHints(parameter=tenant_id), client_id)
