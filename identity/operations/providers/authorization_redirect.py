"""The way from our pages to an identity provider: which one a browser is sent to, and what it takes along.

A browser goes by a button, by `idp_hint`, or because a provider manages the domain of the login id. State, nonce and
PKCE verifier are new for every departure (RFC 9700 section 2.1) and stay here, with the whole authorization request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.authorization import pkce
from identity.domain.authorization.authorization_request import PUSHED
from identity.domain.providers import identity_providers as rules
from identity.domain.providers.identity_providers import ProviderOptions
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
from identity.operations.providers import openid_connect
from identity.operations.providers.openid_connect import ProviderEndpoints
from identity.services import Services

COOKIE: Final = "federated.csrf"
"""Ties what is under way at providers to the browser that began it."""
CALLBACK_PATH: Final = "/oauth2/callback"
"""Where providers send browsers back to: what operators register there."""
LINK_PATH: Final = "/oauth2/start-idp-link"
"""The page on which a user of a provider chooses the local account to link."""

_SCOPE: Final = "openid email"
_NO_AUTHORIZATION_ENDPOINT: Final = "it has no authorization_endpoint that a browser can be sent to"


async def find_options(services: Services, client: Client) -> ProviderOptions:
    """The alternatives to a password on the login page of a client."""
    return rules.options_of(await _providers(services, client), client.client_id)


async def redirect_by_hint(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    browser: Browser,
    provider_id: str,
    *,
    is_persistent: bool = False,
) -> ProviderRedirect | LoginPage:
    """To the provider that `idp_hint` or a button names; the login page where there is none for the client."""
    login_id = verified_client.given.get("login_hint", "")
    wanted = parse_id(provider_id)
    for provider in await _providers(services, verified_client.client):
        if provider["id"] == wanted:
            return await _depart(
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
    """To the provider that manages the domain of a login id, or a bare domain; None where none does."""
    provider = rules.find_by_domain(await _providers(services, verified_client.client), login_id)
    if provider is None:
        return None
    return await _depart(services, call, verified_client, browser, provider, login_id, is_persistent=is_persistent)


async def _providers(services: Services, client: Client) -> Sequence[Document]:
    """The providers that a client offers. Do not modify them: the documents are shared."""
    found = await services.configuration.identity_providers.of_application_across_tenants(client.client_id)
    return rules.login_page_providers(found, client.tenant_id, client.client_id)


async def _depart(
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
    try:
        spoken_to = await openid_connect.resolve_endpoints(
            services, call, rules.effective_oauth2(provider, client.client_id)
        )
        url = _authorization_endpoint(spoken_to)
    except Invalid as error:
        await log_failure(services, call, client, provider, error.log_detail, "Error")
        return LoginPage(client, login_id, ProviderFailed(error.general[0].code))
    secret, state = browser.federation_secret or new_secret(), new_secret()
    detour: Document = {
        "codeVerifier": new_secret(),
        "given": login_transactions.request_parameters(services, verified_client),
        "isPersistent": is_persistent,
        "issuer": spoken_to.issuer,
        "namesItself": spoken_to.published.get("authorization_response_iss_parameter_supported") is True,
        # Without an issuer there are no keys to check an ID token with, and so no nonce that could be believed.
        "nonce": new_secret() if spoken_to.issuer is not None and "openid" in _scope(spoken_to).split() else None,
        "providerId": provider["id"],
        "redirectUri": call.origin.base_url + CALLBACK_PATH,
    }
    if PUSHED not in verified_client.given:
        anonymous_request_limits.require_maximum_size(detour)
    await anonymous_request_limits.count_request(services, client.tenant_id, call.origin.ip_address)
    ttl_seconds = client.tenant["externalIdentifierConfiguration"]["loginIntentTimeToLiveInSeconds"]
    await services.sessions.provider_logins.issue(client.tenant_id, state, secret, detour, ttl_seconds)
    is_post = bool(provider["postRequest"])
    parameters = _parameters(spoken_to, detour, state, login_id, asks_for_form=is_post)
    return ProviderRedirect(client, url, parameters, secret, is_post=is_post)


def _parameters(
    spoken_to: ProviderEndpoints, detour: Document, state: str, login_id: str, *, asks_for_form: bool
) -> dict[str, str]:
    """The authentication request (OpenID Connect Core 3.1.2.1); a form is asked for only where it is published."""
    modes = spoken_to.published.get("response_modes_supported")
    is_form = asks_for_form and isinstance(modes, list) and "form_post" in modes
    wanted = {
        "client_id": spoken_to.oauth2["client_id"],
        "code_challenge": pkce.challenge(detour["codeVerifier"]),
        "code_challenge_method": pkce.METHOD,
        "login_hint": login_id or None,
        "nonce": detour["nonce"],
        "redirect_uri": detour["redirectUri"],
        "response_mode": "form_post" if is_form else None,
        "response_type": "code",
        "scope": _scope(spoken_to),
        "state": state,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _scope(spoken_to: ProviderEndpoints) -> str:
    return str(spoken_to.oauth2.get("scope") or _SCOPE)


async def log_failure(
    services: Services, call: Call, client: Client, provider: Document, reason: str, kind: event_logs.Kind
) -> None:
    """Tell administrators of a login that went wrong at a provider, or on the way to it."""
    message = (
        f"A login through the identity provider {provider['name']} ({provider['id']}) to the application"
        f" {client.application['name']} ({client.client_id}) failed: {reason}"
    )
    inside = call.within(client.tenant_id)
    await event_logs.debug(services, inside, client.tenant_id, f"provider {provider['id']}", message, kind)


def _authorization_endpoint(spoken_to: ProviderEndpoints) -> str:
    """Where browsers go: what the issuer publishes wins over what is configured. Raises Invalid."""
    url = spoken_to.published.get("authorization_endpoint") or spoken_to.oauth2.get("authorization_endpoint")
    if not isinstance(url, str) or "#" in url or not url.isascii() or not rules.is_web_url(url):
        raise openid_connect.provider_error("OpenIDConnectToken", _NO_AUTHORIZATION_ENDPOINT)
    return url
