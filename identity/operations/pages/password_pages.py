"""The pages that change a forgotten or expired password.

A user with two-factor authentication enters a code first, unless the login that led here did. The completed challenge
is stored for this browser and change password id only: another browser with the same link has to complete its own. The
id of the challenge never leaves the service, because the API would complete a login with it without a password.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Final

from identity.call import Call, Document
from identity.errors import Invalid, NotFound, Unavailable, WrongCode
from identity.ids import TenantId, fingerprint
from identity.operations.login import two_factor_challenges
from identity.operations.pages import page_messages
from identity.operations.password_changes import password_changes
from identity.operations.password_changes.password_changes import CompletedPasswordChange, PresentedTrust
from identity.operations.passwords.change_password_ids import ValidChangePasswordId
from identity.services import Services

_CHALLENGED: Final = "change-password-asked"
_COMPLETED: Final = "change-password-factor"
_LIFETIME_SECONDS: Final = 600

WRONG_CODE: Final = "twoFactor.wrong"
_EXPIRED: Final = "twoFactor.over"


@dataclasses.dataclass(frozen=True, slots=True)
class TwoFactorForm:
    """The user has to enter a two-factor code; `message` is the key of a page text."""

    valid_id: ValidChangePasswordId
    two_factor_id: str = dataclasses.field(repr=False)
    methods: tuple[Document, ...] = ()
    message: str = ""
    is_code_sent: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class PasswordForm:
    """The user may enter a new password."""

    valid_id: ValidChangePasswordId
    has_second_factor: bool


async def show(services: Services, call: Call, change_id: str, browser: str) -> TwoFactorForm | PasswordForm:
    """Return the form for a change password id in a browser, without consuming it. Raises NotFound."""
    valid_id = await password_changes.get_valid_id(services, call, change_id)
    tenant, user = valid_id.tenant, valid_id.user
    if valid_id.details.is_trusted or not await password_changes.requires_trust_token(services, call, tenant, user):
        return PasswordForm(valid_id, has_second_factor=False)
    if await _find(services, _COMPLETED, valid_id, change_id, browser) is not None:
        return PasswordForm(valid_id, has_second_factor=True)
    return await _challenge(services, call.within(TenantId(valid_id.tenant["id"])), valid_id, change_id, browser)


async def enter_code(
    services: Services, call: Call, change_id: str, browser: str, code: str
) -> TwoFactorForm | PasswordForm:
    """Verify a two-factor code; returns the password form, or the same form for an incorrect code. Raises NotFound."""
    form = await show(services, call, change_id, browser)
    if isinstance(form, PasswordForm):
        return form
    valid_id = form.valid_id
    call = call.within(TenantId(valid_id.tenant["id"]))
    try:
        await two_factor_challenges.verify_and_consume(services, call, form.two_factor_id, code.strip())
    except (WrongCode, Unavailable) as error:
        return dataclasses.replace(form, message=page_messages.of_code_error(error, wrong=WRONG_CODE))
    except NotFound:
        # Expired, or too many attempts. The attempts of the new challenge count for the same account.
        form = await _challenge(services, call, valid_id, change_id, browser, is_new=True)
        return dataclasses.replace(form, message=_EXPIRED)
    await _store(services, _COMPLETED, valid_id, change_id, browser, {})
    return PasswordForm(valid_id, has_second_factor=True)


async def send_code(
    services: Services, call: Call, change_id: str, browser: str, method_id: str
) -> TwoFactorForm | PasswordForm:
    """Send a code with one of the user's methods. Raises NotFound."""
    form = await show(services, call, change_id, browser)
    if isinstance(form, PasswordForm):
        return form
    call = call.within(TenantId(form.valid_id.tenant["id"]))
    try:
        await two_factor_challenges.send_code(services, call, form.two_factor_id, method_id)
    except (Invalid, Unavailable) as error:
        message = page_messages.of_code_error(error, wrong=page_messages.CANNOT_SEND)
        return dataclasses.replace(form, message=message)
    return dataclasses.replace(form, is_code_sent=True)


async def complete(
    services: Services, call: Call, form: PasswordForm, change_id: str, password: str
) -> CompletedPasswordChange:
    """Set the password. Raises as `password_changes.complete` does."""
    call = call.within(TenantId(form.valid_id.tenant["id"]))
    trust = PresentedTrust(is_verified=form.has_second_factor)
    return await password_changes.complete(services, call, change_id, password, trust=trust)


async def _challenge(
    services: Services,
    call: Call,
    valid_id: ValidChangePasswordId,
    change_id: str,
    browser: str,
    *,
    is_new: bool = False,
) -> TwoFactorForm:
    """Return the open challenge of this browser, or issue one."""
    methods = tuple(two_factor_challenges.visible_methods(call, valid_id.user))
    stored = None if is_new else await _find(services, _CHALLENGED, valid_id, change_id, browser)
    if stored is not None:
        with contextlib.suppress(NotFound):
            await two_factor_challenges.get_challenge(services, call, stored["twoFactorId"])
            return TwoFactorForm(valid_id, stored["twoFactorId"], methods)
    document: Document = {"authenticationType": "PASSWORD"}
    two_factor_id = await two_factor_challenges.issue_challenge(
        services, call, valid_id.tenant, None, valid_id.user, document
    )
    await _store(services, _CHALLENGED, valid_id, change_id, browser, {"twoFactorId": two_factor_id})
    return TwoFactorForm(valid_id, two_factor_id, methods)


async def _store(
    services: Services, kind: str, valid_id: ValidChangePasswordId, change_id: str, browser: str, document: Document
) -> None:
    """Store the state of a change in one browser, replacing the previous one."""
    key, tenant_id = _key(change_id, browser), TenantId(valid_id.tenant["id"])
    await services.tokens.one_time_tokens.consume(tenant_id, kind, key)
    await services.tokens.one_time_tokens.issue(
        tenant_id, kind, valid_id.user["id"], document, _LIFETIME_SECONDS, make=lambda: key
    )


async def _find(
    services: Services, kind: str, valid_id: ValidChangePasswordId, change_id: str, browser: str
) -> Document | None:
    token = await services.tokens.one_time_tokens.find(TenantId(valid_id.tenant["id"]), kind, _key(change_id, browser))
    return None if token is None or not browser or token.owner != valid_id.user["id"] else token.document


def _key(change_id: str, browser: str) -> str:
    return fingerprint(f"{_COMPLETED} {change_id} {browser}")
