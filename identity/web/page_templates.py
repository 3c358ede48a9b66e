"""The Jinja environments of server-rendered pages, of which there is one for each folder of templates."""

from __future__ import annotations

from pathlib import Path

import jinja2


def environment(folder: Path, *, strips_blocks: bool = True) -> jinja2.Environment:
    """Return an environment that escapes values, refuses undefined ones, and keeps compiled templates.

    `strips_blocks` removes the indentation before block tags.
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=strips_blocks,
        auto_reload=False,
        cache_size=-1,
    )
