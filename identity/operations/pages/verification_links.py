"""The links of verification mails, as our pages take them: whose they are, and what following one does.

A link does nothing by being fetched, unless by the browser in which its user is signed in: programs that look at mails
fetch what stands in them, and an address that they verify may be one that somebody else signed up with. Everybody else
presses a button, which is theirs alone to press. Who follows a link again finds it done, as long as it would have
lived.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Coroutine
from typing import Any, Final

from identity.call import Call, Document
from identity.errors import Forbidden, Invalid, NotFound, Unavailable
from identity.ids import TenantId
from identity.operations.limits import message_limits
from identity.operations.sessions import sso_sessions
from identity.operations.verification import email_verifications, registration_verifications, verification_api
from identity.operations.verification.verification_api import VerificationRequest
from identity.operations.verification.verification_codes import VerificationKind
from identity.services import Services

EMAIL: Final[VerificationKind] = email_verifications.KIND
REGISTRATION: Final[VerificationKind] = registration_verifications.KIND

_DONE: Final = {EMAIL: "email-verified", REGISTRATION: "registration-verified"}


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationLink:
    """A link that counts, or that was followed already (`is_done`)."""

    tenant: Document
    user_id: str
    application_id: str | None
    asks_code: bool = False
    is_done: bool = False

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])


async def find(
    services: Services, tenant_id: TenantId | None, kind: VerificationKind, verification_id: str
) -> VerificationLink | None:
    """What a link stands for; nothing is used up. None for one that is unknown, over, or another tenant's."""
    ticket = await services.one_time_tokens.find(tenant_id, kind, verification_id)
    done = None if ticket is not None else await services.one_time_tokens.find(tenant_id, _DONE[kind], verification_id)
    found = ticket or done
    if found is None:
        return None
    return VerificationLink(
        await services.tenants.get(None, found.tenant_id),
        found.document.get("userId", found.owner),
        found.document.get("applicationId"),
        asks_code=bool(found.document.get("code")),
        is_done=done is not None,
    )


async def sought(
    services: Services, call: Call, tenant_id: TenantId | None, kind: VerificationKind, verification_id: str
) -> VerificationLink | None:
    """As `find`, for a stranger: an address that finds nothing too often is stopped. Raises Unavailable."""
    try:
        async with verification_api.limit_failures(services, call):
            found = await find(services, tenant_id, kind, verification_id)
            if found is None:
                raise NotFound(log_detail="no such link")
            return found
    except NotFound:
        return None


async def is_own(services: Services, link: VerificationLink, sso_secret: str) -> bool:
    """Whether the user of a link is the one who is signed in in this browser."""
    session = await sso_sessions.find(services, link.tenant, sso_secret)
    return session is not None and session.user_id == link.user_id


async def follow(
    services: Services, call: Call, kind: VerificationKind, link: VerificationLink, verification_id: str, code: str
) -> None:
    """Verify what a link is about, once.

    Raises Invalid for a wrong code, NotFound when the link is over meanwhile, and WebhookTransactionFailed, with the
    link still good.
    """
    if link.is_done:
        return
    call = call.within(link.tenant_id)
    complete = email_verifications.complete if kind == EMAIL else registration_verifications.complete
    await complete(services, call, verification_id, code or None)
    await _remember(services, kind, link, verification_id)


async def send_again(
    services: Services, call: Call, tenant: Document, kind: VerificationKind, application: Document | None, email: str
) -> bool:
    """Send another link, if somebody waits for one at the address; nobody learns whether.

    The mail is made when the answer is out. False when the browser's address asked too often.
    """
    tenant_id = TenantId(tenant["id"])
    limited: message_limits.MessageKind = "sendEmailVerification" if kind == EMAIL else "sendRegistrationVerification"
    try:
        await message_limits.count_message_from_address(services, call, tenant, limited)
    except Unavailable:
        return False
    wanted = VerificationRequest(email, None if application is None else application["id"], is_counted=True)
    start = verification_api.start_email if kind == EMAIL else verification_api.start_registration
    await services.background_work.begin("verification link", _quietly(start(services, call.within(tenant_id), wanted)))
    return True


def may_send(tenant: Document, kind: VerificationKind, application: Document | None) -> bool:
    """Whether links of this kind are sent at all."""
    if kind == EMAIL:
        return bool(tenant["emailConfiguration"]["verifyEmail"])
    return application is not None and bool(application["verifyRegistration"])


async def _remember(services: Services, kind: VerificationKind, link: VerificationLink, verification_id: str) -> None:
    ttl_seconds = int(link.tenant["externalIdentifierConfiguration"][f"{kind}IdTimeToLiveInSeconds"])
    about = {"userId": link.user_id, "applicationId": link.application_id}
    await services.one_time_tokens.issue(
        link.tenant_id, _DONE[kind], link.user_id, about, ttl_seconds, make=lambda: verification_id
    )


async def _quietly(work: Coroutine[Any, Any, object]) -> None:
    """Nobody is there to be told that nothing was sent."""
    with contextlib.suppress(Forbidden, Invalid, NotFound):
        await work
