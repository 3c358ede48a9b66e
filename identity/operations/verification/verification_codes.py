"""Verification ids, with optional verification codes, which prove that an address or a registration belongs to a user.

Lifetime and form of each kind are set by the tenant's `externalIdentifierConfiguration`. An owner has at most one
verification of each kind: a new one replaces it, while a request to resend it sends the same one. With the FormField
strategy an id is useless without its code, and becomes invalid after five incorrect codes.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from identity.call import Document
from identity.domain.objects.external_identifiers import IdSettings
from identity.domain.objects.owner_settings import FORM_FIELD
from identity.errors import Invalid, NotFound, Unavailable
from identity.ids import Secret, TenantId, fingerprint, same_secret
from identity.operations.limits import code_attempt_limits
from identity.services import Services
from identity.store.mongo import Session
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse

VerificationKind = Literal["emailVerification", "phoneVerification", "registrationVerification"]


@dataclasses.dataclass(frozen=True, slots=True)
class OpenVerification:
    """An open verification; it has a code only with the FormField strategy."""

    id: Secret
    one_time_code: Secret | None = None

    def to_response(self) -> Document:
        """Return the members of responses to callers with an API key."""
        return {"verificationId": self.id} | ({} if self.one_time_code is None else {"oneTimeCode": self.one_time_code})

    def template_variables(self) -> Document:
        """Return the variables of the message template."""
        return {"verificationId": self.id, "verificationOneTimeCode": self.one_time_code or ""}


async def start(
    services: Services, tenant: Document, kind: VerificationKind, owner: str, document: Document, strategy: str
) -> OpenVerification:
    """Start a verification, replacing any other of this kind. Raises Unavailable when every id is in use."""
    settings, tenant_id = IdSettings.of(tenant, kind), TenantId(tenant["id"])
    code = settings.new_code() if strategy == FORM_FIELD else None
    secret = await services.tokens.one_time_tokens.issue(
        tenant_id,
        kind,
        owner,
        {**document, "code": None if code is None else fingerprint(code)},
        settings.ttl_seconds,
        make=settings.new_id,
        replaces=True,
    )
    if secret is None:
        raise Unavailable("Every verification id of the configured form is in use. Try again.")
    verification = {"id": secret, "code": code}
    await services.tokens.open_verifications.save(tenant_id, kind, owner, verification, settings.ttl_seconds)
    return OpenVerification(secret, code)


async def reuse_or_start(
    services: Services, tenant: Document, kind: VerificationKind, owner: str, document: Document, strategy: str
) -> OpenVerification:
    """Return the open verification with an extended lifetime, or start a new one. Raises as `start` does.

    For anonymous requests: knowing an address must not be enough to invalidate the mail that its owner has received.
    """
    tenant_id = TenantId(tenant["id"])
    found = await find_open(services, tenant_id, kind, owner)
    if found is not None and (found.one_time_code is not None) is (strategy == FORM_FIELD):
        token = await services.tokens.one_time_tokens.find(tenant_id, kind, found.id)
        ttl_seconds = IdSettings.of(tenant, kind).ttl_seconds
        is_same = token is not None and document.items() <= token.document.items()
        if is_same and await services.tokens.one_time_tokens.extend(tenant_id, kind, found.id, ttl_seconds):
            verification = {"id": found.id, "code": found.one_time_code}
            await services.tokens.open_verifications.save(tenant_id, kind, owner, verification, ttl_seconds)
            return found
    return await start(services, tenant, kind, owner, document, strategy)


async def find_open(
    services: Services, tenant_id: TenantId, kind: VerificationKind, owner: str
) -> OpenVerification | None:
    """Return the verification that the owner can complete now, or None."""
    verification = await services.tokens.open_verifications.find(tenant_id, kind, owner)
    if verification is None or await services.tokens.one_time_tokens.find(tenant_id, kind, verification["id"]) is None:
        return None
    return OpenVerification(
        Secret(verification["id"]), None if verification["code"] is None else Secret(verification["code"])
    )


async def verify_code(
    services: Services,
    tenant_id: TenantId | None,
    kind: VerificationKind,
    verification_id: str,
    one_time_code: str | None,
) -> OneTimeToken:
    """Verify an id and its code, if it has one; return its token. Only an attempt is consumed.

    Raises NotFound for an invalid id, Invalid for a missing or incorrect code, and Unavailable after too many incorrect
    codes, across ids.
    """
    token = await services.tokens.one_time_tokens.find(tenant_id, kind, verification_id)
    if token is None:
        raise NotFound(log_detail=f"no {kind}")
    if token.document["code"] is None:
        return token
    if one_time_code is None:
        raise Invalid.field("missing", "oneTimeCode", "You must specify the [oneTimeCode] property.")
    if (
        await services.tokens.one_time_tokens.find_counting_attempt(
            tenant_id, kind, verification_id, code_attempt_limits.ATTEMPTS
        )
        is None
    ):
        raise NotFound(log_detail=f"too many codes for a {kind}")
    # Generated codes have no lower-case letters, but users may enter them.
    candidates = [fingerprint(form) for form in (one_time_code, one_time_code.upper())]
    limits = code_attempt_limits.of_sent_codes(kind, token.owner)
    async with code_attempt_limits.attempt(services, token.tenant_id, limits):
        if not any(same_secret(one, token.document["code"]) for one in candidates):
            raise Invalid.field("invalid", "oneTimeCode", "The [oneTimeCode] is not the one that was sent.")
    return token


async def consume(use: OneTimeTokenUse | None, _session: Session | None = None) -> None:
    """Consume the use of a verification, if there is one; of concurrent callers one succeeds. Raises NotFound."""
    if use is not None and not await use.consume():
        raise NotFound(log_detail="the verification was completed meanwhile")


async def consume_and_replace(
    services: Services, stored: Document, user: Document, use: OneTimeTokenUse | None, session: Session | None
) -> None:
    """The write that consumes a verification and replaces its user. Raises NotFound and Conflict."""
    await consume(use)
    await services.directory.users.replace(TenantId(stored["tenantId"]), user, stored["lastUpdateInstant"], session)


async def revoke(services: Services, tenant_id: TenantId, kind: VerificationKind, owner: str) -> None:
    """Revoke the owner's verification of this kind, because it was completed or no longer applies."""
    await services.tokens.one_time_tokens.revoke_all(tenant_id, kind, owner)
    await services.tokens.open_verifications.delete(tenant_id, kind, owner)
