"""The relying party of an API request."""

from __future__ import annotations

from identity.call import Document
from identity.domain.webauthn import relying_party
from identity.errors import FieldError
from identity.operations.objects import crud


def require(tenant: Document, request: Document) -> None:
    """Raise Invalid unless the `origin` and `rpId` of a request are those of the tenant.

    Without a configured relying party id, that of a page is the domain of its origin.
    """
    origin, stated = request["origin"], request["rpId"]
    expected = relying_party.configured_id(tenant) or relying_party.host_of(origin)
    errors = []
    if expected is None or not relying_party.includes(expected, origin):
        errors.append(
            FieldError.invalid("origin", "must be an origin of the relying party, with https or on localhost")
        )
    elif stated != expected:
        errors.append(
            FieldError.invalid(
                "rpId", "must be the relying party id of the tenant, by default the domain of the origin"
            )
        )
    if request["credential"].get("rpId") not in {None, stated}:
        errors.append(FieldError.invalid("credential.rpId", "must equal the [rpId]"))
    crud.require_no_errors(errors)
