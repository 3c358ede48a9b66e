"""Authentication method references (RFC 8176): the `amr` claim of each authenticationType."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "GENERIC_CONNECTOR": ("pwd",),
    "LDAP_CONNECTOR": ("pwd",),
    "ONE_TIME_PASSWORD": ("otp",),
    "PASSWORD": ("pwd",),
    "PASSWORDLESS": ("otp",),
    "REGISTRATION": ("pwd",),
    "USER_CREATE": ("pwd",),
    "WebAuthn": ("hwk",),
}
_FEDERATED: Final = frozenset(
    {"APPLE", "EpicGames", "FACEBOOK", "FEDERATED_JWT", "GOOGLE", "HYPR", "LINKEDIN", "Nintendo", "OPENID_CONNECT"}
    | {"SAMLv2", "SAMLv2IdpInitiated", "SonyPSN", "Steam", "TWITTER", "Twitch", "Xbox"}
)

_SECOND: Final[Mapping[str, tuple[str, ...]]] = {
    "authenticator": ("otp", "mfa"),
    "email": ("otp", "mfa"),
    "recoveryCode": ("otp", "mfa"),
    "sms": ("otp", "sms", "mfa"),
    "voice": ("otp", "tel", "mfa"),
}
"""Method of the second factor -> the references that it adds. A trusted device adds none."""


def of(authentication_type: str, second_factor: str = "") -> tuple[str, ...]:
    """Return the references of an authenticationType; none where the user did not authenticate.

    A federated login is `fed`, a value that RFC 8176 does not define: how the identity provider authenticated the user
    is unknown. `second_factor` is the method of the second factor, if any.
    """
    first = ("fed",) if authentication_type in _FEDERATED else _METHODS.get(authentication_type, ())
    return tuple(dict.fromkeys((*first, *(_SECOND.get(second_factor, ()) if first else ()))))
