"""The page where somebody whom a provider knows says who they are here: a login that also makes the link.

The password is always asked for, also of somebody who is logged in: a link opens the account to whoever has the other
one, for good.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.domain.login import login_outcomes as steps
from identity.domain.users import users
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

OVER: Final = "[ExternalAuthenticationExpired]"


@dataclasses.dataclass(frozen=True, slots=True)
class AccountLink:
    """A link that waits for its user: which request it came up in, and what the account is called at the provider."""

    link: str = dataclasses.field(repr=False)
    verified_client: VerifiedClient
    provider_name: str
    account: str
    pending_id: str = dataclasses.field(repr=False)
    is_persistent: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LinkPage:
    """The user has to say who they are; `problem` is what was wrong with the last attempt."""

    wanted: AccountLink
    login_id: str = ""
    problem: Problem | None = None


async def get_account_link(services: Services, call: Call, link: str, browser: Browser) -> AccountLink:
    """The link that a page is about. Raises InvalidRequest, which belongs on a page, for any that is over."""
    found = await services.link_logins.find_across_tenants(link, browser.federation_secret)
    if found is None:
        raise _over()
    tenant_id, document = found
    pending = await services.pending_links.find(tenant_id, document["pendingId"])
    provider = await services.identity_providers.find_cached(None, document["providerId"])
    if pending is None or provider is None:
        raise _over()
    verified_client = await provider_callback.verify_client_again(services, call, tenant_id, document)
    account = str(pending.get("displayName", ""))
    return AccountLink(
        link, verified_client, provider["name"], account, document["pendingId"], document["isPersistent"]
    )


async def log_in(
    services: Services, call: Call, wanted: AccountLink, browser: Browser, credentials: Credentials
) -> Step | LinkPage:
    """Log in, link, and go on; or the page again, for a link that is over the login page. Raises OAuth2Error."""
    client = wanted.verified_client.client
    request, inside = authorization.validate(call, wanted.verified_client), call.within(client.tenant_id)
    result = await authorization.authenticate(services, inside, client, credentials)
    if not isinstance(result, steps.LoggedIn | steps.Halt):
        return LinkPage(wanted, credentials.login_id, result)
    if isinstance(result, steps.Halt):
        kind = users.may_log_in_as(result.user, credentials.login_id, credentials.types)
        halted = InterruptedLogin(
            result.user["id"], "PASSWORD", kind, wanted.is_persistent, pending_link_id=wanted.pending_id
        )
        step = await login_requirements.redirect_to_step(services, call, wanted.verified_client, halted, result)
        if isinstance(step, LoginPage):
            return LinkPage(wanted, credentials.login_id, result)
        if not await _is_spent(services, wanted, browser):
            return LoginPage(client, credentials.login_id, ProviderFailed(OVER))
        return step
    if not await _is_spent(services, wanted, browser):
        return LoginPage(client, credentials.login_id, ProviderFailed(OVER))
    try:
        await complete(services, inside, wanted.pending_id, result.user)
    except ServiceError as error:
        return LoginPage(client, credentials.login_id, provider_callback.problem_of(error))
    fresh = NewLogin(result.user, "PASSWORD", wanted.is_persistent, second_factor_checked=True)
    return await authorization.continue_with_login(services, call, wanted.verified_client, request, browser, fresh)


async def complete(services: Services, call: Call, pending_id: str, user: Document) -> None:
    """Link a user with the account that a pending link is about. Raises ServiceError where that cannot be."""
    body = {"pendingIdPLinkId": pending_id, "identityProviderLink": {"userId": user["id"]}}
    await identity_provider_links.create(services, call, body)


async def _is_spent(services: Services, wanted: AccountLink, browser: Browser) -> bool:
    """Use the page up: of all who send its form one goes on."""
    return await services.link_logins.consume_across_tenants(wanted.link, browser.federation_secret) is not None


def _over() -> InvalidRequest:
    return InvalidRequest("unknown", "This link has expired or was opened in another browser.")
