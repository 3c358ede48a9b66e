"""Ids and codes as a tenant's `externalIdentifierConfiguration` wants them made: of which characters, and how long.

Letters are upper case without vowels, so that no code spells a word, and nothing looks like something else.
"""

from __future__ import annotations

import secrets
from typing import Final

from identity.call import Document
from identity.ids import Secret, new_text

_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
ALPHABETS: Final = {
    "randomAlpha": _LETTERS,
    "randomAlphaNumeric": _LETTERS + "23456789",
    "randomDigits": "0123456789",
}
"""Type of generator -> the characters of what it makes; `randomBytes` is not among them."""


def new(generator: Document) -> Secret:
    """A random id or code; random bytes are written in base64url without padding."""
    length: int = generator["length"]
    alphabet = ALPHABETS.get(generator["type"])
    return Secret(secrets.token_urlsafe(length) if alphabet is None else new_text(length, alphabet))
