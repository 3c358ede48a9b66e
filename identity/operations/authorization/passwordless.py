"""Passwordless logins: a code, returned by the API or sent by email, logs its user in once.

With the strategy FormField the code comes with a shorter one-time code for the user to type; neither works alone, and
five incorrect one-time codes invalidate the login.
"""

from __future__ import annotations

import dataclasses
import functools
import urllib.parse
from typing import Final

import orjson

from identity.call import Call, Document
from identity.domain.configuration import administrator_realm as realm_rules
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.messaging import mail_messages
from identity.domain.messaging.builtin_mails import BuiltinMail
from identity.domain.objects.external_identifiers import PASSWORDLESS_LOGIN, IdSettings
from identity.domain.objects.owner_settings import FORM_FIELD, EmailVerification
from identity.domain.users import users as user_rules
from identity.errors import Conflict, Invalid, NotFound, Unavailable
from identity.ids import Secret, TenantId, fingerprint, same_secret
from identity.instants import Instant
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.groups import administrator_realm, administrators
from identity.operations.limits import code_attempt_limits, failed_login_limits, message_limits
from identity.operations.login import password_login, second_factor_decisions
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.messaging import mail, user_events
from identity.operations.objects import event_logs, user_lookup
from identity.operations.password_changes import password_changes
from identity.operations.users import login_responses
from identity.operations.users.login_responses import LoginOptions, LoginResponse
from identity.operations.verification import email_verifications
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse

AUTHENTICATION_TYPE: Final = "PASSWORDLESS"

_KIND: Final = "passwordless"
_START: Final = "api/passwordless-start.request.json"
_SEND: Final = "api/passwordless-send.request.json"
_LOGIN: Final = "api/passwordless-login.request.json"
_STATE_BYTES: Final = 10_000
_MARK: Final = "isForAdministrator"
_DECOY_OWNER: Final = "nobody "
"""Prefix of the owner of a decoy login, for a login id without a user: its code is valid but logs in nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class StartedLogin:
    """The codes of a started login; the one-time code only with the strategy FormField."""

    code: Secret
    one_time_code: Secret | None

    def to_document(self) -> Document:
        """Return the codes by their wire names."""
        codes = {"code": self.code, "oneTimeCode": self.one_time_code}
        return {name: value for name, value in codes.items() if value is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class RedeemedCode:
    """The login of a valid code. `side_effects` consume the code when the login is complete."""

    client: Client
    authenticated: Authenticated
    side_effects: LoginSideEffects
    state: Document | None


def is_offered(client: Client) -> bool:
    """Whether the application enables passwordless logins and has an email template for them."""
    return bool(client.application["passwordlessConfiguration"]["enabled"] and _find_template(client))


def uses_one_time_code(client: Client) -> bool:
    """Whether the email of the application contains a code to type, rather than a link."""
    return bool(client.application["passwordlessConfiguration"].get("emailLoginStrategy") == FORM_FIELD)


async def start(services: Services, call: Call, body: Document) -> Document:
    """Start a login and return its codes. Raises Invalid, and NotFound for an unknown user."""
    request = services.schemas[_START].read(body)
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    _require_enabled(client)
    _require_small(request.get("state"))
    types = request.get("loginIdTypes") or user_rules.LOGIN_ID_TYPES
    user = await services.directory.users.find_by_login_id(client.tenant_id, request["loginId"], types)
    if user is None:
        raise NotFound
    await administrators.require_authority(services, call, user)
    if await administrators.is_administrator(services, user):
        client, _ = _in_realm(services, client)
    state, strategy = request.get("state"), request.get("loginStrategy")
    started = await begin(services, client, user["id"], state=state, strategy=strategy)
    return started.to_document()


async def send(services: Services, call: Call, body: Document) -> None:
    """Send the code of a started login; with an application and a login id, start one.

    The response does not depend on whether the login id exists. Raises Invalid, and Unavailable over the rate limit.
    """
    request = services.schemas[_SEND].read(body)
    if "code" in request:
        await _send_code(services, call, request["code"])
        return
    if not {"applicationId", "loginId"} <= request.keys():
        raise Invalid.field("missing", "code", "A [code] is required, or an [applicationId] with a [loginId].")
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    _require_small(request.get("state"))
    await send_to(services, call, client, request["loginId"], state=request.get("state"))


async def log_in(services: Services, call: Call, body: Document, trust_id: str | None = None) -> LoginResponse:
    """Return the Login API response for a code; `trust_id` is the two-factor trust of the browser's cookie.

    Raises Invalid, NotFound for an unknown, expired or used code and for an incorrect one-time code, Unavailable after
    too many of those, and the errors of a login.
    """
    request = services.schemas[_LOGIN].read(body)
    call = login_responses.with_stated_ip_address(call, request)
    redeemed = await redeem(
        services, call, request["code"], request.get("oneTimeCode"), application_id=request.get("applicationId")
    )
    options = dataclasses.replace(LoginOptions.from_request(request), state=redeemed.state)
    call = call.within(redeemed.client.tenant_id)
    trust_id = trust_id or request.get("twoFactorTrustId")
    result = await password_login.continue_login(
        services,
        call,
        await second_factor_decisions.decide(
            services, call, redeemed.authenticated, trust_id, is_new_device=options.is_new_device
        ),
        AUTHENTICATION_TYPE,
        is_new_device=options.is_new_device,
        side_effects=redeemed.side_effects,
    )
    return await login_responses.build_response(services, call, redeemed.client, result, AUTHENTICATION_TYPE, options)


async def begin(
    services: Services,
    client: Client,
    owner: str,
    *,
    state: Document | None = None,
    strategy: str | None = None,
) -> StartedLogin:
    """Store a login of a user, or a decoy; `strategy` defaults to that of the application.

    Raises Unavailable if the tenant's generator finds no free code.
    """
    settings = IdSettings.of(client.tenant, PASSWORDLESS_LOGIN)
    strategy = strategy or client.application["passwordlessConfiguration"].get("emailLoginStrategy")
    one_time_code = settings.new_code() if strategy == FORM_FIELD else None
    code = await services.tokens.one_time_tokens.issue(
        client.tenant_id,
        _KIND,
        owner,
        {
            "applicationId": client.client_id,
            "state": state,
            "oneTimeCode": one_time_code and fingerprint(one_time_code),
            _MARK: realm_rules.is_realm(client.tenant),
        },
        settings.ttl_seconds,
        make=settings.new_id,
    )
    if code is None:
        raise Unavailable("No free code is available. Try again.")
    return StartedLogin(code, one_time_code)


async def send_to(
    services: Services, call: Call, client: Client, login_id: str, *, state: Document | None
) -> StartedLogin:
    """Start a login and send its code; for an unknown login id start a decoy, which sends nothing.

    The email is sent in the background, so that the response time does not reveal whether the user exists. Raises
    Invalid if the application disables passwordless logins, and Unavailable over the rate limit.
    """
    template: str | BuiltinMail | None = _require_template(client)
    await message_limits.count_message_from_address(services, call, client.tenant, "sendPasswordless")
    user = await user_lookup.find_typed(services, client.tenant, login_id)
    if user is not None and await administrators.is_administrator(services, user):
        client, template = _in_realm(services, client)
    owner = f"{_DECOY_OWNER}{fingerprint(user_rules.limit_key(login_id))}" if user is None else str(user["id"])
    await message_limits.count_message(services, client.tenant, "sendPasswordless", owner)
    started = await begin(services, client, owner, state=state)
    if user is not None:
        mailing = _send_email(services, call, client, user, started, template, state)
        await services.runtime.background_work.begin("passwordless", mailing)
    return started


async def redeem(
    services: Services,
    call: Call,
    code: str,
    one_time_code: str | None = None,
    *,
    application_id: str | None = None,
) -> RedeemedCode:
    """Return the login of a code, which its side effects consume when the login is complete.

    A code that was sent by email also verifies the address, if the tenant enables implicit verification.

    Raises NotFound for an unknown, expired or used code and for an incorrect one-time code, Unavailable after too many
    of those from one address, and Invalid for another application.
    """
    async with failed_login_limits.address_attempt(services, call):
        redeemed = await _redeem(services, call, code, one_time_code)
    if application_id not in {None, redeemed.client.client_id}:
        raise Invalid.field("invalid", "applicationId", "The login was started for another application.")
    return redeemed


async def _redeem(services: Services, call: Call, code: str, one_time_code: str | None) -> RedeemedCode:
    stored = await services.tokens.one_time_tokens.find(call.tenant_id, _KIND, code)
    if stored is not None and stored.document["oneTimeCode"] is not None:
        stored = await services.tokens.one_time_tokens.find_counting_attempt(
            call.tenant_id, _KIND, code, code_attempt_limits.ATTEMPTS
        )
    if stored is None:
        raise _unknown()
    await _require_one_time_code(services, stored, one_time_code)
    client = await _get_client(services, stored.tenant_id, stored.document["applicationId"])
    user = await services.directory.users.find(stored.tenant_id, stored.owner)
    if user is None:
        raise NotFound(log_detail="the user of a passwordless login was deleted")
    if not stored.document.get(_MARK) and await administrators.is_administrator(services, user):
        raise NotFound(log_detail="the user became an administrator after the code was issued")
    if stored.document.get("mailedTo") not in {None, user.get("email")}:
        raise NotFound(log_detail="the user's email address changed since the code was sent")
    use = services.tokens.one_time_tokens.use(stored.tenant_id, _KIND, code)
    verified_user = _with_verified_email(client, user, stored, call.now)
    if verified_user is None:
        side_effects = LoginSideEffects(functools.partial(_consume, use))
    else:
        side_effects = LoginSideEffects(
            functools.partial(_verify_email_and_consume, services, use, verified_user, user),
            user_events.email_verified(verified_user),
            on_commit=functools.partial(
                email_verifications.finish_verification, services, call, client.tenant, verified_user
            ),
        )
    authenticated = Authenticated(client.tenant, client.application, verified_user or user, call.now)
    return RedeemedCode(client, authenticated, side_effects, stored.document["state"])


def _with_verified_email(client: Client, user: Document, stored: OneTimeToken, now: Instant) -> Document | None:
    """Return the user with a verified address if the code proves that the email arrived there; else None."""
    is_enabled = EmailVerification.of(client.tenant).implicit_email_verification_allowed
    if not is_enabled or stored.document.get("mailedTo") is None or user["verified"]:
        return None
    return user_rules.with_verified_email(user, "Implicit", now)


async def _consume(use: OneTimeTokenUse, _session: Session | None) -> None:
    if not await use.consume():
        raise NotFound(log_detail="the passwordless login was completed concurrently")


async def _verify_email_and_consume(
    services: Services, use: OneTimeTokenUse, verified_user: Document, stored_user: Document, session: Session | None
) -> None:
    """Write the verified user and consume the code. Raises Unavailable for a concurrent change, keeping the code."""
    tenant_id, expected = TenantId(verified_user["tenantId"]), stored_user["lastUpdateInstant"]
    try:
        await services.directory.users.replace(tenant_id, verified_user, expected, session)
    except Conflict as error:
        raise Unavailable("The user was changed concurrently. Try again.") from error
    await _consume(use, session)


async def _send_code(services: Services, call: Call, code: str) -> None:
    async with failed_login_limits.address_attempt(services, call):
        stored = await services.tokens.one_time_tokens.find(call.tenant_id, _KIND, code)
        is_decoy = stored is not None and stored.owner.startswith(_DECOY_OWNER)
        user = (
            None if stored is None or is_decoy else await services.directory.users.find(stored.tenant_id, stored.owner)
        )
        if stored is None or (user is None and not is_decoy):
            raise Invalid.field("invalid", "code", "The [code] is unknown, expired or was used.")
    client = await _get_client(services, stored.tenant_id, stored.document["applicationId"])
    template: str | BuiltinMail | None = _require_template(client)
    if user is not None and await administrators.is_administrator(services, user):
        client, template = _in_realm(services, client)
    await message_limits.count_message(services, client.tenant, "sendPasswordless", stored.owner)
    if user is None:
        return
    started = StartedLogin(Secret(code), None)
    if stored.document["oneTimeCode"] is not None:
        # Only a hash of the one-time code is stored: the email contains a new one, which replaces it.
        started = dataclasses.replace(
            started, one_time_code=IdSettings.of(client.tenant, PASSWORDLESS_LOGIN).new_code()
        )
    mailing = _send_email(services, call, client, user, started, template, stored.document["state"])
    await services.runtime.background_work.begin("passwordless", mailing)


async def _send_email(
    services: Services,
    call: Call,
    client: Client,
    user: Document,
    started: StartedLogin,
    template: str | BuiltinMail | None,
    state: Document | None,
) -> None:
    """Record the address that the code is sent to, and send the email."""
    if template is None:
        await event_logs.record(services, call.within(client.tenant_id), "Error", administrator_realm.NO_MAIL_SERVER)
        return
    one_time_code = started.one_time_code
    document = {
        "applicationId": client.client_id,
        "mailedTo": user.get("email"),
        "oneTimeCode": one_time_code and fingerprint(one_time_code),
        "state": state,
        _MARK: realm_rules.is_realm(client.tenant),
    }
    if await services.tokens.one_time_tokens.replace(client.tenant_id, _KIND, started.code, document):
        data: Document = {**started.to_document(), "state": state or {}}
        if isinstance(template, BuiltinMail):
            base_url = password_changes.trusted_base_url(services, call, client.tenant)
            if base_url is None and template.kind == "loginLink":
                await event_logs.record(services, call.within(client.tenant_id), "Error", password_changes.NO_BASE_URL)
                return
            data["link"] = _link(base_url or "", client, started.code, state or {})
        await mail.send(services, call, client.tenant_id, template, user, data, application=client.application)


def _link(base_url: str, client: Client, code: str, state: Document) -> str:
    """Return the URL of the page that completes the login; `state` is the authorization request."""
    query = {name: value for name, value in state.items() if isinstance(value, str)}
    query |= {"client_id": client.presented_client_id, "tenantId": client.tenant_id}
    return f"{base_url}/oauth2/passwordless/{code}?{urllib.parse.urlencode(query)}"


async def _get_client(services: Services, tenant_id: TenantId, application_id: str) -> Client:
    """Return the application of a login. Raises NotFound if it was deleted, Invalid if it disables such logins."""
    try:
        client = await clients.get_by_application_id(services, tenant_id, application_id)
    except Invalid as error:
        raise NotFound(log_detail="the application of a passwordless login was deleted") from error
    _require_enabled(client)
    return client


def _require_enabled(client: Client) -> None:
    """Raise Invalid if the application disables passwordless logins."""
    if not client.application["passwordlessConfiguration"]["enabled"]:
        raise _disabled("The application does not offer passwordless logins.")


def _require_template(client: Client) -> str | BuiltinMail:
    """Return the email template. Raises Invalid if there is none, or passwordless logins are disabled."""
    _require_enabled(client)
    template = _find_template(client)
    if template is None:
        raise _disabled("Neither the application nor the tenant names an email template.")
    return template


def _find_template(client: Client) -> str | BuiltinMail | None:
    """Return the email template of the application, else of the tenant, else a built-in one with a mail server."""
    name = "passwordlessEmailTemplateId"
    configurations = (client.application["emailConfiguration"], client.tenant["emailConfiguration"])
    found: str | None = next((found[name] for found in configurations if found.get(name)), None)
    if found is None and mail_messages.has_mail_server(client.tenant):
        return BuiltinMail("loginCode" if uses_one_time_code(client) else "loginLink")
    return found


def _in_realm(services: Services, client: Client) -> tuple[Client, BuiltinMail | None]:
    """Return the client of a login of an administrator, and its mail: with the settings of the console's realm.

    Otherwise a tenant's template or mail server would read the code, or its generator make one that can be guessed.
    """
    client = dataclasses.replace(client, tenant=administrator_realm.of_tenant(services, client.tenant))
    if not mail_messages.has_mail_server(client.tenant):
        return client, None
    return client, BuiltinMail("loginCode" if uses_one_time_code(client) else "loginLink")


def _disabled(message: str) -> Invalid:
    return Invalid.whole("[PasswordlessDisabled]", message)


async def _require_one_time_code(services: Services, stored: OneTimeToken, one_time_code: str | None) -> None:
    """Raise NotFound for an incorrect or missing one-time code, and Unavailable after too many incorrect ones."""
    expected = stored.document["oneTimeCode"]
    if expected is None:
        return
    if one_time_code is None:
        raise _unknown()
    limits = code_attempt_limits.of_sent_codes(_KIND, stored.owner)
    async with code_attempt_limits.attempt(services, stored.tenant_id, limits):
        if not same_secret(expected, fingerprint(one_time_code)):
            raise _unknown()


def _unknown() -> NotFound:
    return NotFound(log_detail="no such passwordless login")


def _require_small(state: Document | None) -> None:
    if state is not None and len(orjson.dumps(state)) > _STATE_BYTES:
        raise Invalid.field("tooLong", "state", f"The [state] may have at most {_STATE_BYTES} bytes of JSON.")
