"""Properties files: `key=text` or `key: text`, one per line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator


@functools.lru_cache(maxsize=64)
def read(text: str) -> dict[str, str]:
    """Parse a properties text: `key=text` or `key: text`, comments after `#` or `!`, Unicode escapes."""
    found = {}
    for line in logical_lines(text):
        # Possessive, to prevent backtracking over long lines.
        match = re.match(r"((?:[^=:\\]|\\.)++)[=:](.*)$", line, re.DOTALL)
        if match is not None:
            found[_unescaped(match[1].rstrip())] = _unescaped(match[2].lstrip())
    return found


def logical_lines(text: str) -> Iterator[str]:
    """Return the logical lines: a line that ends in a backslash is joined to the next; comments are empty."""
    held: list[str] = []
    for raw in text.splitlines():
        part = raw.lstrip()
        if not held and part[:1] in {"#", "!"}:
            yield ""
        elif (len(part) - len(part.rstrip("\\"))) % 2:
            held.append(part[:-1])
            yield ""
        else:
            yield "".join([*held, part]).rstrip()
            held = []
    if held:
        yield "".join(held)


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}.get(found[2], found[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", character, text)
