"""Parse SCIM messages and render resources (RFC 7644): every malformed input raises ScimError."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from scim2_models import Context, PatchOp, ResponseParameters, SCIMException, SearchRequest

from identity.call import Document
from identity.domain.scim import models, patches
from identity.domain.scim.errors import invalid
from identity.domain.scim.library_errors import reported

LIST_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
MAXIMUM_RESULTS: Final = 200
"""The maximum number of resources in one page."""
MAXIMUM_FILTER_LENGTH: Final = 4096

_SERVICE_MEMBERS: Final = ("groups", "id", "meta")
"""Attributes that only the service sets: clients may repeat them in a request, and they have no effect."""

_QUERY: Final = ("attributes", "count", "excludedAttributes", "filter", "sortBy", "sortOrder", "startIndex")


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A search: its filter and order in the terms of the model, and its page."""

    request: Any
    start: int
    count: int

    @property
    def is_descending(self) -> bool:
        """Whether the order is descending."""
        return bool(self.request.sort_order == SearchRequest.SortOrder.descending)


def read_resource(tenant: Document, resource_type: str, body: Document) -> Document:
    """Return a resource of a request with canonical attribute names, without the attributes of the service.

    Raises ScimError for a value of the wrong type and a missing required attribute.
    """
    model = models.model_of(tenant, resource_type)
    with reported():
        resource = model.model_validate(body, scim_ctx=Context.DEFAULT, scim_policy=models.POLICY)
    return _of_client(resource_type, resource)


def apply_patch(tenant: Document, resource_type: str, resource: Document, body: Document) -> Document:
    """Return a resource after a PATCH (RFC 7644 section 3.5.2), as `read_resource` does. Raises ScimError."""
    model = models.model_of(tenant, resource_type)
    body, policies = patches.prepare(body)
    with reported():
        patch = PatchOp.__class_getitem__(model).model_validate(
            body, scim_ctx=Context.RESOURCE_PATCH_REQUEST, scim_policy=models.POLICY
        )
        patched = model.model_validate(resource, scim_ctx=Context.DEFAULT, scim_policy=models.POLICY)
    patches.apply(patch, patched, policies)
    return _of_client(resource_type, patched)


def read_query(tenant: Document, resource_types: Sequence[str], parameters: Mapping[str, Any]) -> Query:
    """Return a search of resource types by its parameters, which may be texts. Raises ScimError."""
    given = {name: parameters[name] for name in _QUERY if parameters.get(name) not in (None, "")}
    start = _whole(given.pop("startIndex", 1), "startIndex")
    count = _whole(given.pop("count", MAXIMUM_RESULTS), "count")
    if len(str(given.get("filter", ""))) > MAXIMUM_FILTER_LENGTH:
        raise invalid("invalidFilter", f"The filter exceeds the maximum of {MAXIMUM_FILTER_LENGTH} characters.")
    _require_one_selection(given)
    with reported():
        bound: Any = SearchRequest.__class_getitem__(_union(tenant, resource_types))
        request = bound.model_validate(given, scim_policy=models.POLICY)
    return Query(request, max(1, start), min(max(0, count), MAXIMUM_RESULTS))


def read_selection(tenant: Document, resource_types: Sequence[str], parameters: Mapping[str, Any]) -> Any:
    """Return the `attributes` and `excludedAttributes` of a request. Raises ScimError."""
    names = ("attributes", "excludedAttributes")
    given = {name: parameters[name] for name in names if parameters.get(name)}
    _require_one_selection(given)
    with reported():
        bound: Any = ResponseParameters.__class_getitem__(_union(tenant, resource_types))
        return bound.model_validate(given, scim_policy=models.POLICY)


def selects(selection: Any, attribute: str) -> bool:
    """Return whether a response contains a multi-valued attribute that is returned by default."""
    if selection.attributes:
        return bool(_sub_attributes(selection.attributes, attribute))
    return "" not in _sub_attributes(selection.excluded_attributes, attribute)


def select_entries(entries: Sequence[Document], selection: Any, attribute: str) -> list[Document]:
    """Return the entries of a multi-valued attribute with the selected sub-attributes."""
    wanted = _sub_attributes(selection.attributes, attribute)
    excluded = _sub_attributes(selection.excluded_attributes, attribute)
    if "" in wanted or not (wanted or excluded):
        return list(entries)
    return [
        {
            name: value
            for name, value in one.items()
            if (name.lower() in wanted if wanted else name.lower() not in excluded)
        }
        for one in entries
    ]


def render(tenant: Document, resource_type: str, resource: Document, selection: Any) -> Document:
    """Return a resource as a response contains it: with the selected attributes, never with a password.

    Attributes with values of the wrong type, which administrators can store, are left out. Raises ValueError if the
    rest is no resource.
    """
    model = models.model_of(tenant, resource_type)
    try:
        read = model.model_validate(resource, scim_ctx=Context.DEFAULT, scim_policy=models.POLICY)
    except ValidationError as error:
        wrong = {str(one["loc"][0]) for one in error.errors() if one["loc"]}
        rest = {name: value for name, value in resource.items() if name not in wrong}
        read = model.model_validate(rest, scim_ctx=Context.DEFAULT, scim_policy=models.POLICY)
    shown: Document = read.model_dump(
        scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=selection, scim_policy=models.POLICY
    )
    shown.pop("password", None)
    return shown


def is_resource(tenant: Document, resource_type: str, resource: Document) -> bool:
    """Return whether every attribute of a resource has a value of its type."""
    try:
        models.model_of(tenant, resource_type).model_validate(
            resource, scim_ctx=Context.DEFAULT, scim_policy=models.POLICY
        )
    except (ValidationError, SCIMException):
        return False
    return True


def list_response(resources: Sequence[Document], total: int, start: int) -> Document:
    """Return a ListResponse (RFC 7644 section 3.4.2)."""
    return {
        "schemas": [LIST_SCHEMA],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": list(resources),
    }


def _of_client(resource_type: str, resource: Any) -> Document:
    """Return the attributes of a resource that clients may set. Raises ScimError without the required one."""
    document: Document = resource.model_dump(scim_ctx=Context.DEFAULT, scim_policy=models.POLICY)
    required = "displayName" if resource_type == models.GROUP else "userName"
    if not str(document.get(required, "")).strip():
        raise invalid("invalidValue", f"{required} is required.")
    for name, value in document.items():
        if isinstance(value, list) and sum(one.get("primary") is True for one in value if isinstance(one, dict)) > 1:
            raise invalid("invalidValue", f"{name} has more than one primary value.")
    return {name: value for name, value in document.items() if name not in _SERVICE_MEMBERS}


def _require_one_selection(parameters: Document) -> None:
    """Raise ScimError for a request with both `attributes` and `excludedAttributes`."""
    if {"attributes", "excludedAttributes"} <= parameters.keys():
        raise invalid("invalidValue", "A request has either attributes or excludedAttributes.")


def _union(tenant: Document, resource_types: Sequence[str]) -> Any:
    first, *rest = (models.model_of(tenant, name) for name in resource_types)
    for model in rest:
        first = first | model
    return first


def _sub_attributes(paths: Any, attribute: str) -> set[str]:
    """Return the sub-attributes of an attribute that paths name, in lower case; an empty text for the attribute."""
    steps = (str(path).rpartition(":")[2].lower().partition(".") for path in paths or ())
    return {sub for head, _, sub in steps if head == attribute.lower()}


def _whole(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise invalid("invalidValue", f"{name} must be an integer.") from error
    if isinstance(value, bool | float) or abs(number) >= 2**31:
        raise invalid("invalidValue", f"{name} must be an integer.")
    return number
