"""Requirements that interrupt a login: store it, and redirect to the page that can meet the requirement."""

from __future__ import annotations

import contextlib
import dataclasses

from identity.call import Call, Document
from identity.domain.login import login_outcomes
from identity.domain.two_factor import two_factor
from identity.domain.users import users
from identity.errors import Invalid, Unavailable
from identity.operations.login import two_factor_challenges
from identity.operations.login_transactions import login_transactions
from identity.operations.login_transactions.authorization_steps import LoginPage, SsoCookie, Step, VerifiedClient
from identity.operations.login_transactions.login_transactions import InterruptedLogin
from identity.operations.password_changes import password_changes
from identity.operations.verification import email_verifications, registration_verifications
from identity.services import Services


async def redirect_to_step(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    login: InterruptedLogin,
    requirement: login_outcomes.Halt,
    cookie: SsoCookie | None = None,
) -> Step:
    """Return the page for an unmet requirement; the login page with its text where no page can help.

    A verification sends its mail, unless one is pending or the limit of mails is reached.
    """
    client, user = verified_client.client, requirement.user
    call = call.within(client.tenant_id)
    if isinstance(requirement, login_outcomes.SecondFactorRequired) and requirement.reason_to_change is not None:
        login = dataclasses.replace(login, reason_to_change=requirement.reason_to_change)
    match requirement:
        case login_outcomes.SecondFactorRequired() if user["twoFactor"]["methods"]:
            return await _challenge(services, call, verified_client, login, requirement, cookie)
        case login_outcomes.SecondFactorRequired() if requirement.configurable:
            page = login_transactions.TWO_FACTOR_ENABLE
        case login_outcomes.PasswordChangeRequired() if not login.session_id:
            return await _change_password(services, verified_client, login, requirement)
        case login_outcomes.EmailNotVerified():
            with contextlib.suppress(Unavailable):
                await email_verifications.find_or_start(services, call, user, client.application)
            page = login_transactions.VERIFY_EMAIL
        case login_outcomes.RegistrationNotVerified() if users.email_address(user) is not None:
            with contextlib.suppress(Unavailable):
                await registration_verifications.find_or_start(services, call, user, client.application)
            page = login_transactions.VERIFY_REGISTRATION
        case _:
            return LoginPage(client, users.primary_login_id(user), requirement)
    return await login_transactions.store_interrupted(services, verified_client, login, page, cookie)


def sends_codes(method: Document) -> bool:
    """Whether the codes of a two-factor method are sent as messages."""
    return method["method"] in two_factor.ADDRESS_MEMBERS


async def send_code(services: Services, call: Call, two_factor_id: str, method_id: str) -> str:
    """Send the code of a method, and return the key of the page text. Raises NotFound for an expired challenge."""
    try:
        await two_factor_challenges.send_code(services, call, two_factor_id, method_id)
    except Unavailable:
        return "[RateLimitedException]"
    except Invalid:
        return "twoFactor.cannotSend"
    return "twoFactor.sent"


async def _challenge(
    services: Services,
    call: Call,
    verified_client: VerifiedClient,
    login: InterruptedLogin,
    requirement: login_outcomes.SecondFactorRequired,
    cookie: SsoCookie | None,
) -> Step:
    """Start a two-factor challenge; the code of a single method is sent at once."""
    client, page = verified_client.client, login_transactions.TWO_FACTOR
    requirement = dataclasses.replace(
        requirement, authentication_type=login.authentication_type, identity_type=login.identity_type
    )
    two_factor_id = (await two_factor_challenges.challenge_login(services, call, client, requirement))["twoFactorId"]
    methods = requirement.user["twoFactor"]["methods"]
    is_single = len(methods) == 1
    details = {"twoFactorId": two_factor_id, "methodId": methods[0]["id"] if is_single else ""}
    if is_single and sends_codes(methods[0]):
        details["message"] = await send_code(services, call, two_factor_id, methods[0]["id"])
    login, suffix = login.with_details(**details), "" if is_single else "-methods"
    return await login_transactions.store_interrupted(services, verified_client, login, page, cookie, suffix)


async def _change_password(
    services: Services,
    verified_client: VerifiedClient,
    login: InterruptedLogin,
    requirement: login_outcomes.PasswordChangeRequired,
) -> Step:
    """Redirect to the password change page, whose token is valid for this login only."""
    client = verified_client.client
    change_id = await password_changes.issue_required_change_id(
        services, client.tenant, requirement, client.application
    )
    login = dataclasses.replace(login, reason_to_change=requirement.reason)
    page = login_transactions.CHANGE_PASSWORD
    return await login_transactions.store_interrupted(services, verified_client, login, page, suffix=f"/{change_id}")
