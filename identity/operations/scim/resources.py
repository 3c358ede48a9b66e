"""What all SCIM resources share: meta and version, preconditions, and references."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from identity.call import Document
from identity.domain.scim import models
from identity.domain.scim.errors import ScimError
from identity.domain.scim.user_mapping import EXTERNAL_ID
from identity.ids import parse_id
from identity.instants import Instant, as_datetime
from identity.operations.scim.clients import ScimCall


@dataclasses.dataclass(frozen=True, slots=True)
class Preconditions:
    """The `If-Match` and `If-None-Match` of a request (RFC 9110 section 13.1)."""

    if_match: str | None = None
    if_none_match: str | None = None

    def require(self, version: str) -> None:
        """Raise ScimError 412 if the resource has another version than `If-Match`."""
        if self.if_match is not None and not _lists(self.if_match, version):
            raise ScimError(412, "The resource has another version.")

    def is_unmodified(self, version: str) -> bool:
        """Return whether the client has this version already."""
        return self.if_none_match is not None and _lists(self.if_none_match, version)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request on a resource type: of HTTP, or an operation of a bulk request."""

    method: str
    resource_type: str
    resource_id: str | None = None
    body: Document = dataclasses.field(default_factory=dict, repr=False)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    preconditions: Preconditions = Preconditions()

    @property
    def id(self) -> str:
        """The id of the resource in canonical form. Raises ScimError 404 for any other text."""
        found = parse_id(self.resource_id)
        if found is None:
            raise not_found(str(self.resource_id))
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A resource to return: None where the client has it already."""

    resource: Document | None
    version: str
    location: str


def base_of(scim: ScimCall, resource_type: str, document: Document, version: str) -> Document:
    """Return the attributes of a user or group that only the service sets, and its `externalId`."""
    schema = models.GROUP_SCHEMA if resource_type == models.GROUP else models.USER_SCHEMA
    base: Document = {
        "schemas": [schema],
        "id": document["id"],
        "meta": {
            "resourceType": resource_type,
            "created": _date_time(document["insertInstant"]),
            "lastModified": _date_time(document["lastUpdateInstant"]),
            "location": location(scim, resource_type, document["id"]),
            "version": version,
        },
    }
    external_id = document.get("private", {}).get(EXTERNAL_ID)
    return base if external_id is None else {**base, "externalId": external_id}


def location(scim: ScimCall, resource_type: str, resource_id: str) -> str:
    """Return the URL of a resource."""
    return f"{scim.base_url}{models.ENDPOINTS[resource_type]}/{resource_id}"


def not_found(text: str) -> ScimError:
    """Return the error for a resource that does not exist."""
    return ScimError(404, f"Resource {text[:100]} not found.")


def version_of(*parts: Any) -> str:
    """Return the weak entity tag of a state."""
    return f'W/"{"-".join(str(part) for part in parts)}"'


def _date_time(instant: Instant) -> str:
    return as_datetime(instant).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@functools.lru_cache(maxsize=256)
def _tags(header: str) -> frozenset[str]:
    return frozenset(one.strip().removeprefix("W/") for one in header.split(","))


def _lists(header: str, version: str) -> bool:
    """Return whether a header lists a version; the comparison is weak, because all versions are."""
    return header.strip() == "*" or version.removeprefix("W/") in _tags(header[:1000])
