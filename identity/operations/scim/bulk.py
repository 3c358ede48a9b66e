"""Bulk requests (RFC 7644 section 3.7): operations one by one, each as a request of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.scim.errors import ScimError, body_of, invalid
from identity.errors import ServiceError
from identity.operations.scim import requests, resources
from identity.operations.scim.clients import ScimCall
from identity.operations.scim.resources import Preconditions, Request
from identity.services import Services

MAXIMUM_OPERATIONS: Final = 100

_RESPONSE: Final = "urn:ietf:params:scim:api:messages:2.0:BulkResponse"
_METHODS: Final = frozenset({"DELETE", "PATCH", "POST", "PUT"})
_REFERENCE: Final = "bulkId:"
_PARAMETERS: Final[Mapping[str, str]] = {"attributes": "id"}
"""The parameters of each operation: the response of a bulk request contains no resources."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Operation:
    method: str
    endpoint: str
    resource_id: str | None
    bulk_id: str | None
    version: str | None
    data: Document

    @property
    def references(self) -> set[str]:
        """The bulkIds of other operations that must precede this one."""
        return set(_references([self.data, self.resource_id]))


async def run(services: Services, scim: ScimCall, body: Document) -> Document:
    """Return the BulkResponse of a request. An operation waits for those whose bulkId it refers to.

    Raises ScimError for a request that is malformed as a whole.
    """
    operations = _read(body)
    limit = body.get("failOnErrors") or len(operations)
    results: dict[int, Document] = {}
    ids: dict[str, str] = {}
    errors = 0
    for index in _in_order(operations):
        if errors >= limit:
            break
        results[index] = await _run(services, scim, operations[index], ids)
        errors += int(results[index]["status"]) >= 400
    return {"schemas": [_RESPONSE], "Operations": [results[index] for index in sorted(results)]}


async def _run(services: Services, scim: ScimCall, operation: _Operation, ids: dict[str, str]) -> Document:
    result: Document = {"method": operation.method}
    if operation.bulk_id is not None:
        result["bulkId"] = operation.bulk_id
    try:
        if missing := operation.references - ids.keys():
            raise ScimError(409, f"The bulkId {min(missing)[:100]} could not be resolved.", "invalidValue")
        request = Request(
            operation.method,
            requests.resource_type_of(operation.endpoint),
            None if operation.resource_id is None else _resolved(operation.resource_id, ids),
            _resolved(operation.data, ids),
            _PARAMETERS,
            Preconditions(if_match=operation.version),
        )
        if operation.resource_id is not None:
            result["location"] = resources.location(scim, request.resource_type, str(request.resource_id))
        answer = await requests.handle(services, scim, request)
    except ServiceError as error:
        body = body_of(error)
        return {**result, "status": body["status"], "response": body}
    if answer is None:
        return {**result, "status": "204"}
    if operation.bulk_id is not None and answer.resource is not None:
        ids[operation.bulk_id] = answer.resource["id"]
    status = "201" if operation.method == "POST" else "200"
    return {**result, "location": answer.location, "version": answer.version, "status": status}


def _in_order(operations: list[_Operation]) -> Iterator[int]:
    """Yield operations in their order, each after those that it refers to; those of a circle come last."""
    waiting = dict(enumerate(operations))
    defined = {one.bulk_id for one in operations if one.bulk_id is not None}
    done: set[str | None] = set()
    while waiting:
        ready = next(
            (index for index, one in waiting.items() if not (one.references & defined) - done), next(iter(waiting))
        )
        done.add(waiting.pop(ready).bulk_id)
        yield ready


def _read(body: Document) -> list[_Operation]:
    listed = body.get("Operations")
    if not isinstance(listed, list) or not listed:
        raise invalid("invalidSyntax", "Operations must be a list of operations.")
    if len(listed) > MAXIMUM_OPERATIONS:
        raise ScimError(413, f"A bulk request may have {MAXIMUM_OPERATIONS} operations.")
    limit = body.get("failOnErrors")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise invalid("invalidValue", "failOnErrors must be a positive integer.")
    operations = [_read_one(one) for one in listed]
    bulk_ids = [one.bulk_id for one in operations if one.bulk_id is not None]
    if len(bulk_ids) != len(set(bulk_ids)):
        raise invalid("invalidValue", "A bulkId occurs twice.")
    return operations


def _read_one(given: Any) -> _Operation:
    if not isinstance(given, dict):
        raise invalid("invalidSyntax", "An operation must be an object.")
    method, path = str(given.get("method", "")).upper(), given.get("path")
    if method not in _METHODS or not isinstance(path, str):
        raise invalid("invalidSyntax", "An operation needs a method (POST, PUT, PATCH or DELETE) and a path.")
    endpoint, _, resource_id = path.lstrip("/").partition("/")
    bulk_id, version, data = given.get("bulkId"), given.get("version"), given.get("data")
    if (method == "POST") == bool(resource_id):
        raise invalid("invalidPath", f"The path {path[:100]} is not one for {method}.")
    if method == "POST" and not isinstance(bulk_id, str):
        raise invalid("invalidSyntax", "A POST needs a bulkId.")
    if not all(one is None or isinstance(one, str) for one in (bulk_id, version)):
        raise invalid("invalidSyntax", "bulkId and version must be texts.")
    if method != "DELETE" and not isinstance(data, dict):
        raise invalid("invalidSyntax", f"A {method} needs data.")
    return _Operation(
        method, f"/{endpoint}", resource_id or None, bulk_id, version, data if isinstance(data, dict) else {}
    )


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith(_REFERENCE):
        yield value.removeprefix(_REFERENCE)
    elif isinstance(value, dict):
        for member in value.values():
            yield from _references(member)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _resolved(value: Any, ids: Mapping[str, str]) -> Any:
    """Return a value with the ids of created resources in place of references to their operations."""
    if isinstance(value, str) and value.startswith(_REFERENCE):
        return ids.get(value.removeprefix(_REFERENCE), value)
    if isinstance(value, dict):
        return {name: _resolved(member, ids) for name, member in value.items()}
    return [_resolved(item, ids) for item in value] if isinstance(value, list) else value
