"""A quiesced process: it answers requests, and sends nothing of its own accord until it is released."""

from __future__ import annotations

from identity.errors import Unavailable

_REFUSAL = (
    "The service is quiesced: it sends no webhook, mail or message until an operator releases it. Nothing was changed."
)


class Quiescence:
    """Whether this process holds back webhooks, mails, text messages and logout tokens."""

    def __init__(self, *, is_active: bool) -> None:
        self.is_active = is_active

    def require_released(self) -> None:
        """Raise Unavailable while a request to a webhook must not leave this process."""
        if self.is_active:
            raise Unavailable(_REFUSAL, log_detail="the service is quiesced")
