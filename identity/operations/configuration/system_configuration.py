"""The system configuration: one document for the instance, made with it, read and changed but never removed."""

from __future__ import annotations

import contextlib
from typing import Any

from identity.call import Call, Document
from identity.domain.objects import cors
from identity.domain.objects.resource_definition import Resource
from identity.domain.objects.system_configuration import network
from identity.errors import Duplicate, FieldError
from identity.operations.objects import crud
from identity.services import Services
from identity.store.system_settings import DOCUMENT_ID

DEFAULT_TIME_ZONE = "America/Denver"


async def prepare(_services: Services, _call: Call, wanted: Document, _stored: Document | None) -> Document:
    """What to store: origins as browsers send them, and no usage data. Raises Invalid."""
    errors: list[FieldError] = []
    configuration = wanted["corsConfiguration"]
    configuration["allowedOrigins"] = _origins(configuration["allowedOrigins"], errors)
    _require_some_restraint(configuration, errors)
    _require_networks(wanted["trustedProxyConfiguration"]["trusted"], errors)
    crud.require_no_errors(errors)
    return {**wanted, "usageDataConfiguration": {**wanted["usageDataConfiguration"], "enabled": False}}


RESOURCE = Resource(
    "systemConfiguration",
    "/api/system-configuration",
    "api/system-configuration.json",
    "system_configuration",
    "systemConfigurations",
    "System configuration",
    tenant_scoped=False,
    verbs=frozenset({"retrieve", "update", "patch"}),
    prepare=prepare,
)


async def ensure(services: Services, call: Call) -> None:
    """Make the configuration of a new instance. Safe to run in several processes at once, and at every start."""
    if await services.documents[RESOURCE.collection].find(None, DOCUMENT_ID) is None:
        wanted = {"reportTimezone": DEFAULT_TIME_ZONE, "corsConfiguration": {"enabled": True}}
        read: Any = services.schemas[RESOURCE.schema].read({RESOURCE.name: wanted})
        document = {**read[RESOURCE.name], "id": DOCUMENT_ID, **crud.creation_instants(call.now)}
        with contextlib.suppress(Duplicate):  # another process was faster
            await services.documents[RESOURCE.collection].insert(None, document)
    await services.system.refresh()


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


def _require_some_restraint(configuration: Document, errors: list[FieldError]) -> None:
    """Browsers refuse cookies for the answer `*`, and naming every caller instead would open the API to any page."""
    if configuration["allowCredentials"] and cors.ANY in configuration["allowedOrigins"]:
        path = "systemConfiguration.corsConfiguration.allowCredentials"
        message = f"[{path}] must be false where every origin is allowed."
        errors.append(FieldError.of("invalid", path, message))


def _require_networks(texts: list[str], errors: list[FieldError]) -> None:
    if any(network(text) is None for text in texts):
        path = "systemConfiguration.trustedProxyConfiguration.trusted"
        message = f"Each of [{path}] must be an IP address or a network such as 10.0.0.0/8."
        errors.append(FieldError.of("invalid", path, message))
