"""What the service publishes about itself: ServiceProviderConfig, ResourceTypes and Schemas (RFC 7644 section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.scim import messages, models
from identity.domain.scim.errors import ScimError
from identity.operations.scim import bulk, resources
from identity.operations.scim.clients import ScimCall
from identity.services import Services

_CONFIG: Final = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"


def service_provider_config(services: Services, scim: ScimCall) -> Document:
    """Return the supported features and their limits. Raises ScimError."""
    scim.require("scim:service-provider-config:read")
    return {
        "schemas": [_CONFIG],
        "patch": {"supported": True},
        "bulk": {
            "supported": True,
            "maxOperations": bulk.MAXIMUM_OPERATIONS,
            "maxPayloadSize": services.config.server.max_body_bytes,
        },
        "filter": {"supported": True, "maxResults": messages.MAXIMUM_RESULTS},
        "changePassword": {"supported": True},
        "sort": {"supported": True},
        "etag": {"supported": True},
        "authenticationSchemes": [
            {
                "type": "oauthbearertoken",
                "name": "OAuth 2.0 bearer token",
                "description": "An access token of the client credentials grant, for the SCIM server entity.",
                "specUri": "https://www.rfc-editor.org/rfc/rfc6750",
                "primary": True,
            }
        ],
        "meta": _meta(scim, "ServiceProviderConfig", "/ServiceProviderConfig"),
    }


def resource_types(scim: ScimCall, name: str | None = None) -> Document:
    """Return all resource types or one. Raises ScimError."""
    scim.require("scim:resource-types:read")
    found = [one.model_dump() for one in models.provider_of(scim.tenant).resource_types]
    return _listed(scim, "ResourceType", "/ResourceTypes", found, name)


def schemas(scim: ScimCall, urn: str | None = None) -> Document:
    """Return all schemas of the tenant or one. Raises ScimError."""
    scim.require("scim:schemas:read")
    found = [one.model_dump() for one in models.provider_of(scim.tenant).schemas]
    return _listed(scim, "Schema", "/Schemas", found, urn)


def require_no_filter(parameters: Mapping[str, Any]) -> None:
    """Raise ScimError for a filter, which discovery does not support (RFC 7644 section 4)."""
    if parameters.get("filter"):
        raise ScimError(403, "Discovery does not support filters.")


def _listed(scim: ScimCall, kind: str, path: str, found: list[Document], wanted: str | None) -> Document:
    shown = [{**one, "meta": _meta(scim, kind, f"{path}/{one['id']}")} for one in found]
    if wanted is None:
        return messages.list_response(shown, len(shown), 1)
    match = next((one for one in shown if one["id"].lower() == wanted.lower()), None)
    if match is None:
        raise resources.not_found(wanted)
    return match


def _meta(scim: ScimCall, kind: str, path: str) -> Document:
    return {"resourceType": kind, "location": f"{scim.base_url}{path}"}
