"""Ids, and the codes beside them, by which somebody shows that an address or a registration is theirs.

Each kind lives and is made as the tenant's `externalIdentifierConfiguration` has it, and an owner has one of each kind
at the most: a new one takes the place of the old. Who only asks for another mail is sent the same once more. Where a
form asks for a code (FormField) the id alone is worth nothing, and after five wrong codes it is gone.
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

from identity.call import Document
from identity.domain.objects import generated_ids
from identity.errors import Invalid, NotFound, Unavailable
from identity.ids import Secret, TenantId, fingerprint, same_secret
from identity.operations.limits import code_attempt_limits
from identity.services import Services
from identity.store.one_time_tokens import OneTimeToken, OneTimeTokenUse

Kind = Literal["emailVerification", "phoneVerification", "registrationVerification"]

FORM_FIELD: Final = "FormField"
_TRIES: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class OpenVerification:
    """A verification that somebody can complete; there is a code only where a form asks for one."""

    id: Secret
    one_time_code: Secret | None = None

    def answer(self) -> Document:
        """What callers with an API key are told of it."""
        return {"verificationId": self.id} | ({} if self.one_time_code is None else {"oneTimeCode": self.one_time_code})

    def mail_values(self) -> Document:
        """What the template of its message reads."""
        return {"verificationId": self.id, "verificationOneTimeCode": self.one_time_code or ""}


async def start(
    services: Services, tenant: Document, kind: Kind, owner: str, document: Document, strategy: str
) -> OpenVerification:
    """Begin a verification in place of any other of this kind. Raises Unavailable when every id is taken."""
    settings, tenant_id = tenant["externalIdentifierConfiguration"], TenantId(tenant["id"])
    code = generated_ids.new(settings[f"{kind}OneTimeCodeGenerator"]) if strategy == FORM_FIELD else None
    ttl_seconds = int(settings[f"{kind}IdTimeToLiveInSeconds"])
    secret = await services.one_time_tokens.issue(
        tenant_id,
        kind,
        owner,
        {**document, "code": None if code is None else fingerprint(code)},
        ttl_seconds,
        make=lambda: generated_ids.new(settings[f"{kind}IdGenerator"]),
        replaces=True,
    )
    if secret is None:
        raise Unavailable("Every verification id of the tenant's kind is taken. Try again.")
    given = {"id": secret, "code": code}
    await services.open_verifications.save(tenant_id, kind, owner, given, ttl_seconds)
    return OpenVerification(secret, code)


async def reuse_or_start(
    services: Services, tenant: Document, kind: Kind, owner: str, document: Document, strategy: str
) -> OpenVerification:
    """The verification that is open, for as long as a new one would live; else a new one. Raises as `start` does.

    For what anybody may ask for: who knows no more than an address must not make the mail worthless that its owner has.
    """
    tenant_id = TenantId(tenant["id"])
    found = await find_open(services, tenant_id, kind, owner)
    if found is not None and (found.one_time_code is not None) is (strategy == FORM_FIELD):
        ticket = await services.one_time_tokens.find(tenant_id, kind, found.id)
        ttl_seconds = int(tenant["externalIdentifierConfiguration"][f"{kind}IdTimeToLiveInSeconds"])
        is_same = ticket is not None and document.items() <= ticket.document.items()
        if is_same and await services.one_time_tokens.extend(tenant_id, kind, found.id, ttl_seconds):
            given = {"id": found.id, "code": found.one_time_code}
            await services.open_verifications.save(tenant_id, kind, owner, given, ttl_seconds)
            return found
    return await start(services, tenant, kind, owner, document, strategy)


async def find_open(services: Services, tenant_id: TenantId, kind: Kind, owner: str) -> OpenVerification | None:
    """The verification that the owner may complete now."""
    given = await services.open_verifications.find(tenant_id, kind, owner)
    if given is None or await services.one_time_tokens.find(tenant_id, kind, given["id"]) is None:
        return None
    return OpenVerification(Secret(given["id"]), None if given["code"] is None else Secret(given["code"]))


async def verify_code(
    services: Services, tenant_id: TenantId | None, kind: Kind, verification_id: str, one_time_code: str | None
) -> OneTimeToken:
    """What an id stands for, shown with its code where it has one; nothing is used up but a try.

    Raises NotFound for an id that does not count, Invalid for a code that is missing or wrong, and Unavailable after
    too many wrong ones, whichever ids they were shown with.
    """
    ticket = await services.one_time_tokens.find(tenant_id, kind, verification_id)
    if ticket is None:
        raise NotFound(log_detail=f"no {kind}")
    if ticket.document["code"] is None:
        return ticket
    if one_time_code is None:
        raise Invalid.field("missing", "oneTimeCode", "You must specify the [oneTimeCode] property.")
    if await services.one_time_tokens.find_counting_attempt(tenant_id, kind, verification_id, _TRIES) is None:
        raise NotFound(log_detail=f"too many codes for a {kind}")
    await code_attempt_limits.count_attempt(services, ticket.tenant_id, kind, ticket.owner)
    # Generated codes have no lower-case letters, which people type all the same.
    tried = [fingerprint(form) for form in (one_time_code, one_time_code.upper())]
    if not any(same_secret(one, ticket.document["code"]) for one in tried):
        raise Invalid.field("invalid", "oneTimeCode", "The [oneTimeCode] is not the one that was sent.")
    await code_attempt_limits.give_back(services, ticket.tenant_id, kind, ticket.owner)
    return ticket


async def consume(use: OneTimeTokenUse | None) -> None:
    """Use up what proves a verification, where something does; of all callers one may go on. Raises NotFound."""
    if use is not None and not await use.consume():
        raise NotFound(log_detail="a verification was completed by somebody else")


async def revoke(services: Services, tenant_id: TenantId, kind: Kind, owner: str) -> None:
    """Let what the owner was given count no more: what it is for has happened."""
    await services.one_time_tokens.revoke_all(tenant_id, kind, owner)
    await services.open_verifications.delete(tenant_id, kind, owner)
