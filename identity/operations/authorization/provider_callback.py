"""The way back from an identity provider to our pages: whose return it is, what the provider says, what comes of it.

A return counts once, in the browser that left, for the request that it left with. Whatever a provider answers, the user
sees a page of ours, and administrators find the reason in the event log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from identity.call import Call, Document
from identity.domain.configuration import page_texts
from identity.domain.login import login_outcomes as steps
from identity.domain.providers import identity_providers as rules
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
from identity.operations.providers import authorization_redirect
from identity.operations.providers import provider_login as federation
from identity.services import Services

FAILED: Final = "[ExternalAuthenticationException]"
"""The text for what has none of its own."""

_LONGEST: Final = 200


@dataclasses.dataclass(frozen=True, slots=True)
class FederationState:
    """What a browser left with; nobody else has it any more."""

    verified_client: VerifiedClient
    document: Document = dataclasses.field(repr=False)


async def consume_state(services: Services, call: Call, state: str | None, browser: Browser) -> FederationState:
    """The request that a browser left with, which is used up. Raises InvalidRequest, which belongs on a page."""
    found = None
    if state is not None:
        found = await services.provider_logins.consume_across_tenants(state, browser.federation_secret)
    if found is None:
        description = "This sign-in is over, took too long, or was begun in another browser. Please start again."
        raise InvalidRequest("unknown", description)
    tenant_id, document = found
    return FederationState(await verify_client_again(services, call, tenant_id, document), document)


async def verify_client_again(
    services: Services, call: Call, tenant_id: TenantId, document: Document
) -> VerifiedClient:
    """The request of a detour, if its client would still be let in. Raises as `authorization.verify_client` does."""
    given = {**document["given"], "tenantId": tenant_id}
    return await authorization.verify_client(services, call, TenantHints(parameter=tenant_id), given)


async def complete_login(
    services: Services, call: Call, detour: FederationState, answer: Mapping[str, str], browser: Browser
) -> Step:
    """What comes of the provider's answer: a login and all that follows it, or the login page. Raises OAuth2Error."""
    client, document = detour.verified_client.client, detour.document
    provider = await services.identity_providers.find_cached(None, document["providerId"])
    if (
        provider is None
        or not rules.is_available_to(provider, client.tenant_id)
        or rules.find_enabled_settings(provider, client.client_id) is None
        or rules.effective_oauth2(provider, client.client_id).get("issuer") != document["issuer"]
    ):
        return LoginPage(client, "", ProviderFailed("[InvalidIdentityProviderId]"))
    request = authorization.validate(call, detour.verified_client)
    try:
        _require_code(document, answer)
        known = {"redirect_uri": document["redirectUri"], "code_verifier": document["codeVerifier"]}
        if document["nonce"] is not None:
            known["nonce"] = document["nonce"]
        result = await federation.authenticate(services, call, client, provider, {**answer, **known})
    except _RefusedError as error:
        await authorization_redirect.log_failure(services, call, client, provider, error.reason, error.kind)
        return LoginPage(client, "", ProviderFailed(error.key))
    except ServiceError as error:
        if not isinstance(error, LoginPrevented | WebhookTransactionFailed | Unavailable):
            await authorization_redirect.log_failure(
                services, call, client, provider, error.log_detail or error.message, "Error"
            )
        return LoginPage(client, "", problem_of(error))
    if isinstance(result, federation.PendingLink):
        return await _link_wanted(services, detour, result, browser)
    kind, is_persistent = rules.AUTHENTICATION_TYPES[provider["type"]], document["isPersistent"]
    if not isinstance(result, steps.LoggedIn):
        halted = InterruptedLogin(result.user["id"], kind, is_persistent=is_persistent)
        return await login_requirements.redirect_to_step(
            services, call, detour.verified_client, halted, result, trust_id=browser.trust_id
        )
    fresh = NewLogin(result.user, kind, is_persistent, second_factor_checked=True)
    return await authorization.continue_with_login(services, call, detour.verified_client, request, browser, fresh)


def problem_of(error: ServiceError) -> Problem:
    """What the login page says of a refusal; where it has no words of its own, that it did not work."""
    if isinstance(error, LoginPrevented):
        return RejectedByLambda(tuple(error.messages))
    if isinstance(error, WebhookTransactionFailed):
        return RejectedByWebhook()
    if isinstance(error, Unavailable):
        return steps.TooManyAttempts(0)
    if isinstance(error, NotFound):
        return ProviderFailed("[ExternalAuthenticationException]UserDoesNotExist")
    if isinstance(error, AlreadyLinked):
        return ProviderFailed("[AlreadyLinked]")
    codes = [each.code for each in error.general] if isinstance(error, Invalid) else []
    return ProviderFailed(next((code for code in codes if code in page_texts.TEXTS), FAILED))


class _RefusedError(Exception):
    """The provider's answer is no code that could be exchanged."""

    def __init__(self, key: str, reason: str, kind: event_logs.Kind = "Error") -> None:
        super().__init__(reason)
        self.key, self.reason, self.kind = key, reason, kind


def _require_code(detour: Document, answer: Mapping[str, str]) -> None:
    """Refuse what is of another provider, then what is an error. Raises _RefusedError.

    A provider that says that it names itself always does, also in errors (RFC 9207 section 2.4): an answer of another
    one, or of nobody, may be a code that somebody wants to have redeemed at the wrong place.
    """
    issuer, expected = answer.get("iss"), detour["issuer"]
    # Of a provider that is configured by its endpoints nobody knows which issuer it is.
    is_another = issuer is not None and expected is not None and issuer != expected
    if is_another or (issuer is None and detour["namesItself"]):
        raise _RefusedError(FAILED, "its answer names another issuer, or none where it should (mix-up)")
    if "error" in answer:
        said = f"it answered {_quoted(answer['error'])} {_quoted(answer.get('error_description', ''))}".strip()
        if answer["error"] == "access_denied":
            raise _RefusedError("[ExternalAuthenticationException]AccessDenied", said, "Information")
        raise _RefusedError(FAILED, said)
    if "code" not in answer:
        raise _RefusedError(FAILED, "its answer has neither code nor error")


def _quoted(text: str) -> str:
    """What a provider says, as far as a log line can take it."""
    return "".join(character if character.isprintable() else "?" for character in text)[:_LONGEST]


async def _link_wanted(
    services: Services, detour: FederationState, pending: federation.PendingLink, browser: Browser
) -> LinkRequired:
    """Remember the request, until the user has said who they are here."""
    client, link = detour.verified_client.client, new_secret()
    document = {**detour.document, "pendingId": pending.pending_id}
    ttl_seconds = client.tenant["externalIdentifierConfiguration"]["pendingAccountLinkTimeToLiveInSeconds"]
    await services.link_logins.issue(client.tenant_id, link, browser.federation_secret, document, ttl_seconds)
    return LinkRequired(client, link)
