"""The system configuration: one document per instance, created with it and never deleted."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from identity.call import Call, Document
from identity.domain.objects import cors
from identity.domain.objects.resource_definition import Resource
from identity.domain.objects.system_configuration import network
from identity.errors import Duplicate, FieldError
from identity.operations.objects import crud
from identity.services import Services
from identity.store.system_settings import DOCUMENT_ID

DEFAULT_TIME_ZONE = "America/Denver"
LOGIN_RECORD_DAYS: Final = 400
"""The retention of login records in a new instance: a year can be compared with the one before."""
AUDIT_LOG_DAYS: Final = 730
"""The retention of the audit log in a new instance: a yearly audit finds the whole year before, and the one before."""


async def prepare(_services: Services, _call: Call, requested: Document, _stored: Document | None) -> Document:
    """Normalize origins, validate networks, and disable usage data. Raises Invalid."""
    errors: list[FieldError] = []
    configuration = requested["corsConfiguration"]
    configuration["allowedOrigins"] = _origins(configuration["allowedOrigins"], errors)
    _forbid_credentials_for_any_origin(configuration, errors)
    _require_networks(requested["trustedProxyConfiguration"]["trusted"], errors)
    crud.require_no_errors(errors)
    return {**requested, "usageDataConfiguration": {**requested["usageDataConfiguration"], "enabled": False}}


RESOURCE = Resource(
    "systemConfiguration",
    collection="system_configuration",
    label="System configuration",
    tenant_scoped=False,
    verbs=frozenset({"retrieve", "update", "patch"}),
    prepare=prepare,
)


async def ensure(services: Services, call: Call) -> None:
    """Create the configuration of a new instance. Safe to run at every start, in several processes at once."""
    documents = crud.collection_of(services, RESOURCE)
    if await documents.find(None, DOCUMENT_ID) is None:
        requested = {
            "reportTimezone": DEFAULT_TIME_ZONE,
            "corsConfiguration": {"enabled": True},
            "loginRecordConfiguration": {"delete": {"enabled": True, "numberOfDaysToRetain": LOGIN_RECORD_DAYS}},
            "auditLogConfiguration": {"delete": {"enabled": True, "numberOfDaysToRetain": AUDIT_LOG_DAYS}},
        }
        read: Any = services.schemas[RESOURCE.schema].read({RESOURCE.name: requested})
        document = {**read[RESOURCE.name], "id": DOCUMENT_ID, **crud.creation_instants(call.now)}
        with contextlib.suppress(Duplicate):  # another process created it first
            await documents.insert(None, document)
    await services.configuration.system.refresh()


def _origins(texts: list[str], errors: list[FieldError]) -> list[str]:
    path = "systemConfiguration.corsConfiguration.allowedOrigins"
    found = [cors.canonical_origin(text) for text in texts]
    origins = list(dict.fromkeys(origin for origin in found if origin is not None))
    if None in found:
        message = f"Each of [{path}] must be an origin, such as https://app.example.com, or *."
        errors.append(FieldError.of("invalid", path, message))
    elif cors.ANY in origins and len(origins) > 1:
        errors.append(FieldError.of("invalid", path, f"In [{path}] the origin * must stand alone."))
    return origins


def _forbid_credentials_for_any_origin(configuration: Document, errors: list[FieldError]) -> None:
    """Browsers reject credentials with the origin `*`; echoing every origin would open the API to any page."""
    if configuration["allowCredentials"] and cors.ANY in configuration["allowedOrigins"]:
        path = "systemConfiguration.corsConfiguration.allowCredentials"
        message = f"[{path}] must be false where every origin is allowed."
        errors.append(FieldError.of("invalid", path, message))


def _require_networks(texts: list[str], errors: list[FieldError]) -> None:
    if any(network(text) is None for text in texts):
        path = "systemConfiguration.trustedProxyConfiguration.trusted"
        message = f"Each of [{path}] must be an IP address or a network such as 10.0.0.0/8."
        errors.append(FieldError.of("invalid", path, message))
