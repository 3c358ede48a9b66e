"""The folder of the service's own files: made private, proved writable, written to without half-written files."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from identity.errors import StartupError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def prepare(folder: Path) -> None:
    """Make the folder, for this user only, and prove that it takes a file; StartupError says why it does not."""
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / ".writable", b"x" * 4096)
        (folder / ".writable").unlink()


def require_usable(folder: Path) -> None:
    """Raise StartupError where `prepare` would; changes nothing that remains."""
    with explained(folder):
        existing = next(place for place in (folder, *folder.parents) if place.exists())
        try:
            with tempfile.TemporaryFile(dir=existing) as probe:
                probe.write(b"x" * 4096)
        except OSError as error:
            error.filename = str(existing)  # rather than the random name of the probe
            raise


def make_private(folder: Path) -> None:
    """Make one folder that only this user may enter, also when it was there with wider permissions."""
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)


def write_private(file: Path, content: bytes) -> None:
    """Put `content` into `file`, mode 0600, all or nothing, also through a power cut."""
    with _draft(file, content) as draft:
        draft.replace(file)


def create_private(file: Path, content: bytes) -> None:
    """As `write_private`, unless the file is there already: of several processes at once, one makes it."""
    with _draft(file, content) as draft, contextlib.suppress(FileExistsError):
        file.hardlink_to(draft)


@contextlib.contextmanager
def _draft(file: Path, content: bytes) -> Iterator[Path]:
    """Write a temporary file in the folder of `file`; it is removed unless it is renamed."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as writer:
            writer.write(content)
            writer.flush()
            os.fsync(writer.fileno())
        yield draft
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a StartupError that speaks of data_dir."""
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
