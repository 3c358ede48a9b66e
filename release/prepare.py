"""Prepares a release: version, changelog section and the text of the tag: `make release VERSION=0.2.0`."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
from pathlib import Path

from release import dist

_UNRELEASED = "## [Unreleased]\n"


class NotReadyError(Exception):
    """The release cannot be prepared; the message says what to do."""


def main() -> int:
    """Change identity/__init__.py and CHANGELOG.md, and write build/release/tag.txt. Nothing is committed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", metavar="VERSION", help="version of the release, such as 0.2.0")
    version = parser.parse_args().version
    date = datetime.datetime.fromtimestamp(dist.source_date_epoch(), datetime.UTC).date()
    try:
        tag = prepare(dist.ROOT, version, date)
    except NotReadyError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"Review and commit the changes, then: git tag --annotate --cleanup=verbatim --file {tag} v{version}")
    return 0


def prepare(root: Path, version: str, date: datetime.date) -> Path:
    """Write the version and the changelog section of a release, and return the file with the text of its tag.

    Raises NotReadyError for a version that is not one, or that has no changes or no upgrade notes.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReadyError(f"{version} is not a version; use MAJOR.MINOR.PATCH")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text("utf-8")
    section = _section(text, version)
    if f"## To {version}\n" not in (root / "docs" / "upgrading.md").read_text("utf-8"):
        raise NotReadyError(f"docs/upgrading.md has no section `## To {version}`; write what operators have to do")
    if f"## [{version}]" not in text:
        heading = f"{_UNRELEASED}\n## [{version}] - {date.isoformat()}\n"
        changelog.write_text(text.replace(_UNRELEASED, heading, 1), "utf-8")
    _write_version(root / "identity" / "__init__.py", version)
    tag = root / "build" / "release" / "tag.txt"
    tag.parent.mkdir(parents=True, exist_ok=True)
    tag.write_text(f"Identity service {version}\n\n{section}", "utf-8")
    return tag


def _section(changelog: str, version: str) -> str:
    """Return the changes of a version: its own section, or else the unreleased one."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    named = {one.partition("]")[0].lstrip("["): one.partition("\n")[2].strip() for one in sections}
    found = named.get(version) or named.get("Unreleased")
    if not found:
        raise NotReadyError("CHANGELOG.md lists no unreleased changes")
    return found + "\n"


def _write_version(file: Path, version: str) -> None:
    text = file.read_text("utf-8")
    file.write_text(re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', text, flags=re.MULTILINE), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
