"""Token exchange (RFC 8693): a token of a user for another one, with less authority or for another audience.

The client always authenticates. The new token is one of the client: its audience is the client, followed by the
requested targets. It names the acting party (`act`) unless the application may impersonate.
"""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.authorization import token_exchange as exchange_rules
from identity.domain.authorization.token_exchange import TokenExchangePolicy
from identity.domain.clients import resource_indicators, scopes
from identity.domain.configuration.applications import EXCHANGE_GRANT
from identity.domain.configuration.token_settings import effective_ttl_seconds
from identity.domain.users import users as user_rules
from identity.errors import InvalidRequest, UnauthorizedClient
from identity.instants import numeric_date
from identity.operations.clients import active_users, bearer_tokens, dpop_proofs
from identity.operations.clients.bearer_tokens import Bearer
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.issuance import issued_tokens, token_responses
from identity.operations.lambdas import token_lambdas
from identity.operations.objects import audit_logs
from identity.services import Services
from identity.tokens import access_tokens
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import VerifiedEntityToken, VerifiedToken
from identity.tokens.jws import Rejection

grant_type = EXCHANGE_GRANT
parameters = (
    "subject_token",
    "subject_token_type",
    "actor_token",
    "actor_token_type",
    "requested_token_type",
    "audience",
    "resource",
    "scope",
)
_KINDS: Final = {
    exchange_rules.ACCESS_TOKEN: issued_tokens.ACCESS_TOKEN,
    exchange_rules.ID_TOKEN: issued_tokens.ID_TOKEN,
    exchange_rules.JWT: None,
}
"""The kind of token that `issued_tokens.verify_jwt` accepts for each type."""


async def exchange(services: Services, call: Call, authenticated: AuthenticatedClient, form: Document) -> Document:
    """Return the response of a token exchange (RFC 8693 section 2.2.1).

    Raises InvalidRequest, InvalidClient, InvalidScope, InvalidTarget and UnauthorizedClient.
    """
    client, policy = authenticated.client, TokenExchangePolicy.of(authenticated.client.application)
    _require_trusted_client(authenticated)
    issued_type = exchange_rules.requested_type(form)
    subject = await _verify(services, call, authenticated, policy, form, "subject_token")
    if not isinstance(subject, VerifiedToken):
        raise InvalidRequest("access_token_invalid", "The subject_token is not that of a user.")
    actor_token = await _find_actor_token(services, call, authenticated, policy, form)
    context = await _context(services, call, authenticated, policy, form, subject, actor_token)
    presented = [subject.claims] if actor_token is None else [subject.claims, actor_token.claims]
    ttl = exchange_rules.lifetime_seconds(
        effective_ttl_seconds(client.tenant, client.application), numeric_date(call.now), presented
    )
    issued = await token_lambdas.access_token(services, call, context, ttl=ttl)
    await _record(services, call, context, issued.token_id)
    response: Document = {
        "access_token": issued.token,
        "expires_in": issued.expires_in,
        "issued_token_type": issued_type,
        "token_type": dpop_proofs.token_type(context.confirmation),
    }
    return {**response, "scope": scopes.join(context.scopes)} if context.scopes else response


async def _context(
    services: Services,
    call: Call,
    authenticated: AuthenticatedClient,
    policy: TokenExchangePolicy,
    form: Document,
    subject: VerifiedToken,
    actor_token: VerifiedToken | VerifiedEntityToken | None,
) -> TokenContext:
    """Return what the new token is issued for. Raises InvalidRequest, InvalidScope and InvalidTarget."""
    client, custom = authenticated.client, authenticated.client.application["scopes"]
    audiences = exchange_rules.requested_audiences(form.get("audience"), policy)
    resources = resource_indicators.parse(form.get("resource"), client.oauth)
    bearer = Bearer(subject, await _get_user(services, call, authenticated, subject))
    actor = {"sub": client.presented_client_id if actor_token is None else actor_token.claims["sub"]}
    exchange_rules.require_may_act(subject.claims, actor, client.presented_client_id)
    is_impersonation = actor_token is None and policy.impersonation_enabled
    maximum = services.config.token_exchange.maximum_actors
    return TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=bearer.user,
        scopes=exchange_rules.granted_scopes(form.get("scope"), subject.scopes, client.oauth, custom),
        grants=(*subject.claims.get("gty", ()), grant_type),
        authentication_type=bearer.authentication_type,
        auth_instant=bearer.auth_instant,
        refresh_token_id=subject.claims.get("sid"),
        resources=tuple(dict.fromkeys((*audiences, *resources))),
        confirmation=authenticated.confirmation,
        actor=exchange_rules.act_claim(subject.claims, None if is_impersonation else actor, maximum),
    )


def _require_trusted_client(authenticated: AuthenticatedClient) -> None:
    """Raise InvalidClient without authentication, and UnauthorizedClient for a third party.

    Users consent to a third party on a page, which this grant does not show.
    """
    authenticated.require_credentials()
    if authenticated.client.application["oauthConfiguration"]["relationship"] == "ThirdParty":
        raise UnauthorizedClient("grant_type_disabled", "A third-party application cannot exchange tokens.")


async def _find_actor_token(
    services: Services, call: Call, authenticated: AuthenticatedClient, policy: TokenExchangePolicy, form: Document
) -> VerifiedToken | VerifiedEntityToken | None:
    """Return the verified actor token, if any. Raises InvalidRequest."""
    if "actor_token" not in form:
        if "actor_token_type" in form:
            raise InvalidRequest("unknown", "The actor_token_type needs an actor_token.")
        return None
    verified = await _verify(services, call, authenticated, policy, form, "actor_token")
    if "act" in verified.claims:
        raise InvalidRequest("access_token_invalid", "The actor_token is itself the result of a delegation.")
    if isinstance(verified, VerifiedToken):
        await _get_user(services, call, authenticated, verified)
    return verified


async def _verify(
    services: Services,
    call: Call,
    authenticated: AuthenticatedClient,
    policy: TokenExchangePolicy,
    form: Document,
    name: str,
) -> VerifiedToken | VerifiedEntityToken:
    """Return a presented token: valid, not revoked, intended for the client, and bound to its key if to any.

    Raises InvalidRequest (RFC 8693 section 2.2.2).
    """
    token = token_responses.required_parameter(form, name, "unknown")
    token_type = token_responses.required_parameter(form, f"{name}_type", "unknown")
    if token_type not in exchange_rules.PRESENTED_TYPES:
        raise InvalidRequest("unknown", f"The {name}_type is not supported: {token_type[:100]}")
    tenant_id = authenticated.tenant_id
    verified = await issued_tokens.verify_jwt(services, call, tenant_id, token, _KINDS[token_type])
    if isinstance(verified, Rejection):
        raise InvalidRequest(bearer_tokens.REASONS[verified], f"The {name} is {verified.value}.")
    is_own = isinstance(verified, VerifiedToken) and authenticated.client.is_audience_of(verified)
    if not is_own and frozenset(policy.subject_audiences).isdisjoint(access_tokens.audiences(verified.claims)):
        raise InvalidRequest("access_token_invalid", f"The {name} is not intended for this client.")
    if verified.claims.get("cnf") not in (None, authenticated.confirmation):
        raise InvalidRequest("access_token_invalid", f"The {name} is bound to a key that the request does not prove.")
    if await services.tokens.revocations.is_revoked(tenant_id, verified.revocable_ids):
        raise InvalidRequest("access_token_invalid", f"The {name} was revoked.")
    return verified


async def _get_user(
    services: Services, call: Call, authenticated: AuthenticatedClient, token: VerifiedToken
) -> Document:
    """Return the active user of a token, registered if the client requires it. Raises InvalidRequest."""
    client = authenticated.client
    user = await active_users.get_active_user(
        services, client.tenant_id, token.claims["sub"], call.now, InvalidRequest, logging_in_to=client.client_id
    )
    if client.oauth.require_registration and user_rules.find_registration(user, client.client_id) is None:
        raise InvalidRequest("registration_required", "The user is not registered for the application.")
    return user


async def _record(services: Services, call: Call, context: TokenContext, token_id: str) -> None:
    """Write the exchange to the audit log: who acts for whom, and to what extent."""
    data = {
        "act": context.actor,
        "applicationId": context.application["id"],
        "audience": list(context.resources),
        "scopes": list(context.scopes),
        "tokenId": token_id,
        "userId": context.user["id"],
    }
    row = {
        "data": {name: value for name, value in data.items() if value},
        "insertUser": context.application["name"][:255],
        "message": "Token exchange",
        "reason": "A token request with the grant token-exchange (RFC 8693)",
    }
    tenant_id = context.tenant["id"]
    await audit_logs.add(services, call.within(tenant_id), row, tenant_id)
