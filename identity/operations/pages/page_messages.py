"""Keys of page texts that report the result of a step on several pages."""

from __future__ import annotations

from typing import Final

from identity.errors import ServiceError, Unavailable, WebhookTransactionFailed

CODE_SENT: Final = "twoFactor.sent"
WRONG_CODE: Final = "twoFactor.wrongCode"
CANNOT_SEND: Final = "twoFactor.cannotSend"
TOO_MANY_ATTEMPTS: Final = "[RateLimitedException]"
LOGIN_REJECTED: Final = "[WebhookTransactionException]"
CHANGE_REJECTED: Final = "verify.vetoed"
SERVICE_BUSY: Final = "[ServiceBusy]"


def of_code_error(error: ServiceError, *, rejected: str = LOGIN_REJECTED, wrong: str = WRONG_CODE) -> str:
    """Return the text for an error that a code raised: rate limit, webhook veto (`rejected`), or `wrong` code."""
    if isinstance(error, Unavailable):
        return TOO_MANY_ATTEMPTS
    return rejected if isinstance(error, WebhookTransactionFailed) else wrong
