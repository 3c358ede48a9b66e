"""Settings of tenants and applications that several features decide on, as values."""

from __future__ import annotations

import dataclasses
from typing import Final

from identity.call import Document
from identity.domain.objects import stored_values

FORM_FIELD: Final = "FormField"
"""The verification strategy with a code to enter; that of ClickableLink sends a link."""


@dataclasses.dataclass(frozen=True, slots=True)
class EmailVerification:
    """How a tenant verifies email addresses: members of its emailConfiguration."""

    verify_email: bool = False
    verify_email_when_changed: bool = False
    implicit_email_verification_allowed: bool = False
    verification_strategy: str = "ClickableLink"
    unverified: Document = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, tenant: Document) -> EmailVerification:
        """Return the settings of a tenant."""
        return stored_values.from_document(cls, tenant["emailConfiguration"])

    @property
    def uses_code(self) -> bool:
        """Whether mails contain a code to enter; otherwise they contain a link."""
        return self.verification_strategy == FORM_FIELD

    @property
    def is_gated(self) -> bool:
        """Whether users have to verify their address before they log in."""
        return self.verify_email and self.unverified["behavior"] == "Gated"


@dataclasses.dataclass(frozen=True, slots=True)
class LoginSettings:
    """The loginConfiguration of a tenant or application; that of a tenant has the last member only."""

    allow_token_refresh: bool = False
    generate_refresh_tokens: bool = False
    require_authentication: bool = True

    @classmethod
    def of(cls, owner: Document) -> LoginSettings:
        """Return the settings of a tenant or application."""
        return stored_values.from_document(cls, owner["loginConfiguration"])


@dataclasses.dataclass(frozen=True, slots=True)
class RevocationPolicy:
    """The events that revoke the refresh tokens of a user: the refreshTokenRevocationPolicy of a tenant."""

    on_login_prevented: bool
    on_multi_factor_enable: bool
    on_one_time_token_reuse: bool
    on_password_changed: bool

    @classmethod
    def of(cls, tenant: Document) -> RevocationPolicy:
        """Return the policy of a tenant."""
        return stored_values.from_document(cls, tenant["jwtConfiguration"]["refreshTokenRevocationPolicy"])
