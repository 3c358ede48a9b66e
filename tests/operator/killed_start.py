"""run.py that is killed before its n-th write: `python -m tests.operator.killed_start N FILE ARGUMENTS...`.

A write is a command to MongoDB that changes something, or a file that gets its name. FILE lists the writes of the
process, the last of which was not made. With N = 0 the process is not killed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pymongo.monitoring

import run

_WRITES = frozenset(
    {
        *("insert", "update", "delete", "findAndModify", "commitTransaction", "createIndexes", "dropIndexes"),
        *("createUser", "updateUser", "replSetInitiate", "replSetReconfig"),
    }
)
_FILE_EVENTS = frozenset({"os.rename", "os.link"})


class Writes(pymongo.monitoring.CommandListener):
    """Counts the writes of this process, and kills it before the last one."""

    def __init__(self, limit: int, log: Path) -> None:
        self._left = limit
        self._log = log

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        if event.command_name in _WRITES:
            self.count(f"{event.command_name} {event.command.get(event.command_name)}")

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None:
        pass

    def audited(self, event: str, arguments: tuple[object, ...]) -> None:
        """Count a file; a hook of sys.addaudithook."""
        if event in _FILE_EVENTS and "__pycache__" not in str(arguments[1]):
            self.count(f"file {Path(os.fsdecode(str(arguments[1]))).name}")

    def count(self, what: str) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{what}\n")
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    writes = Writes(int(sys.argv[1]), Path(sys.argv[2]))
    pymongo.monitoring.register(writes)
    sys.addaudithook(writes.audited)
    sys.exit(run.main(sys.argv[3:]))
