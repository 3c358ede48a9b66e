"""Write the listings of docs/tutorials from the files of examples/tutorials.

A listing is a code block with the name of its file: ```python title="app.py"

    PYTHONPATH=. .venv/bin/python docs/tutorial_listings.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(file for file in (ROOT / "docs" / "tutorials").glob("*.md") if file.name != "README.md")

LISTING = re.compile(r'^(```\w+ title="([^"]+)"\n)(.*?)^```$', re.DOTALL | re.MULTILINE)


def with_listings(page: Path) -> str:
    """Return the text of a page with the current content of the files that it lists."""
    folder = ROOT / "examples" / "tutorials" / page.stem
    return LISTING.sub(lambda found: f"{found[1]}{(folder / found[2]).read_text()}```", page.read_text())


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_listings(page))
