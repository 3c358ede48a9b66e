"""Logins without a password: a code that is handed out or mailed, and that logs its user in once.

A code is a ticket. Where the strategy is FormField a shorter one-time code goes with it, which the user types in: the
code alone does nothing then, and five wrong one-time codes end it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterable
from typing import Final

import orjson

from identity.call import Call, Document
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.objects import generated_ids
from identity.domain.users import users as user_rules
from identity.errors import Conflict, Invalid, NotFound, Unavailable
from identity.ids import Secret, TenantId, fingerprint, same_secret
from identity.instants import Instant
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.limits import code_attempt_limits, failed_login_limits, message_limits
from identity.operations.login import password_login
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.messaging import mail, user_events
from identity.operations.two_factor import two_factor_policy
from identity.operations.users import login_responses
from identity.operations.users.login_responses import LoginOptions, LoginResponse
from identity.operations.verification import email_verifications
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeToken

AUTHENTICATION_TYPE: Final = "PASSWORDLESS"

_KIND: Final = "passwordless"
_START: Final = "api/passwordless-start.request.json"
_SEND: Final = "api/passwordless-send.request.json"
_LOGIN: Final = "api/passwordless-login.request.json"
_TRIES: Final = 5
_FORM_FIELD: Final = "FormField"
_STATE_BYTES: Final = 10_000
_NOBODY: Final = "nobody "
"""What the owner of a login begins with that is nobody's: its code answers like any other, and logs nobody in."""


@dataclasses.dataclass(frozen=True, slots=True)
class StartedLogin:
    """A login that waits for its code; with a one-time code where the strategy is FormField."""

    code: Secret
    one_time_code: Secret | None

    @property
    def shown(self) -> Document:
        """The codes by their wire names."""
        codes = {"code": self.code, "oneTimeCode": self.one_time_code}
        return {name: value for name, value in codes.items() if value is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class RedeemedCode:
    """What a code stands for, ready for `login.finish`, which uses it up by `along`."""

    client: Client
    authenticated: Authenticated
    side_effects: LoginSideEffects
    state: Document | None


def is_offered(client: Client) -> bool:
    """Whether the application has such logins, and a message for them."""
    return bool(client.application["passwordlessConfiguration"]["enabled"] and _template_of(client))


def uses_one_time_code(client: Client) -> bool:
    """Whether the message of the application has a code to type in; else it has a link."""
    return bool(client.application["passwordlessConfiguration"].get("emailLoginStrategy") == _FORM_FIELD)


async def start(services: Services, call: Call, body: Document) -> Document:
    """The codes of a fresh login. Raises Invalid, and NotFound for an unknown user."""
    request = services.schemas[_START].read(body)
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    _require_enabled(client)
    _require_small(request.get("state"))
    types = request.get("loginIdTypes") or user_rules.LOGIN_ID_TYPES
    user = await services.users.find_by_login_id(client.tenant_id, request["loginId"], types)
    if user is None:
        raise NotFound
    state, strategy = request.get("state"), request.get("loginStrategy")
    begun = await begin(services, client, user["id"], state=state, strategy=strategy)
    return begun.shown


async def send(services: Services, call: Call, body: Document) -> None:
    """Mail the code of a login that was started or, by application and login id, of a fresh one.

    Anybody may ask: for a login id that nobody has there is no mail, and the answer is the same. Raises Invalid, and
    Unavailable where too many mails were asked for.
    """
    request = services.schemas[_SEND].read(body)
    if "code" in request:
        await _send_code(services, call, request["code"])
        return
    missing = [name for name in ("applicationId", "loginId") if name not in request]
    if missing:
        raise Invalid.field("missing", "code", "A [code] is required, or an [applicationId] with a [loginId].")
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    _require_small(request.get("state"))
    await send_to(services, call, client, request["loginId"], state=request.get("state"))


async def log_in(services: Services, call: Call, body: Document, trust_id: str | None = None) -> LoginResponse:
    """The Login API response for a code; `trust_id` is what the browser's cookie has of trust.

    Raises Invalid, NotFound for a code that is unknown, over or used, or whose one-time code is wrong, Unavailable
    after too many of those, and what a login raises.
    """
    request = services.schemas[_LOGIN].read(body)
    call = login_responses.with_stated_ip_address(call, request)
    found = await redeem(
        services, call, request["code"], request.get("oneTimeCode"), application_id=request.get("applicationId")
    )
    wishes = dataclasses.replace(LoginOptions.from_request(request), state=found.state)
    call = call.within(found.client.tenant_id)
    trust = trust_id or request.get("twoFactorTrustId")
    result = await password_login.continue_login(
        services,
        call,
        await two_factor_policy.apply_device_trust(services, call, found.authenticated, trust),
        AUTHENTICATION_TYPE,
        is_new_device=wishes.is_new_device,
        side_effects=found.side_effects,
    )
    return await login_responses.build_response(services, call, found.client, result, AUTHENTICATION_TYPE, wishes)


async def begin(
    services: Services,
    client: Client,
    owner: str,
    *,
    state: Document | None = None,
    strategy: str | None = None,
) -> StartedLogin:
    """Make the codes of a login of a user, or of nobody's; the strategy is the application's unless one is given.

    Raises Unavailable when the generator of the tenant makes no code that is free.
    """
    configuration = client.tenant["externalIdentifierConfiguration"]
    wanted = strategy or client.application["passwordlessConfiguration"].get("emailLoginStrategy")
    one_time_code = None
    if wanted == _FORM_FIELD:
        one_time_code = generated_ids.new(configuration["passwordlessLoginOneTimeCodeGenerator"])
    code = await services.one_time_tokens.issue(
        client.tenant_id,
        _KIND,
        owner,
        {
            "applicationId": client.client_id,
            "state": state,
            "oneTimeCode": one_time_code and fingerprint(one_time_code),
        },
        configuration["passwordlessLoginTimeToLiveInSeconds"],
        make=lambda: generated_ids.new(configuration["passwordlessLoginGenerator"]),
    )
    if code is None:
        raise Unavailable("There is no free code now. Try again.")
    return StartedLogin(code, one_time_code)


async def send_to(
    services: Services,
    call: Call,
    client: Client,
    login_id: str,
    *,
    types: Iterable[str] = user_rules.LOGIN_ID_TYPES,
    state: Document | None = None,
) -> StartedLogin:
    """Begin a login of the user who has a login id, and mail its code; where nobody has it, one that nobody completes.

    The mail is made when the answer is out, so that no time tells whether there is one. Raises Invalid where the
    application does not offer such logins, Unavailable where too many mails were asked for, for nobody as for somebody.
    """
    template_id = _require_enabled(client, to_send=True)
    await message_limits.count_message_from_address(services, call, client.tenant, "sendPasswordless")
    user = await services.users.find_by_login_id(client.tenant_id, login_id, types)
    owner = f"{_NOBODY}{fingerprint(user_rules.login_key(login_id))}" if user is None else str(user["id"])
    await message_limits.count_message(services, client.tenant, "sendPasswordless", owner)
    begun = await begin(services, client, owner, state=state)
    if user is not None:
        await services.background_work.begin(
            "passwordless", _mail(services, call, client, user, begun, template_id, state)
        )
    return begun


async def redeem(
    services: Services,
    call: Call,
    code: str,
    one_time_code: str | None = None,
    *,
    application_id: str | None = None,
) -> RedeemedCode:
    """What a code stands for; it is used up by what comes of it, not here.

    Who got it by email has a verified address from then on, where the tenant takes that for a proof.

    Raises NotFound for a code that is unknown, over or used, and for a wrong one-time code; Unavailable after too many
    of those from one address; Invalid for another application.
    """
    async with _guarded(services, call):
        found = await _redeemed(services, call, code, one_time_code)
    if application_id not in {None, found.client.client_id}:
        raise Invalid.field("invalid", "applicationId", "The login was started for another application.")
    return found


@contextlib.asynccontextmanager
async def _guarded(services: Services, call: Call) -> AsyncIterator[None]:
    """Stops an address that guesses codes: a tenant may have them short. What is raised inside counts as a guess.

    Raises Unavailable.
    """
    limit = failed_login_limits.address_limits(call)
    counted_in = call.tenant_id or services.default_tenant_id
    wait_seconds = await services.rate_limits.consume(counted_in, limit)
    if wait_seconds is not None:
        raise failed_login_limits.too_many_attempts(wait_seconds)
    yield
    await services.rate_limits.refund(counted_in, limit)


async def _redeemed(services: Services, call: Call, code: str, one_time_code: str | None) -> RedeemedCode:
    ticket = await services.one_time_tokens.find(call.tenant_id, _KIND, code)
    if ticket is not None and ticket.document["oneTimeCode"] is not None:
        ticket = await services.one_time_tokens.find_counting_attempt(call.tenant_id, _KIND, code, _TRIES)
    if ticket is None or not await _is_shown(services, ticket, one_time_code):
        raise NotFound(log_detail="no such passwordless login")
    client = await _client(services, ticket.tenant_id, ticket.document["applicationId"])
    user = await services.users.find(ticket.tenant_id, ticket.owner)
    if user is None:
        raise NotFound(log_detail="the user of a passwordless login is gone")
    if ticket.document.get("mailedTo") not in {None, user.get("email")}:
        raise NotFound(log_detail="the user has another address than the code was mailed to")
    use = services.one_time_tokens.use(ticket.tenant_id, _KIND, code)
    verified = _verified(client, user, ticket, call.now)

    async def spend(session: Session | None) -> None:
        if verified is not None:
            await _replace(services, verified, user, session)
        if not await use.consume():
            raise NotFound(log_detail="the passwordless login was completed meanwhile")

    authenticated = Authenticated(client.tenant, client.application, verified or user, call.now)
    if verified is None:
        return RedeemedCode(client, authenticated, LoginSideEffects(spend), ticket.document["state"])

    async def tell() -> None:
        await email_verifications.finish_verification(services, call, client.tenant, verified)

    side_effects = LoginSideEffects(spend, user_events.of_verified_email(verified), on_commit=tell)
    return RedeemedCode(client, authenticated, side_effects, ticket.document["state"])


def _verified(client: Client, user: Document, ticket: OneTimeToken, now: Instant) -> Document | None:
    """The user with a verified address, where the code proves that the mail arrived there; None where it does not."""
    is_proof = client.tenant["emailConfiguration"]["implicitEmailVerificationAllowed"]
    if not is_proof or ticket.document.get("mailedTo") is None or user["verified"]:
        return None
    return user_rules.with_verified_email(user, "Implicit", now)


async def _replace(services: Services, user: Document, stored: Document, session: Session | None) -> None:
    """Write the verified user. Raises Unavailable for one who was changed meanwhile: the code is still good."""
    try:
        await services.users.replace(TenantId(user["tenantId"]), user, stored["lastUpdateInstant"], session)
    except Conflict as error:
        raise Unavailable("The user was changed meanwhile. Try again.") from error


async def _send_code(services: Services, call: Call, code: str) -> None:
    async with _guarded(services, call):
        ticket = await services.one_time_tokens.find(call.tenant_id, _KIND, code)
        is_nobodys = ticket is not None and ticket.owner.startswith(_NOBODY)
        user = None if ticket is None or is_nobodys else await services.users.find(ticket.tenant_id, ticket.owner)
        if ticket is None or (user is None and not is_nobodys):
            raise Invalid.field("invalid", "code", "The [code] is unknown, expired or was used.")
    client = await _client(services, ticket.tenant_id, ticket.document["applicationId"])
    template_id = _require_enabled(client, to_send=True)
    await message_limits.count_message(services, client.tenant, "sendPasswordless", ticket.owner)
    if user is None:
        return
    begun = StartedLogin(Secret(code), None)
    if ticket.document["oneTimeCode"] is not None:
        # Only its fingerprint is known: a fresh one takes the place of the one that was told at the start.
        generator = client.tenant["externalIdentifierConfiguration"]["passwordlessLoginOneTimeCodeGenerator"]
        begun = dataclasses.replace(begun, one_time_code=generated_ids.new(generator))
    mailing = _mail(services, call, client, user, begun, template_id, ticket.document["state"])
    await services.background_work.begin("passwordless", mailing)


async def _mail(
    services: Services,
    call: Call,
    client: Client,
    user: Document,
    begun: StartedLogin,
    template_id: str,
    state: Document | None,
) -> None:
    """Note that the code is in the hands of the owner of the address, and mail it."""
    code = begun.one_time_code
    document = {
        "applicationId": client.client_id,
        "mailedTo": user.get("email"),
        "oneTimeCode": code and fingerprint(code),
        "state": state,
    }
    if await services.one_time_tokens.replace(client.tenant_id, _KIND, begun.code, document):
        data = {**begun.shown, "state": state or {}}
        await mail.send(services, call, client.tenant_id, template_id, user, data, application=client.application)


async def _client(services: Services, tenant_id: TenantId, application_id: str) -> Client:
    """The application of a ticket. Raises NotFound when it is gone, Invalid when it offers such logins no more."""
    try:
        client = await clients.get_by_application_id(services, tenant_id, application_id)
    except Invalid as error:
        raise NotFound(log_detail="the application of a passwordless login is gone") from error
    _require_enabled(client)
    return client


def _require_enabled(client: Client, *, to_send: bool = False) -> str:
    """Answer the template of the message. Raises Invalid where such logins are off or, `to_send`, have no template."""
    if not client.application["passwordlessConfiguration"]["enabled"]:
        raise _disabled("The application does not offer logins without a password.")
    template_id = _template_of(client)
    if to_send and not template_id:
        raise _disabled("Neither application nor tenant names the template of the email.")
    return template_id


def _template_of(client: Client) -> str:
    """The template of the message: the application's, else the tenant's, else nothing."""
    name = "passwordlessEmailTemplateId"
    geoip = (client.application["emailConfiguration"], client.tenant["emailConfiguration"])
    return next((place[name] for place in geoip if place.get(name)), "")


def _disabled(message: str) -> Invalid:
    return Invalid.whole("[PasswordlessDisabled]", message)


async def _is_shown(services: Services, ticket: OneTimeToken, given: str | None) -> bool:
    """Whether the one-time code is right, or none is needed. Raises Unavailable after too many wrong ones."""
    stored = ticket.document["oneTimeCode"]
    if stored is None or given is None:
        return stored is None
    await code_attempt_limits.count_attempt(services, ticket.tenant_id, _KIND, ticket.owner)
    if not same_secret(stored, fingerprint(given)):
        return False
    await code_attempt_limits.give_back(services, ticket.tenant_id, _KIND, ticket.owner)
    return True


def _require_small(state: Document | None) -> None:
    if state is not None and len(orjson.dumps(state)) > _STATE_BYTES:
        raise Invalid.field("tooLong", "state", f"The [state] may have at most {_STATE_BYTES} bytes of JSON.")
