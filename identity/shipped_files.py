"""The folders schemas/ and config/: of the source tree, or of the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent
INSTALLED_FOLDER: Final = "shipped"
"""The folder inside the package into which setup.py copies them."""


def folder(name: str) -> Path:
    """Return the path of a folder of the distribution, `schemas` or `config`."""
    installed = _PACKAGE / INSTALLED_FOLDER / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
