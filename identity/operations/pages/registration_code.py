"""The code that verifies the address of a new user, entered on the page right after the registration.

The page does not reveal whether the registration created a user: an address in use gets a page whose codes are all
incorrect.
"""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.objects.external_identifiers import IdSettings
from identity.domain.objects.owner_settings import EmailVerification
from identity.errors import Invalid, NotFound, Unavailable
from identity.ids import TenantId
from identity.operations.clients.clients import Client
from identity.operations.verification import email_verifications, verification_codes
from identity.services import Services

_KIND: Final = "registration-code"
_ATTEMPTS: Final = 5


async def issue(services: Services, client: Client, user: Document | None) -> str:
    """Return the id of the page for a new user; `user` is None if the address was in use.

    Empty if the tenant verifies addresses by a link.
    """
    if not EmailVerification.of(client.tenant).uses_code:
        return ""
    found = None
    if user is not None:
        found = await verification_codes.find_open(services, client.tenant_id, email_verifications.KIND, user["id"])
    seconds = IdSettings.of(client.tenant, email_verifications.KIND).ttl_seconds
    document = {"verificationId": "" if found is None else str(found.id)}
    owner = "" if user is None else str(user["id"])
    return str(await services.tokens.one_time_tokens.issue(client.tenant_id, _KIND, owner, document, seconds) or "")


async def is_open(services: Services, tenant_id: TenantId, page_id: str) -> bool:
    """Whether a code can still be entered on the page."""
    return await services.tokens.one_time_tokens.find(tenant_id, _KIND, page_id) is not None


async def verify(services: Services, call: Call, tenant_id: TenantId, page_id: str, code: str) -> bool:
    """Verify the address with a code; False for an incorrect one.

    Raises NotFound for an expired page and after too many incorrect codes, and WebhookTransactionFailed.
    """
    page = await services.tokens.one_time_tokens.find_counting_attempt(tenant_id, _KIND, page_id, _ATTEMPTS)
    if page is None:
        raise NotFound(log_detail="no such page for a code")
    try:
        await email_verifications.complete(services, call.within(tenant_id), page.document["verificationId"], code)
    except (Invalid, NotFound, Unavailable):
        return False
    return True
