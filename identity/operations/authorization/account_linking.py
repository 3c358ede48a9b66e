"""Account linking: a user authenticated by a provider logs in to link the provider account to a local account.

The password is always required, even with a session: the link permanently gives the provider account access.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.errors import InvalidRequest, ServiceError
from identity.operations.authorization import authorization, login_requirements, provider_callback
from identity.operations.login.password_login import Credentials
from identity.operations.login_transactions.authorization_steps import (
    Browser,
    LoginPage,
    NewLogin,
    Problem,
    ProviderFailed,
    Step,
    VerifiedClient,
)
from identity.operations.login_transactions.login_transactions import InterruptedLogin
from identity.operations.users import identity_provider_links
from identity.services import Services

EXPIRED: Final = "[ExternalAuthenticationExpired]"


@dataclasses.dataclass(frozen=True, slots=True)
class AccountLink:
    """A pending link: its one-time token, the authorization request, and the account's name at the provider."""

    link: str = dataclasses.field(repr=False)
    verified_client: VerifiedClient
    provider_name: str
    account: str
    pending_id: str = dataclasses.field(repr=False)
    is_persistent: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LinkPage:
    """The login page of a pending link; `problem` is the failure of the last attempt."""

    account_link: AccountLink
    login_id: str = ""
    problem: Problem | None = None


async def get_account_link(services: Services, call: Call, link: str, browser: Browser) -> AccountLink:
    """Return a pending link. Raises InvalidRequest, which is shown on an error page, if it expired."""
    found = await services.sessions.link_logins.find_across_tenants(link, browser.federation_secret)
    if found is None:
        raise _expired()
    tenant_id, document = found
    pending = await services.sessions.pending_links.find(tenant_id, document["pendingId"])
    provider = await services.configuration.identity_providers.find_cached(None, document["providerId"])
    if pending is None or provider is None:
        raise _expired()
    verified_client = await provider_callback.verify_client_again(services, call, tenant_id, document)
    account = str(pending.get("displayName", ""))
    return AccountLink(
        link, verified_client, provider["name"], account, document["pendingId"], document["isPersistent"]
    )


async def log_in(
    services: Services, call: Call, account_link: AccountLink, browser: Browser, credentials: Credentials
) -> Step | LinkPage:
    """Log in, link the account and continue; on failure show the page again. Raises OAuth2Error."""
    verified_client, login_id = account_link.verified_client, credentials.login_id
    client = verified_client.client
    request, call_in_tenant = authorization.validate(call, verified_client), call.within(client.tenant_id)
    result = await authorization.authenticate(services, call_in_tenant, client, credentials)
    if not isinstance(result, login_outcomes.LoggedIn | login_outcomes.Halt):
        return LinkPage(account_link, login_id, result)
    if isinstance(result, login_outcomes.Halt):
        identity_type = credentials.type_of(result.user)
        login = InterruptedLogin(
            result.user["id"],
            "PASSWORD",
            identity_type,
            account_link.is_persistent,
            pending_link_id=account_link.pending_id,
        )
        step = await login_requirements.redirect_to_step(services, call, verified_client, login, result)
        if isinstance(step, LoginPage):
            return LinkPage(account_link, login_id, result)
        is_ours = await _consume(services, account_link, browser)
        return step if is_ours else LoginPage(client, login_id, ProviderFailed(EXPIRED))
    if not await _consume(services, account_link, browser):
        return LoginPage(client, login_id, ProviderFailed(EXPIRED))
    try:
        await complete(services, call_in_tenant, account_link.pending_id, result.user)
    except ServiceError as error:
        return LoginPage(client, login_id, provider_callback.problem_of(error))
    new_login = NewLogin(result.user, "PASSWORD", account_link.is_persistent, second_factor_checked=True)
    return await authorization.continue_with_login(services, call, verified_client, request, browser, new_login)


async def complete(services: Services, call: Call, pending_id: str, user: Document) -> None:
    """Link a user with the account of a pending link. Raises ServiceError."""
    body = {"pendingIdPLinkId": pending_id, "identityProviderLink": {"userId": user["id"]}}
    await identity_provider_links.create(services, call, body)


async def _consume(services: Services, account_link: AccountLink, browser: Browser) -> bool:
    """Consume the pending link: True for one of several concurrent requests."""
    return (
        await services.sessions.link_logins.consume_across_tenants(account_link.link, browser.federation_secret)
        is not None
    )


def _expired() -> InvalidRequest:
    return InvalidRequest("unknown", "This link has expired or was opened in another browser.")
