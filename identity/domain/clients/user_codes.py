"""User codes of the device grant: generation, and normalization of typed codes (RFC 8628 section 6.1).

The letters are those of `generated_ids`. Case, spaces and hyphens are insignificant.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from identity.call import Document
from identity.domain.objects.generated_ids import ALPHABETS
from identity.ids import new_text

_IGNORED: Final = re.compile(r"[\s\u2010-\u2015-]+")
_MAXIMUM_CHARACTERS: Final = 300
"""More than any code has, including hyphens between all letters."""


def generate(generator: Document) -> str:
    """Return a random code of the tenant's `deviceUserCodeIdGenerator`; random bytes are hexadecimal."""
    length: int = generator["length"]
    alphabet = ALPHABETS.get(generator["type"])
    return secrets.token_hex(length).upper() if alphabet is None else new_text(length, alphabet)


def normalize(typed: str) -> str:
    """Return a typed code in the form in which it was issued; empty if it cannot be one."""
    text = _IGNORED.sub("", typed) if len(typed) <= _MAXIMUM_CHARACTERS else ""
    return text.upper() if text.isascii() and text.isalnum() else ""
