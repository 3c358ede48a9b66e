"""The realm of the administrators' console: the settings by which administrators sign in and recover.

The console's application belongs to the default tenant, but the settings of that tenant do not decide how its users
sign in: whoever may change a tenant could otherwise become an administrator. In the realm a tenant has only the members
of `_KEPT`; all others have their defaults, and the mail server is that of the operator's configuration.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from identity.call import Document
from identity.config.sections import ConsoleEmail
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.messaging import mail_messages

NAME: Final = "console"
"""The realm of sessions that a login to the console started."""

_MEMBER: Final = "realm"
_KEPT: Final = frozenset({
    "accessControlConfiguration", "configured", "data", "eventConfiguration", "failedAuthenticationConfiguration",
    "familyConfiguration", "formConfiguration", "id", "insertInstant", "issuer", "jwtConfiguration",
    "lastUpdateInstant", "maximumPasswordAge", "minimumPasswordAge", "name", "oauthConfiguration",
    "passwordEncryptionConfiguration", "passwordValidationRules", "rateLimitConfiguration", "scimServerConfiguration",
    "state", "userDeletePolicy", "usernameConfiguration", "webAuthnConfiguration",
})  # fmt: skip
"""The members of a tenant that yield no login, such as password rules and identifiers.

A passkey proves possession of the administrator's own authenticator, whatever its settings.
"""


def is_application(application: Document | None) -> bool:
    """Return whether an application is that of the console."""
    return application is not None and application["id"] == ADMINISTRATOR_APPLICATION_ID


def is_realm(tenant: Document) -> bool:
    """Return whether these are the settings of the realm."""
    return tenant.get(_MEMBER) == NAME


def of_tenant(
    tenant: Document, defaults: Document, settings: Collection[str], email: ConsoleEmail, session_seconds: int
) -> Document:
    """Return a tenant with the settings of the realm; `settings` are the names of the members that a tenant may have.

    The SSO sessions of the realm last as long as those of the console.
    """
    kept = {name: value for name, value in tenant.items() if name in _KEPT or name not in settings}
    replaced = {name: value for name, value in defaults.items() if name not in _KEPT}
    sends = email.host is not None
    factors = replaced["multiFactorConfiguration"]
    return {
        **replaced,
        **kept,
        "emailConfiguration": {**replaced["emailConfiguration"], **mail_server(email)},
        "httpSessionMaxInactiveInterval": session_seconds,
        "multiFactorConfiguration": {**factors, "email": {**factors["email"], "enabled": sends}},
        _MEMBER: NAME,
    }


def sends_mail(tenant: Document) -> bool:
    """Return whether these are the settings of the realm, with a mail server."""
    return is_realm(tenant) and mail_messages.has_mail_server(tenant)


def mail_server(email: ConsoleEmail) -> dict[str, Any]:
    """Return the members of an emailConfiguration for the operator's mail server; none without one."""
    if email.host is None:
        return {}
    server = {
        "host": email.host,
        "port": email.port,
        "security": email.security,
        "username": email.username,
        "password": email.password,
        "defaultFromEmail": email.from_email,
        "defaultFromName": email.from_name,
    }
    return {name: value for name, value in server.items() if value is not None}
