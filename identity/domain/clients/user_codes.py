"""User codes of the device grant: what they look like, and how a person may write one (RFC 8628 section 6.1).

Letters are those of `generated_ids`. Case, blanks and hyphens of what is typed do not count.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from identity.call import Document
from identity.domain.objects.generated_ids import ALPHABETS
from identity.ids import new_text

_IGNORED: Final = re.compile(r"[\s\u2010-\u2015-]+")
_LONGEST: Final = 300
"""More letters than any code has, hyphens between them included."""


def generate(generator: Document) -> str:
    """A random code as the tenant's `deviceUserCodeIdGenerator` wants it; random bytes are written in hexadecimal."""
    length: int = generator["length"]
    alphabet = ALPHABETS.get(generator["type"])
    return secrets.token_hex(length).upper() if alphabet is None else new_text(length, alphabet)


def normalize(typed: str) -> str:
    """A code as it was given out, however somebody wrote it; empty for what can be none."""
    text = _IGNORED.sub("", typed) if len(typed) <= _LONGEST else ""
    return text.upper() if text.isascii() and text.isalnum() else ""
