"""Builds the source distribution, the wheel and the bill of materials, byte for byte reproducibly: `make dist`.

The build reads only files that git tracks, with normalized permissions, and dates everything with SOURCE_DATE_EPOCH
(https://reproducible-builds.org/specs/source-date-epoch/), by default the time of the last commit.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release import bill_of_materials

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Build twice, compare, and write the distributions with their checksums to `dist/`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the result")
    options = parser.parse_args()
    epoch = source_date_epoch()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        build(Path(first), epoch)
        build(Path(second), epoch)
        differing = [name for name, one in checksums(Path(first)).items() if checksums(Path(second)).get(name) != one]
        if differing:
            print(f"two builds differ: {', '.join(differing)}", file=sys.stderr)
            return 1
        publish(Path(first), options.out)
    print(f"reproducible with SOURCE_DATE_EPOCH={epoch}:")
    print((options.out / "SHA256SUMS").read_text(), end="")
    return 0


def source_date_epoch() -> int:
    """Return SOURCE_DATE_EPOCH, or else the time of the last commit, in seconds."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given) if given else int(_git("log", "-1", "--format=%ct"))


def build(out: Path, epoch: int) -> None:
    """Build the source distribution, from it the wheel, and the bill of materials of the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        copy_tracked_files(tree)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
        built = subprocess.run(command, env=environment, umask=0o022, check=False, capture_output=True, text=True)
        if built.returncode:
            raise RuntimeError(f"the build failed:\n{built.stdout}{built.stderr}")
    for source in out.glob("*.tar.gz"):
        source.write_bytes(normalized(source.read_bytes(), epoch))
    for wheel in out.glob("*.whl"):
        file = out / f"{wheel.name.split('-py3')[0]}.cdx.json"
        file.write_text(bill_of_materials.of_wheel(wheel, epoch), "utf-8")


def copy_tracked_files(tree: Path) -> None:
    """Copy the files that git tracks, with the permissions 0644, or 0755 for programs."""
    for name in _git("ls-files", "-z").rstrip("\0").split("\0"):
        source, target = ROOT / name, tree / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def normalized(archive: bytes, epoch: int) -> bytes:
    """Return a tar.gz with sorted members that carry no user and no time but `epoch`."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        gzip.GzipFile(fileobj=out, mode="wb", mtime=epoch, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    return out.getvalue()


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a folder, by name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def publish(built: Path, out: Path) -> None:
    """Replace the content of `out` by what was built, with a file SHA256SUMS."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(built, out)
    lines = [f"{checksum}  {name}\n" for name, checksum in checksums(out).items()]
    (out / "SHA256SUMS").write_text("".join(lines))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
