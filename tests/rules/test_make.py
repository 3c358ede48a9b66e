"""The targets of the Makefile, and what Debian has to give for them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ROOT / ".ci" / "debian-packages"


def make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.mark.requirement("project-2")
def test_help_names_every_target_that_people_use():
    finished = make("help")
    for target in ("run", "test", "check", "fuzz", "bench", "docs", "dist", "image", "release", "help"):
        assert f"make {target} " in finished


@pytest.mark.requirement("project-2")
def test_check_is_the_whole_gate_and_ci_runs_it():
    gate = make("--dry-run", "check")
    for step in ("ruff format --check", "ruff check", "mypy", "lint-imports", "pytest"):
        assert step in gate
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec make check")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of programs in which Chromium, nginx and wrk are missing, and whose user is not root."""
    for name in ("sh", "uname", "find", "mktemp", "rm", "cat"):
        (tmp_path / name).symlink_to(Path("/usr/bin") / name)
    fake = tmp_path / "id"
    fake.write_text("#!/bin/sh\necho 1000\n")
    fake.chmod(0o755)
    return tmp_path


@pytest.mark.requirement("project-3")
def test_what_is_missing_is_named_to_who_may_not_install(bare, tmp_path):
    arguments = ["/bin/sh", str(PACKAGES), "browser", "wrk"]
    finished = subprocess.run(
        arguments, cwd=tmp_path, env={"PATH": str(bare)}, check=False, capture_output=True, text=True
    )
    assert finished.returncode == 1
    assert "apt-get install chromium chromium-driver wrk" in finished.stderr


def test_unknown_part_is_an_error():
    finished = subprocess.run(["/bin/sh", str(PACKAGES), "nonsense"], check=False, capture_output=True, text=True)
    assert finished.returncode == 2
    assert "unknown part nonsense" in finished.stderr
