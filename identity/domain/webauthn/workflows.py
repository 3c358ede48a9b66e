"""The WebAuthn workflows of tenants and applications.

bootstrap: a login by a user who may never have used this browser
reauthentication: a later login in the same browser
general: the registration of a passkey for either
"""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document

BOOTSTRAP: Final = "bootstrap"
REAUTHENTICATION: Final = "reauthentication"
GENERAL: Final = "general"

_MEMBERS: Final = {BOOTSTRAP: "bootstrapWorkflow", REAUTHENTICATION: "reauthenticationWorkflow"}
_ATTACHMENTS: Final = {"platform": "platform", "crossPlatform": "cross-platform"}
REQUIRED: Final = "required"


@dataclasses.dataclass(frozen=True, slots=True)
class Workflow:
    """The effective settings of a workflow.

    `user_verification` is required, preferred or discouraged; `attachment` is platform, cross-platform, or None for
    any authenticator.
    """

    is_enabled: bool
    user_verification: str
    attachment: str | None = None


def is_enabled(tenant: Document) -> bool:
    """Whether the tenant enables passkeys at all."""
    return bool(tenant["webAuthnConfiguration"]["enabled"])


def effective(tenant: Document, application: Document | None, name: str) -> Workflow:
    """Return a workflow of a login to the application, or to the tenant alone.

    An application with settings of its own enables the workflow in place of the tenant, whose other settings apply.
    """
    if name == GENERAL:
        return _general(tenant)
    settings = tenant["webAuthnConfiguration"][_MEMBERS[name]]
    own = None if application is None else application["webAuthnConfiguration"]
    switch = own[_MEMBERS[name]] if own is not None and own["enabled"] else settings
    return Workflow(
        is_enabled(tenant) and switch["enabled"],
        settings["userVerificationRequirement"],
        _ATTACHMENTS.get(settings["authenticatorAttachmentPreference"]),
    )


def _general(tenant: Document) -> Workflow:
    """Return the settings for a passkey that is used with every workflow.

    They are the strictest user verification, and the attachment on which the enabled workflows agree.
    """
    workflows = [tenant["webAuthnConfiguration"][member] for member in _MEMBERS.values()]
    requirements = {settings["userVerificationRequirement"] for settings in workflows}
    enabled = [settings for settings in workflows if settings["enabled"]] or workflows
    preference, *others = {settings["authenticatorAttachmentPreference"] for settings in enabled}
    return Workflow(
        is_enabled(tenant),
        REQUIRED if REQUIRED in requirements else "preferred",
        None if others else _ATTACHMENTS.get(preference),
    )
