"""Where a login goes to which something is missing: the page that asks for it, with what the page needs beforehand."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable

from identity.call import Call, Document
from identity.domain.login import login_outcomes as steps
from identity.domain.two_factor import two_factor
from identity.domain.users import users
from identity.errors import Invalid, Unavailable
from identity.operations.login import two_factor_challenges
from identity.operations.login_transactions import halted_logins
from identity.operations.login_transactions.authorization_steps import LoginPage, SsoCookie, Step, VerifiedClient
from identity.operations.login_transactions.halted_logins import HaltedLogin
from identity.operations.password_changes import password_changes
from identity.operations.two_factor import two_factor_policy
from identity.operations.verification import email_verifications, registration_verifications
from identity.operations.verification.verification_codes import OpenVerification
from identity.services import Services


async def stop(
    services: Services,
    call: Call,
    proven: VerifiedClient,
    halted: HaltedLogin,
    halt: steps.Halt,
    cookie: SsoCookie | None = None,
    trust_id: str = "",
) -> Step:
    """The page for what is missing; the login page with a text where no page of ours can help.

    Who is sent to verify something gets a mail, unless one is on its way already. `trust_id` is what the browser shows
    of being trusted, where that was not looked at before.
    """
    client, user = proven.client, halt.user
    call = call.within(client.tenant_id)
    if isinstance(halt, steps.SecondFactorRequired) and halt.reason_to_change is not None:
        halted = dataclasses.replace(halted, reason_to_change=halt.reason_to_change)
    match halt:
        case steps.SecondFactorRequired() if user["twoFactor"]["methods"]:
            return await _challenge(services, call, proven, halted, halt, cookie, trust_id)
        case steps.SecondFactorRequired() if halt.configurable:
            return await halted_logins.wait(services, proven, halted, halted_logins.TWO_FACTOR_ENABLE, cookie)
        case steps.PasswordChangeRequired() if not halted.session_id:
            return await _change_password(services, call, proven, halted, halt)
        case steps.EmailNotVerified():
            await _mailed(email_verifications.find_or_start(services, call, user, client.application))
            return await halted_logins.wait(services, proven, halted, halted_logins.VERIFY_EMAIL, cookie)
        case steps.RegistrationNotVerified() if users.email_address(user) is not None:
            await _mailed(registration_verifications.find_or_start(services, call, user, client.application))
            return await halted_logins.wait(services, proven, halted, halted_logins.VERIFY_REGISTRATION, cookie)
    return LoginPage(client, users.primary_login_id(user), halt)


def sends(method: Document) -> bool:
    """Whether the codes of a method are messages."""
    return method["method"] in two_factor.ADDRESS_MEMBERS


async def _challenge(
    services: Services,
    call: Call,
    proven: VerifiedClient,
    halted: HaltedLogin,
    halt: steps.SecondFactorRequired,
    cookie: SsoCookie | None,
    trust_id: str,
) -> Step:
    """To the page that asks for a code. Who has one method need not choose, and gets its message at once."""
    client, page = proven.client, halted_logins.TWO_FACTOR
    known = steps.Authenticated(client.tenant, client.application, halt.user, call.now)
    if (await two_factor_policy.apply_device_trust(services, call, known, trust_id)).has_second_factor:
        # Nothing is asked of a trusted device: the page goes on by itself.
        return await halted_logins.wait(services, proven, halted, page, cookie)
    told = dataclasses.replace(halt, authentication_type=halted.authentication_type, identity_type=halted.identity_type)
    two_factor_id = (await two_factor_challenges.challenge_login(services, call, client, told))["twoFactorId"]
    methods = halt.user["twoFactor"]["methods"]
    details = {"twoFactorId": two_factor_id, "methodId": methods[0]["id"] if len(methods) == 1 else ""}
    if len(methods) == 1 and sends(methods[0]):
        details["message"] = await send(services, call, two_factor_id, methods[0]["id"])
    waiting = halted.with_details(**details)
    suffix = "" if len(methods) == 1 else "-methods"
    return await halted_logins.wait(services, proven, waiting, page, cookie, suffix)


async def send(services: Services, call: Call, two_factor_id: str, method_id: str) -> str:
    """Send the code of a method; answers the key of what the page says of it. Raises NotFound for a challenge over."""
    try:
        await two_factor_challenges.send_code(services, call, two_factor_id, method_id)
    except Unavailable:
        return "[RateLimitedException]"
    except Invalid:
        return "twoFactor.cannotSend"
    return "twoFactor.sent"


async def _change_password(
    services: Services, call: Call, proven: VerifiedClient, halted: HaltedLogin, halt: steps.PasswordChangeRequired
) -> Step:
    """To the page that changes the password, which counts only for this login."""
    client = proven.client
    change_id = await password_changes.issue_required_change_id(
        services,
        call,
        client.tenant,
        halt.user,
        reason=halt.reason,
        application=client.application,
        is_trusted=halt.has_second_factor,
    )
    waiting = dataclasses.replace(halted, reason_to_change=halt.reason)
    page = halted_logins.CHANGE_PASSWORD
    return await halted_logins.wait(services, proven, waiting, page, suffix=f"/{change_id}")


async def _mailed(attempt: Awaitable[OpenVerification]) -> None:
    """Where no more mails may be sent for now the page shows up all the same, and has a button to try again."""
    try:
        await attempt
    except Unavailable:
        return
