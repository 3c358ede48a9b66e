"""run.py with a clock error read from a file: `python -m chaos.clock FILE ARGUMENTS...`."""

from __future__ import annotations

import sys
from pathlib import Path

import run
from identity import app
from identity.instants import Instant, SystemClock, later


class WrongClock(SystemClock):
    """The system clock plus the seconds in the file, which may change at any time."""

    file: Path

    def now(self) -> Instant:
        """The current instant with the error."""
        try:
            return later(super().now(), seconds=float(self.file.read_text()))
        except ValueError:  # the file is being written
            return super().now()


if __name__ == "__main__":
    WrongClock.file = Path(sys.argv[1])
    vars(app)["SystemClock"] = WrongClock
    sys.exit(run.main(sys.argv[2:]))
