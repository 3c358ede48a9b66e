"""The static files of the hosted pages, under paths that change with their content."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from identity.ids import fingerprint

_FOLDER: Final = Path(__file__).resolve().parent / "static"
TYPES: Final[Mapping[str, str]] = {
    "favicon.svg": "image/svg+xml",
    "pages.js": "text/javascript; charset=utf-8",
    "passkey.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
}
"""File -> Content-Type."""


@functools.cache
def asset(name: str) -> bytes:
    """Return a static file."""
    return (_FOLDER / name).read_bytes()


@functools.cache
def asset_path(name: str) -> str:
    """Return the path of a static file; it changes with the content, so that browsers can cache it forever."""
    stem, _, suffix = name.partition(".")
    return f"/static/{stem}-{fingerprint(asset(name).decode())[:16]}.{suffix}"


def find(path: str) -> str | None:
    """Return the name of the file that is served at a path; None for an unknown path or another version."""
    return next((name for name in TYPES if asset_path(name) == path), None)
