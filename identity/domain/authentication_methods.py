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


def of(authentication_type: str) -> tuple[str, ...]:
    """The methods behind an authenticationType; none for one that is not an authentication of the user.

    Somebody else's authentication is `fed`, which RFC 8176 leaves to its users to define: what was done there is not
    known here.
    """
    if authentication_type in _FEDERATED:
        return ("fed",)
    return _METHODS.get(authentication_type, ())
