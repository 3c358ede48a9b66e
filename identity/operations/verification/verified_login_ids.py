"""Login ids that were verified before a user has them: the completed id is consumed when the user is created."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from identity.call import Document
from identity.domain.objects.external_identifiers import IdSettings
from identity.domain.users import users as user_rules
from identity.errors import FieldError
from identity.ids import Secret, TenantId
from identity.instants import Instant
from identity.services import Services
from identity.store.one_time_tokens import OneTimeTokenUse

_KIND: Final = "verifiedLoginId"
_MAXIMUM: Final = 3
"""One per type of login id."""


@dataclasses.dataclass(frozen=True, slots=True)
class AppliedVerifications:
    """A new user with its verified login ids, the uses to consume with its creation, and the errors of invalid ids."""

    user: Document
    uses: Sequence[OneTimeTokenUse]
    errors: Sequence[FieldError]


async def store(services: Services, tenant: Document, verification_id: str, login_id_type: str, login_id: str) -> None:
    """Store a completed id as evidence, for the lifetime of email verifications. Repeating it changes nothing."""
    ttl_seconds = IdSettings.of(tenant, "emailVerification").ttl_seconds
    login_id_details, tenant_id = {"type": login_id_type, "value": login_id}, TenantId(tenant["id"])
    await services.tokens.one_time_tokens.issue(
        tenant_id,
        _KIND,
        f"{login_id_type} {login_id}",
        login_id_details,
        ttl_seconds,
        make=lambda: Secret(verification_id),
    )


async def apply_verifications(
    services: Services, tenant_id: TenantId, user: Document, verification_ids: Sequence[str], now: Instant
) -> AppliedVerifications:
    """Return the new user, with the login ids verified that these completed ids prove."""
    uses, errors = [], []
    for index, verification_id in enumerate(verification_ids):
        token = (
            None if index >= _MAXIMUM else await services.tokens.one_time_tokens.find(tenant_id, _KIND, verification_id)
        )
        details = {} if token is None else token.document
        if details and user_rules.login_ids(user).get(details["type"]) == details["value"]:
            is_email = details["type"] == "email"
            user = (user_rules.with_verified_reason if is_email else user_rules.with_verified_phone)(
                user, "Completed", now
            )
            uses.append(services.tokens.one_time_tokens.use(tenant_id, _KIND, verification_id))
        else:
            path = f"verificationIds[{index}]"
            errors.append(FieldError.invalid(path, "verifies no login id of this user"))
    return AppliedVerifications(user, uses, errors)
