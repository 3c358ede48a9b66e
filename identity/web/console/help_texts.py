"""Help texts below fields: the descriptions of the schemas, without those that only repeat the label."""

from __future__ import annotations

import re
from typing import Final

_WORD: Final = re.compile(r"[a-z0-9]+")
_FILLERS: Final = re.compile(
    "address|an?|and|are|be|by|for|ha[sv]e?|in|is|its?|object|of|that|the|this|to|whether|with"
)
"""Words that say nothing of their own."""
_HINTS: Final = {"lines": "One per line.", "pairs": "One “name: value” per line.", "instant": "In UTC."}
"""How to fill in a field, by its kind."""


def help_text(description: str, label: str, singular: str, kind: str) -> str:
    """Return the help text of a field of an object; `singular` is what the object is called."""
    informative = "" if _repeats(description, label, singular) else description
    return " ".join(filter(None, (informative, _HINTS.get(kind, ""))))


def _repeats(description: str, label: str, singular: str) -> bool:
    """Whether a description has no word that the label lacks, apart from the name of the object."""
    own, named = _words(label), _words(singular)
    added = [word for word in _words(description) if word not in named]
    return set(added) <= set(own) or "".join(added) == "".join(own)


def _words(text: str) -> list[str]:
    """Return the words of a text that are no fillers, in lower case and in the singular."""
    words = _WORD.findall(text.lower())
    return [word.removesuffix("s") for word in words if not _FILLERS.fullmatch(word)]
