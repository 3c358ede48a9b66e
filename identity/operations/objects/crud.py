"""The generic operations on declared resources: create, retrieve, update, patch, delete and search.

A change is validated by the schema, then by the `prepare` of the resource, and last by the unique indexes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from identity import permissions
from identity.call import AdministratorCaller, ApiKeyCaller, Call, Caller, Document
from identity.domain.objects import patch as patches
from identity.domain.objects import request_members, stored_credentials
from identity.domain.objects import search as searches
from identity.domain.objects.member_paths import value_at
from identity.domain.objects.resource_definition import Resource
from identity.errors import Conflict, Duplicate, FieldError, GeneralError, Invalid, NotFound, Unavailable, with_article
from identity.ids import TenantId, new_id
from identity.instants import Instant
from identity.operations.objects import features, references
from identity.schemas import fill
from identity.services import Services
from identity.store.documents import Documents
from identity.store.mongo import Session, Write

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS = 16
_PAUSE_SECONDS = 0.004

READ_ONLY = ("id", "insertInstant", "lastUpdateInstant")


async def create(services: Services, call: Call, resource: Resource, body: Document, object_id: str | None) -> Document:
    """Create an object with the given id, or with a random one. Raises Invalid."""
    tenant_id = scope_of(call, resource)
    own = {"id": object_id or new_id(), **creation_instants(call.now)}
    if tenant_id is not None:
        own["tenantId"] = tenant_id
    document = await validate(services, call, resource, body, own, None)
    insert = functools.partial(collection_of(services, resource).insert, tenant_id, document)
    await _commit(services, call, resource, document, None, insert)
    return document


async def retrieve(services: Services, call: Call, resource: Resource, object_id: str) -> Document:
    """Return an object. Raises NotFound."""
    tenant_id = await get_tenant_id(services, call, resource, object_id)
    return await collection_of(services, resource).get(tenant_id, object_id)


def retrieve_all(
    services: Services, call: Call, resource: Resource, where: Mapping[str, Any] | None = None
) -> AsyncIterator[Document]:
    """Iterate over the objects that the caller can see and that match, newest first."""
    documents = collection_of(services, resource)
    if resource.tenant_scoped and call.tenant_id is None:
        return documents.iterate_across_tenants(where or {})
    return documents.iterate(scope_of(call, resource), where)


async def update(services: Services, call: Call, resource: Resource, body: Document, object_id: str) -> Document:
    """Replace an object. Raises NotFound and Invalid."""
    return await _replace(services, call, resource, object_id, None, body)


async def patch(
    services: Services, call: Call, resource: Resource, content_type: str, body: Any, object_id: str
) -> Document:
    """Apply a patch, of one of the three media types, to an object. Raises NotFound and Invalid."""
    return await _replace(services, call, resource, object_id, content_type, body)


async def delete(services: Services, call: Call, resource: Resource, object_id: str) -> None:
    """Delete an object. Raises NotFound, and Invalid with `[inUse]` while other objects refer to it."""
    stored = await retrieve(services, call, resource, object_id)
    tenant_id = stored.get("tenantId") if resource.tenant_scoped else None
    remove = functools.partial(_remove, collection_of(services, resource), tenant_id, object_id)
    await _commit(services, call, resource, None, stored, remove)


async def search(
    services: Services, call: Call, resource: Resource, request: Mapping[str, Any], prefix: str
) -> tuple[int, list[Document]]:
    """Return how many objects match, and one page of them. Raises Invalid."""
    query = searches.read(resource.search_rules, request, prefix)
    documents = collection_of(services, resource)
    if resource.tenant_scoped and call.tenant_id is None:
        return await documents.search_across_tenants(query)
    return await documents.search(scope_of(call, resource), query)


def to_response(services: Services, resource: Resource, document: Document) -> Document:
    """Return the object as the API shows it, with its credentials."""
    return to_schema_response(services, resource.schema, resource.name, document)


def to_schema_response(services: Services, schema: str, name: str, document: Document) -> Document:
    """Return the members of a document that the schema of its resource allows in responses."""
    answer: Document = services.schemas[schema].show({name: document})[name]
    return answer


def to_caller_response(services: Services, caller: Caller, resource: Resource, document: Document) -> Document:
    """Return the object with credentials masked unless the caller's API key may change objects of this kind."""
    answer = to_response(services, resource, document)
    if not isinstance(caller, ApiKeyCaller):
        return stored_credentials.masked(resource.credentials, answer)
    granted = caller.api_key["permissions"]["endpoints"]
    is_unmasked = permissions.may_change(granted, resource.path)
    return answer if is_unmasked else stored_credentials.masked(resource.credentials, answer)


def to_request(stored: Document) -> Document:
    """Return a stored object as the body of a PUT would have it."""
    return {name: value for name, value in stored.items() if name not in READ_ONLY and name != "private"}


def to_patch_target(services: Services, resource: Resource, stored: Document) -> Document:
    """Return the object that a patch is applied to.

    Write-only members are absent and other credentials masked, so that a JSON Patch can neither copy nor test them.
    `validate` restores those that the patch leaves unchanged.
    """
    return to_request(stored_credentials.masked(resource.credentials, to_response(services, resource, stored)))


def _patch_target(services: Services, caller: Caller, resource: Resource, stored: Document) -> Document:
    """Return the object that a patch is applied to.

    A patch keeps the credentials of a webhook, also if it changes the URL, for API keys that read and change webhooks.
    """
    if resource.name == "webhook" and isinstance(caller, ApiKeyCaller) and not isinstance(caller, AdministratorCaller):
        granted = caller.api_key["permissions"]["endpoints"]
        if permissions.may_call(granted, resource.path, "GET") and permissions.may_change(granted, resource.path):
            return to_request(to_response(services, resource, stored))
    return to_patch_target(services, resource, stored)


def collection_of(services: Services, resource: Resource) -> Documents:
    """Return the collection of a resource."""
    return services.runtime.collections[resource.collection]


def scope_of(call: Call, resource: Resource) -> TenantId | None:
    """Return the tenant of the call, or None for instance-wide objects. Raises Invalid for a call without a tenant."""
    return require_tenant(call) if resource.tenant_scoped else None


def require_tenant(call: Call) -> TenantId:
    """Return the tenant of the call. Raises Invalid with `[TenantIdRequired]` if it has none."""
    if call.tenant_id is None:
        raise Invalid.whole(
            "[TenantIdRequired]",
            "A tenant id is required. Assign a tenant to the API key or send the X-FusionAuth-TenantId header.",
        )
    return call.tenant_id


async def get_tenant_id(services: Services, call: Call, resource: Resource, object_id: str) -> TenantId | None:
    """Return the tenant of an object: that of the call, or else the object's own. Raises NotFound."""
    if not resource.tenant_scoped:
        return None
    if call.tenant_id is not None:
        return call.tenant_id
    found = await collection_of(services, resource).find_cached_across_tenants(object_id)
    if found is None:
        raise NotFound
    return TenantId(found["tenantId"])


def creation_instants(now: Instant) -> Document:
    """Return the instants of a new object."""
    return {"insertInstant": now, "lastUpdateInstant": now}


def update_instants(stored: Document, now: Instant) -> Document:
    """Return the id and instants of a changed object. `lastUpdateInstant` always grows: it is the version."""
    return {
        "id": stored["id"],
        "insertInstant": stored["insertInstant"],
        "lastUpdateInstant": max(now, stored["lastUpdateInstant"] + 1),
    }


async def authorize(services: Services, call: Call, resource: Resource, stored: Document) -> None:
    """Raise Unauthorized for a caller who may not change a stored object or its subresources."""
    if resource.authorize is not None:
        await resource.authorize(services, call, stored)


async def validate(
    services: Services, call: Call, resource: Resource, body: Document, own: Document, stored: Document | None
) -> Document:
    """Return the document to store: the object of a request body with the members `own` that the service sets.

    Raises Invalid with the errors of the schema and those of the resource's own validation together: members that the
    schema rejects are removed before the resource validates the rest. Credentials that the request omits are filled in
    or dropped before the resource validates them.
    """
    schema = services.schemas[resource.schema]
    cleaned, errors = schema.examine(body)
    given = cleaned.get(resource.name)
    if not errors:
        document = stored_credentials.resolved(resource.name, resource.credentials, {**given, **own}, stored)
        return await _prepare(services, call, resource, document, stored)
    if not isinstance(given, dict):
        raise Invalid(errors)
    rest, rejected = request_members.remove_rejected(
        cleaned, errors, functools.partial(fill, schema.schema), schema.errors
    )
    if not isinstance(rest.get(resource.name), dict):
        raise Invalid(errors)
    others, general = await _remaining_errors(services, call, resource, {**rest[resource.name], **own}, stored)
    raise Invalid([*errors, *request_members.unrelated_to(others, rejected)], general)


async def _remaining_errors(
    services: Services, call: Call, resource: Resource, rest: Document, stored: Document | None
) -> tuple[list[FieldError], tuple[GeneralError, ...]]:
    """Return the errors of an object beyond those of its schema: of `prepare` and of the unique indexes."""
    fields: list[FieldError] = []
    general: tuple[GeneralError, ...] = ()
    try:
        await _prepare(
            services,
            call,
            resource,
            stored_credentials.resolved(resource.name, resource.credentials, rest, stored),
            stored,
        )
    except Invalid as error:
        fields += error.fields
        general = error.general
    try:
        await require_unique(services, resource, rest, stored)
    except Invalid as duplicate:
        fields += duplicate.fields
    return fields, general


async def _prepare(
    services: Services, call: Call, resource: Resource, document: Document, stored: Document | None
) -> Document:
    """Prepare a document. Raises Invalid, also for each disabled feature that the object starts to use."""
    disabled = features.problems(services, resource.name, document, stored)
    try:
        if resource.prepare is not None:
            document = await resource.prepare(services, call, document, stored)
    except Invalid as error:
        raise Invalid(error.fields, [*error.general, *disabled], log_detail=error.log_detail) from error
    require_no_errors([], disabled)
    return document


@contextlib.contextmanager
def report_duplicates(resource: Resource, document: Document) -> Iterator[None]:
    """Turn a duplicate key into Invalid for the field that the unique index covers."""
    try:
        yield
    except Duplicate as duplicate:
        raise duplicate_error(resource, document, duplicate) from duplicate


def duplicate_error(resource: Resource, document: Document, duplicate: Duplicate) -> Invalid:
    """Return the error of a duplicate id, or of a duplicate value in a unique index."""
    for unique in resource.unique:
        if unique.index == duplicate.index:
            name = unique.field.partition(".")[2]
            # Messages end up in logs, so a secret is not repeated.
            value = "..." if name in resource.sealed else value_at(document, name)
            return Invalid.field(
                "duplicate", unique.field, f"{with_article(resource.label)} with {name} = [{value}] already exists."
            )
    return Invalid.field(
        "duplicate", resource.id_name, f"{with_article(resource.label)} with id = [{document['id']}] already exists."
    )


async def require_unique(services: Services, resource: Resource, document: Document, stored: Document | None) -> None:
    """Raise Invalid for an id or a unique value that another object has, before webhooks approve the change.

    The unique indexes decide between concurrent requests; see `report_duplicates`.
    """
    documents = collection_of(services, resource)
    if stored is None and await documents.find_all_across_tenants({"_id": document["id"]}):
        raise duplicate_error(resource, document, Duplicate("_id_"))
    for unique in resource.unique:
        where = {key: value_at(document, key) for key in unique.keys}
        is_new = stored is None or any(value_at(stored, key) != value for key, value in where.items())
        found = await documents.find_all_across_tenants(where) if is_new and None not in where.values() else []
        if any(other["id"] != document["id"] for other in found):
            raise duplicate_error(resource, document, Duplicate(unique.index))


def is_unchanged(stored: Document, after: Document) -> bool:
    """Return whether a next version differs from the stored object only in `lastUpdateInstant`."""
    return {**stored, "lastUpdateInstant": 0} == {**after, "lastUpdateInstant": 0}


def retry_on_conflict(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Decorate a read-modify-write: retry it with random pauses after concurrent changes of the object.

    The function raises Unavailable after 16 conflicts.
    """

    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                return await function(*args, **kwargs)
            except Conflict:
                await asyncio.sleep(_PAUSE_SECONDS * min(2**attempt, 32) * random.random())  # noqa: S311 (no secret)
        raise Unavailable("Others are changing this object at the same time. Try again.", retry_after_seconds=1)

    return run


@retry_on_conflict
async def _replace(
    services: Services, call: Call, resource: Resource, object_id: str, content_type: str | None, body: Any
) -> Document:
    """Replace an object once, by the body of an update or by a patch of `content_type`. Raises Conflict."""
    documents, tenant_id = collection_of(services, resource), await get_tenant_id(services, call, resource, object_id)
    stored = await documents.get(tenant_id, object_id)
    await authorize(services, call, resource, stored)
    if content_type is not None:
        body = patches.apply(
            content_type, {resource.name: _patch_target(services, call.caller, resource, stored)}, body
        )
    own = update_instants(stored, call.now)
    own |= {name: stored[name] for name in ("private", "tenantId") if name in stored}
    document = await validate(services, call, resource, body, own, stored)
    replace = functools.partial(documents.replace, tenant_id, document, stored["lastUpdateInstant"])
    await _commit(services, call, resource, document, stored, replace)
    return document


async def _commit(
    services: Services, call: Call, resource: Resource, after: Document | None, before: Document | None, write: Write
) -> None:
    """Commit the write of one object after the checks of its references, by the row's own `commit` if it has one."""
    writes = [*references.checks(services, resource, after, before, call.now), write]
    with report_duplicates(resource, after or before or {}):
        if resource.commit is None:
            await services.runtime.database.execute(writes)
        else:
            await resource.commit(services, call, after, before, writes)


async def _remove(
    documents: Documents, tenant_id: TenantId | None, object_id: str, session: Session | None = None
) -> None:
    # Only one of several concurrent deletions succeeds and emits events.
    if not await documents.delete(tenant_id, object_id, session):
        raise NotFound


def require_no_errors(errors: list[FieldError], general: Sequence[GeneralError] = ()) -> None:
    """Raise Invalid if there are errors."""
    if errors or general:
        raise Invalid(errors, general)
