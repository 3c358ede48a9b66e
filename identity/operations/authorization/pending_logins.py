"""The way on for a login that waits for a page: found by its page, judged again, and led to the next page or completed.

A page ends by `resume`, with the login as the page leaves it. Nothing is told of the login before it is complete.
"""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.login import login_outcomes as steps
from identity.domain.providers import identity_providers
from identity.domain.users import users
from identity.errors import ServiceError
from identity.ids import UserId
from identity.operations.authorization import (
    account_linking,
    authorization,
    current_logins,
    login_gates,
    provider_callback,
)
from identity.operations.clients import clients
from identity.operations.clients.clients import TenantHints
from identity.operations.login import password_login
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.login_transactions import halted_logins
from identity.operations.login_transactions.authorization_steps import Browser, LoginPage, NewLogin, NotRegistered, Step
from identity.operations.login_transactions.halted_logins import Claim, HaltedLogin, Waiting
from identity.operations.two_factor import two_factor_policy
from identity.services import Services
from identity.store.mongo import Session


async def find(services: Services, call: Call, hints: TenantHints, given: Document, cookie: str, page: str) -> Waiting:
    """The login that a request to a page is about.

    Raises InvalidRequest where this browser has none that waits for this page, or none any more, and what
    `authorization.prove` raises; all belong on a page.
    """
    client = await clients.find(services, hints, given.get("client_id"))
    intent_id = given.get("intent", "")
    stored = await halted_logins.look(services, client, page, cookie, intent_id)
    if stored is None:
        raise halted_logins.over()
    # By its own tenant, not by what the remembered request calls it: that was judged when the request came.
    proven = await authorization.prove(services, call, TenantHints(path=client.tenant_id), stored["given"])
    return Waiting(proven, halted_logins.opened(stored), page, cookie, intent_id)


async def user_of(services: Services, waiting: Waiting) -> Document | None:
    """The user of a waiting login as they are now; None where its password is not the user's any more."""
    return await _user(services, waiting, waiting.halted)


async def missing(services: Services, call: Call, waiting: Waiting, browser: Browser) -> steps.Halt | None:
    """What is missing to a waiting login as of now; nothing is used up."""
    user = await user_of(services, waiting)
    if user is None:
        return None
    return steps.find_halt(await _authenticated(services, call, waiting, waiting.halted, user, browser))


async def resume(
    services: Services,
    call: Call,
    waiting: Waiting,
    browser: Browser,
    halted: HaltedLogin | None = None,
    side_effects: LoginSideEffects | None = None,
) -> Step:
    """Judge a login anew, with what its page has proven, and go on: to the next page, or to the response.

    `halted` is the login as its page leaves it, where that changed something. `along` comes true if the login goes on,
    and what it raises stops it. Raises InvalidRequest where the login went on meanwhile, and OAuth2Error.
    """
    client, halted = waiting.client, halted or waiting.halted
    user = await _user(services, waiting, halted)
    if user is None:
        return LoginPage(client)
    claim = Claim(services, waiting)
    if halted.session_id:
        return await _resume_session(services, call, waiting, browser, halted, claim, side_effects)
    request = authorization.validated(call, waiting.proven)
    authenticated = await _authenticated(services, call, waiting, halted, user, browser)
    attempt = password_login.continue_login(
        services,
        call.within(client.tenant_id),
        authenticated,
        halted.authentication_type,
        identity_type=halted.identity_type,
        side_effects=_together(claim, side_effects),
    )
    result = await authorization.told(attempt)
    if isinstance(result, steps.Halt):
        return await login_gates.stop(services, call, waiting.proven, halted, result)
    if not isinstance(result, steps.LoggedIn):
        return LoginPage(client, users.primary_login_id(user), result)
    if halted.link:
        try:
            await account_linking.complete(services, call.within(client.tenant_id), halted.link, result.user)
        except ServiceError as error:
            return LoginPage(client, users.primary_login_id(user), provider_callback.problem_of(error))
    if authorization.is_kept_out(client, result.user):
        return LoginPage(client, users.primary_login_id(user), NotRegistered())
    fresh = NewLogin(
        result.user,
        halted.authentication_type,
        halted.is_persistent,
        second_factor=halted.second_factor,
        is_judged=True,
    )
    return await authorization.enter(services, call, waiting.proven, request, browser, fresh)


async def _user(services: Services, waiting: Waiting, halted: HaltedLogin) -> Document | None:
    user = await services.users.find(waiting.client.tenant_id, UserId(halted.user_id))
    if user is None or halted.since is None or halted.session_id:
        return user
    return None if steps.is_password_outdated(user, halted.authentication_type, halted.since) else user


async def _resume_session(
    services: Services,
    call: Call,
    waiting: Waiting,
    browser: Browser,
    halted: HaltedLogin,
    claim: Claim,
    side_effects: LoginSideEffects | None,
) -> Step:
    """Go on with a session that met a gate. With a new proof it goes on under a new secret."""
    client = waiting.client
    request = authorization.validated(call, waiting.proven)
    current = await current_logins.recall_session(services, call, client, halted.session_id, browser)
    if current is None:
        return LoginPage(client)
    together = _together(claim, side_effects)
    await services.bus.perform(call.within(client.tenant_id), together.write, together.offered, together.announced)
    if halted.second_factor != current.session.second_factor:
        current = await authorization.step_up(services, call, client, browser, current, halted.second_factor)
    return await authorization.proceed(services, call, waiting.proven, request, current)


async def _authenticated(
    services: Services, call: Call, waiting: Waiting, halted: HaltedLogin, user: Document, browser: Browser
) -> steps.Authenticated:
    """What is known of a login; a device that is trusted stands for a second factor."""
    client = waiting.client
    is_federated = halted.authentication_type in identity_providers.AUTHENTICATION_TYPES.values()
    known = steps.Authenticated(
        client.tenant,
        client.application,
        user,
        call.now,
        is_federated=is_federated,
        has_second_factor=bool(halted.second_factor),
        reason_to_change=halted.reason_to_change,
    )
    return await two_factor_policy.apply_device_trust(services, call, known, browser.trust_id)


def _together(claim: Claim, side_effects: LoginSideEffects | None) -> LoginSideEffects:
    """The use of the intent, and what comes true with it."""
    if side_effects is None:
        return LoginSideEffects(claim.write)

    async def write(session: Session | None) -> None:
        # What the page proved comes first: where it was used up meanwhile, the login waits on.
        await side_effects.write(session)
        await claim.write(session)

    return dataclasses.replace(side_effects, write=write)
