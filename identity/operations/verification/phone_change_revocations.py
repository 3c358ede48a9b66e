"""Revocations of phone number changes: the previous number receives a link that restores it and ends every session."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.objects import catalogues
from identity.domain.users import users as user_rules
from identity.errors import Duplicate, NotFound
from identity.ids import TenantId
from identity.operations.clients import first_party_requests
from identity.operations.clients.clients import Client
from identity.operations.objects import crud
from identity.operations.verification import change_revocations, phone_verifications
from identity.services import Services
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse

REVOCATION: Final = "phone-change-revocation"


async def notify(services: Services, call: Call, client: Client, user: Document, previous: str) -> None:
    """Send the previous number the link that revokes the change; what prevents it goes to the event log."""
    token = await services.tokens.one_time_tokens.issue(
        client.tenant_id, REVOCATION, user["id"], {"phoneNumber": previous}, change_revocations.SECONDS
    )
    link = first_party_requests.page_url(call, client, f"/phone/revoke-change/{token}")
    language = catalogues.first_language(user.get("preferredLanguages", []))
    text = catalogues.texts(language)["message.phoneChange"].replace("{0}", link)
    await phone_verifications.send_text(services, call, client.tenant, previous, text)


async def revoke(services: Services, call: Call, tenant_id: TenantId, token: str) -> None:
    """Restore the previous number, cancel a pending change, and end every session.

    Of concurrent callers with the same token one succeeds. Raises NotFound for an unknown or used token and for a
    number that another user has taken, and WebhookTransactionFailed.
    """
    revocation = await services.tokens.one_time_tokens.find(tenant_id, REVOCATION, token)
    if revocation is None:
        raise NotFound(log_detail="no such revocation token")
    use = services.tokens.one_time_tokens.use(revocation.tenant_id, REVOCATION, token)
    try:
        user = await _restore(services, call.within(revocation.tenant_id), revocation, use)
    except Duplicate as duplicate:
        raise NotFound(log_detail="another user has the previous number") from duplicate
    await services.tokens.one_time_tokens.revoke_all(revocation.tenant_id, REVOCATION, revocation.owner)
    await change_revocations.revoke_codes(services, user, phone_verifications.KIND)


@crud.retry_on_conflict
async def _restore(services: Services, call: Call, revocation: OneTimeToken, use: OneTimeTokenUse) -> Document:
    """Restore the previous number, verified by the link, and log the user out everywhere. Raises Conflict."""
    stored = await services.directory.users.get(revocation.tenant_id, revocation.owner)
    number = revocation.document["phoneNumber"]
    is_replaced = stored.get("phoneNumber") != number
    restored = user_rules.with_verified_phone({**stored, "phoneNumber": number}, "Completed", call.now)
    user = user_rules.next_version(restored if is_replaced else stored, call.now)
    await change_revocations.restore(services, call, stored, user, use, is_replaced=is_replaced)
    return user
