"""The data folder of the service."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from identity.errors import StartupError
from identity.store import data_dir


def test_a_private_file_is_for_its_owner_only_and_replaced_as_a_whole(tmp_path):
    file = tmp_path / "secret"
    data_dir.write_private(file, b"one")
    data_dir.write_private(file, b"two")
    assert file.read_bytes() == b"two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    data_dir.write_private(file, b"old")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        data_dir.write_private(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "make room there"), (errno.EDQUOT, "make room there"), (errno.EACCES, "writable")],
)
def test_a_failure_says_what_to_do(tmp_path, number, remedy):
    expected = rf"data_dir .* cannot be used: {os.strerror(number)} .*{remedy}"
    with pytest.raises(StartupError, match=expected), data_dir.explained(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "file"))


def test_a_failure_that_is_not_about_files_passes_through(tmp_path):
    with pytest.raises(ConnectionResetError), data_dir.explained(tmp_path):
        raise ConnectionResetError(errno.ECONNRESET, "reset")


def test_a_folder_that_was_open_to_others_is_closed(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir(0o755)
    data_dir.make_private(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
