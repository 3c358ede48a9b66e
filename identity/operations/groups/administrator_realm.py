"""The settings by which administrators sign in and recover, in place of those of their tenant (decision 73)."""

from __future__ import annotations

import functools
from collections.abc import Collection

from identity.call import Document
from identity.domain.configuration import administrator_realm as rules
from identity.operations.groups import administrators
from identity.schemas import Shape
from identity.services import Services

_SCHEMA = "api/tenant.json"

NO_MAIL_SERVER = (
    "A mail to an administrator was not sent: console_email.host is not set. The program resets the password:"
    " identity admin reset-password"
)


def of_tenant(services: Services, tenant: Document) -> Document:
    """Return a tenant with the settings of the realm."""
    if rules.is_realm(tenant):
        return tenant
    defaults, settings = _defaults(services.schemas[_SCHEMA])
    config = services.config
    return rules.of_tenant(tenant, defaults, settings, config.console_email, config.console.session_seconds)


@functools.lru_cache(maxsize=1)
def _defaults(schema: Shape) -> tuple[Document, Collection[str]]:
    """Return the defaults of a tenant, which must not be modified, and the names of its members."""
    defaults = schema.read({"tenant": {"name": "the realm"}})["tenant"]
    return defaults, schema.schema["properties"]["tenant"]["properties"].keys()


def of_application(services: Services, tenant: Document, application: Document | None) -> Document:
    """Return the settings for logins to an application: those of the realm for the console."""
    return of_tenant(services, tenant) if rules.is_application(application) else tenant


async def of_user(services: Services, tenant: Document, user: Document) -> Document:
    """Return the settings for the recovery of a user and for mails to it: those of the realm for administrators."""
    return of_tenant(services, tenant) if await administrators.is_administrator(services, user) else tenant


async def of_login(
    services: Services, tenant: Document, user: Document | None, application: Document | None
) -> Document:
    """Return the settings for a password login. No connector authenticates an administrator, to any application."""
    if rules.is_application(application):
        return of_tenant(services, tenant)
    if user is None or not await administrators.is_administrator(services, user):
        return tenant
    return {**tenant, "connectorPolicies": of_tenant(services, tenant)["connectorPolicies"]}
