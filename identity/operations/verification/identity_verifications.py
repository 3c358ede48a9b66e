"""The identity verification API: login ids verified with a code, of users and of users to be created.

A login id without a user is verified in advance: the completed id is the evidence when a user is created with it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

from identity.call import Call, Document
from identity.domain.messaging.mail_messages import Address
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import users as user_rules
from identity.errors import Forbidden, Invalid, NotFound
from identity.events.changes import Change, Event
from identity.ids import TenantId
from identity.operations.limits import message_limits
from identity.operations.objects import crud
from identity.operations.verification import (
    email_verifications,
    phone_verifications,
    verification_codes,
    verified_login_ids,
)
from identity.operations.verification.verification_codes import OpenVerification, VerificationKind
from identity.schemas import is_email
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse

_VERIFY: Final = "api/identity-verify.request.json"
_START: Final = "api/identity-verify-start.request.json"
_SEND: Final = "api/identity-verify-send.request.json"
_COMPLETE: Final = "api/identity-verify-complete.request.json"

_KINDS: Final[dict[str, VerificationKind]] = {"email": "emailVerification", "phoneNumber": "phoneVerification"}
_MUST_EXIST: Final = "mustExist"


@dataclasses.dataclass(frozen=True, slots=True)
class OpenIdentityVerification:
    """An open verification: the token of its id, and the user, if there is one."""

    token: OneTimeToken
    kind: VerificationKind
    login_id_type: str
    user: Document | None

    @property
    def login_id(self) -> str:
        """The login id to be verified."""
        return str(self.token.document[self.login_id_type])


async def verify(services: Services, call: Call, body: Document) -> None:
    """Mark a user's login id as verified. Raises Invalid, NotFound and WebhookTransactionFailed."""
    request = services.schemas[_VERIFY].read(body)
    tenant_id = crud.require_tenant(call)
    kind, login_id = request["loginIdType"], request["loginId"]
    user = await services.directory.users.find_by_login_id(tenant_id, _normalize(kind, login_id), [kind])
    if user is None:
        raise NotFound(log_detail="no user with this login id")
    if kind == "email":
        await email_verifications.mark_verified(services, call, user, "Administrative")
    else:
        await phone_verifications.mark_verified(services, call, user, "Administrative")


async def start(services: Services, call: Call, body: Document) -> Document:
    """Start the verification of a login id without sending it.

    Return `verificationId` and, with FormField, `oneTimeCode`. Raises Invalid, NotFound for an unknown user who must
    exist, and Forbidden if the tenant does not verify such login ids.
    """
    request = services.schemas[_START].read(body)
    tenant = await services.configuration.tenants.get(None, crud.require_tenant(call))
    kind, value = request["loginIdType"], _normalize(request["loginIdType"], request["loginId"])
    application_id = await _application_id(services, tenant, request)
    strategy = _strategy(tenant, kind)
    user = await services.directory.users.find_by_login_id(TenantId(tenant["id"]), value, [kind])
    if request["existingUserStrategy"] == _MUST_EXIST and user is None:
        raise NotFound(log_detail="no user with this login id")
    if request["existingUserStrategy"] != _MUST_EXIST and user is not None:
        raise Invalid.field("duplicate", "loginId", "A User with this [loginId] exists already.")
    details = {kind: value, "state": request.get("state", {}), "applicationId": application_id}
    owner = f"new {value}" if user is None else user["id"]
    requested_strategy = request.get("verificationStrategy") or strategy
    started = await verification_codes.start(services, tenant, _KINDS[kind], owner, details, requested_strategy)
    return started.to_response()


async def send(services: Services, call: Call, body: Document) -> None:
    """Send the verification to the login id itself; the same one if it was sent before.

    Raises Invalid, NotFound, and Unavailable when the tenant's limit of messages is exceeded.
    """
    request = services.schemas[_SEND].read(body)
    found = await _get_open(services, call, request["verificationId"])
    tenant_id = found.token.tenant_id
    tenant = await services.configuration.tenants.get(None, tenant_id)
    started = await verification_codes.find_open(services, tenant_id, found.kind, found.token.owner)
    if started is None or started.id != request["verificationId"]:
        raise NotFound(log_detail="the verification was replaced by another one")
    limited: message_limits.MessageKind = (
        "sendEmailVerification" if found.login_id_type == "email" else "sendPhoneVerification"
    )
    await message_limits.count_message(services, tenant, limited, found.token.owner)
    if not await _send_message(services, call.within(tenant_id), tenant, found, started):
        message = "The tenant has no template, or no messenger, for messages that verify a login id of this type."
        raise Invalid.field("notConfigured", "verificationId", message)


async def complete(services: Services, call: Call, body: Document) -> Document:
    """Verify the login id of an id; return the `state` with which it was started.

    Of concurrent callers with the same id one succeeds. Raises Invalid, NotFound and WebhookTransactionFailed.
    """
    request = services.schemas[_COMPLETE].read(body)
    verification_id = request["verificationId"]
    found = await _get_open(services, call, verification_id)
    code = request.get("oneTimeCode")
    await verification_codes.verify_code(services, call.tenant_id, found.kind, verification_id, code)
    if found.user is None:
        await _store_verified_login_id(services, call, found, verification_id)
    else:
        use = services.tokens.one_time_tokens.use(found.token.tenant_id, found.kind, verification_id)
        verified = (email_verifications if found.login_id_type == "email" else phone_verifications).mark_verified
        await verified(services, call, found.user, "Completed", use=use)
    return {"state": found.token.document.get("state", {})}


async def _get_open(services: Services, call: Call, verification_id: str) -> OpenIdentityVerification:
    """Return the open verification of an id. Raises NotFound, also if its user has another login id."""
    for login_id_type, kind in _KINDS.items():
        token = await services.tokens.one_time_tokens.find(call.tenant_id, kind, verification_id)
        if token is None:
            continue
        user = None
        if not token.owner.startswith("new "):
            user = await services.directory.users.get(token.tenant_id, token.owner)
            if user.get(login_id_type) != token.document[login_id_type]:
                break
        return OpenIdentityVerification(token, kind, login_id_type, user)
    raise NotFound(log_detail="no such verification")


async def _store_verified_login_id(
    services: Services, call: Call, found: OpenIdentityVerification, verification_id: str
) -> None:
    """Store the completed id as evidence for a user who is created with the login id."""
    tenant_id = found.token.tenant_id
    tenant = await services.configuration.tenants.get(None, tenant_id)
    use = services.tokens.one_time_tokens.use(tenant_id, found.kind, verification_id)
    event = Event("user.identity.verified", {"loginId": found.login_id, "loginIdType": found.login_id_type})
    write = functools.partial(_consume_and_store, services, tenant, verification_id, found, use)
    await services.bus.commit(call.within(tenant_id), Change([write], [event]))
    await verification_codes.revoke(services, tenant_id, found.kind, found.token.owner)


async def _consume_and_store(
    services: Services,
    tenant: Document,
    verification_id: str,
    found: OpenIdentityVerification,
    use: OneTimeTokenUse,
    _session: Session | None,
) -> None:
    await verification_codes.consume(use)
    await verified_login_ids.store(services, tenant, verification_id, found.login_id_type, found.login_id)


async def _send_message(
    services: Services, call: Call, tenant: Document, found: OpenIdentityVerification, started: OpenVerification
) -> bool:
    if found.login_id_type == "phoneNumber":
        return await phone_verifications.send(services, call, tenant, found.login_id, found.user, started)
    application_id = found.token.document.get("applicationId")
    application = (
        None
        if application_id is None
        else await services.configuration.applications.find_cached(TenantId(tenant["id"]), application_id)
    )
    to = Address(found.login_id, "") if found.user is None else found.user
    return await email_verifications.send_mail(services, call, tenant, to, application, started)


async def _application_id(services: Services, tenant: Document, request: Document) -> str | None:
    application_id: str | None = request.get("applicationId")
    if (
        application_id is not None
        and await services.configuration.applications.find_cached(tenant["id"], application_id) is None
    ):
        raise Invalid.field("invalid", "applicationId", "The [applicationId] must name an existing application.")
    return application_id


def _strategy(tenant: Document, kind: str) -> str:
    """Return the tenant's verification strategy for this kind of login id. Raises Forbidden without one."""
    email, is_email = EmailVerification.of(tenant), kind == "email"
    if not (email.verify_email if is_email else phone_verifications.is_enabled(tenant)):
        raise Forbidden(log_detail=f"the tenant does not verify the login ids of type {kind}")
    return email.verification_strategy if is_email else phone_verifications.strategy(tenant)


def _normalize(kind: str, login_id: str) -> str:
    """Return the login id in its stored form. Raises Invalid for one that no user can have."""
    if kind == "email":
        email = user_rules.login_key(login_id)
        if not is_email(email):
            raise Invalid.field("notEmail", "loginId", "The [loginId] is not an email address.")
        return email
    number: str = user_rules.normalize_phone_number({"phoneNumber": login_id.strip()})["phoneNumber"]
    if not user_rules.is_e164_number(number):
        raise Invalid.field("invalidPhone", "loginId", "The [loginId] must be an E.164 number.")
    return number
