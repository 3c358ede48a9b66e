"""The consent page: what it asks, and what comes of the answer (spec: hosted login, step 7; scopes and consent).

It finds the login again by a login intent. Being looked at leaves the intent as it is; the answer uses it up, so that
one form gives one response.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.authorization.consent import Question
from identity.errors import AccessDenied, InvalidRequest
from identity.operations.authorization import authorization
from identity.operations.clients import clients
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.configuration import scope_consents
from identity.operations.login_transactions import login_intents
from identity.operations.login_transactions.authorization_steps import (
    CONSENT_PAGE,
    Browser,
    Current,
    LoginPage,
    Step,
    VerifiedClient,
)
from identity.operations.login_transactions.login_intents import LoginIntent
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class ConsentPage:
    """The user has to be asked."""

    client: Client
    user: Document
    question: Question


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A login that waits for an answer: the browser's `cookie` has the secret of the intent that `intent_id` names."""

    proven: VerifiedClient
    intent: LoginIntent
    cookie: str = dataclasses.field(repr=False)
    intent_id: str


async def find(
    services: Services, call: Call, hints: TenantHints, given: Document, cookie: str, page: str = CONSENT_PAGE
) -> Waiting:
    """The login that a request to the page is about, or to another `page` that comes between.

    Raises InvalidRequest where this browser has none for this client, or none any more, and what
    `authorization.prove` raises; all belong on a page.
    """
    client = await clients.find(services, hints, given.get("client_id"))
    intent_id = given.get("intent", "")
    intent = await login_intents.find(services, client, page, cookie, intent_id)
    if intent is None:
        raise _gone()
    # By its own tenant, not by what the remembered request calls it: that was judged when the request came.
    proven = await authorization.prove(services, call, TenantHints(path=client.tenant_id), intent.given)
    return Waiting(proven, intent, cookie, intent_id)


async def show(services: Services, call: Call, waiting: Waiting, browser: Browser) -> ConsentPage | Step:
    """What to ask; or what comes next where there is nothing to ask any more. Raises OAuth2Error."""
    proven = waiting.proven
    recalled = await authorization.recall(services, call, proven, waiting.intent, browser)
    if recalled is None:
        return LoginPage(proven.client)
    request, current = recalled
    question = await _question(services, call, proven.client, request, current)
    if question is not None:
        return ConsentPage(proven.client, current.user, question)
    await claim(services, waiting)
    return await authorization.proceed(services, call, proven, request, current)


async def claim(services: Services, waiting: Waiting) -> None:
    """Use the intent up: of all who send one form one goes on. Raises InvalidRequest for the others."""
    if await login_intents.consume(services, waiting.proven.client, waiting.cookie, waiting.intent_id) is None:
        raise _gone()


async def answer(
    services: Services, call: Call, waiting: Waiting, browser: Browser, approved: Collection[str] | None
) -> Step:
    """What an answer comes to, when the intent was claimed.

    `approved` are the scopes that were ticked, None where the user wants none of it. Raises AccessDenied for a refusal,
    also of a required scope.
    """
    if approved is None:
        raise AccessDenied("consent_canceled", "The user does not agree.")
    proven = waiting.proven
    recalled = await authorization.recall(services, call, proven, waiting.intent, browser)
    if recalled is None:
        return LoginPage(proven.client)
    request, current = recalled
    question = await _question(services, call, proven.client, request, current)
    if question is None:
        return await authorization.proceed(services, call, proven, request, current)
    decision = question.answered(approved)
    granted = await scope_consents.record_decision(services, call, proven.client, current.user, question, decision)
    return await authorization.finish(services, call, proven, dataclasses.replace(request, scopes=granted), current)


async def _question(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, current: Current
) -> Question | None:
    """What there is to ask somebody whom nothing else stops."""
    if authorization.gate(call, client, current) is not None:
        return None
    found = await scope_consents.resolve_consent(services, call, client, current.user, request)
    return found if isinstance(found, Question) else None


def _gone() -> InvalidRequest:
    message = "This page was open for too long, or was answered already. Go back to the application and start again."
    return InvalidRequest("unknown", message)
