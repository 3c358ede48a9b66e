"""The links of verification emails.

Fetching a link verifies nothing, unless its user is signed in in the same browser: mail scanners fetch links, and
the address may belong to someone other than the person who signed up with it. Otherwise the user presses a button on
the page. A link that was followed reports success again for the rest of its lifetime.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Coroutine
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.objects.external_identifiers import IdSettings
from identity.domain.objects.owner_settings import EmailVerification
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

_VERIFIED: Final = {EMAIL: "email-verified", REGISTRATION: "registration-verified"}


@dataclasses.dataclass(frozen=True, slots=True)
class VerificationLink:
    """A valid link, or one that was followed already (`is_verified`)."""

    tenant: Document
    user_id: str
    application_id: str | None
    uses_code: bool = False
    is_verified: bool = False

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])


async def find(
    services: Services, tenant_id: TenantId | None, kind: VerificationKind, verification_id: str
) -> VerificationLink | None:
    """Return a link without consuming it; None if it is unknown, has expired or belongs to another tenant."""
    is_verified = False
    token = await services.tokens.one_time_tokens.find(tenant_id, kind, verification_id)
    if token is None:
        token, is_verified = (
            await services.tokens.one_time_tokens.find(tenant_id, _VERIFIED[kind], verification_id),
            True,
        )
    if token is None:
        return None
    return VerificationLink(
        await services.configuration.tenants.get(None, token.tenant_id),
        token.document.get("userId", token.owner),
        token.document.get("applicationId"),
        uses_code=bool(token.document.get("code")),
        is_verified=is_verified,
    )


async def find_limited(
    services: Services, call: Call, tenant_id: TenantId | None, kind: VerificationKind, verification_id: str
) -> VerificationLink | None:
    """Find a link for an anonymous caller. Raises Unavailable after too many unknown links from one address."""
    try:
        async with verification_api.limit_failures(services, call):
            link = await find(services, tenant_id, kind, verification_id)
            if link is None:
                raise NotFound(log_detail="no such link")
            return link
    except NotFound:
        return None


async def is_signed_in(services: Services, link: VerificationLink, sso_secret: str) -> bool:
    """Whether the browser with this SSO cookie is signed in as the user of a link."""
    session = await sso_sessions.find(services, link.tenant, sso_secret)
    return session is not None and session.user_id == link.user_id


async def follow(
    services: Services, call: Call, kind: VerificationKind, link: VerificationLink, verification_id: str, code: str
) -> None:
    """Verify the address or registration of a link, once.

    Raises:
        Invalid: the code is incorrect.
        NotFound: the link has expired or was used meanwhile.
        WebhookTransactionFailed: a webhook vetoed the verification; the link stays valid.
    """
    if link.is_verified:
        return
    call = call.within(link.tenant_id)
    complete = email_verifications.complete if kind == EMAIL else registration_verifications.complete
    await complete(services, call, verification_id, code or None)
    await _remember_verified(services, kind, link, verification_id)


async def send_again(
    services: Services, call: Call, tenant: Document, kind: VerificationKind, application: Document | None, email: str
) -> bool:
    """Send another link in the background, if the address has to be verified; the caller does not learn whether.

    Returns False when the caller's address exceeded its limit of messages.
    """
    tenant_id = TenantId(tenant["id"])
    message: message_limits.MessageKind = "sendEmailVerification" if kind == EMAIL else "sendRegistrationVerification"
    try:
        await message_limits.count_message_from_address(services, call, tenant, message)
    except Unavailable:
        return False
    request = VerificationRequest(email, None if application is None else application["id"], is_counted=True)
    start = verification_api.start_email if kind == EMAIL else verification_api.start_registration
    sending = _ignore_refusal(start(services, call.within(tenant_id), request))
    await services.runtime.background_work.begin("verification link", sending)
    return True


def may_send(tenant: Document, kind: VerificationKind, application: Document | None) -> bool:
    """Whether tenant or application send links of this kind."""
    if kind == EMAIL:
        return EmailVerification.of(tenant).verify_email
    return application is not None and bool(application["verifyRegistration"])


async def _remember_verified(
    services: Services, kind: VerificationKind, link: VerificationLink, verification_id: str
) -> None:
    ttl_seconds = IdSettings.of(link.tenant, kind).ttl_seconds
    document = {"userId": link.user_id, "applicationId": link.application_id}
    await services.tokens.one_time_tokens.issue(
        link.tenant_id, _VERIFIED[kind], link.user_id, document, ttl_seconds, make=lambda: verification_id
    )


async def _ignore_refusal(sending: Coroutine[Any, Any, object]) -> None:
    """Send a link; its refusal is ignored, since the response was sent already."""
    with contextlib.suppress(Forbidden, Invalid, NotFound):
        await sending
