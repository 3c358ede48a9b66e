"""Find the login of a page, and resume an interrupted one: to its next page, or to the response.

Events about the login are sent only when it is complete.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TypeVar

from identity.call import Call, Document
from identity.domain.configuration import administrator_roles
from identity.domain.login import login_outcomes
from identity.domain.providers import identity_providers
from identity.domain.users import users
from identity.errors import ServiceError
from identity.events.changes import Change
from identity.ids import UserId
from identity.operations.authorization import (
    account_linking,
    authorization,
    current_logins,
    login_requirements,
    provider_callback,
)
from identity.operations.clients import clients
from identity.operations.clients.clients import Client, TenantHints
from identity.operations.login import password_login, second_factor_decisions
from identity.operations.login.login_side_effects import LoginSideEffects
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import (
    Browser,
    LoginPage,
    NewLogin,
    NotRegistered,
    Problem,
    Step,
    VerifiedClient,
)
from identity.operations.login_transactions.login_transactions import (
    AuthenticatedTransaction,
    InterruptedLogin,
    InterruptedTransaction,
    TransactionClaim,
)
from identity.services import Services
from identity.store.mongo import Session

T = TypeVar("T")


async def find_interrupted(
    services: Services, call: Call, hints: TenantHints, given: Document, cookie: str, page: str
) -> InterruptedTransaction:
    """Find the transaction of a request to a page.

    Raises TransactionEndedError if this browser has none for the page, and what `authorization.verify_client` raises;
    all are shown on an error page.
    """
    client, transaction_id = await requested(services, hints, given)
    found = await login_transactions.find_interrupted(services, client, page, cookie, transaction_id)
    verified_client, login = await verify_stored(services, call, client, found)
    return InterruptedTransaction(verified_client, page, cookie, transaction_id, login)


async def find_authenticated(
    services: Services, call: Call, hints: TenantHints, given: Document, cookie: str, page: str
) -> AuthenticatedTransaction:
    """Find the transaction of a complete login, as `find_interrupted` does."""
    client, transaction_id = await requested(services, hints, given)
    found = await login_transactions.find_authenticated(services, client, page, cookie, transaction_id)
    verified_client, login = await verify_stored(services, call, client, found)
    return AuthenticatedTransaction(verified_client, page, cookie, transaction_id, login)


async def requested(services: Services, hints: TenantHints, given: Document) -> tuple[Client, str]:
    """Return the client and the id of the transaction that a request to a page names. Raises InvalidRequest."""
    return await clients.get_client(services, hints, given.get("client_id")), given.get("intent", "")


async def verify_stored(
    services: Services, call: Call, client: Client, found: tuple[Document, T] | None
) -> tuple[VerifiedClient, T]:
    """Verify the authorization request of a stored transaction; return it with what else is stored.

    Raises TransactionEndedError without one, and what `authorization.verify_client` raises.
    """
    if found is None:
        raise login_transactions.ended()
    parameters, content = found
    # The tenant is the client's: the tenant hints of the stored request were resolved when the request arrived.
    hints = TenantHints(path=client.tenant_id)
    return await authorization.verify_client(services, call, hints, parameters), content


async def unmet_requirement(
    services: Services, call: Call, transaction: InterruptedTransaction, browser: Browser
) -> login_outcomes.Halt | None:
    """Return the requirement that the login has to meet now; nothing is consumed."""
    login = transaction.login
    user = await _find_user(services, transaction, login)
    if user is None:
        return None
    halt = login_outcomes.find_halt(await _restore_login_state(services, call, transaction, login, user, browser))
    if halt is not None:
        return halt
    request = authorization.validate(call, transaction.verified_client)
    if authorization.requires_step_up(transaction.client, request, user, login.second_factor):
        return login_outcomes.SecondFactorRequired(user)
    return None


async def resume(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    login: InterruptedLogin | None = None,
    side_effects: LoginSideEffects | None = None,
) -> Step:
    """Evaluate a login again and continue: to the next page, or to the response.

    `login` is the login with what its page changed. `side_effects` are committed if the login continues; an error that
    they raise stops it. Raises TransactionEndedError if the transaction was consumed meanwhile, and OAuth2Error.
    """
    client, verified_client, login = transaction.client, transaction.verified_client, login or transaction.login
    user = await _find_user(services, transaction, login)
    if user is None:
        return LoginPage(client)
    side_effects = _with_claim(TransactionClaim(services, transaction), side_effects)
    if login.session_id:
        return await _resume_session(services, call, transaction, browser, login, side_effects)
    request = authorization.validate(call, verified_client)
    authenticated = await _restore_login_state(services, call, transaction, login, user, browser)
    attempt = password_login.continue_login(
        services,
        call.within(client.tenant_id),
        authenticated,
        login.authentication_type,
        identity_type=login.identity_type,
        side_effects=side_effects,
    )
    result = await authorization.login_or_problem(attempt)
    if isinstance(result, login_outcomes.Halt):
        return await login_requirements.redirect_to_step(services, call, verified_client, login, result)
    if not isinstance(result, login_outcomes.LoggedIn):
        return LoginPage(client, users.primary_login_id(user), result)
    problem = await _link_account(services, call, client, login, result.user)
    if problem is not None:
        return LoginPage(client, users.primary_login_id(user), problem)
    new_login = NewLogin(
        result.user,
        login.authentication_type,
        login.is_persistent,
        login.provider_instant,
        second_factor=login.second_factor,
        second_factor_checked=True,
        start_instant=None if login.provider_instant is None else call.now,
        provider_session=login.provider_session,
    )
    return await authorization.continue_with_login(services, call, verified_client, request, browser, new_login)


async def _link_account(
    services: Services, call: Call, client: Client, login: InterruptedLogin, user: Document
) -> Problem | None:
    """Complete the pending link of a login, if it has one. Return the reason why the user cannot continue, or None."""
    if login.pending_link_id:
        try:
            await account_linking.complete(services, call.within(client.tenant_id), login.pending_link_id, user)
        except ServiceError as error:
            return provider_callback.problem_of(error)
    return NotRegistered() if authorization.is_registration_missing(client, user) else None


async def _find_user(
    services: Services, transaction: InterruptedTransaction, login: InterruptedLogin
) -> Document | None:
    """Return the current user of a login; None if they were deleted, or changed since.

    A later password, or an appointment as an administrator, invalidates the login.
    """
    user = await services.directory.users.find(transaction.client.tenant_id, UserId(login.user_id))
    if user is None or login.authenticated_instant is None or login.session_id:
        return user
    is_outdated = login_outcomes.is_password_outdated(user, login.authentication_type, login.authenticated_instant)
    is_outdated = is_outdated or administrator_roles.is_appointed_since(user, login.authenticated_instant)
    return None if is_outdated else user


async def _resume_session(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    browser: Browser,
    login: InterruptedLogin,
    side_effects: LoginSideEffects,
) -> Step:
    """Resume an SSO session that met a requirement; a new second factor gives the session a new secret."""
    client, verified_client = transaction.client, transaction.verified_client
    request = authorization.validate(call, verified_client)
    current = await current_logins.find_session(services, call, client, login.session_id, browser)
    if current is None:
        return LoginPage(client)
    change = Change([side_effects.write], side_effects.before_commit(), side_effects.after_commit)
    await services.bus.commit(call.within(client.tenant_id), change)
    if login.second_factor != current.session.second_factor:
        current = await authorization.step_up(services, call, client, browser, current, login.second_factor)
    return await authorization.proceed(services, call, verified_client, request, current)


async def _restore_login_state(
    services: Services,
    call: Call,
    transaction: InterruptedTransaction,
    login: InterruptedLogin,
    user: Document,
    browser: Browser,
) -> login_outcomes.Authenticated:
    """Return the state of a login that its requirements depend on, including the two-factor trust of the device."""
    client = transaction.client
    is_federated = login.authentication_type in identity_providers.AUTHENTICATION_TYPES.values()
    authenticated = login_outcomes.Authenticated(
        client.tenant,
        client.application,
        user,
        call.now,
        is_federated=is_federated,
        has_second_factor=bool(login.second_factor),
        reason_to_change=login.reason_to_change,
    )
    return await second_factor_decisions.decide(services, call, authenticated, browser.trust_id)


def _with_claim(claim: TransactionClaim, side_effects: LoginSideEffects | None) -> LoginSideEffects:
    """Return the side effects with the consumption of the transaction as the last write."""
    if side_effects is None:
        return LoginSideEffects(claim.consume)
    # If the side effects fail, because the evidence of the page was used meanwhile, the transaction stays.
    write = functools.partial(_write_and_consume, side_effects, claim)
    return dataclasses.replace(side_effects, write=write)


async def _write_and_consume(side_effects: LoginSideEffects, claim: TransactionClaim, session: Session | None) -> None:
    await side_effects.write(session)
    await claim.consume(session)
