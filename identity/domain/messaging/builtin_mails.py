"""Mail templates that are used if the tenant configures none, from builtin_mails.yaml."""

from __future__ import annotations

from typing import Final, Literal

from identity.call import Document
from identity.domain.objects.data_files import load_yaml

_TEMPLATES: Final[dict[str, Document]] = load_yaml(__file__, "builtin_mails.yaml")


def template(name: Literal["verify_new_email", "email_change_requested"]) -> Document:
    """A template in the form of a stored one."""
    return dict(_TEMPLATES[name])
