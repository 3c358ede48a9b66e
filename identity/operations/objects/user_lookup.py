"""Find a user by id or login id, and the tenant of a user."""

from __future__ import annotations

from collections.abc import Iterable

from identity.call import Call, Document
from identity.domain.users import users as user_rules
from identity.errors import NotFound
from identity.ids import TenantId
from identity.operations.objects import crud
from identity.services import Services


async def retrieve(services: Services, call: Call, user_id: str) -> Document:
    """Return the user. Raises NotFound."""
    return await services.directory.users.get(await get_tenant_id(services, call, user_id), user_id)


async def retrieve_by_login_id(services: Services, call: Call, login_id: str, types: Iterable[str]) -> Document:
    """Return the user with this login id. Raises NotFound, and Invalid for a call without a tenant."""
    return _existing(await services.directory.users.find_by_login_id(crud.require_tenant(call), login_id, types))


async def find_typed(services: Services, tenant: Document, login_id: str) -> Document | None:
    """Return the user of a login id that was typed into a page: an email address, a username or a phone number.

    A phone number has to be verified if the tenant verifies them.
    """
    types = user_rules.TYPED_LOGIN_ID_TYPES
    user = await services.directory.users.find_by_login_id(TenantId(tenant["id"]), login_id, types)
    if user is None or not must_verify_phones(tenant) or user_rules.has_verified_phone(user):
        return user
    return None if user_rules.may_log_in_as(user, login_id, user_rules.LOGIN_ID_TYPES) is None else user


def must_verify_phones(tenant: Document) -> bool:
    """Return whether the tenant verifies phone numbers; earlier releases stored its settings as received."""
    settings = tenant.get("phoneConfiguration")
    return isinstance(settings, dict) and settings.get("verifyPhoneNumber") is True


async def retrieve_by_email(services: Services, call: Call, email: str) -> Document:
    """Return the user with this email. Raises NotFound, and Invalid for a call without a tenant."""
    return _existing(await services.directory.users.find_by_email(crud.require_tenant(call), email))


async def retrieve_by_username(services: Services, call: Call, username: str) -> Document:
    """Return the user with this unique username. Raises NotFound, and Invalid for a call without a tenant."""
    return _existing(await services.directory.users.find_by_username(crud.require_tenant(call), username))


async def get_tenant_id(services: Services, call: Call, user_id: str) -> TenantId:
    """Return the tenant of a user: that of the call, or else the user's own. Raises NotFound."""
    if call.tenant_id is not None:
        return call.tenant_id
    found = await services.directory.users.find_cached_across_tenants(user_id)
    if found is None:
        raise NotFound(log_detail=f"users {user_id}")
    return TenantId(found["tenantId"])


def _existing(user: Document | None) -> Document:
    if user is None:
        raise NotFound
    return user
