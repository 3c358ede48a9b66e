"""Authentication with passkeys: options for the browser, and the verification of its response (WebAuthn section 7.2).

A passkey takes the place of the password: a user with two-factor methods is challenged as after a password.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Final

from identity.call import Call, Document
from identity.domain.login.login_outcomes import Authenticated
from identity.domain.users import users as user_rules
from identity.domain.webauthn import ceremonies, credentials, relying_party, workflows
from identity.domain.webauthn.ceremonies import Assertion, Expected
from identity.domain.webauthn.workflows import Workflow
from identity.errors import Invalid
from identity.events.changes import Change
from identity.ids import TenantId
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.login import password_login, second_factor_decisions
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.objects import event_logs
from identity.operations.users import login_responses
from identity.operations.users.login_responses import LoginOptions, LoginResponse
from identity.operations.webauthn import challenges, relying_parties
from identity.operations.webauthn.challenges import ANY_USER, Ceremony, Challenge
from identity.operations.webauthn.rejections import log_rejection
from identity.services import Services
from identity.store.mongo import Session

AUTHENTICATION_TYPE: Final = "WebAuthn"

_START: Final = "api/webauthn-start.request.json"
_LOGIN: Final = "api/webauthn-login.request.json"
_ASSERT: Final = "api/webauthn-assert.request.json"


class RejectedPasskey(Invalid):
    """The passkey of an existing user was rejected, with the errors of the cause."""

    def __init__(self, cause: Invalid, user: Document) -> None:
        super().__init__(cause.fields, cause.general, log_detail=cause.log_detail)
        self.user = user


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedPasskey:
    """A verified assertion with its credential and user. Nothing is written before `record_use`."""

    challenge: Challenge
    credential: Document
    assertion: Assertion
    user: Document

    @property
    def identity_type(self) -> str | None:
        """The type of the login id that the user entered, if any."""
        found: str | None = self.challenge.settings.get("loginIdType")
        return found


async def start(services: Services, call: Call, body: Document) -> Document:
    """Return the `options` to use a passkey of a user. Raises Invalid."""
    request = services.schemas[_START].read(body)
    client = await clients.get_by_application_id(services, call.tenant_id, request["applicationId"])
    workflow = require_workflow(client, request["workflow"])
    user, login_id_type = await _get_user(services, client, request)
    party = relying_party.configured_id(client.tenant)
    owned = await services.directory.webauthn_credentials.find_of_user(client.tenant_id, user["id"])
    allowed = credentials.usable(owned, workflow, party)
    if "credentialId" in request:
        allowed = [one for one in allowed if one["id"] == request["credentialId"].lower()]
    if not allowed:
        raise _no_passkey("credentialId" in request)
    settings = {
        "credentialId": request.get("credentialId"),
        "loginIdType": login_id_type,
        "state": request.get("state"),
    }
    return {"options": await begin(services, client, workflow, party, settings, user_id=user["id"], allowed=allowed)}


async def log_in(services: Services, call: Call, body: Document, trust_id: str | None = None) -> LoginResponse:
    """Return the Login API response for the response of the browser; `trust_id` is the trust of the browser's cookie.

    Raises Invalid, and the errors of a login.
    """
    request = services.schemas[_LOGIN].read(body)
    call = login_responses.with_stated_ip_address(call, request)
    challenge = await challenges.consume(
        services, call.tenant_id, "authentication", request["credential"]["response"]["clientDataJSON"]
    )
    relying_parties.require(challenge.tenant, request)
    client = await clients.get_by_application_id(services, challenge.tenant_id, challenge.settings["applicationId"])
    if request.get("applicationId", client.client_id).lower() != client.client_id:
        raise Invalid.field("invalid", "applicationId", "The login was started for another application.")
    call = call.within(client.tenant_id)
    verified = await verify_login(services, call, client, challenge, request)
    options = dataclasses.replace(LoginOptions.from_request(request), state=challenge.settings.get("state"))
    authenticated = Authenticated(client.tenant, client.application, verified.user, call.now)
    trust_id = trust_id or request.get("twoFactorTrustId")
    result = await password_login.continue_login(
        services,
        call,
        await second_factor_decisions.decide(
            services, call, authenticated, trust_id, is_new_device=options.is_new_device
        ),
        AUTHENTICATION_TYPE,
        identity_type=verified.identity_type,
        is_new_device=options.is_new_device,
        side_effects=side_effects(services, call, verified),
    )
    return await login_responses.build_response(services, call, client, result, AUTHENTICATION_TYPE, options)


async def complete_assertion(services: Services, call: Call, body: Document) -> Document:
    """Verify the response of the browser without a login, and return the `credential`. Raises Invalid."""
    request = services.schemas[_ASSERT].read(body)
    challenge = await challenges.consume(
        services, call.tenant_id, "authentication", request["credential"]["response"]["clientDataJSON"]
    )
    relying_parties.require(challenge.tenant, request)
    verified = await verify(services, call.within(challenge.tenant_id), challenge, request)
    change = Change([functools.partial(_record_use, services, call, verified)])
    await services.bus.commit(call.within(challenge.tenant_id), change)
    return {
        "credential": await services.directory.webauthn_credentials.get(challenge.tenant_id, verified.credential["id"])
    }


def require_workflow(client: Client, name: str) -> Workflow:
    """Return the workflow of an application. Raises Invalid if it is disabled."""
    workflow = workflows.effective(client.tenant, client.application, name)
    if not workflow.is_enabled:
        raise Invalid.whole("[WebAuthnDisabled]", f"The application does not enable the workflow {name}.")
    return workflow


async def begin(
    services: Services,
    client: Client,
    workflow: Workflow,
    relying_party_id: str | None,
    settings: Document,
    *,
    user_id: str = ANY_USER,
    allowed: Iterable[Document] = (),
    ceremony: Ceremony = "authentication",
) -> Document:
    """Return the options to use a passkey; without a user, for discoverable credentials of any user.

    `settings` are stored with the challenge. Without a relying party id, it is the domain of the page.
    """
    requires = workflow.user_verification == workflows.REQUIRED
    stored = {**settings, "applicationId": client.client_id, "requiresUserVerification": requires}
    challenge = await challenges.issue(services, client.tenant, ceremony, user_id, stored)
    return credentials.request_options(client.tenant, workflow, relying_party_id, challenge=challenge, allowed=allowed)


async def verify_login(
    services: Services, call: Call, client: Client, challenge: Challenge, request: Document
) -> VerifiedPasskey:
    """As `verify`; a failure of an existing user's passkey is announced as a failed login."""
    try:
        return await verify(services, call, challenge, request)
    except RejectedPasskey as error:
        await password_login.announce_failure(
            services, call, error.user, client.application, AUTHENTICATION_TYPE, {"code": "credentials"}
        )
        raise


async def verify(services: Services, call: Call, challenge: Challenge, request: Document) -> VerifiedPasskey:
    """Verify a response with its challenge, whose relying party was checked. Raises Invalid.

    A signature counter that did not increase is recorded in the event log: the authenticator may have been cloned.
    """
    response = request["credential"]
    credential = await _find_credential(services, challenge, response)
    user = (
        None if credential is None else await services.directory.users.find(challenge.tenant_id, credential["userId"])
    )
    if credential is None or user is None:
        raise Invalid.field("invalid", "credential.id", "The [credential.id] is not that of an accepted passkey.")
    expected = Expected(
        challenge.value, request["origin"], request["rpId"], challenge.settings["requiresUserVerification"]
    )
    try:
        assertion = ceremonies.verify_assertion(response, credential, expected)
        if ceremonies.is_cloned(credential["signCount"], assertion.sign_count):
            await _report_clone(services, call, credential, assertion)
            raise ceremonies.cloned_error()
    except Invalid as error:
        await log_rejection(services, call, challenge.tenant, user["id"], error)
        raise RejectedPasskey(error, user) from error
    return VerifiedPasskey(challenge, credential, assertion, user)


def side_effects(services: Services, call: Call, verified: VerifiedPasskey) -> LoginSideEffects:
    """Return the side effects of a login: store the signature counter and the use."""
    return LoginSideEffects(functools.partial(_record_use, services, call, verified))


async def _record_use(services: Services, call: Call, verified: VerifiedPasskey, session: Session | None) -> None:
    """Store the use. Raises Invalid if the counter increased, or the passkey was deleted, since it was verified."""
    is_recorded = await services.directory.webauthn_credentials.record_use(
        verified.challenge.tenant_id,
        verified.credential["id"],
        verified.assertion.sign_count,
        call.now,
        session,
        is_backed_up=verified.assertion.is_backed_up,
    )
    if not is_recorded:
        raise ceremonies.cloned_error()


async def _find_credential(services: Services, challenge: Challenge, response: Document) -> Document | None:
    """Return the credential of a response if the challenge accepts it.

    A challenge for any user requires the user handle, which identifies the user (section 7.2 step 6).
    """
    credential_id = response["id"].rstrip("=")
    found = await services.directory.webauthn_credentials.find_by_credential_id(challenge.tenant_id, credential_id)
    if found is None:
        return None
    handle, expected = response["response"].get("userHandle"), credentials.user_handle(found["userId"])
    is_owned = challenge.user_id == found["userId"] or (challenge.user_id == ANY_USER and handle is not None)
    has_handle = handle is None or handle.rstrip("=") == expected
    is_chosen = challenge.settings.get("credentialId") in {None, found["id"]}
    return found if is_owned and has_handle and is_chosen else None


async def _report_clone(services: Services, call: Call, credential: Document, assertion: Assertion) -> None:
    message = (
        f"The passkey [{credential['id']}] of the user [{credential['userId']}] was refused: its signature counter "
        f"was {credential['signCount']}, and the authenticator sent {assertion.sign_count}. The authenticator may have "
        "been cloned."
    )
    await event_logs.debug(services, call, TenantId(credential["tenantId"]), "webauthn", message, "Error")


async def _get_user(services: Services, client: Client, request: Document) -> tuple[Document, str | None]:
    """Return the user of a start: by id, else by login id with the type of that. Raises Invalid."""
    if "userId" in request:
        user = await services.directory.users.find(client.tenant_id, request["userId"].lower())
        login_id_type, member = None, "userId"
    elif "loginId" in request:
        types = request.get("loginIdTypes") or user_rules.LOGIN_ID_TYPES
        user = await services.directory.users.find_by_login_id(client.tenant_id, request["loginId"], types)
        login_id_type = None if user is None else user_rules.may_log_in_as(user, request["loginId"], types)
        member = "loginId"
    else:
        raise Invalid.field("blank", "loginId", "You must specify the [loginId] or the [userId] property.")
    if user is None:
        raise Invalid.field("invalid", member, f"The [{member}] must name a user of the tenant.")
    return user, login_id_type


def _no_passkey(is_named: bool) -> Invalid:
    if is_named:
        message = "The [credentialId] must name a passkey of the user that the workflow accepts."
        return Invalid.field("invalid", "credentialId", message)
    return Invalid.whole("[NoWebAuthnCredentials]", "The user has no passkey for this workflow.")
