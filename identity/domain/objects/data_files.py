"""Data files next to the modules that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser of libyaml, where PyYAML has it, takes a tenth of the time."""


def load_yaml(module_file: str, name: str) -> Any:
    """Load the YAML file `name` below the folder of a module, whose `__file__` is given."""
    return yaml.load((Path(module_file).parent / name).read_text("utf-8"), Loader=_LOADER)  # noqa: S506 (safe)
