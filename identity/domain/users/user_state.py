"""`userState` of an authorization response: a hint about missing verifications or registration, never a decision."""

from __future__ import annotations

from identity.call import Document
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import users


def derive(user: Document, tenant: Document, application: Document) -> str:
    """Return the first state that applies; what needs no verification counts as verified."""
    registration = users.find_registration(user, application["id"])
    if registration is None:
        return "AuthenticatedNotRegistered"
    if EmailVerification.of(tenant).verify_email and not user["verified"]:
        return "AuthenticatedNotVerified"
    if application["verifyRegistration"] and not registration["verified"]:
        return "AuthenticatedRegistrationNotVerified"
    return "Authenticated"
