"""IP access control of the hosted pages, by the list of the application or else of its tenant."""

from __future__ import annotations

from identity.call import Document
from identity.domain.objects import ip_access
from identity.errors import AccessDenied
from identity.operations.clients.clients import Client
from identity.services import Services


class AddressRefusedError(AccessDenied):
    """The pages are not available to this address: 403, shown on an error page and never redirected."""

    status = 403


async def require_address(services: Services, client: Client, ip_address: str) -> None:
    """Raise AddressRefusedError if the access list of a client excludes the address."""
    list_id = _list_id(client.application) or _list_id(client.tenant)
    if list_id is None:
        return
    found = await services.limits.ip_access_control_lists.find_cached(None, list_id)
    if found is None or not ip_access.allows(found["entries"], ip_address):
        raise AddressRefusedError("unknown", "Access from this address is not allowed.")


def _list_id(document: Document) -> str | None:
    list_id: str | None = document["accessControlConfiguration"].get("uiIPAccessControlListId")
    return list_id
