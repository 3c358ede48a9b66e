"""Where a login goes to which something is missing: the page that asks for it, with what the page needs beforehand."""

from __future__ import annotations

from collections.abc import Awaitable

from identity.call import Call
from identity.domain import login as steps
from identity.domain import users
from identity.errors import Unavailable
from identity.operations import email_verifications, halted_logins, registration_verifications
from identity.operations.authorization_steps import LoginPage, Proven, SsoCookie, Step
from identity.operations.halted_logins import HaltedLogin
from identity.operations.verification_codes import Started
from identity.services import Services


async def stop(
    services: Services,
    call: Call,
    proven: Proven,
    halted: HaltedLogin,
    halt: steps.Halt,
    cookie: SsoCookie | None = None,
) -> Step:
    """The page for what is missing; the login page with a text where no page of ours can help.

    Who is sent to verify something gets a mail, unless one is on its way already.
    """
    client, user = proven.client, halt.user
    call = call.within(client.tenant_id)
    match halt:
        case steps.EmailNotVerified():
            await _mailed(email_verifications.resumed(services, call, user, client.application))
            return await halted_logins.wait(services, proven, halted, halted_logins.VERIFY_EMAIL, cookie)
        case steps.RegistrationNotVerified() if users.mail_address(user) is not None:
            await _mailed(registration_verifications.resumed(services, call, user, client.application))
            return await halted_logins.wait(services, proven, halted, halted_logins.VERIFY_REGISTRATION, cookie)
    return LoginPage(client, users.login_value(user), halt)


async def _mailed(attempt: Awaitable[Started]) -> None:
    """Where no more mails may be sent for now the page shows up all the same, and has a button to try again."""
    try:
        await attempt
    except Unavailable:
        return
