"""Connectors: create, retrieve, update, patch and delete. Every instance has the internal connector."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from identity.call import Call, Document
from identity.domain.connectors import connectors as connector_rules
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.domain.providers.identity_providers import transport_problem
from identity.domain.users.users import INTERNAL_CONNECTOR
from identity.domain.webhooks import webhook_headers
from identity.errors import Duplicate, FieldError, Invalid
from identity.operations.lambdas import lambdas
from identity.operations.objects import crud
from identity.outbound.addresses import check_ldap_url, check_url
from identity.services import Services
from identity.store.mongo import Write


async def prepare(services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Validate a connector. Raises Invalid, also for a change of the internal connector or of the type."""
    if stored is not None:
        _require_external(stored["id"])
    connector = connector_rules.complete(document)
    errors = connector_rules.problems(connector)
    if stored is not None and connector.get("type", stored["type"]) != stored["type"]:
        errors.append(_error("type", "The type of a connector cannot be changed."))
    errors += _url_problems(services, connector)
    reason = webhook_headers.problem(connector.get("headers", {}))
    if reason is not None:
        errors.append(_error("headers", f"The headers cannot be used: {reason}."))
    errors += await _reference_problems(services, connector)
    crud.require_no_errors(errors)
    return connector


async def _commit(
    services: Services, _call: Call, connector: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit a connector. Raises Invalid for a deletion of the internal connector."""
    if connector is None and stored is not None:
        _require_external(stored["id"])
    await services.runtime.database.execute(writes)


RESOURCE = Resource(
    "connector",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=(Unique("name", ("name",), "connector.name"),),
    sealed=("headers.*", "httpAuthenticationPassword", "systemAccountPassword"),
    credentials=(
        Credential("headers.*", ("authenticationURL",)),
        Credential("httpAuthenticationPassword", ("authenticationURL", "httpAuthenticationUsername")),
        Credential("systemAccountPassword", ("authenticationURL", "securityMethod", "systemAccountDN")),
    ),
    prepare=prepare,
    commit=_commit,
    feature="connectors",
)


async def find(services: Services, connector_id: str) -> Document | None:
    """Return a connector from the cache, or None."""
    return await crud.collection_of(services, RESOURCE).find_cached(None, connector_id)


async def add_internal(services: Services, call: Call) -> None:
    """Create the internal connector if it does not exist. Safe to repeat."""
    if await find(services, INTERNAL_CONNECTOR) is None:
        connector = {**connector_rules.INTERNAL, **crud.creation_instants(call.now)}
        with contextlib.suppress(Duplicate):
            await crud.collection_of(services, RESOURCE).insert(None, connector)


def _require_external(connector_id: str) -> None:
    if connector_id == INTERNAL_CONNECTOR:
        raise Invalid.field("invalid", "connectorId", "The default connector cannot be changed or deleted.")


def _url_problems(services: Services, connector: Document) -> list[FieldError]:
    url, networks = connector.get("authenticationURL"), services.config.connectors.allowed_networks
    if not url:
        return []
    if connector.get("type") == connector_rules.LDAP:
        reason = check_ldap_url(url, networks)
    else:
        reason = check_url(url, networks) or transport_problem(url, networks)
    return [] if reason is None else [_error("authenticationURL", f"The URL cannot be used: {reason}.")]


async def _reference_problems(services: Services, connector: Document) -> list[FieldError]:
    errors = []
    key_id = connector.get("sslCertificateKeyId")
    key = None if key_id is None else await services.configuration.keys.find_cached(None, key_id)
    if key_id is not None and (key is None or "certificate" not in key or "privateKey" not in key):
        errors.append(_error("sslCertificateKeyId", "It must name a key with a certificate and a private key."))
    lambda_id = connector.get("lambdaConfiguration", {}).get("reconcileId")
    if lambda_id is not None and not await lambdas.is_of_type(services, lambda_id, connector_rules.LAMBDA_TYPE):
        message = f"It must name a lambda of type {connector_rules.LAMBDA_TYPE}."
        errors.append(_error("lambdaConfiguration.reconcileId", message))
    return errors


def _error(member: str, message: str) -> FieldError:
    path = f"connector.{member}"
    return FieldError.of("invalid", path, f"The [{path}] cannot be used. {message}")
