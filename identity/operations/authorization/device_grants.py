"""Pending device grants: find, approve and deny them.

User codes are short, so incorrect ones are limited (RFC 8628 section 5.1): in ten minutes five per browser and ten per
address, at all endpoints together. An authenticated caller acts for many users, and has a hundred.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.authorization import consent
from identity.domain.authorization.device_grants import DeviceApproval, normalize_user_code
from identity.domain.clients import scopes
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.domain.objects import ip_addresses
from identity.errors import AlreadyLinked, Invalid, InvalidRequest, InvalidScope, UnauthorizedClient
from identity.ids import TenantId
from identity.instants import Instant
from identity.operations.clients.client_authentication import AuthenticatedClient
from identity.operations.clients.clients import Client
from identity.operations.users import identity_provider_links
from identity.services import Services
from identity.store.device_grants import DeviceGrant
from identity.store.rate_limits import Limit
from identity.tokens.access_tokens import TokenContext

ADDRESS_FAILURES: Final = 10
SESSION_FAILURES: Final = 5
CALLER_FAILURES: Final = 100
FAILURE_WINDOW_SECONDS: Final = 600


class TooManyCodesError(InvalidRequest):
    """Too many incorrect user codes from the same source; this one was not verified."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptSubject:
    """The source of attempts, which are limited: an authenticated `caller`, or a browser with a `session`."""

    caller: str = ""
    session: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Approver:
    """The user who approves, how they logged in, and the scopes that they consented to."""

    user: Document
    auth_instant: Instant
    authentication_type: str
    consented: tuple[str, ...] = ()
    authentication_methods: tuple[str, ...] = ()

    @classmethod
    def of(cls, context: TokenContext, consented: Iterable[str]) -> Approver:
        """Return the user of a login as the approver."""
        methods = context.authentication_methods
        return cls(context.user, context.auth_instant, context.authentication_type, tuple(consented), methods)


ANONYMOUS: Final = AttemptSubject()


async def get_pending(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    user_code: str,
    subject: AttemptSubject,
    client_id: str | None = None,
) -> DeviceGrant:
    """Return the pending grant of a user code; with `client_id` only of that client.

    Raises InvalidRequest for an unknown, expired or used code, TooManyCodesError after too many incorrect ones.
    """
    limits = _limits(call, subject)
    wait_seconds = await services.limits.rate_limits.consume(tenant_id, limits)
    if wait_seconds is not None:
        raise TooManyCodesError("unknown", f"Too many incorrect user codes. Try again in {wait_seconds} seconds.")
    found = await services.tokens.device_grants.find(tenant_id, normalize_user_code(user_code), call.now)
    if found is None or client_id not in {None, found.client_id}:
        raise invalid_user_code()
    await services.limits.rate_limits.refund(tenant_id, limits)
    _require_pending(found.status)
    return found


async def find_for_token_request(
    services: Services, call: Call, authenticated: AuthenticatedClient, form: Document
) -> DeviceGrant | None:
    """Return the grant that a token request approves by its user_code, if any. Raises as `get_pending` does."""
    if "user_code" not in form:
        return None
    client = authenticated.client
    subject = attempt_subject(call, client, is_authenticated=authenticated.has_credentials)
    return await get_pending(services, call, client.tenant_id, form["user_code"], subject, client.client_id)


async def get_pending_by_id(
    services: Services, call: Call, client: Client, user_code: str, grant_id: str
) -> DeviceGrant:
    """Return a grant that was found before. Raises InvalidRequest if it is no longer pending."""
    found = await services.tokens.device_grants.find(client.tenant_id, user_code, call.now)
    if found is None or found.grant_id != grant_id:
        raise invalid_user_code()
    _require_pending(found.status)
    return found


async def approve(services: Services, call: Call, client: Client, grant: DeviceGrant, approver: Approver) -> Document:
    """Approve a grant, and link the provider account that the device named; return the link, empty for none.

    Raises InvalidRequest if the grant is no longer pending or the account cannot be linked, and InvalidScope if the
    user did not consent to a required scope.
    """
    granted = _granted_scopes(client, grant, approver.consented)
    link = await _link_account(services, call, client, grant, approver.user)
    approval = DeviceApproval(
        approver.user["id"],
        granted,
        approver.auth_instant,
        approver.authentication_type,
        approver.authentication_methods,
    )
    outcome = await services.tokens.device_grants.decide(
        client.tenant_id, grant.request.user_code, grant.grant_id, approval, call.now
    )
    _require_pending("Pending" if outcome == "Approved" else outcome)
    return link


async def deny(services: Services, call: Call, client: Client, grant: DeviceGrant) -> None:
    """Deny a grant; an earlier decision stands."""
    await services.tokens.device_grants.decide(
        client.tenant_id, grant.request.user_code, grant.grant_id, None, call.now
    )


def require_enabled(client: Client) -> None:
    """Raise UnauthorizedClient for an application that disables the grant."""
    if DEVICE_GRANT not in client.oauth.enabled_grants:
        raise UnauthorizedClient("grant_type_disabled", f"The grant {DEVICE_GRANT} is disabled for this client.")


def attempt_subject(call: Call, client: Client | None = None, *, is_authenticated: bool = False) -> AttemptSubject:
    """Return the subject that incorrect codes of a client's request are counted for."""
    if isinstance(call.caller, ApiKeyCaller):
        return AttemptSubject(caller=call.caller.api_key["id"])
    return AttemptSubject(caller=client.client_id) if client is not None and is_authenticated else ANONYMOUS


def _limits(call: Call, subject: AttemptSubject) -> list[Limit]:
    if subject.caller:
        return [Limit("user-code-caller", subject.caller, CALLER_FAILURES, FAILURE_WINDOW_SECONDS)]
    address = ip_addresses.network(call.origin.ip_address)
    limits = [Limit("user-code-address", address, ADDRESS_FAILURES, FAILURE_WINDOW_SECONDS)]
    if subject.session:
        limits.insert(0, Limit("user-code-session", subject.session, SESSION_FAILURES, FAILURE_WINDOW_SECONDS))
    return limits


def _granted_scopes(client: Client, grant: DeviceGrant, consented: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes of the device, without those that require a consent that was not given. Raises InvalidScope."""
    requested = grant.request.scopes
    declined = frozenset(consent.scopes_requiring_consent(client.application, requested)) - frozenset(consented)
    missing = declined & consent.required_scopes(client.application)
    if missing:
        raise InvalidScope(
            "missing_required_scope",
            f"The user has to consent to: {scopes.join(scope for scope in requested if scope in missing)}",
        )
    return tuple(scope for scope in requested if scope not in declined)


async def _link_account(services: Services, call: Call, client: Client, grant: DeviceGrant, user: Document) -> Document:
    pending_id = grant.request.pending_link_id
    if pending_id is None:
        return {}
    body = {"pendingIdPLinkId": pending_id, "userId": user["id"]}
    try:
        link = await identity_provider_links.create(services, call.within(client.tenant_id), body)
    except AlreadyLinked as error:
        raise InvalidRequest("unknown", "The account at the identity provider is another user's.") from error
    except Invalid as error:
        raise InvalidRequest(
            "unknown", "The account at the identity provider cannot be linked to this user."
        ) from error
    return await identity_provider_links.to_response(services, call, link)


def _require_pending(status: str) -> None:
    if status == "Expired":
        raise InvalidRequest("user_code_expired", "The user_code has expired.")
    if status != "Pending":
        raise invalid_user_code()


def invalid_user_code() -> InvalidRequest:
    """Return the error for an unknown or decided user code."""
    return InvalidRequest("invalid_user_code", "The user_code is unknown, or was used before.")
