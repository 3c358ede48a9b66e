"""Installs the packages of a folder with npm."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

_COMMAND = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=5"]


def install(folder: Path) -> Path:
    """Return node_modules, with what package-lock.json names: the first of several test processes installs it."""
    packages = folder / "node_modules"
    with (folder / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (packages / ".package-lock.json").exists():  # npm writes it last
            subprocess.run(_COMMAND, cwd=folder, check=True, capture_output=True)
    return packages
