"""Logins of administrators: which methods lead to the console, and which sessions may be used there (decision 73)."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.domain.configuration import administrator_realm as rules
from identity.domain.configuration import administrator_roles
from identity.domain.providers import identity_providers
from identity.errors import LoginRequired
from identity.operations.authorization import passwordless
from identity.operations.clients.clients import Client
from identity.operations.groups import administrators
from identity.operations.login_transactions.authorization_steps import NewLogin
from identity.operations.webauthn import authentication
from identity.services import Services
from identity.store.browser_sessions import SsoSession

_METHODS: Final = frozenset({
    "PASSWORD",
    authentication.AUTHENTICATION_TYPE,
    passwordless.AUTHENTICATION_TYPE,
    *identity_providers.AUTHENTICATION_TYPES.values(),
})  # fmt: skip
"""The methods of the realm. Only providers and passwordless logins that are enabled for the console lead to it, which
requires all permissions; connectors, tokens, self-service registrations and pings never do.
"""


def realm_of(client: Client, login: NewLogin) -> str:
    """Return the realm of the session of a new login to a client; empty for none."""
    is_realm = rules.is_application(client.application) and login.authentication_type in _METHODS
    return rules.NAME if is_realm else ""


def may_use(client: Client, session: SsoSession) -> bool:
    """Return whether a session may be used for a login to a client: for the console only one of its realm."""
    return session.realm == rules.NAME or not rules.is_application(client.application)


def require_usable(client: Client, session: SsoSession) -> None:
    """Raise LoginRequired for a session that may not be used for a login to the client."""
    if not may_use(client, session):
        raise login_required()


def login_required() -> LoginRequired:
    """Return the error of a login to the console by a session that may not be used there."""
    return LoginRequired("authentication_required", "The console requires a login of its own.")


async def may_sign_in(services: Services, session: SsoSession, user: Document) -> bool:
    """Return whether a session may sign in its user; that of an administrator is younger than the appointment.

    The methods of earlier logins were those of the tenant.
    """
    if not await administrators.is_administrator(services, user):
        return True
    is_older = administrator_roles.is_appointed_since(user, session.start_instant or session.auth_instant)
    return session.authentication_type in _METHODS and not is_older
