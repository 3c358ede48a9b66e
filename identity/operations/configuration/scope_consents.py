"""What a user allowed an application: asked once for each login, or remembered for a while.

A decision is remembered for a user and an application where its consentMode is RememberDecision. It goes with the user,
the application, and the scope that it is about; who withdraws one signs the application out, too.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.authorization import consent as rules
from identity.domain.authorization.authorization_request import CONSENT, AuthorizationRequest
from identity.domain.authorization.consent import ConsentDecision, ConsentPrompt
from identity.domain.clients import scopes
from identity.errors import InvalidScope
from identity.ids import ApplicationId, TenantId, UserId
from identity.instants import later
from identity.operations.clients.clients import Client
from identity.services import Services

_NOTHING = ConsentDecision()


async def resolve_consent(
    services: Services, call: Call, client: Client, user: Document, request: AuthorizationRequest
) -> tuple[str, ...] | ConsentPrompt:
    """The scopes that the request grants, or what the user has to be asked first."""
    again = CONSENT in request.prompts
    return await _settled(services, call, client, user, request.scopes, again=again)


async def get_granted_scopes(
    services: Services, call: Call, client: Client, user: Document, wanted: tuple[str, ...]
) -> tuple[str, ...]:
    """The scopes that a grant without pages gives: a user who would have to be asked must have answered before.

    Raises InvalidScope.
    """
    found = await _settled(services, call, client, user, wanted, again=False)
    if isinstance(found, ConsentPrompt):
        raise consent_required(found.required + found.optional)
    return found


def consent_required(asked: tuple[str, ...]) -> InvalidScope:
    """What a grant without pages answers in place of asking."""
    return InvalidScope("missing_required_scope", f"The user has to agree to: {scopes.join(asked)}")


async def record_decision(
    services: Services, call: Call, client: Client, user: Document, question: ConsentPrompt, decision: ConsentDecision
) -> tuple[str, ...]:
    """The scopes that an answer grants. It is remembered where the application asks once for a while."""
    if rules.remembers_decisions(client.application):
        user_id = UserId(user["id"])
        ttl_seconds = client.tenant["externalIdentifierConfiguration"][
            "rememberOAuthScopeConsentChoiceTimeToLiveInSeconds"
        ]
        await services.scope_consents.decide(
            client.tenant_id,
            user_id,
            client.client_id,
            sorted(decision.approved),
            sorted(decision.declined),
            now=call.now,
            expires=later(call.now, seconds=ttl_seconds),
        )
        await _forget_if_gone(services, client, user_id)
    return rules.granted_scopes(client.application, question.wanted, decision)


async def forget_application(services: Services, tenant_id: TenantId, application_id: ApplicationId) -> None:
    """Forget what users decided about an application that is removed."""
    await services.scope_consents.delete_in_chunks(tenant_id, {"applicationId": application_id})


async def forget_scope(services: Services, application: Document, scope: Document, after: Document | None) -> None:
    """Forget the answers about a scope that was removed: another one under its name was never asked about."""
    if after is None:
        tenant_id, application_id = TenantId(application["tenantId"]), ApplicationId(application["id"])
        await services.scope_consents.remove_scope(tenant_id, application_id, scope["name"])


async def _settled(
    services: Services, call: Call, client: Client, user: Document, wanted: tuple[str, ...], *, again: bool
) -> tuple[str, ...] | ConsentPrompt:
    application = client.application
    if not rules.scopes_to_ask_for(application, wanted):
        return wanted
    earlier = None
    if rules.remembers_decisions(application):
        earlier = await _earlier(services, call, client, UserId(user["id"]))
    found = rules.consent_prompt(application, wanted, earlier, again=again)
    return rules.granted_scopes(application, wanted, earlier or _NOTHING) if found is None else found


async def _earlier(services: Services, call: Call, client: Client, user_id: UserId) -> ConsentDecision | None:
    stored = await services.scope_consents.find_live(client.tenant_id, user_id, client.client_id, call.now)
    return None if stored is None else ConsentDecision(frozenset(stored["approved"]), frozenset(stored["declined"]))


async def _forget_if_gone(services: Services, client: Client, user_id: UserId) -> None:
    """For a user or an application that was removed while the answer was on its way."""
    user = await services.users.find(client.tenant_id, user_id)
    application = await services.applications.find(client.tenant_id, client.client_id)
    if user is None or application is None:
        await services.scope_consents.remove(client.tenant_id, user_id, client.client_id)
