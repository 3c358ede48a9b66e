"""grant_type=refresh_token: new tokens for a refresh token (RFC 6749 section 6, RFC 9700 section 4.14.2)."""

from __future__ import annotations

import dataclasses

import structlog

from identity.call import Call, Document
from identity.domain.authorization.claims_request import ClaimsRequest
from identity.domain.clients import refresh_tokens as rules
from identity.domain.clients import resource_indicators, scopes, security_profiles
from identity.errors import InvalidGrant, InvalidRequest, InvalidScope, WebhookTransactionFailed
from identity.events.changes import Event
from identity.instants import Instant
from identity.operations.authorization import device_grants
from identity.operations.authorization.device_grants import Approver
from identity.operations.clients import active_users, dpop_proofs
from identity.operations.clients.client_authentication import IdentifiedClient
from identity.operations.clients.clients import Client
from identity.operations.issuance import token_responses
from identity.operations.login import login_records
from identity.services import Services
from identity.store.mongo import Session
from identity.store.outages import OUTAGES
from identity.store.refresh_tokens import PresentedRefreshToken
from identity.tokens.access_tokens import TokenContext
from identity.tokens.issuer import ttl_seconds

_log = structlog.get_logger(__name__)

grant_type = "refresh_token"
parameters = ("refresh_token", "scope", "access_token", "expires_in", "user_code")


class _NotRotatedError(Exception):
    """Somebody else rotated or ended the token between our reading and our writing; nothing of ours is kept."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Exchange:
    """What one exchange works on."""

    client: Client
    policy: rules.RefreshTokenPolicy
    presented: PresentedRefreshToken
    user: Document

    @property
    def record(self) -> Document:
        """The refresh token's record."""
        return self.presented.record

    @property
    def rotates(self) -> bool:
        """Whether this use gives the token a new value; one that was rotated out just now does not do so again."""
        return self.policy.is_one_time and self.presented.is_current


async def exchange(services: Services, call: Call, identified: IdentifiedClient, form: Document) -> Document:
    """The token response for a refresh token.

    Raises InvalidRequest, InvalidClient, InvalidScope, and InvalidGrant, also when a webhook vetoes the refresh.
    """
    value = token_responses.required_parameter(form, "refresh_token", "missing_refresh_token")
    client = identified.client
    presented = await services.refresh_tokens.find_by_value(client.tenant_id, value, call.now)
    if presented is None or presented.record.get("applicationId") != client.client_id:
        raise _not_found()
    record = presented.record
    identified.require(grant_type, pkce_verified=bool(record["private"].get("hasProof")))
    _require_key(identified, record)
    try:
        return await refreshed(services, call, identified, presented, form)
    except WebhookTransactionFailed as error:
        raise InvalidGrant("unknown", "A webhook refused this refresh.") from error


async def refreshed(
    services: Services, call: Call, identified: IdentifiedClient, presented: PresentedRefreshToken, form: Document
) -> Document:
    """The token response, once client and token belong together and whoever asks may use it.

    Raises InvalidRequest, InvalidGrant, InvalidScope and WebhookTransactionFailed.
    """
    client, record, value = identified.client, presented.record, form["refresh_token"]
    policy = client.refresh_policy
    await _require_unspent(services, call, client, policy, presented)
    user = await active_users.get_active_user(services, client.tenant_id, record["userId"], call.now, InvalidGrant)
    granted = await _granted(services, call, client, record, user)
    narrowed = scopes.narrow(scopes.parse(form.get("scope")), granted) or granted
    ttl = _expires_in(form.get("expires_in"), ttl_seconds(client.tenant, client.application))
    waiting = await device_grants.find_for_token_request(services, call, identified, form)
    login = TokenContext(
        tenant=client.tenant,
        application=client.application,
        user=user,
        scopes=narrowed,
        grants=(*record["private"].get("grants", ()), grant_type),
        authentication_type="REFRESH_TOKEN",
        auth_instant=Instant(record["private"].get("authInstant", record["insertInstant"])),
        refresh_token_id=record["id"],
        sso_session_id=record["private"].get("ssoSessionId"),
        authentication_methods=tuple(record["private"].get("authenticationMethods", ())),
        claims_request=ClaimsRequest.of(record["private"].get("claims")),
        resources=resource_indicators.for_refresh(
            form.get("resource"), record["metaData"].get("resources", ()), client.oauth
        ),
        confirmation=dpop_proofs.confirmation_claim(identified.key_thumbprint),
    )
    access_token, answer = await token_responses.issue_access_token(services, call, login, ttl=ttl)
    event = _refreshed(client, user, value, access_token.token, form.get("access_token"))
    record = await _written(services, call, _Exchange(client, policy, presented, user), event)
    if waiting is not None:
        await device_grants.approve(services, call, client, waiting, Approver.of(login, narrowed))
    if policy.is_one_time:
        answer |= {"refresh_token": record["token"], "refresh_token_id": record["id"]}
    if narrowed != granted:
        answer["scope"] = scopes.join(narrowed)
    return answer


def _require_key(identified: IdentifiedClient, record: Document) -> None:
    """A client that does not authenticate has to prove, at each use, the key that the token was issued to.

    The token of one that authenticates is bound by that (RFC 9449 section 5).
    """
    bound = record["private"].get("dpopJkt")
    if bound is not None and bound != identified.key_thumbprint and not identified.has_credentials:
        raise InvalidGrant("unknown", "The refresh token is bound to a key, which the request does not prove to have.")


async def _require_unspent(
    services: Services, call: Call, client: Client, policy: rules.RefreshTokenPolicy, presented: PresentedRefreshToken
) -> None:
    """A value that was rotated out counts for the grace period only; later its use is theft, here or earlier."""
    if presented.is_current or (policy.is_one_time and presented.is_graced(policy.grace_seconds, call.now)):
        return
    await _reused(services, call, client, policy, presented.record)
    raise _not_found()


async def _reused(
    services: Services, call: Call, client: Client, policy: rules.RefreshTokenPolicy, record: Document
) -> None:
    if policy.is_one_time and security_profiles.revokes_on_reuse(client.tenant, client.application):
        user = await services.users.find_cached(client.tenant_id, record["userId"])
        await token_responses.revoke_refresh_token(services, call, client, user, record["id"])


async def _granted(services: Services, call: Call, client: Client, record: Document, user: Document) -> tuple[str, ...]:
    """The stored scopes, as far as the application knows them now; under Reject an unknown one ends the token."""
    stored = tuple(record["metaData"].get("scopes", ()))
    try:
        return scopes.apply_policy(stored, client.oauth, client.application["scopes"])
    except InvalidScope:
        await token_responses.revoke_refresh_token(services, call, client, user, record["id"])
        raise


async def _written(services: Services, call: Call, exchange_: _Exchange, event: Event) -> Document:
    """Rotate the token, or note its use, together with the event. Raises InvalidGrant and WebhookTransactionFailed."""

    async def write(session: Session | None) -> Document:
        found = await _used(services, call, exchange_, session)
        await _record_login(services, call, exchange_, session)
        return found

    client = exchange_.client
    try:
        return await services.bus.perform(call.within(client.tenant_id), write, offered=[event])
    except _NotRotatedError as error:
        await _reused(services, call, client, exchange_.policy, exchange_.record)
        raise _not_found() from error


async def _used(services: Services, call: Call, exchange_: _Exchange, session: Session | None) -> Document:
    """The record after this use. Raises _NotRotatedError.

    A use that changes nothing is not written again within a minute of another; where a webhook was asked meanwhile it
    is, because that also finds out whether the token was revoked in the time the webhook took.
    """
    tenant_id, policy, record = exchange_.client.tenant_id, exchange_.policy, exchange_.record
    changes_nothing = not (policy.is_one_time or policy.is_sliding)
    if session is None and changes_nothing and rules.is_use_recorded(record, call.origin.ip_address, call.now):
        return record
    started = policy.start(record, call.now)
    expires = policy.expires(record["insertInstant"], started) if policy.is_sliding else record["expiresAt"]
    changes = {
        "startInstant": started,
        "metaData.device.lastAccessedAddress": call.origin.ip_address,
        "metaData.device.lastAccessedInstant": call.now,
    }
    store, presented, grace = services.refresh_tokens, exchange_.presented, policy.grace_seconds
    if exchange_.rotates:
        rotation = await store.rotate(
            tenant_id, presented, changes, expires, call.now, grace_seconds=grace, session=session
        )
        found = rotation.record if rotation.outcome in {"rotated", "graced"} else None
    else:
        found = await store.record_use(tenant_id, presented, changes, expires, session)
    if found is None:
        raise _NotRotatedError
    return found


async def _record_login(services: Services, call: Call, exchange_: _Exchange, session: Session | None) -> None:
    try:
        await login_records.add(services, call, exchange_.user, exchange_.client.client_id, session)
    except OUTAGES as error:
        if session is not None:
            raise
        # The token has its new value: who is not told of it would show the old one again, as a thief would.
        _log.warning("a login record was lost: its store is away", error=type(error).__name__)


def _expires_in(wanted: str | None, ttl: int) -> int:
    if wanted is None:
        return ttl
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 12 and 0 < int(wanted) <= ttl):
        raise InvalidRequest("invalid_expires_in", f"The expires_in must be between 1 and {ttl}.")
    return int(wanted)


def _refreshed(client: Client, user: Document, value: str, token: str, original: str | None) -> Event:
    return Event(
        "jwt.refresh",
        {
            "applicationId": client.client_id,
            "original": original,
            "refreshToken": value,
            "token": token,
            "userId": user["id"],
        },
    )


def _not_found() -> InvalidGrant:
    return InvalidGrant("refresh_token_not_found", "The refresh token is invalid, expired, or of another client.")
