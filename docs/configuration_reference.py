"""Writes docs/configuration.md, the operators' reference, from schemas/config.json: `make docs`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from identity import config

_HEAD = """\
# Configuration reference

Generated from `schemas/config.json` by `make docs`; do not edit.

Settings are in `identity.yaml` in the folder given by `run.py --config DIR` (default: `config/`).
Unknown keys, wrong types and values out of range are errors; `python run.py check-config` lists all of them with file,
line and remedy.
Environment variables override the file: two underscores separate the levels, and the value is parsed as YAML.
Set secrets this way, from a file that only the service's user may read (docs/deploy/README.md).
"""


def _type(described: Mapping[str, Any]) -> str:
    if "enum" in described:
        return " or ".join(f"`{value}`" for value in described["enum"])
    if "anyOf" in described:
        return "`all` or map of booleans"
    names: list[str] = described["type"] if isinstance(described["type"], list) else [described["type"]]
    words: dict[str, str] = {"array": f"list of {described.get('items', {}).get('type', 'value')}s"}
    bounds = [f"{word} {described[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in described]
    return " ".join([" or ".join(words.get(name, name) for name in names), *bounds])


def _lines() -> Iterator[str]:
    yield _HEAD
    section = None
    for key, described in config.settings():
        name, _, rest = key.partition(".")
        if rest and name != section:
            section = name
            yield f"## {name}\n\n{config.schema()['properties'][name]['description']}\n"
        yield f"{'###' if rest else '##'} `{key}`\n"
        yield described["description"] + "\n"
        yield f"- Type: {_type(described)}"
        yield f"- Default: `{json.dumps(described['default'])}`"
        yield f"- Environment: `{config.ENVIRONMENT_PREFIX}{key.upper().replace('.', '__')}`\n"


def reference() -> str:
    """Return the page as Markdown."""
    return "\n".join(_lines()).rstrip() + "\n"


if __name__ == "__main__":
    print(reference(), end="")
