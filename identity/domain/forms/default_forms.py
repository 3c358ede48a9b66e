"""The fields and forms that every instance has from the start."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final

from identity.call import Document
from identity.domain.forms import field_keys
from identity.domain.objects.data_files import load_yaml

_DEFAULTS: Final = load_yaml(__file__, "default_forms.yaml")
_NAMESPACE: Final = uuid.UUID("6d2a4c0e-5b1f-5f0a-9c39-0a5a4f8e7d11")

FIELD_IDS: Final = {row["key"]: str(uuid.uuid5(_NAMESPACE, row["key"])) for row in _DEFAULTS["fields"]}
"""Key -> id of the default field, the same in every instance."""

FORM_IDS: Final = {row["type"]: str(uuid.uuid5(_NAMESPACE, row["type"])) for row in _DEFAULTS["forms"]}
"""Type -> id of the default form, the same in every instance."""


def fields() -> Iterator[Document]:
    """Yield the default fields."""
    common: Document = {"confirm": False, "data": {}, "options": [], "required": False, "validator": {"enabled": False}}
    for row in _DEFAULTS["fields"]:
        control, data_type = field_keys.PREDEFINED[row["key"]]
        yield {**common, **row, "id": FIELD_IDS[row["key"]], "control": control, "type": data_type}


def forms() -> Iterator[Document]:
    """Yield the default forms."""
    for row in _DEFAULTS["forms"]:
        steps = [{"type": "collectData", "fields": [FIELD_IDS[key] for key in keys]} for keys in row["steps"]]
        yield {**row, "id": FORM_IDS[row["type"]], "data": {}, "steps": steps}
