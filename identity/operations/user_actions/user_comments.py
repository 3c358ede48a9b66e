"""Comments about users: add, retrieve, search. Comments are immutable and are deleted with their user."""

from __future__ import annotations

import functools

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource, SearchRules
from identity.errors import FieldError, NotFound
from identity.ids import TenantId, new_id
from identity.operations.objects import crud, user_lookup
from identity.operations.user_actions import action_requests
from identity.services import Services
from identity.store.mongo import Session

RESOURCE = Resource(
    "userComment",
    path="/api/user/comment",
    label="User comment",
    verbs=frozenset({"search"}),
    search_rules=SearchRules(
        {"comment": "text", "commenterId": "exact", "userId": "exact", "tenantId": "exact"},
        {
            "id": "_id",
            "commenterId": "commenterId",
            "insertInstant": "insertInstant",
            "tenantId": "tenantId",
            "userId": "userId",
            "comment": "comment",
        },
        default="insertInstant DESC",
        long=frozenset({"comment"}),
    ),
)


async def add(services: Services, call: Call, body: Document) -> Document:
    """Add a comment about a user; return it. Raises Invalid."""
    requested = services.schemas[RESOURCE.schema].read(body)["userComment"]
    tenant_id = await _tenant_of(services, call, requested["userId"])
    crud.require_no_errors(
        await action_requests.actioner_problems(services, call, tenant_id, requested, "userComment.commenterId")
    )
    comment = {**requested, "id": new_id(), "insertInstant": call.now, "tenantId": tenant_id}
    await services.runtime.database.execute(
        [
            functools.partial(_lock_user, services, tenant_id, comment["userId"]),
            functools.partial(services.directory.user_comments.insert, tenant_id, comment),
        ]
    )
    return crud.to_response(services, RESOURCE, comment)


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """Return the comments about a user, newest first. Raises NotFound for a missing user."""
    tenant_id = await user_lookup.get_tenant_id(services, call, user_id)
    if await services.directory.users.find_cached(tenant_id, user_id) is None:
        raise NotFound
    found = await services.directory.user_comments.find_all(tenant_id, {"userId": user_id})
    return [crud.to_response(services, RESOURCE, comment) for comment in found]


async def _lock_user(services: Services, tenant_id: TenantId, user_id: str, session: Session) -> None:
    if not await services.directory.users.lock(tenant_id, user_id, session):
        raise NotFound


async def _tenant_of(services: Services, call: Call, user_id: str) -> TenantId:
    found = await services.directory.users.find_cached_across_tenants(user_id)
    if found is None or call.tenant_id not in {None, found["tenantId"]}:
        path = "userComment.userId"
        crud.require_no_errors([FieldError.invalid(path, "must name an existing user")])
    assert found is not None, "a missing user is an error"
    return TenantId(found["tenantId"])
