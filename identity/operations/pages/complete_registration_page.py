"""The page that asks for what an application has to know of a user: what is missing, and what comes of the answer.

It finds the login again by a login intent, as the consent page does. An answer that lacks something leaves the intent
as it is; one that is good uses it up, so that one form gives one response.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from identity.call import Call, Document
from identity.domain.users.self_registration import RegistrationField
from identity.errors import GeneralError, Invalid, WebhookTransactionFailed
from identity.operations.authorization import authorization, just_in_time_registration
from identity.operations.clients.clients import Client
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import Browser, LoginPage, Step
from identity.operations.login_transactions.login_transactions import AuthenticatedTransaction
from identity.operations.pages.registration_page import FormRejected
from identity.services import Services


@dataclasses.dataclass(frozen=True, slots=True)
class MissingFields:
    """The questions that the user has to answer."""

    client: Client
    user: Document
    questions: tuple[RegistrationField, ...]


async def show(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser
) -> MissingFields | Step:
    """What to ask; or what comes next where nothing is missing any more. Raises OAuth2Error."""
    recalled = await authorization.restore_login(
        services, call, transaction.verified_client, transaction.login, browser
    )
    if recalled is None:
        return LoginPage(transaction.verified_client.client)
    request, current = recalled
    questions = just_in_time_registration.missing_fields(transaction.verified_client.client, current.user)
    if questions:
        return MissingFields(transaction.verified_client.client, current.user, questions)
    await login_transactions.consume(services, transaction)
    return await authorization.proceed(services, call, transaction.verified_client, request, current)


async def answer(
    services: Services, call: Call, transaction: AuthenticatedTransaction, browser: Browser, form: Mapping[str, str]
) -> Step | FormRejected:
    """What an answer comes to. Raises OAuth2Error, and LambdaFailed."""
    recalled = await authorization.restore_login(
        services, call, transaction.verified_client, transaction.login, browser
    )
    if recalled is None:
        return LoginPage(transaction.verified_client.client)
    request, current = recalled
    try:
        user = await just_in_time_registration.register(
            services, call, transaction.verified_client.client, current.user["id"], form
        )
    except Invalid as error:
        return FormRejected(error.fields, error.general)
    except WebhookTransactionFailed:
        return FormRejected(general=[GeneralError("registration.vetoed", "")])
    await login_transactions.consume(services, transaction)
    current = dataclasses.replace(current, user=user)
    return await authorization.proceed(services, call, transaction.verified_client, request, current)
