"""The published shape of errors in JSON."""

from __future__ import annotations

from identity.call import Document
from identity.errors import Invalid, LambdaFailed, LoopDetected, ServiceError, TooLarge, Unavailable


def errors_body(error: ServiceError) -> Document | None:
    """The Errors JSON of an error, or None where the body is empty."""
    if isinstance(error, Invalid):
        body: Document = {}
        for field in error.fields:
            entry = {"code": field.code, "message": field.message}
            body.setdefault("fieldErrors", {}).setdefault(field.path, []).append(entry)
        if error.general:
            body["generalErrors"] = [{"code": e.code, "message": e.message} for e in error.general]
        return body
    code = _GENERAL_CODES.get(error.status)
    return None if code is None else {"generalErrors": [{"code": code, "message": error.message or code}]}


_GENERAL_CODES = {
    TooLarge.status: "[TooLarge]",
    Unavailable.status: "[Unavailable]",
    504: "[WebhookTransactionException]",
    LoopDetected.status: "[LoopDetected]",
    LambdaFailed.status: "[LambdaFailed]",
}
