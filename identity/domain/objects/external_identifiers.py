"""The externalIdentifierConfiguration of a tenant: lifetimes and formats of the ids and codes that it issues.

Generated letters are upper case and without vowels, so that codes spell no words and have no ambiguous characters.
"""

from __future__ import annotations

import dataclasses
import secrets
from typing import Final

from identity.call import Document
from identity.domain.objects import stored_values
from identity.domain.objects.stored_values import stored_as
from identity.ids import Secret, new_text

_MEMBER: Final = "externalIdentifierConfiguration"
PASSWORDLESS_LOGIN: Final = "passwordlessLogin"
"""The kind of ids whose settings do not have `Id` in their names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long codes, ids and incomplete logins of a tenant are valid."""

    authorization_code_seconds: int = stored_as("authorizationGrantIdTimeToLiveInSeconds")
    connection_test_seconds: int = stored_as("identityProviderConnectionTestTimeToLiveInSeconds")
    device_code_seconds: int = stored_as("deviceCodeTimeToLiveInSeconds")
    login_intent_seconds: int = stored_as("loginIntentTimeToLiveInSeconds")
    one_time_password_seconds: int = stored_as("oneTimePasswordTimeToLiveInSeconds")
    passkey_login_seconds: int = stored_as("webAuthnAuthenticationChallengeTimeToLiveInSeconds")
    passkey_registration_seconds: int = stored_as("webAuthnRegistrationChallengeTimeToLiveInSeconds")
    pending_link_seconds: int = stored_as("pendingAccountLinkTimeToLiveInSeconds")
    scope_consent_seconds: int = stored_as("rememberOAuthScopeConsentChoiceTimeToLiveInSeconds")
    trust_token_seconds: int = stored_as("trustTokenTimeToLiveInSeconds")
    two_factor_challenge_seconds: int = stored_as("twoFactorIdTimeToLiveInSeconds")
    two_factor_code_seconds: int = stored_as("twoFactorOneTimeCodeIdTimeToLiveInSeconds")
    two_factor_trust_seconds: int = stored_as("twoFactorTrustIdTimeToLiveInSeconds")

    @classmethod
    def of(cls, tenant: Document) -> Lifetimes:
        """Return the lifetimes of a tenant."""
        return stored_values.from_document(cls, tenant[_MEMBER])


def two_factor_trust_seconds(tenant: Document, application: Document | None) -> int:
    """Return how long a trusted device needs no second factor: the application's setting, else the tenant's."""
    own = None if application is None else application[_MEMBER].get("twoFactorTrustIdTimeToLiveInSeconds")
    return own or Lifetimes.of(tenant).two_factor_trust_seconds


@dataclasses.dataclass(frozen=True, slots=True)
class IdSettings:
    """The lifetime and format of the ids of one kind, and of the codes that go with them if the kind has codes."""

    ttl_seconds: int
    id_format: Document
    code_format: Document

    @classmethod
    def of(cls, tenant: Document, kind: str) -> IdSettings:
        """Return the settings of a kind: a verification, `changePassword`, `setupPassword` or `passwordlessLogin`."""
        settings = tenant[_MEMBER]
        prefix = kind if kind == PASSWORDLESS_LOGIN else f"{kind}Id"
        return cls(
            settings[f"{prefix}TimeToLiveInSeconds"],
            settings[f"{prefix}Generator"],
            settings.get(f"{kind}OneTimeCodeGenerator", {}),
        )

    @property
    def has_numeric_codes(self) -> bool:
        """Whether codes consist of digits."""
        return bool(self.code_format["type"] == "randomDigits")

    def new_id(self) -> Secret:
        """Generate an id."""
        return generate_id(self.id_format)

    def new_code(self) -> Secret:
        """Generate a code that a user types."""
        return generate_id(self.code_format)


_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
ALPHABETS: Final = {
    "randomAlpha": _LETTERS,
    "randomAlphaNumeric": _LETTERS + "23456789",
    "randomDigits": "0123456789",
}
"""The characters of each type of generator, except `randomBytes`."""


def generate_id(generator: Document) -> Secret:
    """Return a random id or code; random bytes are encoded in base64url without padding."""
    length: int = generator["length"]
    alphabet = ALPHABETS.get(generator["type"])
    return Secret(secrets.token_urlsafe(length) if alphabet is None else new_text(length, alphabet))
