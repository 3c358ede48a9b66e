"""Finding a text inside of names by an index: a name holds it where one of the name's endings begins with it.

Each document keeps every ending of its name, without regard to case and cut short, in a list that has an index. What is
found that way is judged once more by the whole pattern.
"""

from __future__ import annotations

import re

MEMBER = "private.endings"
LENGTH = 24
"""How much of an ending is kept; of a longer text only so much is looked up."""


def of(name: str) -> list[str]:
    """The endings of a name."""
    folded = name.casefold()
    return sorted({folded[start : start + LENGTH] for start in range(len(folded))})


def looked_up(piece: str) -> str:
    """The regular expression that an ending matches where the name holds this piece, as far as it is kept."""
    return f"^{re.escape(piece.casefold()[:LENGTH])}"
