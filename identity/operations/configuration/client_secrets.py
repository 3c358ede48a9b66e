"""Rotation of client secrets: the previous secret is accepted during an overlap, so that no client is interrupted."""

from __future__ import annotations

from typing import Final

from identity.call import Call, Document
from identity.domain.objects import patch as patches
from identity.ids import TenantId, new_secret
from identity.instants import later
from identity.operations.configuration import applications
from identity.operations.objects import crud
from identity.services import Services

REQUEST: Final = "api/client-secret.request.json"
_SECRET_BYTES: Final = 32


async def rotate(services: Services, call: Call, body: Document, application_id: str) -> Document:
    """Replace the secret of an application, and return the new one, with the end of the overlap if there is one.

    The overlap is for secrets in requests. Signatures with the secret as key (`client_secret_jwt`, tokens signed with
    it) use the new secret at once. Raises NotFound.
    """
    overlap_seconds = services.schemas[REQUEST].read(body)["overlapInSeconds"]
    stored = await crud.retrieve(services, call, applications.RESOURCE, application_id)
    tenant_id, previous = TenantId(stored["tenantId"]), stored["oauthConfiguration"]["clientSecret"]
    secret = str(new_secret(_SECRET_BYTES))
    change = {"application": {"oauthConfiguration": {"clientSecret": secret}}}
    await crud.patch(services, call, applications.RESOURCE, patches.MERGE, change, application_id)
    if not overlap_seconds:
        await services.limits.previous_secrets.remove(tenant_id, application_id)
        return {"clientSecret": secret}
    await services.limits.previous_secrets.keep(tenant_id, application_id, previous, overlap_seconds)
    return {"clientSecret": secret, "overlapEndInstant": later(call.now, seconds=overlap_seconds)}
