"""QR codes (ISO/IEC 18004) as SVG paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

_QUIET: Final = 4
"""The width of the quiet zone around a code, in modules (ISO/IEC 18004 section 9.1)."""

_CORRECTION: Final = "m"


def svg_path(text: str) -> tuple[str, int]:
    """Return the QR code of a text as SVG path data, and the side of its view box including the quiet zone.

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
    """Return the modules of a text's QR code row by row, 1 for dark. Raises ValueError for a text that is too long."""
    import segno  # noqa: PLC0415  most processes never draw one

    return segno.make(text, error=_CORRECTION, boost_error=False, micro=False).matrix


def _dark_runs(row: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each run of dark modules in a row."""
    start = None
    for x, module in enumerate((*row, 0)):
        if module and start is None:
            start = x
        elif not module and start is not None:
            yield start, x - start
            start = None
