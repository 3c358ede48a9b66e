"""The callback from an identity provider: match the state, validate the response, and complete the login.

A callback is accepted once, in the browser that started the login. Whatever a provider returns, the user sees a page of
ours, and administrators find the reason in the event log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.configuration import page_texts
from identity.domain.login import login_outcomes
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers.reauthentication import Reauthentication
from identity.domain.providers.social_providers import PROVIDERS
from identity.errors import (
    AlreadyLinked,
    Invalid,
    InvalidRequest,
    LoginPrevented,
    NotFound,
    ServiceError,
    Unavailable,
    WebhookTransactionFailed,
)
from identity.ids import TenantId, new_secret
from identity.instants import Instant
from identity.operations.authorization import authorization, login_requirements
from identity.operations.clients.clients import TenantHints
from identity.operations.login_transactions.authorization_steps import (
    Browser,
    LinkRequired,
    LoginPage,
    NewLogin,
    Problem,
    ProviderFailed,
    RejectedByLambda,
    RejectedByWebhook,
    Step,
    VerifiedClient,
)
from identity.operations.login_transactions.login_transactions import InterruptedLogin
from identity.operations.objects import event_logs
from identity.operations.providers import authorization_redirect, provider_login
from identity.services import Services

FAILED: Final = "[ExternalAuthenticationException]"
"""The page text of errors without their own."""

_DECLINED: Final = frozenset({"access_denied", "user_cancelled_authorize", "user_cancelled_login"})
"""The errors of a user who declined; Apple and LinkedIn have their own."""
_MAXIMUM_QUOTE: Final = 200
_PROOFS: Final = {"oauth1": "oauth_verifier", "oauth2": "code", "openid2": "openid.sig"}
"""The member of a successful response, by the flow of the provider."""
_EXPECTED: Final = {
    "code_verifier": "codeVerifier",
    "nonce": "nonce",
    "oauth_token_secret": "tokenSecret",
    "redirect_uri": "redirectUri",
}
"""The member of the state that completes a response, by its name in the response."""


@dataclasses.dataclass(frozen=True, slots=True)
class FederationState:
    """The consumed state of a login at a provider."""

    verified_client: VerifiedClient
    document: Document = dataclasses.field(repr=False)


async def consume_state(services: Services, call: Call, state: str | None, browser: Browser) -> FederationState:
    """Consume the state of a callback. Raises InvalidRequest, which is shown on an error page."""
    found = None
    if state is not None:
        found = await services.sessions.provider_logins.consume_across_tenants(state, browser.federation_secret)
    if found is None:
        description = "This sign-in has expired or was started in another browser. Please start again."
        raise InvalidRequest("unknown", description)
    tenant_id, document = found
    return FederationState(await verify_client_again(services, call, tenant_id, document), document)


async def verify_client_again(
    services: Services, call: Call, tenant_id: TenantId, document: Document
) -> VerifiedClient:
    """Verify the client of a stored request again. Raises as `authorization.verify_client` does."""
    given = {**document["given"], "tenantId": tenant_id}
    return await authorization.verify_client(services, call, TenantHints(parameter=tenant_id), given)


async def complete_login(
    services: Services, call: Call, state: FederationState, response: Mapping[str, str], browser: Browser
) -> Step:
    """Complete the login with the provider's response; on failure show the login page. Raises OAuth2Error."""
    client, document = state.verified_client.client, state.document
    provider = await services.configuration.identity_providers.find_cached(None, document["providerId"])
    if (
        provider is None
        or not provider_rules.is_enabled_for(provider, client.tenant_id, client.client_id)
        or provider_rules.effective_oauth2(provider, client.client_id).get("issuer") != document["issuer"]
    ):
        return LoginPage(client, "", ProviderFailed("[InvalidIdentityProviderId]"))
    request = authorization.validate(call, state.verified_client)
    try:
        row = PROVIDERS.get(provider["type"])
        _require_proof(document, response, _PROOFS["oauth2" if row is None else row.flow])
        expected = {name: document[member] for name, member in _EXPECTED.items() if document.get(member) is not None}
        authentication = await provider_login.authenticate(
            services, call, client, provider, {**response, **expected}, _required(document), trust_id=browser.trust_id
        )
    except _InvalidResponseError as error:
        await authorization_redirect.log_failure(services, call, client, provider, error.reason, error.kind)
        return LoginPage(client, "", ProviderFailed(error.key))
    except ServiceError as error:
        if not isinstance(error, LoginPrevented | WebhookTransactionFailed | Unavailable):
            await authorization_redirect.log_failure(
                services, call, client, provider, error.log_detail or error.message, "Error"
            )
        return LoginPage(client, "", problem_of(error))
    result, auth_instant = authentication.result, authentication.auth_instant
    provider_session = authentication.provider_session
    if isinstance(result, provider_login.PendingLink):
        return await _require_link(services, state, result, browser)
    kind, is_persistent = provider_rules.AUTHENTICATION_TYPES[provider["type"]], document["isPersistent"]
    if not isinstance(result, login_outcomes.LoggedIn):
        login = InterruptedLogin(
            result.user["id"],
            kind,
            is_persistent=is_persistent,
            provider_instant=auth_instant,
            provider_session=provider_session,
        )
        return await login_requirements.redirect_to_step(services, call, state.verified_client, login, result)
    new_login = NewLogin(
        result.user,
        kind,
        is_persistent,
        auth_instant,
        second_factor_checked=True,
        start_instant=call.now,
        provider_session=provider_session,
    )
    return await authorization.continue_with_login(services, call, state.verified_client, request, browser, new_login)


def _required(state: Document) -> Reauthentication | None:
    """Return the authentication that the request of a stored state requires of the provider."""
    # A state of an earlier release has neither member.
    earliest = state.get("earliestAuthInstant")
    return None if earliest is None else Reauthentication(Instant(earliest), state["requiresAuthTime"])


def problem_of(error: ServiceError) -> Problem:
    """Return what the login page shows for an error; a general failure if it has no text of its own."""
    if isinstance(error, LoginPrevented):
        return RejectedByLambda(error.texts)
    if isinstance(error, WebhookTransactionFailed):
        return RejectedByWebhook()
    if isinstance(error, Unavailable):
        return login_outcomes.TooManyAttempts(0)
    if isinstance(error, NotFound):
        return ProviderFailed("[ExternalAuthenticationException]UserDoesNotExist")
    if isinstance(error, AlreadyLinked):
        return ProviderFailed("[AlreadyLinked]")
    codes = [each.code for each in error.general] if isinstance(error, Invalid) else []
    return ProviderFailed(next((code for code in codes if code in page_texts.TEXTS), FAILED))


class _InvalidResponseError(Exception):
    """The provider's response contains no proof of a login."""

    def __init__(self, key: str, reason: str, kind: event_logs.Kind = "Error") -> None:
        super().__init__(reason)
        self.key, self.reason, self.kind = key, reason, kind


def _require_proof(stored: Document, response: Mapping[str, str], proof: str) -> None:
    """Require a code, or another proof, from the expected provider. Raises _InvalidResponseError.

    A provider that announces `iss` always sends it, also with errors (RFC 9207 section 2.4). A response without it or
    from another issuer may be a mix-up attack, which has a code redeemed at the wrong provider.
    """
    issuer, expected = response.get("iss"), stored["issuer"]
    # A provider configured by its endpoints has no known issuer.
    is_another = issuer is not None and expected is not None and issuer != expected
    if is_another or (issuer is None and stored["namesItself"]):
        raise _InvalidResponseError(
            FAILED, "its response has another issuer, or none although the provider announces it (mix-up)"
        )
    if "error" in response:
        description = (
            f"it returned {_quoted(response['error'])} {_quoted(response.get('error_description', ''))}".strip()
        )
        if response["error"] in _DECLINED:
            raise _InvalidResponseError("[ExternalAuthenticationException]AccessDenied", description, "Information")
        raise _InvalidResponseError(FAILED, description)
    if "denied" in response or response.get("openid.mode") == "cancel":
        raise _InvalidResponseError("[ExternalAuthenticationException]AccessDenied", "the user declined", "Information")
    if proof not in response:
        raise _InvalidResponseError(FAILED, f"its response has neither {proof} nor error")


def _quoted(text: str) -> str:
    """Return a provider's text in a form that is safe to log."""
    return "".join(character if character.isprintable() else "?" for character in text)[:_MAXIMUM_QUOTE]


async def _require_link(
    services: Services, state: FederationState, pending: provider_login.PendingLink, browser: Browser
) -> LinkRequired:
    """Store the request until the user has logged in to link the account."""
    client, link = state.verified_client.client, new_secret()
    document = {**state.document, "pendingId": pending.pending_id}
    ttl_seconds = Lifetimes.of(client.tenant).pending_link_seconds
    await services.sessions.link_logins.issue(client.tenant_id, link, browser.federation_secret, document, ttl_seconds)
    return LinkRequired(client, link)
