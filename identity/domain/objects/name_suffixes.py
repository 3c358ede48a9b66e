"""Substring search in names with an index: a name contains a text if one of its suffixes starts with it.

Each document stores every suffix of its name, case-folded and truncated, in an indexed list. The complete pattern is
matched against what the index finds.
"""

from __future__ import annotations

import re

MEMBER = "private.endings"
LENGTH = 24
"""The stored length of a suffix; only as much of a longer text is looked up."""


def of(name: str) -> list[str]:
    """Return the suffixes of a name."""
    folded = name.casefold()
    return sorted({folded[start : start + LENGTH] for start in range(len(folded))})


def pattern_of(piece: str) -> str:
    """Return the regular expression that a suffix matches if the name contains the text, up to the stored length."""
    return f"^{re.escape(piece.casefold()[:LENGTH])}"
