"""The exit codes of all commands."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILURE: Final = 1
"""The command could not do its work; the message says why."""
USAGE: Final = 2
"""Unknown commands, options or values."""
CONFIG: Final = 78
"""EX_CONFIG of sysexits.h: an init system should not restart the service (docs/deploy/identity@.service)."""
