"""Errors of SCIM and their bodies (RFC 7644 section 3.12), with the published extension for users and groups."""

from __future__ import annotations

from typing import Final

from identity.call import Document
from identity.errors import Invalid, ServiceError, Unauthorized


class ScimError(ServiceError):
    """A refusal with the status and the `scimType` of the protocol."""

    def __init__(self, status: int, detail: str, scim_type: str | None = None, *, log_detail: str = "") -> None:
        super().__init__(detail, log_detail=log_detail)
        self.status = status
        self.scim_type = scim_type


def invalid(scim_type: str, detail: str) -> ScimError:
    """Return the error of a malformed request."""
    return ScimError(400, detail, scim_type)


_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:Error"
_EXTENSION: Final = "urn:ietf:params:scim:schemas:extension:fusionauth:2.0:Error"
_TAKEN: Final = ("[duplicate]", "[inactive]")


def body_of(error: ServiceError) -> Document:
    """Return the body of an error; its `status` is that of the response."""
    if isinstance(error, Invalid):
        return _of_invalid(error)
    status = 403 if isinstance(error, Unauthorized) else error.status
    detail = error.message or _DETAILS.get(status, "The request failed.")
    return _body(status, detail, error.scim_type if isinstance(error, ScimError) else None)


def _of_invalid(error: Invalid) -> Document:
    codes = [*(one.code for one in error.fields), *(one.code for one in error.general)]
    details: Document = {}
    for field in error.fields:
        entry = {"code": field.code, "message": field.message}
        details.setdefault("fieldErrors", {}).setdefault(field.path, []).append(entry)
    if error.general:
        details["generalErrors"] = [{"code": one.code, "message": one.message} for one in error.general]
    is_taken = any(code.startswith(_TAKEN) for code in codes)
    body = _body(
        409 if is_taken else 400,
        "Request failed, see errors for additional details.",
        "uniqueness" if is_taken else _scim_type(codes),
    )
    return {**body, "schemas": [_EXTENSION, _SCHEMA], _EXTENSION: details}


def _scim_type(codes: list[str]) -> str:
    if any(code.startswith("[invalidJSON]") or code == "[missing]" for code in codes):
        return "invalidSyntax"
    return "tooMany" if any(code.startswith("[tooMany]members") for code in codes) else "invalidValue"


def _body(status: int, detail: str, scim_type: str | None) -> Document:
    body: Document = {"schemas": [_SCHEMA], "status": str(status), "detail": detail}
    return body if scim_type is None else {**body, "scimType": scim_type}


_DETAILS: Final = {
    403: "The client may not act on this resource.",
    404: "The resource does not exist.",
    405: "The resource does not support this method.",
    500: "An unexpected error occurred.",
}
