"""Initial access tokens: administrators issue them to developers, who register clients with them."""

from __future__ import annotations

from identity.call import Call, Document
from identity.errors import NotFound
from identity.ids import new_id, new_secret
from identity.instants import later
from identity.operations.objects import crud
from identity.services import Services

_REQUEST = "api/initial-access-token.json"
_SHOWN = ("id", "tenantId", "description", "insertInstant", "expirationInstant", "remainingUses")


async def create(services: Services, call: Call, body: Document) -> Document:
    """Create a token of the caller's tenant; only this response contains its value. Raises Invalid."""
    wanted = services.schemas[_REQUEST].read(body)["initialAccessToken"]
    tenant_id, token = crud.require_tenant(call), new_secret()
    document = {
        "id": new_id(),
        "insertInstant": call.now,
        "remainingUses": wanted["maximumUses"],
        "expiresAt": later(call.now, seconds=wanted["timeToLiveInSeconds"]),
    }
    document |= {name: wanted[name] for name in ("description",) if name in wanted}
    await services.limits.initial_access_tokens.add(tenant_id, document, token)
    return {**_shown({**document, "tenantId": tenant_id}), "token": str(token)}


async def retrieve_all(services: Services, call: Call) -> list[Document]:
    """Return the tokens of the caller's tenant that can still be used, without their values."""
    tenant_id = crud.require_tenant(call)
    found = await services.limits.initial_access_tokens.find_all(tenant_id, {"remainingUses": {"$gt": 0}})
    return [_shown(document) for document in found if document["expiresAt"] > call.now]


async def delete(services: Services, call: Call, token_id: str) -> None:
    """Delete a token. Raises NotFound."""
    if not await services.limits.initial_access_tokens.delete(crud.require_tenant(call), token_id):
        raise NotFound


def _shown(document: Document) -> Document:
    shown = {**document, "expirationInstant": document["expiresAt"]}
    return {name: shown[name] for name in _SHOWN if name in shown}
