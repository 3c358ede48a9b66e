"""An SSO session out of an access token: for an application that has one and sends its user to another application.

Off unless the tenant's `ssoConfiguration.allowAccessTokenBootstrap` is on. The session is as old as the login that the
token came of, so that `max_age` and `auth_time` mean the same as before.
"""

from __future__ import annotations

import dataclasses

from identity.call import Call
from identity.errors import InvalidToken
from identity.operations.authorization import authorization
from identity.operations.clients import bearer_tokens
from identity.operations.login_transactions.authorization_steps import Browser, NewLogin, VerifiedClient
from identity.operations.sessions import sso_sessions
from identity.services import Services


async def bootstrap(
    services: Services, call: Call, verified_client: VerifiedClient, browser: Browser, token: str | None
) -> Browser:
    """The browser with the session of a token's user; as it was where it has that already, or may not have it.

    The user has to log in all the same where the request says so. Raises InvalidToken for a token that is not good, not
    of this tenant, of a third party, or bound to a key, and OAuth2Error for a request that is not good.
    """
    tenant = verified_client.client.tenant
    is_on = tenant["ssoConfiguration"]["allowAccessTokenBootstrap"] and tenant["httpSessionMaxInactiveInterval"] > 0
    if token is None or not is_on:
        return browser
    request = authorization.validate(call, verified_client, browser.origin)
    found = await bearer_tokens.verify(services, call, token)
    if found.token.tenant["id"] != verified_client.client.tenant_id:
        raise InvalidToken("access_token_invalid", "The access token is of another tenant.")
    found.require_usable_for()
    auth_instant = found.auth_instant
    if request.forces_login or (request.max_age is not None and call.now - auth_instant > request.max_age * 1000):
        return browser
    session = await sso_sessions.find(services, tenant, browser.sso_secret)
    if session is not None and session.user_id == found.user["id"]:
        return browser
    secret, _ = await sso_sessions.begin(
        services,
        call,
        tenant,
        NewLogin(found.user, found.authentication_type, auth_instant=auth_instant),
        client_id=found.token.application["id"],
        replacing=browser.sso_secret,
    )
    return dataclasses.replace(browser, sso_secret=secret)
