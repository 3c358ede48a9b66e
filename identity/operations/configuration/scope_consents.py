"""Consent of users to the scopes of applications.

The decision is stored for a limited time if the application's consentMode is RememberDecision, and otherwise requested
at each login. It is deleted with the user, the application and the scope. Withdrawing it also revokes the application's
refresh tokens.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.authorization import consent as consent_rules
from identity.domain.authorization.authorization_request import CONSENT, AuthorizationRequest
from identity.domain.authorization.consent import ConsentDecision, ConsentPrompt
from identity.domain.clients import scopes
from identity.domain.objects.external_identifiers import Lifetimes
from identity.errors import InvalidScope
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import later
from identity.operations.clients.clients import Client
from identity.services import Services

_NOTHING = ConsentDecision()


async def resolve_consent(
    services: Services, call: Call, client: Client, user: Document, request: AuthorizationRequest
) -> tuple[str, ...] | ConsentPrompt:
    """Return the scopes that the request grants, or the prompt that the user must answer first."""
    forces_prompt = CONSENT in request.prompts
    return await _resolve(services, call, client, user, request.scopes, forces_prompt=forces_prompt)


async def get_granted_scopes(
    services: Services, call: Call, client: Client, user: Document, requested: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the scopes of a grant without pages, for which the user must have consented before.

    Raises InvalidScope.
    """
    found = await _resolve(services, call, client, user, requested, forces_prompt=False)
    if isinstance(found, ConsentPrompt):
        raise consent_required(found.required + found.optional)
    return found


def consent_required(missing: tuple[str, ...]) -> InvalidScope:
    """Return the error of a grant without pages that lacks a consent."""
    return InvalidScope("missing_required_scope", f"The user has to agree to: {scopes.join(missing)}")


async def record_decision(
    services: Services, call: Call, client: Client, user: Document, question: ConsentPrompt, decision: ConsentDecision
) -> tuple[str, ...]:
    """Return the scopes that a decision grants; store the decision if the application remembers it."""
    if consent_rules.remembers_decisions(client.application):
        user_id = UserId(user["id"])
        ttl_seconds = Lifetimes.of(client.tenant).scope_consent_seconds
        await services.tokens.scope_consents.decide(
            client.tenant_id,
            user_id,
            client.client_id,
            sorted(decision.approved),
            sorted(decision.declined),
            now=call.now,
            expires=later(call.now, seconds=ttl_seconds),
        )
        await _delete_if_orphaned(services, client, user_id)
    return consent_rules.granted_scopes(client.application, question.requested, decision)


async def forget_application(services: Services, tenant_id: TenantId, application_id: ApplicationId) -> None:
    """Delete the decisions about a deleted application."""
    await services.tokens.scope_consents.delete_in_chunks(tenant_id, {"applicationId": application_id})


async def forget_scope(services: Services, application: Document, scope: Document, after: Document | None) -> None:
    """Remove a deleted scope from all decisions, because a later scope with its name needs a new consent."""
    if after is None:
        tenant_id, application_id = TenantId(application["tenantId"]), ApplicationId(application["id"])
        await services.tokens.scope_consents.remove_scope(tenant_id, application_id, scope["name"])


async def _resolve(
    services: Services, call: Call, client: Client, user: Document, requested: tuple[str, ...], *, forces_prompt: bool
) -> tuple[str, ...] | ConsentPrompt:
    application = client.application
    if not consent_rules.scopes_requiring_consent(application, requested):
        return requested
    earlier = None
    if consent_rules.remembers_decisions(application):
        earlier = await _find_decision(services, call, client, UserId(user["id"]))
    found = consent_rules.consent_prompt(application, requested, earlier, force=forces_prompt)
    return consent_rules.granted_scopes(application, requested, earlier or _NOTHING) if found is None else found


async def _find_decision(services: Services, call: Call, client: Client, user_id: UserId) -> ConsentDecision | None:
    stored = await services.tokens.scope_consents.find_live(client.tenant_id, user_id, client.client_id, call.now)
    return None if stored is None else ConsentDecision(frozenset(stored["approved"]), frozenset(stored["declined"]))


async def _delete_if_orphaned(services: Services, client: Client, user_id: UserId) -> None:
    """Delete a decision whose user or application was deleted while it was written."""
    user = await services.directory.users.find(client.tenant_id, user_id)
    application = await services.configuration.applications.find(client.tenant_id, client.client_id)
    if user is None or application is None:
        await services.tokens.scope_consents.remove(client.tenant_id, user_id, client.client_id)
