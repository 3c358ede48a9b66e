"""Change password ids: the secrets in mails and responses that authorize setting a new password without the old one.

An id belongs to a user and becomes invalid when the password changes in any way. A mailed id is valid only while the
user has the address it was mailed to, so that access to a former mailbox does not give access to the account.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document
from identity.domain.configuration import administrator_realm as realm_rules
from identity.domain.objects.external_identifiers import IdSettings
from identity.domain.users import users as user_rules
from identity.errors import Invalid, NotFound, Unavailable
from identity.ids import Secret, TenantId
from identity.operations.groups import administrator_realm
from identity.services import Services

KIND: Final = "change-password"


@dataclasses.dataclass(frozen=True, slots=True)
class ChangePasswordDetails:
    """The purpose of an id.

    `reason`: of a change that a login requires, which the minimum password age does not prevent. `is_setup`: for the
    first password of a user. `mailed_to`: the address it is mailed to. `is_trusted`: the user completed a second
    factor. `state` is the caller's own, and returned. `is_for_administrator`: the user was an administrator when the id
    was issued; no other id sets the password of one.
    """

    reason: str | None = None
    is_setup: bool = False
    mailed_to: str | None = None
    is_trusted: bool = False
    state: Document | None = None
    application_id: str | None = None
    is_for_administrator: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ValidChangePasswordId:
    """A valid id with its tenant and its user, as stored now."""

    tenant: Document
    user: Document
    details: ChangePasswordDetails


async def issue(
    services: Services,
    tenant: Document,
    user: Document,
    details: ChangePasswordDetails,
    *,
    requested_id: str | None = None,
) -> Secret:
    """Issue an id, or the `requested_id`; earlier ids remain valid.

    Raises Invalid if the requested id is in use, and Unavailable if the tenant's generator yields no unused one.
    """
    tenant = await administrator_realm.of_user(services, tenant, user)
    details = dataclasses.replace(details, is_for_administrator=realm_rules.is_realm(tenant))
    settings = IdSettings.of(tenant, "setupPassword" if details.is_setup else "changePassword")
    secret = await services.tokens.one_time_tokens.issue(
        TenantId(tenant["id"]),
        KIND,
        str(user["id"]),
        dataclasses.asdict(details),
        settings.ttl_seconds,
        make=lambda: requested_id or settings.new_id(),
    )
    if secret is not None:
        return secret
    if requested_id is not None:
        raise Invalid.field("duplicate", "changePasswordId", "The [changePasswordId] is in use.")
    raise Unavailable("Every change password id of the configured form is in use. Try again.")


async def get_valid(services: Services, tenant_id: TenantId | None, change_id: str) -> ValidChangePasswordId:
    """Return a valid id, of the tenant if one is given. Raises NotFound."""
    token = await services.tokens.one_time_tokens.find(tenant_id, KIND, change_id)
    user = None if token is None else await services.directory.users.find(token.tenant_id, token.owner)
    if token is None or user is None or not user["active"]:
        raise NotFound(log_detail="no such change password id")
    details = ChangePasswordDetails(**token.document)
    if details.mailed_to not in {None, user_rules.email_address(user)}:
        raise NotFound(log_detail="the user has another address than the change password id was mailed to")
    tenant = await services.configuration.tenants.get(None, token.tenant_id)
    tenant = await administrator_realm.of_user(services, tenant, user)
    if realm_rules.is_realm(tenant) and not details.is_for_administrator:
        raise NotFound(log_detail="the user became an administrator after the change password id was issued")
    return ValidChangePasswordId(tenant, user, details)


async def revoke_all(services: Services, user: Document) -> None:
    """Revoke every id of a user."""
    await services.tokens.one_time_tokens.revoke_all(TenantId(user["tenantId"]), KIND, str(user["id"]))
