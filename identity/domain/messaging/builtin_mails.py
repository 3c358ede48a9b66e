"""Mail templates that are used if the tenant configures none, from builtin_mails.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import yaml

from identity.call import Document

_TEMPLATES: Final[dict[str, Document]] = yaml.safe_load(
    Path(__file__).with_name("builtin_mails.yaml").read_text("utf-8")
)


def template(name: Literal["verify_new_email", "email_change_requested"]) -> Document:
    """A template in the form of a stored one."""
    return dict(_TEMPLATES[name])
