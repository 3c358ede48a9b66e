"""The pages of forgotten and changed passwords: what they ask for, in which order, and what comes of the answers.

Who has a second factor shows it before the form, but for a login that has seen it. That it was shown is remembered for
this browser and this change alone: another browser with the same link is asked again. The challenge stays here: whoever
knew its id could take it to the API, and be logged in without a password.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.errors import Invalid, NotFound, Unavailable, WrongCode
from identity.ids import TenantId, fingerprint
from identity.operations.login import two_factor_challenges
from identity.operations.password_changes import password_changes
from identity.operations.password_changes.password_changes import CompletedPasswordChange, PresentedTrust
from identity.operations.passwords.change_password_ids import ValidChangePasswordId
from identity.services import Services

_ASKED: Final = "change-password-asked"
_SHOWN: Final = "change-password-factor"
_SECONDS: Final = 600


@dataclasses.dataclass(frozen=True, slots=True)
class TwoFactorForm:
    """The second factor that is asked for first; `is_sent` when a code is on its way."""

    found: ValidChangePasswordId
    two_factor_id: str = dataclasses.field(repr=False)
    methods: tuple[Document, ...] = ()
    message: str = ""
    is_sent: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class PasswordForm:
    """A password may be set: the factor was shown where there is one."""

    found: ValidChangePasswordId
    is_shown: bool


async def show(services: Services, call: Call, change_id: str, browser: str) -> TwoFactorForm | PasswordForm:
    """What a change password id leads to in a browser; nothing is used up. Raises NotFound for one that is over."""
    found = await password_changes.get_valid_id(services, call, change_id)
    return await _judged(services, call, found, change_id, browser)


async def answer(
    services: Services, call: Call, change_id: str, browser: str, code: str
) -> TwoFactorForm | PasswordForm:
    """What a code comes to: the form of the password, or the question once more. Raises NotFound."""
    challenge = await show(services, call, change_id, browser)
    if isinstance(challenge, PasswordForm):
        return challenge
    found = challenge.found
    call = call.within(TenantId(found.tenant["id"]))
    try:
        await two_factor_challenges.verify_and_consume(services, call, challenge.two_factor_id, code.strip())
    except WrongCode:
        return dataclasses.replace(challenge, message="twoFactor.wrong")
    except Unavailable:
        return dataclasses.replace(challenge, message="[RateLimitedException]")
    except NotFound:
        # Too many tries, or too late: a new challenge, whose tries are counted for the account all the same.
        again = await _challenge(services, call, found, change_id, browser, is_new=True)
        return dataclasses.replace(again, message="twoFactor.over")
    await _remember(services, _SHOWN, found, change_id, browser, {})
    return PasswordForm(found, is_shown=True)


async def send(
    services: Services, call: Call, change_id: str, browser: str, method_id: str
) -> TwoFactorForm | PasswordForm:
    """Send a code to one of the user's methods. Raises NotFound."""
    challenge = await show(services, call, change_id, browser)
    if isinstance(challenge, PasswordForm):
        return challenge
    call = call.within(TenantId(challenge.found.tenant["id"]))
    try:
        await two_factor_challenges.send_code(services, call, challenge.two_factor_id, method_id)
    except Invalid:
        return dataclasses.replace(challenge, message="twoFactor.cannotSend")
    except Unavailable:
        return dataclasses.replace(challenge, message="[RateLimitedException]")
    return dataclasses.replace(challenge, is_sent=True)


async def complete(
    services: Services, call: Call, change: PasswordForm, change_id: str, password: str
) -> CompletedPasswordChange:
    """Set the password. Raises as `password_changes.complete` does."""
    call = call.within(TenantId(change.found.tenant["id"]))
    trust = PresentedTrust(is_verified=change.is_shown)
    return await password_changes.complete(services, call, change_id, password, trust=trust)


async def _judged(
    services: Services, call: Call, found: ValidChangePasswordId, change_id: str, browser: str
) -> TwoFactorForm | PasswordForm:
    if found.details.is_trusted or not password_changes.requires_trust_token(found.tenant, found.user):
        return PasswordForm(found, is_shown=False)
    if await _remembered(services, _SHOWN, found, change_id, browser) is not None:
        return PasswordForm(found, is_shown=True)
    return await _challenge(services, call.within(TenantId(found.tenant["id"])), found, change_id, browser)


async def _challenge(
    services: Services, call: Call, found: ValidChangePasswordId, change_id: str, browser: str, *, is_new: bool = False
) -> TwoFactorForm:
    """The challenge that waits in this browser, or a new one."""
    methods = tuple(two_factor_challenges.visible_methods(call, found.user))
    waiting = None if is_new else await _remembered(services, _ASKED, found, change_id, browser)
    if waiting is not None:
        with contextlib.suppress(NotFound):
            await two_factor_challenges.get_challenge(services, call, waiting["twoFactorId"])
            return TwoFactorForm(found, waiting["twoFactorId"], methods)
    about: Document = {"authenticationType": "PASSWORD"}
    secret = await two_factor_challenges.issue_challenge(services, call, found.tenant, None, found.user, about)
    await _remember(services, _ASKED, found, change_id, browser, {"twoFactorId": secret})
    return TwoFactorForm(found, secret, methods)


async def _remember(
    services: Services, kind: str, found: ValidChangePasswordId, change_id: str, browser: str, document: Document
) -> None:
    """Remember something of a change in one browser; what was remembered before is forgotten."""
    key, tenant_id = _key(change_id, browser), TenantId(found.tenant["id"])
    await services.one_time_tokens.consume(tenant_id, kind, key)
    await services.one_time_tokens.issue(tenant_id, kind, found.user["id"], document, _SECONDS, make=lambda: key)


async def _remembered(
    services: Services, kind: str, found: ValidChangePasswordId, change_id: str, browser: str
) -> Document | None:
    ticket = await services.one_time_tokens.find(TenantId(found.tenant["id"]), kind, _key(change_id, browser))
    return None if ticket is None or not browser or ticket.owner != found.user["id"] else ticket.document


def _key(change_id: str, browser: str) -> str:
    return fingerprint(f"{_SHOWN} {change_id} {browser}")
