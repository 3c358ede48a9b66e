"""The files of the pages: templates, and static files under paths that change with their content."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import jinja2

from identity.ids import fingerprint

_WEB: Final = Path(__file__).resolve().parent
_PALETTE: Final = _WEB / "palette.css"
"""The colours of both; each stylesheet begins with them."""
_PATHS: Final[Mapping[str, str]] = {"hosted": "/static", "console": "/admin/static"}
"""Folder of identity/web -> the path below which its static files are served."""
_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@functools.cache
def content(folder: str, name: str) -> bytes:
    """Return a static file. Raises LookupError for any other name: those of page templates come from themes."""
    file = _static_files(folder).get(name)
    if file is None:
        raise LookupError(f"there is no static file [{name[:100]}]")
    return _PALETTE.read_bytes() + file.read_bytes() if file.suffix == ".css" else file.read_bytes()


def content_type(name: str) -> str:
    """Return the Content-Type of a static file."""
    return _TYPES[Path(name).suffix]


@functools.cache
def path(folder: str, name: str) -> str:
    """Return the path of a static file; it changes with the content, so that browsers can cache it forever.

    Raises LookupError for a name that is not one of the folder's files.
    """
    return f"{_PATHS[folder]}/{_versioned(folder, name)}"


@functools.cache
def names(folder: str) -> Mapping[str, str]:
    """Return the files of a folder: last segment of the current path -> name."""
    return {_versioned(folder, name): name for name in _static_files(folder)}


@functools.cache
def _static_files(folder: str) -> Mapping[str, Path]:
    return {file.name: file for file in (_WEB / folder / "static").iterdir() if file.is_file()}


def _versioned(folder: str, name: str) -> str:
    stem, _, suffix = name.partition(".")
    return f"{stem}-{fingerprint(content(folder, name).decode())[:16]}.{suffix}"


def environment(folder: Path, *, strips_blocks: bool = True) -> jinja2.Environment:
    """Return the Jinja environment of a folder of templates.

    It escapes values, refuses undefined ones, and keeps compiled templates. `strips_blocks` removes the indentation
    before block tags.
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=strips_blocks,
        auto_reload=False,
        cache_size=-1,
    )
