"""Logins that wait for a second factor: challenged, sent a code, and gone on with when a right one is shown.

A challenge is a ticket that knows what the login knew when it was stopped. API and pages use the same four steps:
`challenge_login`, `send_code`, `verify_code` (is the code right?) and, with the outcome of the login, `Verified.along`.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.login.login_outcomes import Authenticated, SecondFactorRequired
from identity.domain.two_factor import two_factor
from identity.domain.users import users as rules
from identity.errors import Invalid, NotFound, Unavailable, WrongCode
from identity.events.changes import Event
from identity.ids import Secret, TenantId, UserId
from identity.operations.clients.clients import Client
from identity.operations.limits import failed_login_limits
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.messaging import user_events
from identity.operations.objects import event_logs
from identity.operations.two_factor import two_factor_codes, two_factor_limits
from identity.operations.two_factor.two_factor_codes import AuthenticatorCodeUse, CodeAddress
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse
from identity.store.rate_limits import Limit

KIND: Final = "two-factor"
_MESSAGES: Final = 10
"""How many messages one challenge is good for, whatever the tenant's limit is."""


@dataclasses.dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge, with its user as stored now, its tenant, and the application that the login is to."""

    two_factor_id: str = dataclasses.field(repr=False)
    ticket: OneTimeToken
    tenant: Document
    application: Document | None
    user: Document

    @property
    def about(self) -> Document:
        """What the login knew when it was stopped."""
        return self.ticket.document

    def methods(self, *, is_masked: bool = True) -> list[Document]:
        """The user's methods as they may be shown."""
        return [two_factor.visible_method(method, is_masked=is_masked) for method in self.user["twoFactor"]["methods"]]


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedChallenge:
    """A challenge for which a right code was shown; nothing is used up before `spend`.

    `method` is authenticator, email, sms or recoveryCode, `method_id` empty for a recovery code and for a code that the
    caller of the API sent.
    """

    waiting: Challenge
    method: str
    method_id: str
    ticket: OneTimeTokenUse
    step: AuthenticatorCodeUse | None
    recovery_code: str = dataclasses.field(default="", repr=False)
    services: Services = dataclasses.field(kw_only=True, repr=False)

    @property
    def user(self) -> Document:
        """The user whose login it is."""
        return self.waiting.user

    @property
    def authentication_type(self) -> str:
        """How the user authenticated before."""
        return str(self.waiting.about["authenticationType"])

    @property
    def identity_type(self) -> str | None:
        """The type of the login id that was used, where one was."""
        found: str | None = self.waiting.about.get("identityType")
        return found

    def proven(self, call: Call, application: Document | None = None) -> Authenticated:
        """The credentials, complete now; `application` where the challenge left it open."""
        about = self.waiting.about
        return Authenticated(
            self.waiting.tenant,
            self.waiting.application or application,
            self.user,
            call.now,
            is_federated=about.get("isFederated", False),
            has_second_factor=True,
            reason_to_change=about.get("reasonToChange"),
        )

    def side_effects(self) -> LoginSideEffects:
        """What comes true with the outcome of the login: the end of code and challenge, and its event."""
        success = _attempt_event("user.two-factor.success", self.waiting, self.method)
        return LoginSideEffects(self.spend, announced=[success], told=self.waiting.about.get("told", {}))

    async def spend(self, session: Session | None = None) -> None:
        """Use code and challenge up: of all who show them one gets through.

        Raises WrongCode for a code that was used meanwhile, NotFound for a challenge that was.
        """
        users, tenant_id, user_id = self.services.users, self.waiting.ticket.tenant_id, UserId(self.user["id"])
        if self.step is not None and not await self.step.consume():
            raise WrongCode(log_detail="the code of the authenticator was used before")
        if not await self.ticket.consume():
            raise NotFound(log_detail="the challenge was met meanwhile")
        if self.recovery_code:
            if not await users.consume_recovery_code(tenant_id, user_id, self.recovery_code, session):
                raise WrongCode(log_detail="the recovery code was used before")
        elif self.method_id:
            await users.record_second_factor(tenant_id, user_id, self.method_id, session)


async def challenge_login(
    services: Services,
    call: Call,
    client: Client | None,
    result: SecondFactorRequired,
    *,
    state: Document | None = None,
    is_new_device: bool = False,
) -> Document:
    """Begin to wait for a second factor: the body of a 242. Without a client the login is to the tenant alone.

    `twoFactorId`, `methods` (their addresses masked for callers without an API key), and `configurableMethods` for a
    user who has none and needs one.
    """
    tenant = await services.tenants.get(None, TenantId(result.user["tenantId"])) if client is None else client.tenant
    application = None if client is None else client.application
    about: Document = {
        "applicationId": None if application is None else application["id"],
        "authenticationType": result.authentication_type,
        "identityType": result.identity_type,
        "isFederated": result.is_federated or None,
        "isNewDevice": is_new_device or None,
        "reasonToChange": result.reason_to_change,
        "state": state,
        "told": result.told or None,
    }
    two_factor_id = await issue_challenge(services, call, tenant, application, result.user, about)
    body: Document = {"twoFactorId": two_factor_id, "methods": visible_methods(call, result.user)}
    if result.configurable:
        body["configurableMethods"] = list(result.configurable)
    return body


async def issue_challenge(
    services: Services, call: Call, tenant: Document, application: Document | None, user: Document, about: Document
) -> Secret:
    """A challenge of a user; `about` is what is known of the login, of which nothing that is None is kept."""
    ttl_seconds = tenant["externalIdentifierConfiguration"]["twoFactorIdTimeToLiveInSeconds"]
    tenant_id = TenantId(tenant["id"])
    document = {name: value for name, value in about.items() if value is not None}
    two_factor_id = await services.one_time_tokens.issue(tenant_id, KIND, user["id"], document, ttl_seconds)
    assert two_factor_id is not None
    event = user_events.about(
        "user.two-factor.challenge", user, applicationId=_registered_application_id(user, application)
    )
    await services.bus.announce(call.within(tenant_id), [event])
    await _log_debug(services, call, tenant, user, "a second factor is asked for")
    return two_factor_id


async def get_challenge(services: Services, call: Call, two_factor_id: str) -> Challenge:
    """A challenge that still waits. Raises NotFound."""
    return await _load_challenge(
        services, two_factor_id, await services.one_time_tokens.find(call.tenant_id, KIND, two_factor_id)
    )


async def send_code(services: Services, call: Call, two_factor_id: str, method_id: str | None = None) -> None:
    """Send a code to the address of one of the user's methods, or of the one that was used last.

    Earlier codes count no more. Raises NotFound for a challenge that does not wait, Invalid for a method that the user
    does not have, or that sends nothing, and Unavailable when there were too many messages.
    """
    waiting = await get_challenge(services, call, two_factor_id)
    method = _choose_method(waiting.user, method_id)
    address = CodeAddress.of(method)
    two_factor_codes.require_sendable(waiting.tenant, waiting.application, address)
    assert address is not None
    await _count_message(services, waiting)
    code = two_factor_codes.generate(waiting.tenant)
    sent = {"code": two_factor_codes.hash_code(code), "methodId": method["id"], "method": method["method"]}
    changed = {**waiting.about, "sent": sent}
    if not await services.one_time_tokens.replace(waiting.ticket.tenant_id, KIND, two_factor_id, changed):
        raise NotFound
    inside = call.within(waiting.ticket.tenant_id)
    await two_factor_codes.send(services, inside, waiting.tenant, waiting.application, waiting.user, address, code)


async def verify_code(services: Services, call: Call, two_factor_id: str, code: str) -> VerifiedChallenge:
    """What a code is, if it is right for this challenge.

    Every try counts, before anything is compared: five for a challenge, and few for an account and an address. Raises
    NotFound for a challenge that does not wait (any more), WrongCode, of which webhooks hear, and Unavailable after too
    many wrong codes.
    """
    ticket = await services.one_time_tokens.find_counting_attempt(
        call.tenant_id, KIND, two_factor_id, two_factor_limits.ATTEMPTS
    )
    waiting = await _load_challenge(services, two_factor_id, ticket)
    tenant_id = waiting.ticket.tenant_id
    limits = [*two_factor_limits.account_limits(waiting.user["id"]), *failed_login_limits.address_limits(call)]
    await two_factor_limits.count_attempt(services, tenant_id, limits)
    found = _match_code(services, call, waiting, code)
    if found is None or (found.step is not None and await found.step.is_used()):
        method = _likely_method(waiting, code)
        event = _attempt_event("user.two-factor.failed-attempt", waiting, method)
        await services.bus.announce(call.within(tenant_id), [event])
        await _log_debug(
            services, call, waiting.tenant, waiting.user, f"a code was wrong, probably of the method {method}"
        )
        raise WrongCode(log_detail="wrong code")
    await services.rate_limits.refund(tenant_id, limits)
    await _log_debug(services, call, waiting.tenant, waiting.user, f"a code was right, of the method {found.method}")
    return found


async def verify_and_consume(services: Services, call: Call, two_factor_id: str, code: str) -> VerifiedChallenge:
    """As `verify_code`, and the challenge is used up: for a page, which goes on with the login by itself."""
    verified = await verify_code(services, call, two_factor_id, code)
    side_effects = verified.side_effects()
    inside = call.within(verified.waiting.ticket.tenant_id)
    await services.bus.perform(inside, side_effects.write, side_effects.offered, side_effects.announced)
    return verified


async def revoke_challenges(services: Services, user: Document) -> None:
    """Let no login of a user wait any more: what was shown before it counts no more."""
    await services.one_time_tokens.revoke_all(TenantId(user["tenantId"]), KIND, str(user["id"]))


async def issue_completion_code(services: Services, waiting: Challenge, method: Document) -> Secret:
    """Issue a code that completes a login which required the user to add a two-factor method.

    The user proved a moment ago that the method works, and need not enter a second code of it. Raises NotFound when
    the challenge has expired.
    """
    code = two_factor_codes.generate(waiting.tenant)
    sent = {"code": two_factor_codes.hash_code(code), "methodId": method["id"], "method": method["method"]}
    ticket = waiting.ticket
    if not await services.one_time_tokens.replace(
        ticket.tenant_id, KIND, waiting.two_factor_id, {**waiting.about, "sent": sent}
    ):
        raise NotFound(log_detail="the challenge has expired")
    return code


def visible_methods(call: Call, user: Document) -> list[Document]:
    """A user's methods as the caller may see them: whole addresses are for callers with an API key."""
    is_masked = not isinstance(call.caller, ApiKeyCaller)
    return [two_factor.visible_method(method, is_masked=is_masked) for method in user["twoFactor"]["methods"]]


async def _load_challenge(services: Services, two_factor_id: str, ticket: OneTimeToken | None) -> Challenge:
    """A challenge with everybody whom it is about. Raises NotFound when one of them is gone."""
    if ticket is None:
        raise NotFound(log_detail="no such challenge")
    user = await services.users.find(ticket.tenant_id, ticket.owner)
    tenant = await services.tenants.find_cached(None, ticket.tenant_id)
    application_id = ticket.document.get("applicationId")
    application = None
    if application_id is not None:
        application = await services.applications.find_cached(ticket.tenant_id, application_id)
    if user is None or tenant is None or tenant["state"] != "Active" or (application is None and application_id):
        raise NotFound(log_detail="somebody whom the challenge is about is gone")
    return Challenge(two_factor_id, ticket, tenant, application, user)


async def _log_debug(services: Services, call: Call, tenant: Document, user: Document, what: str) -> None:
    """Tell a step in the event log, where the tenant has `multiFactorConfiguration.debug` on."""
    if tenant["multiFactorConfiguration"]["debug"]:
        message = f"Second factor of the user [{user['id']}]: {what}."
        await event_logs.debug(services, call, TenantId(tenant["id"]), "two-factor", message)


def _choose_method(user: Document, method_id: str | None) -> Document:
    """The method with an id or, without one, that of those with messages which was used last. Raises Invalid."""
    if method_id is not None:
        found = two_factor.find_method(user, method_id)
    else:
        with_messages = [one for one in user["twoFactor"]["methods"] if one["method"] in two_factor.ADDRESS_MEMBERS]
        found = next(iter(sorted(with_messages, key=lambda one: not one.get("lastUsed", False))), None)
    if found is None:
        raise Invalid.field("invalid", "methodId", "The [methodId] must name a two-factor method of the user.")
    return found


async def _count_message(services: Services, waiting: Challenge) -> None:
    """Count a message against the challenge and the tenant's limit. Raises Unavailable."""
    ttl_seconds = waiting.tenant["externalIdentifierConfiguration"]["twoFactorIdTimeToLiveInSeconds"]
    limit = Limit("two-factor-messages", waiting.two_factor_id, _MESSAGES, ttl_seconds)
    if await services.rate_limits.consume(waiting.ticket.tenant_id, [limit]) is not None:
        raise Unavailable("Too many messages were asked for. Log in again.")
    await two_factor_codes.count_message(services, waiting.tenant, waiting.user["id"])


def _match_code(services: Services, call: Call, waiting: Challenge, code: str) -> VerifiedChallenge | None:
    """What a code is: one that was sent, one of an authenticator, or a recovery code."""
    ticket = services.one_time_tokens.use(waiting.ticket.tenant_id, KIND, waiting.two_factor_id)
    user, sent = waiting.user, waiting.about.get("sent")
    # A code that went to an address which is gone meanwhile completes no login any more.
    is_open = sent is not None and (
        "methodId" not in sent or two_factor.find_method(user, sent["methodId"]) is not None
    )
    if sent is not None and is_open and two_factor_codes.matches(sent["code"], code):
        return VerifiedChallenge(waiting, sent["method"], sent.get("methodId", ""), ticket, None, services=services)
    for method in user["twoFactor"]["methods"]:
        step = two_factor_codes.matching_step(method, code, call)
        if step is not None:
            once = AuthenticatorCodeUse(services, user, method["secret"], method.get("authenticator", {}), step)
            return VerifiedChallenge(waiting, method["method"], method["id"], ticket, once, services=services)
    if two_factor.matches_recovery_code(user["twoFactor"]["recoveryCodes"], code):
        return VerifiedChallenge(waiting, two_factor.RECOVERY_CODE, "", ticket, None, code, services=services)
    return None


def _likely_method(waiting: Challenge, code: str) -> str:
    """What a wrong code was most probably meant to be: webhooks are told of a method."""
    if len(code.strip()) > 8:
        return two_factor.RECOVERY_CODE
    sent = waiting.about.get("sent")
    if sent is not None:
        return str(sent["method"])
    kinds = [method["method"] for method in waiting.user["twoFactor"]["methods"]]
    return two_factor.AUTHENTICATOR if two_factor.AUTHENTICATOR in kinds or not kinds else str(kinds[0])


def _attempt_event(event_type: str, waiting: Challenge, method: str) -> Event:
    application_id = _registered_application_id(waiting.user, waiting.application)
    message_type = "SMS" if method == two_factor.SMS else None
    return user_events.about(
        event_type, waiting.user, applicationId=application_id, method=method, messageType=message_type
    )


def _registered_application_id(user: Document, application: Document | None) -> str | None:
    """The application's id where the user is registered for it, as events about logins have it."""
    found = None if application is None else rules.find_registration(user, application["id"])
    return None if found is None else str(found["applicationId"])
