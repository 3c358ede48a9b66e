"""Login ids that were verified before anybody had them: the completed id is the proof, once, for who is created."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Document
from identity.domain.users import users as rules
from identity.errors import FieldError
from identity.ids import Secret, TenantId
from identity.instants import Instant
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse

_KIND: Final = "verifiedLoginId"
_MOST: Final = 3
"""As many as there are types of login id."""


@dataclasses.dataclass(frozen=True, slots=True)
class AppliedVerifications:
    """A new user with what is proved of it, what that uses up, and what is wrong with the proofs."""

    user: Document
    uses: Sequence[OneTimeTokenUse]
    errors: Sequence[FieldError]


async def store(services: Services, tenant: Document, verification_id: str, login_id_type: str, login_id: str) -> None:
    """Let an id that was completed be a proof, for as long as ids of emails live. Keeping it twice changes nothing."""
    ttl_seconds = int(tenant["externalIdentifierConfiguration"]["emailVerificationIdTimeToLiveInSeconds"])
    about, tenant_id = {"type": login_id_type, "value": login_id}, TenantId(tenant["id"])
    await services.one_time_tokens.issue(
        tenant_id, _KIND, f"{login_id_type} {login_id}", about, ttl_seconds, make=lambda: Secret(verification_id)
    )


async def apply_verifications(
    services: Services, tenant_id: TenantId, user: Document, verification_ids: Sequence[str], now: Instant
) -> AppliedVerifications:
    """The new user, verified as far as these ids prove that its login ids are somebody's who has them."""
    uses, errors = [], []
    for index, verification_id in enumerate(verification_ids):
        ticket = None if index >= _MOST else await services.one_time_tokens.find(tenant_id, _KIND, verification_id)
        about = {} if ticket is None else ticket.document
        if about and rules.login_ids(user).get(about["type"]) == about["value"]:
            is_email = about["type"] == "email"
            user = (rules.with_verified_reason if is_email else rules.with_verified_phone)(user, "Completed", now)
            uses.append(services.one_time_tokens.use(tenant_id, _KIND, verification_id))
        else:
            path = f"verificationIds[{index}]"
            errors.append(FieldError.of("invalid", path, f"The [{path}] proves nothing of this user."))
    return AppliedVerifications(user, uses, errors)
