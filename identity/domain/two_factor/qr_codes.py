"""QR codes (ISO/IEC 18004): a text as squares that a camera reads, for the SVG of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

_QUIET: Final = 4
"""How many light modules stand around a code (ISO/IEC 18004, section 9.1)."""

_CORRECTION: Final = "m"


def svg_path(text: str) -> tuple[str, int]:
    """The dark modules of a text's QR code as the data of an SVG path, and the side of its view box, margin included.

    Raises ValueError for a text that is too long.
    """
    rows = modules(text)
    runs = (
        f"M{x + _QUIET} {y + _QUIET}h{length}v1h-{length}z"
        for y, row in enumerate(rows)
        for x, length in _dark_runs(row)
    )
    return "".join(runs), len(rows) + 2 * _QUIET


def modules(text: str) -> Sequence[Sequence[int]]:
    """The modules of a text's QR code, row by row, 1 for a dark one. Raises ValueError for a text that is too long."""
    import segno  # noqa: PLC0415  few processes ever draw one

    return segno.make(text, error=_CORRECTION, boost_error=False, micro=False).matrix


def _dark_runs(row: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where dark modules of a row begin, and how many they are."""
    start = None
    for x, module in enumerate((*row, 0)):
        if module and start is None:
            start = x
        elif not module and start is not None:
            yield start, x - start
            start = None
