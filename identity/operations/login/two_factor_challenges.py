"""Two-factor challenges: logins that are halted until the user enters a two-factor code.

A challenge is a one-time token that stores the state of the halted login. The API and the pages take the same steps:
`challenge_login`, `send_code`, `verify_code`, and `VerifiedChallenge.side_effects`, committed with the login.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.login.login_outcomes import Authenticated, SecondFactorRequired
from identity.domain.objects.external_identifiers import Lifetimes
from identity.domain.two_factor import two_factor
from identity.domain.users import users as user_rules
from identity.errors import Invalid, NotFound, Unavailable, WrongCode
from identity.events.changes import Change, Event
from identity.ids import Secret, TenantId, UserId
from identity.operations.clients.clients import Client, application_of
from identity.operations.groups import administrator_realm
from identity.operations.limits import code_attempt_limits, failed_login_limits
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.messaging import user_events
from identity.operations.objects import event_logs
from identity.operations.two_factor import two_factor_codes
from identity.operations.two_factor.two_factor_codes import AuthenticatorCodeUse, CodeAddress
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse
from identity.store.rate_limits import Limit

KIND: Final = "two-factor"
_MESSAGES: Final = 10
"""The maximum number of messages per challenge, whatever limit the tenant sets."""


@dataclasses.dataclass(frozen=True, slots=True)
class Challenge:
    """A pending challenge with its user as stored now, its tenant, and the application of the login, if any."""

    two_factor_id: str = dataclasses.field(repr=False)
    token: OneTimeToken
    tenant: Document
    application: Document | None
    user: Document

    @property
    def login_state(self) -> Document:
        """The stored state of the halted login."""
        return self.token.document

    def methods(self, *, is_masked: bool = True) -> list[Document]:
        """Return the user's methods without secrets, and with masked addresses if `is_masked`."""
        return [two_factor.visible_method(method, is_masked=is_masked) for method in self.user["twoFactor"]["methods"]]


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedChallenge:
    """A challenge for which a correct code was entered. Nothing is consumed before `consume`.

    `method` is authenticator, email, sms or recoveryCode; `method_id` is empty for a recovery code and for a code that
    an API caller sent itself. `challenge_use` is the single use of the challenge, `code_use` that of an authenticator
    code.
    """

    challenge: Challenge
    method: str
    method_id: str
    challenge_use: OneTimeTokenUse
    code_use: AuthenticatorCodeUse | None
    recovery_code: str = dataclasses.field(default="", repr=False)
    services: Services = dataclasses.field(kw_only=True, repr=False)

    @property
    def user(self) -> Document:
        """The user who logs in."""
        return self.challenge.user

    @property
    def authentication_type(self) -> str:
        """How the user authenticated before the second factor."""
        return str(self.challenge.login_state["authenticationType"])

    @property
    def identity_type(self) -> str | None:
        """The login id type used, if any."""
        found: str | None = self.challenge.login_state.get("identityType")
        return found

    def authenticated(self, call: Call, application: Document | None = None) -> Authenticated:
        """Return the complete credentials; `application` applies if the challenge has none."""
        state = self.challenge.login_state
        return Authenticated(
            self.challenge.tenant,
            self.challenge.application or application,
            self.user,
            call.now,
            is_federated=state.get("isFederated", False),
            has_second_factor=True,
            reason_to_change=state.get("reasonToChange"),
        )

    def side_effects(self) -> LoginSideEffects:
        """Return the side effects of the login: consume code and challenge, and announce the success."""
        success = _attempt_event("user.two-factor.success", self.challenge, self.method)
        members = self.challenge.login_state.get("told", {})
        return LoginSideEffects(self.consume, after_commit=[success], event_members=members)

    async def consume(self, session: Session | None = None) -> None:
        """Consume the code and the challenge; of concurrent callers one succeeds.

        Raises WrongCode if the code, and NotFound if the challenge, was used in the meantime.
        """
        users, tenant_id, user_id = (
            self.services.directory.users,
            self.challenge.token.tenant_id,
            UserId(self.user["id"]),
        )
        if self.code_use is not None and not await self.code_use.consume():
            raise WrongCode(log_detail="the authenticator code was used before")
        if not await self.challenge_use.consume():
            raise NotFound(log_detail="the challenge was completed meanwhile")
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
    """Issue a challenge for a halted login and return the body of a 242 response.

    The body has `twoFactorId`, `methods` (with masked addresses for callers without an API key), and
    `configurableMethods` for a user who has no method but needs one. Without a client the login is to the tenant alone.
    """
    tenant = (
        await services.configuration.tenants.get(None, TenantId(result.user["tenantId"]))
        if client is None
        else client.tenant
    )
    application = application_of(client)
    login_state: Document = {
        "applicationId": None if application is None else application["id"],
        "authenticationType": result.authentication_type,
        "clientRisk": None if result.risk is None else result.risk.level.name,
        "identityType": result.identity_type,
        "isFederated": result.is_federated or None,
        "isNewDevice": is_new_device or None,
        "reasonToChange": result.reason_to_change,
        "riskReasons": None if result.risk is None else result.risk.reasons or None,
        "state": state,
        "told": result.event_members or None,
    }
    two_factor_id = await issue_challenge(services, call, tenant, application, result.user, login_state)
    body: Document = {"twoFactorId": two_factor_id, "methods": visible_methods(call, result.user)}
    if result.configurable:
        body["configurableMethods"] = list(result.configurable)
    return body


async def issue_challenge(
    services: Services,
    call: Call,
    tenant: Document,
    application: Document | None,
    user: Document,
    login_state: Document,
) -> Secret:
    """Issue a challenge that stores the state of a login, without null members. Return its id."""
    ttl_seconds = Lifetimes.of(tenant).two_factor_challenge_seconds
    tenant_id = TenantId(tenant["id"])
    document = {name: value for name, value in login_state.items() if value is not None}
    two_factor_id = await services.tokens.one_time_tokens.issue(tenant_id, KIND, user["id"], document, ttl_seconds)
    assert two_factor_id is not None
    application_id = _registered_application_id(user, application)
    risk, reasons = login_state.get("clientRisk"), login_state.get("riskReasons") or []
    event = user_events.user_event("user.two-factor.challenge", user, applicationId=application_id, clientRisk=risk)
    await services.bus.announce(call.within(tenant_id), [event])
    because = "" if risk is None else f"; the risk is {risk} ({', '.join(reasons) or 'no signal'})"
    await _log_debug(services, call, tenant, user, f"a second factor is required{because}")
    return two_factor_id


async def get_challenge(services: Services, call: Call, two_factor_id: str) -> Challenge:
    """Return a pending challenge. Raises NotFound."""
    token = await services.tokens.one_time_tokens.find(call.tenant_id, KIND, two_factor_id)
    return await _load_challenge(services, two_factor_id, token)


async def send_code(services: Services, call: Call, two_factor_id: str, method_id: str | None = None) -> None:
    """Send a code by one of the user's methods, by default the last used one. Earlier codes become invalid.

    Raises NotFound for a challenge that is not pending, Invalid for a method that the user does not have or that uses
    no messages, and Unavailable after too many messages.
    """
    challenge = await get_challenge(services, call, two_factor_id)
    method = _choose_method(challenge.user, method_id)
    address, tenant = CodeAddress.of(method), challenge.tenant
    tenant = await administrator_realm.of_user(services, tenant, challenge.user)
    two_factor_codes.require_sendable(tenant, challenge.application, address)
    assert address is not None
    await _count_message(services, challenge)
    tenant_id, code = challenge.token.tenant_id, two_factor_codes.generate(tenant)
    state = _with_sent_code(challenge, method, code)
    if not await services.tokens.one_time_tokens.replace(tenant_id, KIND, two_factor_id, state):
        raise NotFound
    inside = call.within(tenant_id)
    await two_factor_codes.send(services, inside, tenant, challenge.application, challenge.user, address, code)


async def verify_code(services: Services, call: Call, two_factor_id: str, code: str) -> VerifiedChallenge:
    """Verify a code for a challenge, without consuming either.

    Each attempt is counted before anything is compared: five per challenge, and limited per account and IP address.
    Raises NotFound for a challenge that is not pending, WrongCode, which is announced to webhooks, and Unavailable
    after too many incorrect codes.
    """
    token = await services.tokens.one_time_tokens.find_counting_attempt(
        call.tenant_id, KIND, two_factor_id, code_attempt_limits.ATTEMPTS
    )
    challenge = await _load_challenge(services, two_factor_id, token)
    tenant_id = challenge.token.tenant_id
    limits = [*code_attempt_limits.of_two_factor(challenge.user["id"]), *failed_login_limits.address_limits(call)]
    async with code_attempt_limits.attempt(services, tenant_id, limits):
        verified = _match_code(services, call, challenge, code)
        if verified is None or (verified.code_use is not None and await verified.code_use.is_used()):
            method = _likely_method(challenge, code)
            event = _attempt_event("user.two-factor.failed-attempt", challenge, method)
            await services.bus.announce(call.within(tenant_id), [event])
            services.runtime.authentication_metrics.count_second_factor(method, is_correct=False)
            step = f"incorrect code, probably of the method {method}"
            await _log_debug(services, call, challenge.tenant, challenge.user, step)
            raise WrongCode(log_detail="incorrect code")
    services.runtime.authentication_metrics.count_second_factor(verified.method, is_correct=True)
    await _log_debug(services, call, challenge.tenant, challenge.user, f"correct code of the method {verified.method}")
    return verified


async def verify_and_consume(services: Services, call: Call, two_factor_id: str, code: str) -> VerifiedChallenge:
    """Verify a code and consume the challenge, for a page that continues the login itself. Raises as `verify_code`."""
    verified = await verify_code(services, call, two_factor_id, code)
    side_effects = verified.side_effects()
    change = Change([side_effects.write], after_commit=side_effects.after_commit)
    await services.bus.commit(call.within(verified.challenge.token.tenant_id), change)
    return verified


async def revoke_challenges(services: Services, user: Document) -> None:
    """Revoke every pending challenge of a user."""
    await services.tokens.one_time_tokens.revoke_all(TenantId(user["tenantId"]), KIND, str(user["id"]))


async def issue_completion_code(services: Services, challenge: Challenge, method: Document) -> Secret:
    """Issue a code that completes a login which required the user to add a two-factor method.

    The user has just proved that the method works, and need not enter a second code of it. Raises NotFound if the
    challenge has expired.
    """
    code = two_factor_codes.generate(challenge.tenant)
    state = _with_sent_code(challenge, method, code)
    if not await services.tokens.one_time_tokens.replace(
        challenge.token.tenant_id, KIND, challenge.two_factor_id, state
    ):
        raise NotFound(log_detail="the challenge has expired")
    return code


def visible_methods(call: Call, user: Document) -> list[Document]:
    """Return a user's methods without secrets, and with masked addresses for callers without an API key."""
    is_masked = not isinstance(call.caller, ApiKeyCaller)
    return [two_factor.visible_method(method, is_masked=is_masked) for method in user["twoFactor"]["methods"]]


def _with_sent_code(challenge: Challenge, method: Document, code: str) -> Document:
    """Return the login state with the hash of a code that was sent."""
    sent = {"code": two_factor_codes.hash_code(code), "methodId": method["id"], "method": method["method"]}
    return {**challenge.login_state, "sent": sent}


async def _load_challenge(services: Services, two_factor_id: str, token: OneTimeToken | None) -> Challenge:
    """Load user, tenant and application of a challenge. Raises NotFound if one of them no longer exists."""
    if token is None:
        raise NotFound(log_detail="no such challenge")
    user = await services.directory.users.find(token.tenant_id, token.owner)
    tenant = await services.configuration.tenants.find_cached(None, token.tenant_id)
    application_id = token.document.get("applicationId")
    application = None
    if application_id is not None:
        application = await services.configuration.applications.find_cached(token.tenant_id, application_id)
    if user is None or tenant is None or tenant["state"] != "Active" or (application is None and application_id):
        raise NotFound(log_detail="the user, tenant or application of the challenge no longer exists")
    tenant = administrator_realm.of_application(services, tenant, application)
    return Challenge(two_factor_id, token, tenant, application, user)


async def _log_debug(services: Services, call: Call, tenant: Document, user: Document, step: str) -> None:
    """Write a step to the event log if the tenant enables `multiFactorConfiguration.debug`."""
    if tenant["multiFactorConfiguration"]["debug"]:
        message = f"Second factor of the user [{user['id']}]: {step}."
        await event_logs.debug(services, call, TenantId(tenant["id"]), "two-factor", message)


def _choose_method(user: Document, method_id: str | None) -> Document:
    """Return the named method or, without an id, the last used of those that send messages. Raises Invalid."""
    if method_id is not None:
        found = two_factor.find_method(user, method_id)
    else:
        with_messages = [one for one in user["twoFactor"]["methods"] if one["method"] in two_factor.ADDRESS_MEMBERS]
        found = next(iter(sorted(with_messages, key=lambda one: not one.get("lastUsed", False))), None)
    if found is None:
        raise Invalid.field("invalid", "methodId", "The [methodId] must name a two-factor method of the user.")
    return found


async def _count_message(services: Services, challenge: Challenge) -> None:
    """Count a message against the limits of the challenge and the tenant. Raises Unavailable."""
    ttl_seconds = Lifetimes.of(challenge.tenant).two_factor_challenge_seconds
    limit = Limit("two-factor-messages", challenge.two_factor_id, _MESSAGES, ttl_seconds)
    if await services.limits.rate_limits.consume(challenge.token.tenant_id, [limit]) is not None:
        raise Unavailable("Too many messages requested. Log in again.")
    await two_factor_codes.count_message(services, challenge.tenant, challenge.user["id"])


def _match_code(services: Services, call: Call, challenge: Challenge, code: str) -> VerifiedChallenge | None:
    """Match a code against the sent code, the user's authenticator apps, and the recovery codes."""
    use = services.tokens.one_time_tokens.use(challenge.token.tenant_id, KIND, challenge.two_factor_id)
    user, sent = challenge.user, challenge.login_state.get("sent")
    # A code that was sent to a method which the user has removed since no longer completes a login.
    is_valid = sent is not None and (
        "methodId" not in sent or two_factor.find_method(user, sent["methodId"]) is not None
    )
    if sent is not None and is_valid and two_factor_codes.matches(sent["code"], code):
        return VerifiedChallenge(challenge, sent["method"], sent.get("methodId", ""), use, None, services=services)
    for method in user["twoFactor"]["methods"]:
        step = two_factor_codes.matching_step(method, code, call)
        if step is not None:
            settings = method.get("authenticator", {})
            code_use = AuthenticatorCodeUse(services, user, method["secret"], settings, step)
            return VerifiedChallenge(challenge, method["method"], method["id"], use, code_use, services=services)
    if two_factor.matches_recovery_code(user["twoFactor"]["recoveryCodes"], code):
        return VerifiedChallenge(challenge, two_factor.RECOVERY_CODE, "", use, None, code, services=services)
    return None


def _likely_method(challenge: Challenge, code: str) -> str:
    """Return the method that an incorrect code was probably meant for, which the event names."""
    if len(code.strip()) > 8:
        return two_factor.RECOVERY_CODE
    sent = challenge.login_state.get("sent")
    if sent is not None:
        return str(sent["method"])
    kinds = [method["method"] for method in challenge.user["twoFactor"]["methods"]]
    return two_factor.AUTHENTICATOR if two_factor.AUTHENTICATOR in kinds or not kinds else str(kinds[0])


def _attempt_event(event_type: str, challenge: Challenge, method: str) -> Event:
    application_id = _registered_application_id(challenge.user, challenge.application)
    message_type = "SMS" if method == two_factor.SMS else None
    return user_events.user_event(
        event_type,
        challenge.user,
        applicationId=application_id,
        clientRisk=challenge.login_state.get("clientRisk"),
        method=method,
        messageType=message_type,
    )


def _registered_application_id(user: Document, application: Document | None) -> str | None:
    """Return the application's id if the user is registered for it, as login events have it."""
    found = None if application is None else user_rules.find_registration(user, application["id"])
    return None if found is None else str(found["applicationId"])
