"""Email templates for messages that must be sent even where the tenant configures no template."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from identity.call import Document

VERIFY_NEW_EMAIL: Final = MappingProxyType(
    {
        "name": "Verify new email address",
        "defaultSubject": "Verify your new email address",
        "defaultTextTemplate": (
            "Someone asked to use this address to sign in to an existing account.\n\n"
            "If that was you, confirm it here:\n${link}\n"
            "[#if verificationOneTimeCode?has_content]\nYour code: ${verificationOneTimeCode}\n[/#if]"
            "\nIf it was not you, ignore this email.\n"
        ),
    }
)
"""Values: `link`, `verificationOneTimeCode`."""

EMAIL_CHANGE_REQUESTED: Final = MappingProxyType(
    {
        "name": "Email change requested",
        "defaultSubject": "Your email address is about to change",
        "defaultTextTemplate": (
            "Someone asked to replace ${previousEmail} as the email address of your account.\n"
            "Your address stays in use until the new one is verified.\n\n"
            "If this was not you, revoke the change here, then choose a new password:\n${link}\n"
        ),
    }
)
"""Values: `previousEmail`, `link`."""


def document(template: MappingProxyType[str, str]) -> Document:
    """The template in the shape of a stored one."""
    return dict(template)
