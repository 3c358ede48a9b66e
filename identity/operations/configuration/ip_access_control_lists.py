"""IP access control lists: validation, and references to them."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.objects import ip_access
from identity.errors import FieldError
from identity.operations.objects import crud
from identity.services import Services

_REFERENCE = "accessControlConfiguration.uiIPAccessControlListId"


async def prepare(_services: Services, _call: Call, document: Document, _stored: Document | None) -> Document:
    """Validate and sort the entries. Raises Invalid."""
    entries = document.get("entries", [])
    crud.require_no_errors(ip_access.problems(entries))
    if not document.get("data"):
        document.pop("data", None)
    return {**document, "entries": ip_access.arranged(entries)}


async def reference_problems(services: Services, document: Document, path: str) -> list[FieldError]:
    """Return an error if the list that restricts the hosted pages of a tenant or application does not exist."""
    list_id = document["accessControlConfiguration"].get("uiIPAccessControlListId")
    if list_id is None or await services.limits.ip_access_control_lists.find_cached(None, list_id) is not None:
        return []
    field = f"{path}.{_REFERENCE}"
    return [FieldError.invalid(field, "must name an existing list")]
