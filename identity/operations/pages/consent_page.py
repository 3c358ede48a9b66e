"""The consent page: what it asks, and what comes of the answer (spec: hosted login, step 7; scopes and consent).

It finds the login again by a login intent. Being looked at leaves the intent as it is; the answer uses it up, so that
one form gives one response.
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
from identity.operations.login_transactions.authorization_steps import (
    Browser,
    CurrentLogin,
    LoginPage,
    Step,
)
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentPage:
    """The user has to be asked."""

    client: Client
    user: Document
    question: ConsentPrompt


async def show(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> ConsentPage | Step:
    """What to ask; or what comes next where there is nothing to ask any more. Raises OAuth2Error."""
    verified_client = transaction.verified_client
    recalled = await authorization.restore_login(services, call, verified_client, transaction.login, browser)
    if recalled is None:
        return LoginPage(verified_client.client)
    request, current = recalled
    question = await _question(services, call, verified_client.client, request, current)
    if question is not None:
        return ConsentPage(verified_client.client, current.user, question)
    await login_transactions.consume(services, transaction)
    return await authorization.proceed(services, call, verified_client, request, current)


async def answer(
    services: Services,
    call: Call,
    transaction: AuthenticatedTransaction,
    browser: Browser,
    approved: Collection[str] | None,
) -> Step:
    """What an answer comes to, when the intent was claimed.

    `approved` are the scopes that were ticked, None where the user wants none of it. Raises AccessDenied for a refusal,
    also of a required scope.
    """
    if approved is None:
        raise AccessDenied("consent_canceled", "The user does not agree.")
    verified_client = transaction.verified_client
    recalled = await authorization.restore_login(services, call, verified_client, transaction.login, browser)
    if recalled is None:
        return LoginPage(verified_client.client)
    request, current = recalled
    question = await _question(services, call, verified_client.client, request, current)
    if question is None:
        return await authorization.proceed(services, call, verified_client, request, current)
    decision = question.decide(approved)
    granted = await scope_consents.record_decision(
        services, call, verified_client.client, current.user, question, decision
    )
    return await authorization.respond(
        services, call, verified_client, dataclasses.replace(request, scopes=granted), current
    )


async def _question(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, current: CurrentLogin
) -> ConsentPrompt | None:
    """What there is to ask somebody whom nothing else stops."""
    if authorization.unmet_requirement(call, client, current) is not None:
        return None
    found = await scope_consents.resolve_consent(services, call, client, current.user, request)
    return found if isinstance(found, ConsentPrompt) else None
