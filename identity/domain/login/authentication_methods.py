"""How a user authenticated, in the words of RFC 8176 (the claim `amr`)."""

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
"""Method of a second factor -> what it adds. A browser that is trusted shows nothing, and adds nothing."""


def of(authentication_type: str, second_factor: str = "") -> tuple[str, ...]:
    """The methods behind an authenticationType; none for one that is not an authentication of the user.

    Somebody else's authentication is `fed`, which RFC 8176 leaves to its users to define: what was done there is not
    known here. `second_factor` is the method of the second factor, if there was one.
    """
    first = ("fed",) if authentication_type in _FEDERATED else _METHODS.get(authentication_type, ())
    return tuple(dict.fromkeys((*first, *(_SECOND.get(second_factor, ()) if first else ()))))
