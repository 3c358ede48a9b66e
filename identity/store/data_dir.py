"""The data folder of the service: private permissions, a write check, and atomic writes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import structlog

from identity.errors import StartupError

_log = structlog.get_logger(__name__)

SECRETS_FILE: Final = "kickstart-secrets.txt"
"""The credentials of the first start."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def prepare(folder: Path) -> None:
    """Create the folder with mode 0700 and check that it is writable. Raises StartupError with the reason if not."""
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / ".writable", b"x" * 4096)
        (folder / ".writable").unlink()


def require_usable(folder: Path) -> None:
    """Raise StartupError if `prepare` would, without changing anything."""
    with explained(folder):
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        try:
            with tempfile.TemporaryFile(dir=existing) as probe:
                probe.write(b"x" * 4096)
        except OSError as error:
            error.filename = str(existing)  # rather than the random name of the probe
            raise


def readable_by_others(file: Path) -> bool:
    """Return whether a file exists that users other than its owner may read or write."""
    try:
        return bool(file.stat().st_mode & 0o077)
    except OSError:
        return False


def mend_modes(files: Iterable[Path]) -> None:
    """Set the mode of secret files that others may read to 0600, and log each: their secrets may be known to others.

    A file of another user is left alone: it is a mounted secret, whose group is the service's.
    """
    for file in filter(readable_by_others, files):
        mode = stat.S_IMODE(file.stat().st_mode)
        try:
            file.chmod(0o600)
        except OSError:
            if mode & 0o007:
                _log.warning(
                    "a secret file may be read by every user of this machine", file=str(file), mode=f"{mode:04o}"
                )
        else:
            _log.warning(
                "a secret file could be read by others; its mode is 0600 now", file=str(file), mode=f"{mode:04o}"
            )


def make_private(folder: Path) -> None:
    """Create a folder with mode 0700, or set that mode."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)


def write_private(file: Path, content: bytes) -> None:
    """Atomically and durably write a file with mode 0600."""
    with _temporary(file, content) as temporary:
        temporary.replace(file)


def create_private(file: Path, content: bytes) -> None:
    """As `write_private`, unless the file exists; only one of several processes creates it."""
    with _temporary(file, content) as temporary, contextlib.suppress(FileExistsError):
        file.hardlink_to(temporary)


@contextlib.contextmanager
def _temporary(file: Path, content: bytes) -> Iterator[Path]:
    """Write a temporary file in the folder of `file`; it is removed unless it is renamed."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as writer:
            writer.write(content)
            writer.flush()
            os.fsync(writer.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Translate an OSError of the block to a StartupError about data_dir."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL and error.filename is None:
            raise  # not about a file
        if error.errno in _FULL:
            remedy = "make room there, or set data_dir to a folder on another disk"
        else:
            remedy = "make it writable for this user, or set data_dir to a folder that is"
        where = error.filename or folder
        raise StartupError(f"data_dir {folder} cannot be used: {error.strerror} ({where}); {remedy}") from error
