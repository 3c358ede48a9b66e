"""The pages of the tutorials show the files that the tests run, and the site that they are part of builds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from docs import tutorial_listings
from tests.conftest import ROOT
from tests.tutorials.walkthrough import EXAMPLES, Tutorial

NAMES = [page.stem for page in tutorial_listings.PAGES]
UNLISTED = {"manage.py", "go.sum", "package-lock.json"}
"""What a framework or package manager writes."""


@pytest.mark.requirement("ship-18")
def test_every_example_has_a_page():
    assert {folder.name for folder in EXAMPLES.iterdir()} == set(NAMES)


@pytest.mark.parametrize("page", tutorial_listings.PAGES, ids=NAMES)
def test_listings_are_the_files(page: Path):
    """`PYTHONPATH=. .venv/bin/python docs/tutorial_listings.py` updates them."""
    assert tutorial_listings.with_listings(page) == page.read_text()


@pytest.mark.parametrize("page", tutorial_listings.PAGES, ids=NAMES)
def test_every_file_is_listed(page: Path):
    arguments = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(arguments, cwd=EXAMPLES / page.stem, check=True, capture_output=True, text=True).stdout
    files = {name for name in listed.splitlines() if Path(name).name not in UNLISTED}
    assert {found[2] for found in tutorial_listings.LISTING.finditer(page.read_text())} == files


@pytest.mark.parametrize("name", ["flask", "go", "nextjs"])
def test_documented_calls_without_a_token_are_refused(name: str):
    lines = [line for block in Tutorial(name).sections["Protect an API"] for line in block.splitlines()]
    assert lines
    assert all(line.startswith("curl ") and line.endswith("# 401") for line in lines)


@pytest.mark.requirement("ship-19")
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs the extra `site` of setup.py")
def test_site_builds_and_its_links_lead_somewhere(tmp_path: Path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = {file: file.read_text() for file in tmp_path.rglob("*.html")}
    assert tmp_path / "tutorials" / "flask.html" in pages
    assert [link for file, text in pages.items() for link in broken_links(file, text)] == []


def broken_links(file: Path, text: str) -> list[str]:
    """The links of a page to files of the site that do not exist."""
    links = {urllib.parse.urlsplit(link) for link in re.findall(r'<a [^>]*href="([^"]+)"', text)}
    local = [link for link in links if not link.scheme and link.path and not link.path.startswith("/")]
    return [
        f"{file.name}: {link.path}"
        for link in local
        if not (file.parent / urllib.parse.unquote(link.path)).resolve().exists()
    ]
