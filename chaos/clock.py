"""run.py with a clock that is wrong by as much as a file says: `python -m chaos.clock FILE ARGUMENTS...`."""

from __future__ import annotations

import sys
from pathlib import Path

import run
from identity import app
from identity.instants import Instant, SystemClock, later


class WrongClock(SystemClock):
    """The machine's clock, and the seconds in the file on top of it; the file may change at any time."""

    file: Path

    def now(self) -> Instant:
        """The present instant, as this process believes it to be."""
        try:
            return later(super().now(), seconds=float(self.file.read_text()))
        except ValueError:  # it is just being written
            return super().now()


if __name__ == "__main__":
    WrongClock.file = Path(sys.argv[1])
    vars(app)["SystemClock"] = WrongClock
    sys.exit(run.main(sys.argv[2:]))
