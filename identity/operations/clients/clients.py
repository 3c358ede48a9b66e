"""Resolve the client and the tenant of a protocol request (spec: OAuth, tenant resolution)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from identity import request_facts
from identity.call import Document
from identity.domain.clients import oauth_settings, security_profiles
from identity.domain.clients.oauth_settings import OAuthSettings
from identity.domain.clients.refresh_tokens import RefreshTokenPolicy
from identity.errors import FieldError, Invalid, InvalidRequest, OAuth2Error
from identity.ids import ApplicationId, TenantId, parse_id
from identity.operations.clients import client_ids
from identity.operations.groups import administrator_realm
from identity.services import Services
from identity.tokens import access_tokens
from identity.tokens.issuer import FindClient, VerifiedToken


@dataclasses.dataclass(frozen=True, slots=True)
class TenantHints:
    """The tenant ids of a request: in its path prefix, parameter and header."""

    path: str | None = None
    parameter: str | None = None
    header: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """An active application of an active tenant; both are shared documents and must not be modified."""

    tenant: Document
    application: Document
    oauth: OAuthSettings = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the settings once."""
        object.__setattr__(self, "oauth", OAuthSettings.of(self.application))

    @property
    def tenant_id(self) -> TenantId:
        """The id of the tenant."""
        return TenantId(self.tenant["id"])

    @property
    def client_id(self) -> ApplicationId:
        """The id of the application, by which everything about the client is stored."""
        return ApplicationId(self.application["id"])

    @property
    def presented_client_id(self) -> str:
        """The client_id as the client presented it: the id of the application, or the `clientId` in place of it.

        Tokens and pages repeat it.
        """
        return oauth_settings.client_id_of(self.application)

    def is_audience_of(self, token: VerifiedToken) -> bool:
        """Return whether a token was issued to the client, under any client_id, or names it as an audience."""
        audiences = access_tokens.audiences(token.claims)
        is_issued_to = token.application["id"] == self.client_id
        return is_issued_to or not {self.client_id, self.presented_client_id}.isdisjoint(audiences)

    def with_settings(self, member: str, **changes: Any) -> Client:
        """Return the client with changes in a member of its application, such as oauthConfiguration."""
        application = {**self.application, member: {**self.application[member], **changes}}
        return dataclasses.replace(self, application=application)

    @property
    def refresh_policy(self) -> RefreshTokenPolicy:
        """The effective policy of its refresh tokens."""
        return security_profiles.refresh_policy(self.tenant, self.application)

    @property
    def issuer(self) -> str:
        """The issuer of its tokens and responses."""
        return str(self.tenant["issuer"])


class UnknownClientError(InvalidRequest):
    """The client does not exist or is inactive; the token endpoint returns invalid_client for it."""


async def get_client(services: Services, hints: TenantHints, client_id: str | None) -> Client:
    """Return the client of a request with its tenant; that of the console has the settings of its realm.

    Raises InvalidRequest for an unknown tenant, for another tenant than the client's, and for a missing client_id;
    UnknownClientError for a client that does not exist or is inactive.
    """
    named = await find_named_tenant(services, hints)
    if not client_id:
        raise InvalidRequest("missing_client_id", "The request is missing a required parameter: client_id.")
    application = await _get_application(services, client_id)
    if named is None and application["universalConfiguration"].get("universal"):
        raise InvalidRequest("missing_tenant_id", "The request is missing a required parameter: tenantId.")
    tenant = await get_tenant(services, named, client_id, application)
    return Client(administrator_realm.of_application(services, tenant, application), application)


async def get_tenant(services: Services, named: Document | None, client_id: str, client: Document) -> Document:
    """Return the tenant of an application or entity. Raises InvalidRequest if the request names another one."""
    if named is not None and client["tenantId"] != named["id"]:
        raise _invalid_tenant("The tenantId is not the tenant of the client.")
    tenant = await services.configuration.tenants.find_cached(None, client["tenantId"])
    if tenant is None or tenant["state"] != "Active":
        raise unknown_client(client_id)
    return tenant


async def get_by_application_id(services: Services, tenant_id: TenantId | None, application_id: str) -> Client:
    """Return the client of an API request's `applicationId`, within the tenant if one is given.

    Raises Invalid if it is not an active application.
    """
    try:
        return await get_client(services, TenantHints(header=tenant_id), application_id)
    except InvalidRequest as error:
        raise Invalid([FieldError.invalid("applicationId", "must name an active application of the tenant")]) from error


async def find_by_application_id(
    services: Services, tenant_id: TenantId | None, application_id: str | None
) -> Client | None:
    """Return the client of an optional `applicationId`; None without one. Raises Invalid as above."""
    return None if application_id is None else await get_by_application_id(services, tenant_id, application_id)


def application_of(client: Client | None) -> Document | None:
    """Return the application of a client, if there is one."""
    return None if client is None else client.application


async def find_named_tenant(services: Services, hints: TenantHints) -> Document | None:
    """Return the tenant that a request names, if any. Raises InvalidRequest for an unknown tenant, and for two."""
    named = [hint for hint in (hints.path, hints.parameter, hints.header) if hint]
    if not named:
        return None
    tenant_ids = {parse_id(hint) for hint in named}
    tenant_id = tenant_ids.pop()
    if tenant_ids:
        raise _invalid_tenant("The request names two different tenants.")
    tenant = None if tenant_id is None else await services.configuration.tenants.find_cached(None, tenant_id)
    if tenant is None or tenant["state"] != "Active":
        raise _invalid_tenant(f"The tenantId is not valid: {named[0][:100]}")
    return tenant


def client_finder(services: Services) -> FindClient:
    """Return a function that finds the client of a token: client_id -> its tenant and application, or None."""
    return functools.partial(_find_client, services)


async def get_default_tenant(services: Services) -> Document:
    """Return the tenant of a request that names neither tenant nor client."""
    tenant = await services.configuration.tenants.find_cached(None, services.runtime.default_tenant_id)
    if tenant is None:
        raise _invalid_tenant("There is no default tenant.")
    return tenant


async def _find_client(services: Services, client_id: str) -> tuple[Document, Document] | None:
    try:
        application = await _get_application(services, client_id)
        return await get_tenant(services, None, client_id, application), application
    except InvalidRequest:
        return None


async def _get_application(services: Services, client_id: str) -> Document:
    application = await client_ids.find_application(services, client_id)
    if application is None or not application["active"]:
        raise unknown_client(client_id)
    request_facts.note_client(application["id"])
    return application


def unknown_client(client_id: str) -> OAuth2Error:
    """Return the error for an unknown client."""
    return UnknownClientError("invalid_client_id", f"The client_id is not valid: {client_id[:100]}")


def _invalid_tenant(description: str) -> InvalidRequest:
    return InvalidRequest("invalid_tenant_id", description)
