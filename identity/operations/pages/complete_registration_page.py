"""The page that asks for profile data which the application requires and the user's profile lacks.

A rejected form does not consume the login transaction; an accepted one does, so that a form produces one response.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.errors import GeneralError, Invalid, WebhookTransactionFailed
from identity.operations.authorization import authorization, just_in_time_registration
from identity.operations.authorization.just_in_time_registration import Missing
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, LoginPage, Step
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages import registration_page
from identity.operations.pages.registration_page import FormRejected
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class MissingFields:
    """The required fields that the user has to fill in."""

    client: Client
    user: Document
    missing: Missing


async def show(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> MissingFields | Step:
    """Return the page, or the next step if nothing is missing any more. Raises OAuth2Error."""
    verified_client, client = transaction.verified_client, transaction.client
    restored = await authorization.restore_login(services, call, transaction, browser)
    if restored is None:
        return LoginPage(client)
    request, current = restored
    missing = await just_in_time_registration.find_missing(services, client, current.user)
    if missing:
        return MissingFields(client, current.user, missing)
    await login_transactions.consume(services, transaction)
    return await authorization.proceed(services, call, verified_client, request, current)


async def answer(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser, form: Mapping[str, str]
) -> Step | FormRejected:
    """Store the answers, register the user and continue. Raises OAuth2Error and LambdaFailed."""
    verified_client, client = transaction.verified_client, transaction.client
    restored = await authorization.restore_login(services, call, transaction, browser)
    if restored is None:
        return LoginPage(client)
    request, current = restored
    try:
        user = await just_in_time_registration.register(services, call, client, current.user["id"], form)
    except Invalid as error:
        return FormRejected(error.fields, error.general)
    except WebhookTransactionFailed:
        return FormRejected(general=[GeneralError(registration_page.REJECTED, "")])
    await login_transactions.consume(services, transaction)
    current = dataclasses.replace(current, user=user)
    return await authorization.proceed(services, call, verified_client, request, current)
