"""Who a request may be answered for: the user of the browser's session, if it is the one whom the request is about.

`find` looks for the session when a request begins, `recall` when a page of ours comes back to one that was remembered.
"""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.authorization.authorization_request import AuthorizationRequest
from identity.domain.login.login_outcomes import Authenticated, is_password_outdated
from identity.errors import LoginRequired
from identity.operations.clients import clients
from identity.operations.clients.clients import Client
from identity.operations.login_transactions.authorization_steps import Browser, Current
from identity.operations.login_transactions.login_intents import LoginIntent
from identity.operations.sessions import sso_sessions
from identity.operations.two_factor import two_factor_policy
from identity.services import Services
from identity.store.sso_sessions import SsoSession
from identity.tokens.jws import Rejection


async def find(
    services: Services, call: Call, client: Client, request: AuthorizationRequest, browser: Browser
) -> Current | None:
    """The browser's session, if this request may be answered from it."""
    if request.forces_login:
        return None
    session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    if session is None or (request.max_age is not None and call.now - session.auth_instant > request.max_age * 1000):
        return None
    if not await _is_expected(services, request, session.user_id):
        return None
    user = await _live_user(services, call, client, session)
    if user is None:
        return None
    if client.client_id not in session.client_ids:
        await services.sso_sessions.add_client(client.tenant_id, browser.sso_secret, client.client_id)
    has_factor = await _has_second_factor(services, call, client, session, user, browser)
    return Current(session, user, browser.sso_secret, has_second_factor=has_factor)


async def recall(
    services: Services, call: Call, client: Client, intent: LoginIntent, browser: Browser
) -> Current | None:
    """The login that an intent remembers; None when the user logged out, or is gone, meanwhile."""
    session: SsoSession | None = intent.session
    if intent.is_kept:
        session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    if session is None or session.session_id != intent.session.session_id:
        return None
    user = await _live_user(services, call, client, session)
    if user is None:
        return None
    if not intent.is_kept and is_password_outdated(user, session.authentication_type, session.auth_instant):
        return None
    secret = browser.sso_secret if intent.is_kept else ""
    return Current(session, user, secret, intent.authentication_type, intent.has_second_factor)


async def recall_session(
    services: Services, call: Call, client: Client, session_id: str | None, browser: Browser
) -> Current | None:
    """The session of a name, or whichever there is, if it is still this browser's and its user may still be here."""
    session = await sso_sessions.find(services, client.tenant, browser.sso_secret)
    if session is None or session_id not in {None, session.session_id}:
        return None
    user = await _live_user(services, call, client, session)
    if user is None:
        return None
    has_factor = await _has_second_factor(services, call, client, session, user, browser)
    return Current(session, user, browser.sso_secret, has_second_factor=has_factor)


async def require_expected(services: Services, request: AuthorizationRequest, user_id: str) -> None:
    """Refuse a login of somebody else than the request is about. Raises LoginRequired."""
    if not await _is_expected(services, request, user_id):
        raise LoginRequired("authentication_required", "Another user logged in than the request is about.")


async def _live_user(services: Services, call: Call, client: Client, session: SsoSession) -> Document | None:
    user = await services.users.find_cached(client.tenant_id, session.user_id)
    if user is None or not user["active"] or (user.get("expiry") or call.now + 1) <= call.now:
        return None
    return user


async def _has_second_factor(
    services: Services, call: Call, client: Client, session: SsoSession, user: Document, browser: Browser
) -> bool:
    """Whether a session had a second factor, or needs none at this application on a device that is trusted.

    The device is looked up only where somebody would be asked otherwise.
    """
    had = bool(session.second_factor)
    known = Authenticated(client.tenant, client.application, user, call.now, has_second_factor=had)
    return (await two_factor_policy.apply_device_trust(services, call, known, browser.trust_id)).has_second_factor


async def _is_expected(services: Services, request: AuthorizationRequest, user_id: str) -> bool:
    """Whether this is the user whom the claims parameter and id_token_hint name; a hint that is not ours says nothing.

    Nobody else may be answered for, also not who logged in just now (OpenID Connect Core 3.1.2.2).
    """
    if not request.claims.is_about(user_id):
        return False
    if request.id_token_hint is None:
        return True
    hint = await services.tokens.verify_id_token_hint(request.id_token_hint, clients.finder(services))
    return isinstance(hint, Rejection) or hint.claims["sub"] == user_id
