"""Change password ids: the secrets of the mails and answers that let somebody set a new password without the old one.

An id belongs to a user, and stops counting when the password changes in whatever way. One that was mailed counts only
as long as the user has the address that it went to: who has read the mailbox that a user left cannot come back by it.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document
from identity.domain.objects import generated_ids
from identity.domain.users import users as rules
from identity.errors import Invalid, NotFound, Unavailable
from identity.ids import Secret, TenantId
from identity.services import Services

KIND: Final = "change-password"


@dataclasses.dataclass(frozen=True, slots=True)
class ChangePasswordDetails:
    """What an id is for.

    `reason`: of a change that a login asks for, and that nobody calls too early. `is_setup`: for the first password of
    a user. `mailed_to`: the address that it goes to. `is_trusted`: a second factor was there already. `state` is the
    caller's own, and comes back.
    """

    reason: str | None = None
    is_setup: bool = False
    mailed_to: str | None = None
    is_trusted: bool = False
    state: Document | None = None
    application_id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ValidChangePasswordId:
    """An id that counts: the user's document is as it is stored now."""

    tenant: Document
    user: Document
    about: ChangePasswordDetails


async def issue(
    services: Services, tenant: Document, user: Document, about: ChangePasswordDetails, *, wanted: str | None = None
) -> Secret:
    """Make an id, or take the one that is `wanted`; those of before go on counting.

    Raises Invalid when the wanted one is taken, Unavailable when the tenant's generator makes none that is free.
    """
    settings, prefix = (
        tenant["externalIdentifierConfiguration"],
        "setupPassword" if about.is_setup else "changePassword",
    )
    secret = await services.one_time_tokens.issue(
        TenantId(tenant["id"]),
        KIND,
        str(user["id"]),
        dataclasses.asdict(about),
        int(settings[f"{prefix}IdTimeToLiveInSeconds"]),
        make=lambda: wanted or generated_ids.new(settings[f"{prefix}IdGenerator"]),
    )
    if secret is not None:
        return secret
    if wanted is not None:
        raise Invalid.field("duplicate", "changePasswordId", "The [changePasswordId] is in use.")
    raise Unavailable("Every change password id of the tenant's kind is taken. Try again.")


async def get_valid(services: Services, tenant_id: TenantId | None, change_id: str) -> ValidChangePasswordId:
    """What an id stands for, in the tenant if one is named. Raises NotFound for one that does not count."""
    ticket = await services.one_time_tokens.find(tenant_id, KIND, change_id)
    user = None if ticket is None else await services.users.find(ticket.tenant_id, ticket.owner)
    if ticket is None or user is None or not user["active"]:
        raise NotFound(log_detail="no such change password id")
    about = ChangePasswordDetails(**ticket.document)
    if about.mailed_to not in {None, rules.email_address(user)}:
        raise NotFound(log_detail="the user has another address than the change password id was mailed to")
    return ValidChangePasswordId(await services.tenants.get(None, ticket.tenant_id), user, about)


async def revoke_all(services: Services, user: Document) -> None:
    """Let every id of a user count no more: the password was changed."""
    await services.one_time_tokens.revoke_all(TenantId(user["tenantId"]), KIND, str(user["id"]))
