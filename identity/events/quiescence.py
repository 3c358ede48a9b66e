"""A quiesced process: it answers requests, and sends nothing of its own accord until it is released."""

from __future__ import annotations

from identity.errors import Unavailable, WebhookTransactionFailed

_REASON = "The service is quiesced: it sends no webhook, mail or message until an operator releases it."


class Quiescence:
    """Whether this process holds back webhooks, mails, text messages and logout tokens."""

    def __init__(self, *, is_active: bool) -> None:
        self.is_active = is_active

    def require_delivery(self) -> None:
        """Raise Unavailable while no request to a webhook may leave this process."""
        if self.is_active:
            raise Unavailable(_REASON)

    def require_approval(self, event_type: str) -> None:
        """Raise WebhookTransactionFailed while webhooks cannot approve a change, as for one that does not answer."""
        if self.is_active:
            message = f"{_REASON} Without it, this change cannot be approved. Nothing was changed."
            raise WebhookTransactionFailed(message, log_detail=f"{event_type}: quiesced")
