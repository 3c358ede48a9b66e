"""The login that may answer an authorization request: the user of the browser's session, if the request allows it.

`find` resolves the session when a request begins, `restore` when a page returns to a stored login transaction.
"""

from __future__ import annotations

from identity import request_facts
from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.login.login_outcomes import Authenticated, is_password_outdated
from identity.errors import LoginRequired
from identity.operations.authorization import administrator_logins
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.login import second_factor_decisions
from identity.operations.login_transactions.authorization_steps import Browser, CurrentLogin
from identity.operations.login_transactions.login_transactions import AuthenticatedLogin
from identity.operations.sessions import sso_sessions
from identity.services import Services
from identity.store.browser_sessions import SsoSession
from identity.tokens.jws import Rejection


async def find(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, browser: Browser
) -> CurrentLogin | None:
    """Return the login of the browser's session, if it may answer this request."""
    if request.forces_login:
        return None
    session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    if session is None or (request.max_age is not None and call.now - session.auth_instant > request.max_age * 1000):
        return None
    if not await _is_requested_user(services, request, session.user_id):
        return None
    user = await _find_user(services, call, client, session)
    if user is None:
        return None
    if client.client_id not in session.client_ids:
        await services.sessions.sso_sessions.add_client(client.tenant_id, browser.sso_secret, client.client_id)
    return await _current_login(services, call, client, session, user, browser)


async def restore(
    services: Services, call: Call, client: Client, login: AuthenticatedLogin, browser: Browser
) -> CurrentLogin | None:
    """Return the login of a transaction; None if the user logged out or was deleted meanwhile."""
    session: SsoSession | None = login.session
    if login.has_sso_session:
        session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    if session is None or session.session_id != login.session.session_id:
        return None
    user = await _find_user(services, call, client, session)
    if user is None:
        return None
    if not login.has_sso_session and is_password_outdated(user, session.authentication_type, session.auth_instant):
        return None
    secret = browser.sso_secret if login.has_sso_session else ""
    return CurrentLogin(session, user, secret, login.authentication_type, login.has_second_factor)


async def find_session(
    services: Services, call: Call, client: Client, session_id: str | None, browser: Browser
) -> CurrentLogin | None:
    """Return the login of the browser's session, if its user is active; with `session_id` only of that session."""
    session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    if session is None or session_id not in {None, session.session_id}:
        return None
    user = await _find_user(services, call, client, session)
    return None if user is None else await _current_login(services, call, client, session, user, browser)


async def require_expected(services: Services, request: AuthorizationRequest, user_id: str) -> None:
    """Raise LoginRequired if the request names another user than the one who logged in."""
    if not await _is_requested_user(services, request, user_id):
        raise LoginRequired("authentication_required", "Another user logged in than the one the request names.")


async def _find_user(services: Services, call: Call, client: Client, session: SsoSession) -> Document | None:
    """Return the user of a session, if active and if the session may be used for a login to the client."""
    if not administrator_logins.may_use(client, session):
        return None
    request_facts.note_user(session.user_id)
    user = await services.directory.users.find_cached(client.tenant_id, session.user_id)
    if user is None or not user["active"] or (user.get("expiry") or call.now + 1) <= call.now:
        return None
    return user if await administrator_logins.may_sign_in(services, session, user) else None


async def _current_login(
    services: Services, call: Call, client: Client, session: SsoSession, user: Document, browser: Browser
) -> CurrentLogin:
    """Return a session's login, with a second factor if the session had one or this use of it needs none."""
    had_second_factor = bool(session.second_factor)
    known = Authenticated(client.tenant, client.application, user, call.now, has_second_factor=had_second_factor)
    authenticated = await second_factor_decisions.decide(services, call, known, browser.trust_id)
    decision = authenticated.decision
    needs_none = authenticated.has_second_factor or (decision is not None and not decision.is_required)
    return CurrentLogin(session, user, browser.sso_secret, has_second_factor=needs_none, decision=decision)


async def _is_requested_user(services: Services, request: AuthorizationRequest, user_id: str) -> bool:
    """Whether the claims parameter and id_token_hint name this user, if any; an invalid hint is ignored.

    No response may be about another user, even one who just logged in (OpenID Connect Core 3.1.2.2).
    """
    if not request.claims.is_about(user_id):
        return False
    if request.id_token_hint is None:
        return True
    hint = await services.tokens.issuer.verify_id_token_hint(request.id_token_hint, clients.client_finder(services))
    return isinstance(hint, Rejection) or hint.claims["sub"] == user_id
