"""Locates the server programs in installed wheels, without importing them."""

from __future__ import annotations

import importlib.util
import os
import stat
from pathlib import Path

from identity.errors import StartupError


def find(package: str, *parts: str) -> Path | None:
    """The executable at `parts` in an installed package; None if it is not installed."""
    found = importlib.util.find_spec(package)
    for folder in found.submodule_search_locations or () if found else ():
        program = Path(folder, *parts)
        if program.is_file():
            return _runnable(program)
    return None


def _runnable(program: Path) -> Path:
    if not os.access(program, os.X_OK):  # some installers remove the executable bit
        try:
            program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        except OSError as error:
            raise StartupError(f"{program} is not executable; run: chmod +x {program}") from error
    return program
