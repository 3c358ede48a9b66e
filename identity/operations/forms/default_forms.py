"""The default forms and their fields, which are created in an instance that has no form."""

from __future__ import annotations

import asyncio
import contextlib

from identity.call import Call, Document
from identity.domain.forms.forms import default_fields, default_forms
from identity.errors import Duplicate
from identity.operations.forms import form_fields
from identity.operations.forms import forms as form_definitions
from identity.operations.objects import crud
from identity.services import Services
from identity.store.documents import Documents


async def ensure(services: Services, call: Call) -> None:
    """Create the default fields and forms of an instance without forms. Several processes may do so at once."""
    fields, forms = (crud.collection_of(services, row) for row in (form_fields.RESOURCE, form_definitions.RESOURCE))
    if await forms.count(None):
        return
    instants = crud.creation_instants(call.now)
    await asyncio.gather(*(_insert(fields, {**field, **instants}) for field in default_fields()))
    await asyncio.gather(*(_insert(forms, {**form, **instants}) for form in default_forms()))


async def _insert(documents: Documents, document: Document) -> None:
    with contextlib.suppress(Duplicate):
        await documents.insert(None, document)
