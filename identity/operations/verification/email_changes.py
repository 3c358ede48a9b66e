"""Pending changes of a user's own email address: applied when the new address is verified, revoked from the old one.

A pending change is an open email verification with an owner of its own, so that the mails, links and codes of
verifications complete it. Starting another change replaces it. The revocation token that is sent to the old address
cancels a pending change and reverts a completed one.
"""

from __future__ import annotations

import functools
from typing import Final

from identity.call import Call, Document
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import users as user_rules
from identity.errors import Duplicate, NotFound
from identity.ids import Secret, TenantId
from identity.operations.groups import administrators
from identity.operations.messaging import user_events, user_notifications
from identity.operations.objects import crud
from identity.operations.verification import change_revocations, verification_codes, verified_users
from identity.operations.verification.change_revocations import owner_of
from identity.operations.verification.verification_codes import OpenVerification, VerificationKind
from identity.operations.verification.verified_users import UserVerification
from identity.services import Services
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse

KIND: Final[VerificationKind] = "emailVerification"
REVOCATION: Final = "email-change-revocation"
_MARK: Final = "isForAdministrator"


def is_change(token: OneTimeToken) -> bool:
    """Whether a verification completes a pending change."""
    return "previousEmail" in token.document


async def start(services: Services, tenant: Document, user: Document, email: str) -> OpenVerification:
    """Store a pending change of address, replacing any earlier one. Raises Unavailable."""
    details = {
        "userId": user["id"],
        "email": email,
        "previousEmail": user.get("email", ""),
        "revocations": _revocations(user),
        _MARK: await administrators.is_administrator(services, user),
    }
    strategy = EmailVerification.of(tenant).verification_strategy
    return await verification_codes.start(services, tenant, KIND, owner_of(user["id"]), details, strategy)


async def find_open(services: Services, user: Document) -> tuple[OpenVerification, str] | None:
    """Return the verification of the user's pending change with the new address, or None."""
    tenant_id = TenantId(user["tenantId"])
    started = await verification_codes.find_open(services, tenant_id, KIND, owner_of(user["id"]))
    token = None if started is None else await services.tokens.one_time_tokens.find(tenant_id, KIND, started.id)
    if started is None or token is None or token.document["previousEmail"] != user.get("email", ""):
        return None
    return started, token.document["email"]


async def complete(services: Services, call: Call, token: OneTimeToken, use: OneTimeTokenUse) -> Document:
    """Apply a pending change whose new address was verified; return the user.

    Raises NotFound if the user's address changed or another user took the new one in the meantime, and
    WebhookTransactionFailed, with the verification still open.
    """
    before = await services.directory.users.get(token.tenant_id, token.document["userId"])
    await _require_valid_for(services, token, before)
    email = token.document["email"]
    apply = functools.partial(_apply, call, token)
    try:
        user, _is_new = await verified_users.commit(services, call, before, apply, use)
    except Duplicate as duplicate:
        await _report_duplicate(services, call, {**before, "email": email})
        raise NotFound(log_detail="another user has the new address") from duplicate
    await _revoke_and_notify(services, call, before, user)
    return user


def _apply(call: Call, token: OneTimeToken, stored: Document) -> UserVerification:
    """Return the stored user with the new address. Raises NotFound if the pending change no longer applies."""
    if stored.get("email", "") != token.document["previousEmail"]:
        raise NotFound(log_detail="the address was changed meanwhile")
    if _revocations(stored) != token.document["revocations"]:
        raise NotFound(log_detail="the change was revoked meanwhile")
    changed = user_rules.next_version(_with_verified_email(stored, token.document["email"], call), call.now)
    before_commit = [*user_events.before_update(stored, changed), *user_events.email_verified(changed)]
    return UserVerification(changed, before_commit, user_events.after_update(stored, changed, new_password=False))


async def _require_valid_for(services: Services, token: OneTimeToken, user: Document) -> None:
    """Raise NotFound if the user became an administrator after the token was issued: it may be in other hands."""
    if not token.document.get(_MARK) and await administrators.is_administrator(services, user):
        raise NotFound(log_detail="the user became an administrator after the token was issued")


async def issue_revocation(services: Services, user: Document) -> Secret:
    """Issue the token with which the user's present address can revoke a change of it."""
    verification = {name: user[name] for name in ("verified", "verifiedInstant") if name in user}
    details = {
        "email": user["email"],
        "verification": verification,
        "verifiedReason": user["private"].get("verifiedReason"),
        _MARK: await administrators.is_administrator(services, user),
    }
    tenant_id = TenantId(user["tenantId"])
    token = await services.tokens.one_time_tokens.issue(
        tenant_id, REVOCATION, user["id"], details, change_revocations.SECONDS
    )
    assert token is not None
    return token


async def revoke(services: Services, call: Call, tenant_id: TenantId, token: str) -> None:
    """Cancel the pending change, restore the previous address if it was replaced, and end every session.

    Of concurrent callers with the same token one succeeds. Raises NotFound for an unknown or used token and for an
    address that another user has taken, and WebhookTransactionFailed.
    """
    revocation = await services.tokens.one_time_tokens.find(tenant_id, REVOCATION, token)
    if revocation is None:
        raise NotFound(log_detail="no such revocation token")
    use = services.tokens.one_time_tokens.use(revocation.tenant_id, REVOCATION, token)
    call = call.within(revocation.tenant_id)
    before = await services.directory.users.get(revocation.tenant_id, revocation.owner)
    await _require_valid_for(services, revocation, before)
    await services.tokens.one_time_tokens.revoke_all(revocation.tenant_id, KIND, owner_of(revocation.owner))
    try:
        user = await _restore(services, call, revocation, use)
    except Duplicate as duplicate:
        raise NotFound(log_detail="another user has the previous address") from duplicate
    await services.tokens.one_time_tokens.revoke_all(revocation.tenant_id, REVOCATION, revocation.owner)
    await _revoke_and_notify(services, call, before, user)


@crud.retry_on_conflict
async def _restore(services: Services, call: Call, revocation: OneTimeToken, use: OneTimeTokenUse) -> Document:
    """Restore the previous address if it was replaced, and log the user out everywhere. Raises Conflict."""
    stored = await services.directory.users.get(revocation.tenant_id, revocation.owner)
    is_replaced = stored.get("email") != revocation.document["email"]
    restored = _restored(stored, revocation.document) if is_replaced else stored
    # The count lets a completion that has consumed its verification already fail.
    private = {**restored["private"], "emailChangeRevocations": _revocations(stored) + 1}
    user = user_rules.next_version({**restored, "private": private}, call.now)
    await change_revocations.restore(services, call, stored, user, use, is_replaced=is_replaced)
    return user


def _revocations(user: Document) -> int:
    """Return the number of changes of address that were revoked."""
    return int(user["private"].get("emailChangeRevocations", 0))


def _with_verified_email(stored: Document, email: str, call: Call) -> Document:
    """Return the user with a verified address that inherits nothing from the previous one."""
    user = {name: value for name, value in stored.items() if name != "verifiedInstant"}
    return user_rules.with_verified_reason({**user, "email": email}, "Completed", call.now)


def _restored(stored: Document, details: Document) -> Document:
    user = {name: value for name, value in stored.items() if name not in {"verified", "verifiedInstant"}}
    private = {name: value for name, value in stored["private"].items() if name != "verifiedReason"}
    if details["verifiedReason"] is not None:
        private["verifiedReason"] = details["verifiedReason"]
    return {**user, **details["verification"], "email": details["email"], "private": private}


async def _revoke_and_notify(services: Services, call: Call, before: Document, user: Document) -> None:
    """After the commit: revoke what was sent to the replaced address, and send the configured notifications."""
    await change_revocations.revoke_codes(services, user, KIND)
    tenant_id = TenantId(user["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    await user_notifications.notify_update(services, call, tenant, before, user, new_password=False)


async def _report_duplicate(services: Services, call: Call, user: Document) -> None:
    tenant_id = TenantId(user["tenantId"])
    others = await services.directory.users.find_duplicates(tenant_id, user)
    if others:
        await user_notifications.notify_duplicate(
            services, call, await services.configuration.tenants.get(None, tenant_id), user, others, "update"
        )
