"""Data files next to the modules that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def load_yaml(module_file: str, name: str) -> Any:
    """Load the YAML file `name` from the folder of a module, whose `__file__` is given."""
    return yaml.safe_load(Path(module_file).with_name(name).read_text("utf-8"))
