"""Device grants between the codes that a device is given and the tokens that it gets: finding, approving, denying.

Whoever may name a user code could try all of them, so that each wrong one counts (RFC 8628 section 5.1): five from a
browser and ten from an address in ten minutes, whichever way they come. A caller that has authenticated itself speaks
for many users, and has a hundred.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.authorization import consent
from identity.domain.clients import scopes, user_codes
from identity.domain.configuration.applications import DEVICE_GRANT
from identity.domain.objects import ip_addresses
from identity.errors import AlreadyLinked, Invalid, InvalidRequest, InvalidScope, UnauthorizedClient
from identity.ids import TenantId
from identity.instants import Instant
from identity.operations.clients.client_authentication import IdentifiedClient
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
    """Too many wrong user codes came from there lately; this one was not looked at."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttemptSubject:
    """Who names a user code: an authenticated `caller`, or nobody in particular, at a browser with a `session`."""

    caller: str = ""
    session: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Approver:
    """The user who approves, and how they logged in; `consented` are the scopes that they agreed to by that."""

    user: Document
    auth_instant: Instant
    authentication_type: str
    consented: tuple[str, ...] = ()
    authentication_methods: tuple[str, ...] = ()

    @classmethod
    def of(cls, login: TokenContext, consented: Iterable[str]) -> Approver:
        """Whoever just logged in."""
        methods = login.authentication_methods
        return cls(login.user, login.auth_instant, login.authentication_type, tuple(consented), methods)


ANONYMOUS: Final = AttemptSubject()


async def get_pending(
    services: Services,
    call: Call,
    tenant_id: TenantId,
    user_code: str,
    guesser: AttemptSubject,
    client_id: str | None = None,
) -> DeviceGrant:
    """The grant of a user code that waits for a decision; with `client_id` only one of that client.

    Raises InvalidRequest for a code that is unknown, expired or decided about, TooManyCodesError after too many.
    """
    limits = _limits(call, guesser)
    wait_seconds = await services.rate_limits.consume(tenant_id, limits)
    if wait_seconds is not None:
        raise TooManyCodesError(
            "unknown", f"Too many wrong user codes were tried. Try again in {wait_seconds} seconds."
        )
    found = await services.device_grants.find(tenant_id, user_codes.normalize(user_code), call.now)
    if found is None or client_id not in {None, found.client_id}:
        raise invalid_user_code()
    await services.rate_limits.refund(tenant_id, limits)
    _require(found.status)
    return found


async def find_for_token_request(
    services: Services, call: Call, identified: IdentifiedClient, form: Document
) -> DeviceGrant | None:
    """The grant that a token request approves by its user_code, when it has one. Raises as `get_pending` does."""
    if "user_code" not in form:
        return None
    client = identified.client
    guesser = attempt_subject(call, client, is_authenticated=identified.has_credentials)
    return await get_pending(services, call, client.tenant_id, form["user_code"], guesser, client.client_id)


async def get_pending_by_id(
    services: Services, call: Call, client: Client, user_code: str, grant_id: str
) -> DeviceGrant:
    """A grant that was found before. Raises InvalidRequest when it does not wait any more."""
    found = await services.device_grants.find(client.tenant_id, user_code, call.now)
    if found is None or found.grant_id != grant_id:
        raise invalid_user_code()
    _require(found.status)
    return found


async def approve(services: Services, call: Call, client: Client, grant: DeviceGrant, approver: Approver) -> Document:
    """Let the device have its tokens, and link the account that it named; answers the link, empty where there is none.

    Raises InvalidRequest when the grant is not pending any more or the account cannot be linked, and InvalidScope when
    the user did not agree to what the application cannot do without.
    """
    granted = _granted(client, grant, approver.consented)
    link = await _linked(services, call, client, grant, approver.user)
    approval = {
        "userId": approver.user["id"],
        "scopes": list(granted),
        "authInstant": approver.auth_instant,
        "authenticationType": approver.authentication_type,
        "authenticationMethods": list(approver.authentication_methods),
    }
    outcome = await services.device_grants.decide(
        client.tenant_id, grant.grant["userCode"], grant.grant_id, "Approved", approval, call.now
    )
    _require("Pending" if outcome == "Approved" else outcome)
    return link


async def deny(services: Services, call: Call, client: Client, grant: DeviceGrant) -> None:
    """Tell the device that the user does not want it. Whoever decided first is not overruled."""
    await services.device_grants.decide(
        client.tenant_id, grant.grant["userCode"], grant.grant_id, "Denied", {}, call.now
    )


def require_enabled(client: Client) -> None:
    """Raise UnauthorizedClient for an application that does not enable the grant."""
    if DEVICE_GRANT not in client.oauth["enabledGrants"]:
        raise UnauthorizedClient("grant_type_disabled", f"The grant {DEVICE_GRANT} is disabled for this client.")


def attempt_subject(call: Call, client: Client | None = None, *, is_authenticated: bool = False) -> AttemptSubject:
    """Whom wrong codes of a request for clients are counted against."""
    if isinstance(call.caller, ApiKeyCaller):
        return AttemptSubject(caller=call.caller.api_key["id"])
    return AttemptSubject(caller=client.client_id) if client is not None and is_authenticated else ANONYMOUS


def _limits(call: Call, guesser: AttemptSubject) -> list[Limit]:
    if guesser.caller:
        return [Limit("user-code-caller", guesser.caller, CALLER_FAILURES, FAILURE_WINDOW_SECONDS)]
    address = ip_addresses.network(call.origin.ip_address)
    limits = [Limit("user-code-address", address, ADDRESS_FAILURES, FAILURE_WINDOW_SECONDS)]
    if guesser.session:
        limits.insert(0, Limit("user-code-session", guesser.session, SESSION_FAILURES, FAILURE_WINDOW_SECONDS))
    return limits


def _granted(client: Client, grant: DeviceGrant, consented: Iterable[str]) -> tuple[str, ...]:
    """The scopes that the device gets: what the user would have to be asked for only where they agreed."""
    wanted = tuple(grant.grant["scopes"])
    declined = frozenset(consent.scopes_to_ask_for(client.application, wanted)) - frozenset(consented)
    missing = declined & consent.required_scopes(client.application)
    if missing:
        raise InvalidScope(
            "missing_required_scope",
            f"The user has to agree to: {scopes.join(scope for scope in wanted if scope in missing)}",
        )
    return tuple(scope for scope in wanted if scope not in declined)


async def _linked(services: Services, call: Call, client: Client, grant: DeviceGrant, user: Document) -> Document:
    pending_id = grant.grant.get("pendingIdPLinkId")
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
    return await identity_provider_links.to_response(services, link)


def _require(status: str) -> None:
    if status == "Expired":
        raise InvalidRequest("user_code_expired", "The user_code has expired.")
    if status != "Pending":
        raise invalid_user_code()


def invalid_user_code() -> InvalidRequest:
    """There is no such code, or nothing to decide about it."""
    return InvalidRequest("invalid_user_code", "The user_code is unknown, or was used before.")
