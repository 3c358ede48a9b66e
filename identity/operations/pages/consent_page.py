"""The consent page: shows the scopes that an application requests, and processes the user's decision.

Showing the page does not consume the login transaction. Submitting it does, so that a form produces one response.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.authorization.consent import ConsentPrompt
from identity.errors import AccessDenied
from identity.operations.authorization import authorization
from identity.operations.clients.clients import Client
from identity.operations.configuration import scope_consents
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, CurrentLogin, LoginPage, Step
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentPage:
    """The user has to decide on the scopes of `prompt`."""

    client: Client
    user: Document
    prompt: ConsentPrompt


async def show(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> ConsentPage | Step:
    """Return the page, or the next step if no consent is required any more. Raises OAuth2Error."""
    client = transaction.client
    restored = await authorization.restore_login(services, call, transaction, browser)
    if restored is None:
        return LoginPage(client)
    request, current = restored
    prompt = await _find_prompt(services, call, client, request, current)
    if prompt is not None:
        return ConsentPage(client, current.user, prompt)
    await login_transactions.consume(services, transaction)
    return await authorization.proceed(services, call, transaction.verified_client, request, current)


async def answer(
    services: Services,
    call: Call,
    transaction: AuthenticatedTransaction,
    browser: Browser,
    approved: Collection[str] | None,
) -> Step:
    """Record the decision, after the transaction was consumed, and continue.

    `approved` are the selected scopes, None if the user canceled. Raises AccessDenied if the user canceled or declined
    a required scope.
    """
    if approved is None:
        raise AccessDenied("consent_canceled", "The user did not consent.")
    verified_client, client = transaction.verified_client, transaction.client
    restored = await authorization.restore_login(services, call, transaction, browser)
    if restored is None:
        return LoginPage(client)
    request, current = restored
    prompt = await _find_prompt(services, call, client, request, current)
    if prompt is None:
        return await authorization.proceed(services, call, verified_client, request, current)
    decision = prompt.decide(approved)
    granted = await scope_consents.record_decision(services, call, client, current.user, prompt, decision)
    request = dataclasses.replace(request, scopes=granted)
    return await authorization.respond(services, call, verified_client, request, current)


async def _find_prompt(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, current: CurrentLogin
) -> ConsentPrompt | None:
    """Return the prompt for a user whose login meets all other requirements."""
    if authorization.unmet_requirement(call, client, current) is not None:
        return None
    found = await scope_consents.resolve_consent(services, call, client, current.user, request)
    return found if isinstance(found, ConsentPrompt) else None
