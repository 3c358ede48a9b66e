"""Errors of SCIM requests (RFC 7644 section 3.12)."""

from __future__ import annotations

from identity.errors import ServiceError


class ScimError(ServiceError):
    """A refusal with the status and the `scimType` of the protocol."""

    def __init__(self, status: int, detail: str, scim_type: str | None = None, *, log_detail: str = "") -> None:
        super().__init__(detail, log_detail=log_detail)
        self.status = status
        self.scim_type = scim_type


def invalid(scim_type: str, detail: str) -> ScimError:
    """Return the error of a malformed request."""
    return ScimError(400, detail, scim_type)
