"""The exit codes of all commands."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILURE: Final = 1
"""The command could not do its work; the message says why."""
USAGE: Final = 2
"""Unknown commands, options or values."""
REFUSED: Final = 3
"""The API refused the request; the message lists its errors."""
NOT_FOUND: Final = 4
UNAUTHORIZED: Final = 5
"""The API key is missing, unknown, or lacks a permission."""
UNREACHABLE: Final = 6
"""No service answers at the URL, or it answers with an error of its own."""
DIFFERENCES: Final = 10
"""`plan --check`: the instance differs from the files."""
CONFIG: Final = 78
"""EX_CONFIG of sysexits.h: an init system should not restart the service (docs/deploy/identity@.service)."""
