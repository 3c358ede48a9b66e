"""Redirects from the hosted pages to identity providers.

A button, `idp_hint`, or the domain of the login id selects the provider. State, nonce and PKCE verifier are new for
every redirect (RFC 9700 section 2.1) and are stored with the complete authorization request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization import pkce
from identity.domain.authorization.authorization_request import PUSHED
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers import reauthentication
from identity.domain.providers.identity_providers import ProviderOptions
from identity.domain.providers.social_providers import PROVIDERS
from identity.errors import Invalid
from identity.ids import new_secret, parse_id
from identity.operations.clients.clients import Client
from identity.operations.limits import anonymous_request_limits
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import (
    Browser,
    LoginPage,
    ProviderFailed,
    ProviderRedirect,
    UnknownProvider,
    VerifiedClient,
)
from identity.operations.objects import event_logs
from identity.operations.providers import oauth1, openid_connect, steam_openid
from identity.operations.providers.openid_connect import ProviderEndpoints
from identity.services import Services

COOKIE: Final = "federated.csrf"
"""Binds pending logins at providers to the browser."""
CALLBACK_PATH: Final = "/oauth2/callback"
"""The redirect URI that operators register at their providers."""
LINK_PATH: Final = "/oauth2/start-idp-link"
"""The page on which a user of a provider chooses the local account to link."""

_SCOPE: Final = "openid email"
_NO_AUTHORIZATION_ENDPOINT: Final = "it has no usable authorization_endpoint"


async def find_options(services: Services, client: Client) -> ProviderOptions:
    """Return the alternatives to a password on the login page of a client."""
    return provider_rules.options_of(await _providers(services, client), client.client_id)


async def redirect_by_hint(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    provider_id: str,
    *,
    is_persistent: bool = False,
) -> ProviderRedirect | LoginPage:
    """Redirect to the provider of an `idp_hint` or a button; return the login page if it is not one of the client."""
    login_id = verified_client.given.get("login_hint", "")
    wanted_id = parse_id(provider_id)
    for provider in await _providers(services, verified_client.client):
        if provider["id"] == wanted_id:
            return await _redirect(
                services, call, verified_client, browser, provider, login_id, is_persistent=is_persistent
            )
    return LoginPage(verified_client.client, login_id, UnknownProvider())


async def redirect_by_domain(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    login_id: str,
    *,
    is_persistent: bool = False,
) -> ProviderRedirect | LoginPage | None:
    """Redirect to the provider that manages the domain of a login id; return None if there is none."""
    provider = provider_rules.find_by_domain(await _providers(services, verified_client.client), login_id)
    if provider is None:
        return None
    return await _redirect(services, call, verified_client, browser, provider, login_id, is_persistent=is_persistent)


async def _providers(services: Services, client: Client) -> Sequence[Document]:
    """Return the providers of a client. Do not modify them: the documents are shared."""
    found = await services.configuration.identity_providers.of_application_across_tenants(client.client_id)
    return provider_rules.login_page_providers(found, client.tenant_id, client.client_id)


async def _redirect(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    provider: Document,
    login_id: str,
    *,
    is_persistent: bool,
) -> ProviderRedirect | LoginPage:
    client = verified_client.client
    secret, row = browser.federation_secret or new_secret(), PROVIDERS.get(provider["type"])
    state_data = {**_state_data(services, call, verified_client, provider), "isPersistent": is_persistent}
    # Counted first: the request of OAuth 1.0a begins with a request to the provider.
    await anonymous_request_limits.count_request(services, client.tenant_id, call.origin.ip_address)
    try:
        request = await _FLOWS["oauth2" if row is None else row.flow](
            services, call, client, provider, state_data, login_id
        )
    except Invalid as error:
        await log_failure(services, call, client, provider, error.log_detail, "Error")
        return LoginPage(client, login_id, ProviderFailed(error.general[0].code))
    if PUSHED not in verified_client.given:
        anonymous_request_limits.require_maximum_size(state_data)
    ttl_seconds = Lifetimes.of(client.tenant).login_intent_seconds
    await services.sessions.provider_logins.issue(client.tenant_id, request.state, secret, state_data, ttl_seconds)
    is_post = bool(provider.get("postRequest"))
    return ProviderRedirect(client, request.url, request.parameters, secret, is_post=is_post)


def _state_data(services: Services, call: Call, verified_client: VerifiedClient, provider: Document) -> Document:
    return {
        "codeVerifier": None,
        "earliestAuthInstant": None,
        "given": login_transactions.request_parameters(services, verified_client),
        "issuer": provider_rules.effective_oauth2(provider, verified_client.client.client_id).get("issuer"),
        "namesItself": False,
        "nonce": None,
        "providerId": provider["id"],
        "redirectUri": call.origin.base_url + CALLBACK_PATH,
        "requiresAuthTime": False,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _AuthorizationRequest:
    """The request that the browser is redirected with; `state` identifies its response."""

    url: str
    parameters: dict[str, str]
    state: str


async def _oauth2_request(
    services: Services, call: Call, client: Client, provider: Document, state_data: Document, login_id: str
) -> _AuthorizationRequest:
    """Return an authentication request (OpenID Connect Core 3.1.2.1), and complete its state. Raises Invalid."""
    oauth2, row = provider_rules.effective_oauth2(provider, client.client_id), PROVIDERS.get(provider["type"])
    endpoints = await openid_connect.resolve_endpoints(services, call, oauth2)
    url, state = _authorization_endpoint(endpoints), new_secret()
    published = endpoints.published.get("authorization_response_iss_parameter_supported") is True
    # Without an issuer there are no keys for the ID token, and hence no nonce.
    has_id_token = endpoints.issuer is not None and "openid" in _scope(endpoints).split()
    has_nonce = has_id_token and (row is None or row.nonce)
    state_data |= {
        "codeVerifier": new_secret() if row is None or row.pkce else None,
        "namesItself": published,
        "nonce": new_secret() if has_nonce else None,
    }
    required = reauthentication.required(provider, state_data["given"], call.now, has_id_token=has_id_token)
    if required is not None:
        state_data |= {
            "earliestAuthInstant": required.earliest_instant,
            "requiresAuthTime": required.requires_auth_time,
        }
    hint = login_id if row is None or row.login_hint else ""
    parameters = _parameters(endpoints, state_data, state, hint, prefers_form=bool(provider.get("postRequest")))
    parameters |= reauthentication.parameters(provider, oauth2, state_data["given"], has_id_token=has_id_token)
    return _AuthorizationRequest(url, {**parameters, **({} if row is None else row.parameters)}, state)


async def _oauth1_request(
    services: Services, call: Call, client: Client, provider: Document, state_data: Document, _login_id: str
) -> _AuthorizationRequest:
    """Return the authorization request of OAuth 1.0a (RFC 5849 section 2.2); its token is the state. Raises Invalid."""
    oauth2 = provider_rules.effective_oauth2(provider, client.client_id)
    token, secret = await oauth1.request_token(services, call, oauth2, state_data["redirectUri"])
    state_data["tokenSecret"] = secret
    parameters = {"oauth_token": token}
    parameters |= reauthentication.parameters(provider, oauth2, state_data["given"], has_id_token=False)
    return _AuthorizationRequest(oauth2["authorization_endpoint"], parameters, token)


async def _openid2_request(
    _services: Services, call: Call, client: Client, provider: Document, state_data: Document, _login_id: str
) -> _AuthorizationRequest:
    """Return the request of OpenID Authentication 2.0; the return URL, which is signed, contains the state."""
    oauth2, state = provider_rules.effective_oauth2(provider, client.client_id), new_secret()
    state_data["redirectUri"] += f"?state={state}"
    parameters = steam_openid.parameters(state_data["redirectUri"], call.origin.base_url)
    return _AuthorizationRequest(oauth2["authorization_endpoint"], parameters, state)


_FLOWS: Final = {"oauth1": _oauth1_request, "oauth2": _oauth2_request, "openid2": _openid2_request}


def _parameters(
    endpoints: ProviderEndpoints, state_data: Document, state: str, login_id: str, *, prefers_form: bool
) -> dict[str, str]:
    """Return the parameters of an authentication request; form_post only if the provider publishes it."""
    modes = endpoints.published.get("response_modes_supported")
    is_form = prefers_form and isinstance(modes, list) and "form_post" in modes
    verifier = state_data["codeVerifier"]
    parameters = {
        "client_id": endpoints.oauth2["client_id"],
        "code_challenge": verifier and pkce.challenge(verifier),
        "code_challenge_method": verifier and pkce.METHOD,
        "login_hint": login_id or None,
        "nonce": state_data["nonce"],
        "redirect_uri": state_data["redirectUri"],
        "response_mode": "form_post" if is_form else None,
        "response_type": "code",
        "scope": _scope(endpoints),
        "state": state,
    }
    return {name: value for name, value in parameters.items() if value is not None}


def _scope(endpoints: ProviderEndpoints) -> str:
    return str(endpoints.oauth2.get("scope") or _SCOPE)


async def log_failure(
    services: Services, call: Call, client: Client, provider: Document, reason: str, kind: event_logs.Kind
) -> None:
    """Log a failed login through a provider for administrators."""
    message = (
        f"A login through the identity provider {provider['name']} ({provider['id']}) to the application"
        f" {client.application['name']} ({client.client_id}) failed: {reason}"
    )
    inside = call.within(client.tenant_id)
    await event_logs.debug(services, inside, client.tenant_id, f"provider {provider['id']}", message, kind)


def _authorization_endpoint(endpoints: ProviderEndpoints) -> str:
    """Return the endpoint for browsers: the published one takes precedence over the configured one. Raises Invalid."""
    url = endpoints.published.get("authorization_endpoint") or endpoints.oauth2.get("authorization_endpoint")
    if not isinstance(url, str) or "#" in url or not url.isascii() or not provider_rules.is_web_url(url):
        raise openid_connect.provider_error("OpenIDConnectToken", _NO_AUTHORIZATION_ENDPOINT)
    return url
