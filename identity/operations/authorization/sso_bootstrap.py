"""SSO bootstrap: create a session from an access token, when an application sends its user to another application.

Disabled unless the tenant sets `ssoConfiguration.allowAccessTokenBootstrap`. The session has the authentication time of
the token, so that `max_age` and `auth_time` keep their meaning.
"""

from __future__ import annotations

import dataclasses

from identity.call import Call
from identity.errors import InvalidToken
from identity.operations.authorization import authorization
from identity.operations.clients import bearer_tokens
from identity.operations.groups import administrators
from identity.operations.login_transactions.authorization_steps import Browser, NewLogin, VerifiedClient
from identity.operations.sessions import sso_sessions
from identity.services import Services


async def bootstrap(
    services: Services, call: Call, verified_client: VerifiedClient, browser: Browser, token: str | None
) -> Browser:
    """Return the browser with a session of the token's user; unchanged if it has one, or the request forces a login.

    Also unchanged for an administrator, who signs in with credentials. Raises InvalidToken for a token that is invalid,
    of another tenant, of a third party, or bound to a key, and OAuth2Error for an invalid request.
    """
    tenant = verified_client.client.tenant
    is_enabled = (
        tenant["ssoConfiguration"]["allowAccessTokenBootstrap"] and tenant["httpSessionMaxInactiveInterval"] > 0
    )
    if token is None or not is_enabled:
        return browser
    request = authorization.validate(call, verified_client, browser.origin)
    bearer = await bearer_tokens.verify(services, call, token)
    if bearer.token.tenant["id"] != verified_client.client.tenant_id:
        raise InvalidToken("access_token_invalid", "The access token is of another tenant.")
    bearer.require_usable_for()
    if await administrators.is_administrator(services, bearer.user):
        return browser
    auth_instant = bearer.auth_instant
    if request.forces_login or (request.max_age is not None and call.now - auth_instant > request.max_age * 1000):
        return browser
    session = await sso_sessions.find(services, tenant, browser.sso_secret)
    if session is not None and session.user_id == bearer.user["id"]:
        return browser
    secret, _ = await sso_sessions.begin(
        services,
        call,
        tenant,
        NewLogin(bearer.user, bearer.authentication_type, auth_instant=auth_instant),
        client_id=bearer.token.application["id"],
        replacing=browser.sso_secret,
    )
    return dataclasses.replace(browser, sso_secret=secret)
