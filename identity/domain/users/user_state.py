"""`userState` of an authorization response: a hint to the client of what the user still lacks (never a decision)."""

from __future__ import annotations

from identity.call import Document
from identity.domain.users import users


def of(user: Document, tenant: Document, application: Document) -> str:
    """The first that holds, from top to bottom; what nobody asks to be verified counts as verified."""
    registration = users.find_registration(user, application["id"])
    if registration is None:
        return "AuthenticatedNotRegistered"
    if tenant["emailConfiguration"]["verifyEmail"] and not user["verified"]:
        return "AuthenticatedNotVerified"
    if application["verifyRegistration"] and not registration["verified"]:
        return "AuthenticatedRegistrationNotVerified"
    return "Authenticated"
