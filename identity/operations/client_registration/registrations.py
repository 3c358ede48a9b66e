"""Register, read, update and delete clients dynamically (RFC 7591, RFC 7592).

A registered client is an ordinary application of its tenant: a third party without roles, limited to the grants and
scopes of `client_registration`. Application, registration and the use of the initial access token are one transaction.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Awaitable, Sequence
from typing import Final

from identity.call import Call, Document
from identity.domain.client_registration import metadata as client_metadata
from identity.domain.objects import ip_addresses
from identity.domain.objects.resource_definition import Resource
from identity.errors import (
    AccessTokenRequired,
    Invalid,
    InvalidClientMetadata,
    InvalidRequest,
    InvalidToken,
    NotFound,
)
from identity.ids import TenantId, new_id, new_secret
from identity.operations.client_registration import software_statements
from identity.operations.clients import clients
from identity.operations.clients.clients import TenantHints
from identity.operations.configuration import applications
from identity.operations.objects import audit_logs, crud
from identity.services import Services
from identity.store.mongo import Session, Write
from identity.store.rate_limits import Limit

PATH: Final = "/oauth2/register-client"
_REQUEST: Final = "oauth2/client-registration.request.json"
_WINDOW_SECONDS: Final = 600


async def create(services: Services, call: Call, hints: TenantHints, token: str | None, body: Document) -> Document:
    """Register a client, with an initial access token or a software statement, and return its information.

    Raises NotFound if registration is off, InvalidToken, InvalidRequest, InvalidRedirectUri, InvalidClientMetadata,
    InvalidSoftwareStatement and UnapprovedSoftwareStatement.
    """
    call = await _within_tenant(services, call, hints)
    tenant_id = crud.require_tenant(call)
    await _count_attempt(services, call, tenant_id)
    initial = None
    if token is not None:
        initial = await services.limits.initial_access_tokens.find_live(tenant_id, token, call.now)
        if initial is None:
            raise _invalid_token()
    elif "software_statement" not in body:
        raise AccessTokenRequired
    metadata = await _read(services, call, body)
    await _require_own_name(services, tenant_id, metadata, None)
    client_id, access_token = new_id(), new_secret()
    registration: Document = {
        "id": client_id,
        "insertInstant": call.now,
        "metadata": client_metadata.kept_metadata(metadata),
    }
    first: list[Write] = [functools.partial(_reserve_place, services, tenant_id)]
    if initial is not None:
        first.append(functools.partial(_consume, services, call, tenant_id, initial["id"]))
    store = services.limits.client_registrations
    first.append(functools.partial(store.add, tenant_id, registration, access_token))
    application = {
        "name": metadata.get("client_name", f"Client {client_id}"),
        "jwtConfiguration": {"enabled": False},
        "oauthConfiguration": client_metadata.to_oauth_configuration(metadata),
    }
    resource = _with_writes(first)
    created = await _saved(crud.create(services, call, resource, {"application": application}, client_id))
    await _record(services, call, created, "registered")
    return _information(call, created, registration, access_token)


async def retrieve(services: Services, call: Call, hints: TenantHints, client_id: str, token: str | None) -> Document:
    """Return the information of a client for its registration access token. Raises NotFound and InvalidToken."""
    call = await _within_tenant(services, call, hints)
    registration, application = await _find(services, call, client_id, token)
    return _information(call, application, registration, str(token))


async def update(
    services: Services, call: Call, hints: TenantHints, client_id: str, token: str | None, body: Document
) -> Document:
    """Replace the metadata of a client and its registration access token (RFC 7592 section 2.2).

    Raises NotFound, InvalidToken, InvalidRedirectUri and InvalidClientMetadata.
    """
    call = await _within_tenant(services, call, hints)
    tenant_id = crud.require_tenant(call)
    registration, application = await _find(services, call, client_id, token)
    oauth = application["oauthConfiguration"]
    if body.get("client_id") != client_id or body.get("client_secret", oauth["clientSecret"]) != oauth["clientSecret"]:
        raise InvalidClientMetadata(None, "The client_id and client_secret must be those of the client.")
    metadata = await _read(services, call, body)
    await _require_own_name(services, tenant_id, metadata, client_id)
    kept, access_token = client_metadata.kept_metadata(metadata), new_secret()
    rotate = functools.partial(_rotate, services, tenant_id, registration, kept, access_token)
    changed = crud.to_request(application)
    changed["name"] = metadata.get("client_name", application["name"])
    changed["oauthConfiguration"] = client_metadata.with_requested(oauth, metadata)
    resource = _with_writes([rotate])
    updated = await _saved(crud.update(services, call, resource, {"application": changed}, client_id))
    await _record(services, call, updated, "updated")
    return _information(call, updated, {**registration, "metadata": kept}, access_token)


async def delete(services: Services, call: Call, hints: TenantHints, client_id: str, token: str | None) -> None:
    """Delete a client with its tokens (RFC 7592 section 2.3). Raises NotFound and InvalidToken."""
    call = await _within_tenant(services, call, hints)
    _, application = await _find(services, call, client_id, token)
    await applications.delete(services, call, client_id)
    await _record(services, call, application, "deleted")


async def _within_tenant(services: Services, call: Call, hints: TenantHints) -> Call:
    """Return the call within the tenant of the request. Raises NotFound unless the tenant accepts registrations."""
    named = await clients.find_named_tenant(services, hints)
    tenant = named or await clients.get_default_tenant(services)
    if not is_enabled(services, tenant):
        raise NotFound
    return call.within(TenantId(tenant["id"]))


def is_enabled(services: Services, tenant: Document) -> bool:
    """Return whether clients can be registered in a tenant: the configuration and the tenant have to allow it."""
    return services.config.client_registration.enabled and bool(
        tenant["oauthConfiguration"].get("clientRegistrationEnabled")
    )


async def _count_attempt(services: Services, call: Call, tenant_id: TenantId) -> None:
    attempts = services.config.client_registration.attempts_per_address
    network = ip_addresses.network(call.origin.ip_address)
    limit = Limit("client-registration-address", network, attempts, _WINDOW_SECONDS)
    wait_seconds = await services.limits.rate_limits.consume(tenant_id, [limit])
    if wait_seconds is not None:
        raise InvalidRequest("unknown", f"Too many requests from this address. Try again in {wait_seconds} seconds.")


async def _read(services: Services, call: Call, body: Document) -> Document:
    """Return validated metadata; those of a software statement take precedence."""
    settings = services.config.client_registration
    if isinstance(statement := body.get("software_statement"), str):
        claims = await software_statements.verify(services, statement, call.now)
        body = {**body, **claims}
    metadata: Document
    metadata, errors = services.schemas[_REQUEST].examine(body)
    if errors:
        raise InvalidClientMetadata(None, errors[0].message)
    metadata.setdefault("response_types", ["code"] if "authorization_code" in metadata["grant_types"] else [])
    metadata.setdefault("scope", " ".join(settings.scopes))
    client_metadata.require_valid(metadata, settings.grant_types, settings.scopes)
    return metadata


async def _require_own_name(services: Services, tenant_id: TenantId, metadata: Document, client_id: str | None) -> None:
    """Raise InvalidClientMetadata for a name that users could mistake for that of another application."""
    if "client_name" not in metadata:
        return
    wanted = client_metadata.comparable_name(metadata["client_name"])
    async for application in services.configuration.applications.iterate(tenant_id):
        if application["id"] != client_id and client_metadata.comparable_name(application["name"]) == wanted:
            raise InvalidClientMetadata(None, "Another client has this client_name.")


async def _find(services: Services, call: Call, client_id: str, token: str | None) -> tuple[Document, Document]:
    """Return the registration and the application of a client. Raises InvalidToken for any other token."""
    tenant_id = crud.require_tenant(call)
    if token is None:
        raise AccessTokenRequired
    registration = await services.limits.client_registrations.find_by_token(tenant_id, client_id, token)
    application = await services.configuration.applications.find(tenant_id, client_id) if registration else None
    if registration is None or application is None:
        raise _invalid_token()
    return registration, application


def _with_writes(first: Sequence[Write]) -> Resource:
    """Return the resource of applications that executes other writes first, in the same transaction."""
    return dataclasses.replace(applications.RESOURCE, commit=functools.partial(_commit, first))


async def _commit(
    first: Sequence[Write],
    services: Services,
    call: Call,
    application: Document | None,
    stored: Document | None,
    writes: Sequence[Write],
) -> None:
    assert applications.RESOURCE.commit is not None
    await applications.RESOURCE.commit(services, call, application, stored, [*first, *writes])


async def _saved(saving: Awaitable[Document]) -> Document:
    """Return a saved application. Raises InvalidClientMetadata for settings that applications cannot have."""
    try:
        return await saving
    except Invalid as error:
        messages = [*(field.message for field in error.fields), *(general.message for general in error.general)]
        raise InvalidClientMetadata(None, messages[0]) from error


async def _reserve_place(services: Services, tenant_id: TenantId, session: Session | None) -> None:
    """Raise InvalidRequest for a tenant with the maximum number of registered clients."""
    await services.directory.name_reservations.reserve_across_tenants(f"client registration {tenant_id}", session)
    maximum = services.config.client_registration.maximum_per_tenant
    store = services.limits.client_registrations
    if await store.count_across_tenants({"tenantId": tenant_id}, maximum, session) >= maximum:
        raise InvalidRequest("unknown", f"The tenant has {maximum} registered clients, which is the maximum.")


async def _consume(services: Services, call: Call, tenant_id: TenantId, token_id: str, session: Session | None) -> None:
    if not await services.limits.initial_access_tokens.consume(tenant_id, token_id, call.now, session):
        raise _invalid_token()


async def _rotate(
    services: Services,
    tenant_id: TenantId,
    registration: Document,
    kept: Document,
    access_token: str,
    session: Session | None,
) -> None:
    store = services.limits.client_registrations
    if not await store.rotate(tenant_id, registration, kept, access_token, session):
        raise _invalid_token()


async def _record(services: Services, call: Call, application: Document, deed: str) -> None:
    row = {
        "data": {"applicationId": application["id"], "ipAddress": call.origin.ip_address},
        "insertUser": application["name"][:255],
        "message": f"Client {deed}",
        "reason": "Dynamic client registration (RFC 7591, RFC 7592)",
    }
    await audit_logs.add(services, call, row, call.tenant_id)


def _information(call: Call, application: Document, registration: Document, access_token: str) -> Document:
    """Return the client information response (RFC 7592 section 3)."""
    client_id = application["id"]
    return {
        **client_metadata.client_information(application, registration["metadata"]),
        "client_id_issued_at": registration["insertInstant"] // 1000,
        "registration_access_token": str(access_token),
        "registration_client_uri": f"{call.origin.base_url}/{call.tenant_id}{PATH}/{client_id}",
    }


def _invalid_token() -> InvalidToken:
    return InvalidToken("access_token_invalid", "The token does not allow this, or was used before.")
