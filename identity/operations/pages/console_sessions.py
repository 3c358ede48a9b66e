"""Sign-in to the administrators' console: an authorization code flow of the service with itself, with PKCE.

The session refers to the user only. Each request reads the user's roles again, so that a revoked registration or role
and a deactivated user take effect at the next request.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from identity.call import AdministratorCaller, Call, Document
from identity.config.sections import Console as Settings
from identity.domain.clients import redirect_uris
from identity.domain.configuration import administrator_roles
from identity.domain.configuration.administrator_roles import Authority
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.login.login_outcomes import is_password_outdated
from identity.errors import InvalidRequest
from identity.ids import UserId, new_secret, same_secret
from identity.instants import Instant, later
from identity.operations.authorization import first_party_redirects
from identity.operations.clients import client_authentication, clients
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.grants import authorization_code
from identity.operations.groups import administrator_realm, group_roles
from identity.operations.pages import code_flow
from identity.operations.pages.code_flow import CodeFlow, LoginRedirect
from identity.operations.sessions import sso_sessions
from identity.services import Services
from identity.store.browser_sessions import ConsoleSession

HOME: Final = "/admin"
_TARGET: Final = re.compile(r"/admin(/[A-Za-z0-9_.~/-]*)?(\?[A-Za-z0-9_.~/?&=%+:*,@!$'()-]*)?")
_TARGET_CHARACTERS: Final = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class SignedIn:
    """A new session: its secret, its lifetime, and the path of the console to return to."""

    secret: str
    ttl_seconds: int
    target: str


@dataclasses.dataclass(frozen=True, slots=True)
class Administrator:
    """The user of a session, as stored now; `authority` is None for a user without a role."""

    user: Document
    session: ConsoleSession
    authority: Authority | None
    settings: Settings

    @property
    def caller(self) -> AdministratorCaller:
        """The caller of API calls. Raises LookupError for a user without a role."""
        if self.authority is None:
            raise LookupError("the user has no role of the administrators' application")
        return administrator_roles.caller_of(self.user, self.authority)

    def has_recent_login(self, now: Instant) -> bool:
        """Whether the user entered credentials recently enough to delete objects and to reveal secrets."""
        return later(self.session.auth_instant, seconds=self.settings.recent_login_seconds) > now


async def begin(services: Services, call: Call, browser_secret: str, target: str, *, is_renewal: bool) -> LoginRedirect:
    """Start a sign-in that returns to the path `target`; a renewal asks for the credentials again."""
    client = await _client(services)
    flow, nonce = CodeFlow(client, browser_secret), new_secret()
    parameters = {
        **flow.parameters(first_party_redirects.console_uri(call), "openid"),
        "nonce": nonce,
        **({"prompt": "login"} if is_renewal else {}),
    }
    location = redirect_uris.with_query(call.origin.base_url + code_flow.AUTHORIZE, parameters)
    pending = {"nonce": nonce, "target": safe_target(target)}
    return await flow.store(services, call, services.sessions.console_logins, location, pending)


async def complete(services: Services, call: Call, given: Mapping[str, str], browser_secret: str) -> SignedIn:
    """Redeem the code of an authorization response and start a session.

    Raises InvalidRequest for another browser and for an expired sign-in, and the errors of the token endpoint.
    """
    _, pending = await code_flow.consume(services.sessions.console_logins, given, browser_secret)
    if "error" in given:
        raise InvalidRequest("unknown", given.get("error_description") or "The sign-in was not completed.")
    client = first_party_redirects.for_console(call, await _client(services))
    form = code_flow.token_request(pending, first_party_redirects.console_uri(call), given.get("code", ""))
    # The code itself, not a token: keys and lambdas of the tenant decide about those.
    code, user, _ = await authorization_code.redeem(services, call, client_authentication.internal(client), form)
    if not same_secret(code.nonce or "", pending["nonce"]):
        raise InvalidRequest("unknown", "The response to the sign-in is not valid.")
    session = ConsoleSession(UserId(user["id"]), call.now, call.now, code.auth_instant, code.sso_session_id or "")
    secret, settings = new_secret(), services.config.console
    await services.sessions.console_sessions.create(client.tenant_id, secret, session, settings.session_seconds)
    return SignedIn(secret, settings.session_seconds, pending["target"])


async def find(services: Services, now: Instant, secret: str, sso_secret: str) -> Administrator | None:
    """Return the administrator of a session and record its use; None if a sign-in is required.

    The session ends with the SSO session that it was created from, and extends that session's idle timeout.
    """
    tenant_id, settings = services.runtime.default_tenant_id, services.config.console
    session = await services.sessions.console_sessions.find(tenant_id, secret) if secret else None
    if session is None:
        return None
    user = await services.directory.users.find(tenant_id, session.user_id)
    has_ended = _is_expired(session, settings, now) or not await _is_signed_in(services, session, sso_secret)
    if has_ended or user is None or not _is_valid(user, session, now):
        await services.sessions.console_sessions.end(tenant_id, secret)
        return None
    await services.sessions.console_sessions.touch(tenant_id, secret, now)
    authority = administrator_roles.of_user(await group_roles.with_group_roles(services, user))
    return Administrator(user, session, authority, settings)


async def end(services: Services, secret: str) -> None:
    """End a session of the console."""
    await services.sessions.console_sessions.end(services.runtime.default_tenant_id, secret)


def safe_target(path: str) -> str:
    """Return a path of the console to return to; its home for any other URL (open redirects)."""
    is_safe = len(path) <= _TARGET_CHARACTERS and "//" not in path and _TARGET.fullmatch(path) is not None
    return path if is_safe else HOME


def _is_expired(session: ConsoleSession, settings: Settings, now: Instant) -> bool:
    is_idle = later(session.used, seconds=settings.idle_seconds) <= now
    return is_idle or later(session.created, seconds=settings.session_seconds) <= now


async def _is_signed_in(services: Services, session: ConsoleSession, sso_secret: str) -> bool:
    """Whether the SSO session of the login still exists.

    It is extended if the browser has it; a login at another tenant may have replaced its cookie.
    """
    if not session.sso_session_id:
        return True
    tenant = await services.configuration.tenants.get(None, services.runtime.default_tenant_id)
    tenant = administrator_realm.of_tenant(services, tenant)
    found = await sso_sessions.find(services, tenant, sso_secret)
    if found is not None and found.session_id == session.sso_session_id:
        return True
    tenant_id = services.runtime.default_tenant_id
    return await services.sessions.sso_sessions.find_by_id(tenant_id, session.sso_session_id) is not None


def _is_valid(user: Document, session: ConsoleSession, now: Instant) -> bool:
    """Whether the user is active and has not changed the password since."""
    if not user["active"] or (user.get("expiry") or now + 1) <= now:
        return False
    return not is_password_outdated(user, "PASSWORD", session.created)


async def _client(services: Services) -> Client:
    hints = TenantHints(parameter=services.runtime.default_tenant_id)
    return await clients.get_client(services, hints, ADMINISTRATOR_APPLICATION_ID)
