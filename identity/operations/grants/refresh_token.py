"""grant_type=refresh_token: exchange a refresh token for new tokens (RFC 6749 section 6, RFC 9700 section 4.14.2)."""

from __future__ import annotations

import functools

import structlog

from identity.call import Call, Document
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.clients import refresh_tokens as refresh_token_rules
from identity.domain.clients import resource_indicators, scopes, security_profiles
from identity.domain.clients.refresh_tokens import RefreshToken
from identity.domain.configuration.token_settings import effective_ttl_seconds
from identity.errors import InvalidGrant, InvalidRequest, InvalidScope, WebhookTransactionFailed
from identity.events.changes import Change, Event
from identity.ids import Secret
from identity.operations.authorization import device_grants
from identity.operations.authorization.device_grants import Approver
from identity.operations.clients import active_users
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.clients.clients import Client
from identity.operations.issuance import token_responses
from identity.operations.login import login_records
from identity.services import Services
from identity.store import outages
from identity.store.mongo import Session
from identity.store.outages import OUTAGES
from identity.store.refresh_tokens import PresentedRefreshToken
from identity.tokens.access_tokens import TokenContext

_log = structlog.get_logger(__name__)

grant_type = "refresh_token"
parameters = ("refresh_token", "scope", "access_token", "expires_in", "user_code")


class _NotRotatedError(Exception):
    """A concurrent request rotated or revoked the token; this transaction is rolled back."""


async def exchange(services: Services, call: Call, authenticated: AuthenticatedClient, form: Document) -> Document:
    """Return the token response for a refresh token.

    Raises InvalidRequest, InvalidClient, InvalidScope, and InvalidGrant, also if a webhook rejects the refresh.
    """
    value = token_responses.required_parameter(form, "refresh_token", "missing_refresh_token")
    client = authenticated.client
    presented = await services.tokens.refresh_tokens.find_by_value(client.tenant_id, value, call.now)
    if presented is None or presented.record.get("applicationId") != client.client_id:
        raise _not_found()
    refresh_token = RefreshToken.from_record(presented.record)
    authenticated.require_pkce(is_verified=refresh_token.pkce_verified)
    _require_key(authenticated, refresh_token)
    try:
        return await refresh(services, call, authenticated, presented, form)
    except WebhookTransactionFailed as error:
        raise InvalidGrant("unknown", "A webhook rejected this refresh.") from error


async def refresh(
    services: Services, call: Call, authenticated: AuthenticatedClient, presented: PresentedRefreshToken, form: Document
) -> Document:
    """Return the token response, after the caller has verified that the client may use the token.

    Raises InvalidRequest, InvalidGrant, InvalidScope and WebhookTransactionFailed.
    """
    client, record = authenticated.client, presented.record
    refresh_token = RefreshToken.from_record(record)
    await _require_unspent(services, call, client, presented)
    user = await active_users.get_active_user(services, client.tenant_id, refresh_token.user_id, call.now, InvalidGrant)
    granted = await _granted_scopes(services, call, client, record, user)
    narrowed = scopes.narrow(scopes.parse(form.get("scope")), granted) or granted
    ttl = _lifetime_seconds(form.get("expires_in"), effective_ttl_seconds(client.tenant, client.application))
    device_grant = await device_grants.find_for_token_request(services, call, authenticated, form)
    context = TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=user,
        scopes=narrowed,
        grants=(*refresh_token.grants, grant_type),
        authentication_type="REFRESH_TOKEN",
        auth_instant=refresh_token.auth_instant,
        refresh_token_id=record["id"],
        sso_session_id=refresh_token.sso_session_id,
        authentication_methods=refresh_token.authentication_methods,
        claims_request=ClaimsRequest.from_document(refresh_token.claims),
        resources=resource_indicators.for_refresh(form.get("resource"), refresh_token.resources, client.oauth),
        confirmation=authenticated.confirmation,
    )
    access_token, response = await token_responses.issue_access_token(services, call, context, ttl=ttl)
    event = _refresh_event(client, user, form, access_token.token)
    value = await _commit_use(services, call, client, presented, user, event)
    if device_grant is not None:
        await device_grants.approve(services, call, client, device_grant, Approver.of(context, narrowed))
    if client.refresh_policy.is_one_time:
        response |= {"refresh_token": value, "refresh_token_id": record["id"]}
    if narrowed != granted:
        response["scope"] = scopes.join(narrowed)
    return response


def _require_key(authenticated: AuthenticatedClient, refresh_token: RefreshToken) -> None:
    """Raise InvalidGrant if a public client does not prove the key or certificate that its refresh token is bound to.

    The token of a client that authenticates is bound by its authentication (RFC 9449 section 5, RFC 8705 section 4).
    """
    if authenticated.has_credentials:
        return
    if refresh_token.dpop_jkt not in {None, authenticated.key_thumbprint}:
        raise InvalidGrant("unknown", "The refresh token is bound to a key for which the request has no DPoP proof.")
    if refresh_token.certificate_thumbprint not in {None, authenticated.certificate_thumbprint}:
        raise InvalidGrant("unknown", "The refresh token is bound to another client certificate.")


async def _require_unspent(services: Services, call: Call, client: Client, presented: PresentedRefreshToken) -> None:
    """Raise InvalidGrant for a rotated value outside the grace period, whose reuse indicates theft."""
    policy = client.refresh_policy
    if presented.is_current or (policy.is_one_time and presented.is_graced(policy.grace_seconds, call.now)):
        return
    await _revoke_on_reuse(services, call, client, presented.record)
    raise _not_found()


async def _revoke_on_reuse(services: Services, call: Call, client: Client, record: Document) -> None:
    is_one_time = client.refresh_policy.is_one_time
    if is_one_time and security_profiles.revokes_on_reuse(client.tenant, client.application):
        user = await services.directory.users.find_cached(client.tenant_id, record["userId"])
        await token_responses.revoke_refresh_token(services, call, client, user, record["id"])


async def _granted_scopes(
    services: Services, call: Call, client: Client, record: Document, user: Document
) -> tuple[str, ...]:
    """Return the granted scopes that the application still knows; under policy Reject an unknown one revokes the token.

    Raises InvalidScope.
    """
    try:
        granted = RefreshToken.from_record(record).scopes
        return scopes.apply_policy(granted, client.oauth, client.application["scopes"])
    except InvalidScope:
        await token_responses.revoke_refresh_token(services, call, client, user, record["id"])
        raise


async def _commit_use(
    services: Services, call: Call, client: Client, presented: PresentedRefreshToken, user: Document, event: Event
) -> Secret:
    """Commit a use and its event, and return the current value. Raises InvalidGrant and WebhookTransactionFailed."""
    change = Change(
        writes=[functools.partial(_write_use, services, call, client, presented, user)], before_commit=[event]
    )
    try:
        (value,) = await services.bus.commit(call.within(client.tenant_id), change)
    except _NotRotatedError as error:
        await _revoke_on_reuse(services, call, client, presented.record)
        raise _not_found() from error
    current: Secret = value
    return current


async def _write_use(
    services: Services,
    call: Call,
    client: Client,
    presented: PresentedRefreshToken,
    user: Document,
    session: Session | None,
) -> Secret:
    """Rotate the token or record its use, and record the login. Returns the current value; raises _NotRotatedError."""
    value = await _update_token(services, call, client, presented, session)
    try:
        await login_records.add(services, call, user, client.client_id, session)
    except OUTAGES as error:
        if session is not None:
            raise
        # The token is rotated: without a response the client would present the old value, which looks like theft.
        _log.warning("login record lost: its store is unavailable", outage=outages.reason(error))
    return value


async def _update_token(
    services: Services, call: Call, client: Client, presented: PresentedRefreshToken, session: Session | None
) -> Secret:
    """Rotate the token or record its use, and return the current value. Raises _NotRotatedError.

    A use that changes nothing is recorded once a minute. In a transaction it always is: webhooks were called in the
    meantime, and the write detects whether the token was revoked during that time.
    """
    policy, record, tokens = client.refresh_policy, presented.record, services.tokens.refresh_tokens
    is_unchanged = not (policy.is_one_time or policy.is_sliding)
    is_recorded = is_unchanged and refresh_token_rules.is_use_recorded(record, call.origin.ip_address, call.now)
    if session is None and is_recorded:
        return presented.token
    started = policy.start(record, call.now)
    expires = policy.expires(record["insertInstant"], started) if policy.is_sliding else record["expiresAt"]
    changes = {
        "startInstant": started,
        "metaData.device.lastAccessedAddress": call.origin.ip_address,
        "metaData.device.lastAccessedInstant": call.now,
    }
    # A value in its grace period does not rotate the token again.
    if policy.is_one_time and presented.is_current:
        grace = policy.grace_seconds
        rotation = await tokens.rotate(
            client.tenant_id, presented, changes, expires, call.now, grace_seconds=grace, session=session
        )
        value = rotation.token if rotation.outcome in {"rotated", "graced"} else None
    else:
        is_recorded = await tokens.record_use(client.tenant_id, presented, changes, expires, session)
        value = presented.token if is_recorded else None
    if value is None:
        raise _NotRotatedError
    return value


def _lifetime_seconds(requested: str | None, ttl: int) -> int:
    """Return the requested lifetime, at most `ttl` seconds. Raises InvalidRequest."""
    if requested is None:
        return ttl
    if not (requested.isascii() and requested.isdigit() and len(requested) < 12 and 0 < int(requested) <= ttl):
        raise InvalidRequest("invalid_expires_in", f"The expires_in must be between 1 and {ttl}.")
    return int(requested)


def _refresh_event(client: Client, user: Document, form: Document, token: str) -> Event:
    return Event(
        "jwt.refresh",
        {
            "applicationId": client.client_id,
            "original": form.get("access_token"),
            "refreshToken": form["refresh_token"],
            "token": token,
            "userId": user["id"],
        },
    )


def _not_found() -> InvalidGrant:
    return InvalidGrant("refresh_token_not_found", "The refresh token is invalid, expired, or of another client.")
