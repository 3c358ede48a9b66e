"""What the pages of a verification say that has to come before a login is complete."""

from __future__ import annotations

from identity.call import Document
from identity.operations.pages import verification_pages
from identity.operations.pages.verification_pages import VerificationPage
from identity.web.hosted.page_theme import PageTheme


def values(gate: VerificationPage, look: PageTheme) -> Document:
    """What the template reads."""
    kind = "emailVerificationRequired." if gate.is_email else "registrationVerificationRequired."
    name = f"{'email' if gate.is_email else 'registration'}VerificationOneTimeCodeGenerator"
    generator = gate.transaction.client.tenant["externalIdentifierConfiguration"][name]
    return {
        "title": look[f"{kind}title"],
        "heading": look[f"{kind}heading"],
        "lead": look.fill(f"{kind}lead", gate.email, strong=True),
        "asks_code": gate.asks_code,
        "is_numeric": generator["type"] == "randomDigits",
        "may_change_email": gate.may_change_email,
        "message": look[gate.message] if gate.message else "",
        "is_good": gate.message == verification_pages.SENT,
        "is_wrong": gate.message == verification_pages.WRONG,
        "is_unusable": gate.message == verification_pages.UNUSABLE,
    }
