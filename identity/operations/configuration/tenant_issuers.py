"""Issuers of tenants, unique so that no relying party accepts the tokens of another tenant."""

from __future__ import annotations

import structlog

from identity.call import Call, Document
from identity.domain.configuration import tenants
from identity.errors import Duplicate, FieldError
from identity.services import Services

_log = structlog.get_logger(__name__)


def default_issuer(call: Call, tenant_id: str) -> str:
    """Return the default issuer of a new tenant: the URL of its published metadata."""
    return f"{call.origin.base_url}/{tenant_id}"


def reservation(tenant: Document) -> Document:
    """Return the member of `private` with the unique index on issuers; empty for a tenant without a reservation."""
    return {"issuer": tenant["private"]["issuer"]} if "issuer" in tenant["private"] else {}


def private_with_reservation(document: Document, stored: Document | None) -> Document:
    """Return `private` of a tenant to store, with its issuer reserved if it is new.

    A tenant that has shared its issuer since before issuers were unique can still be changed otherwise.
    """
    private = dict(document.get("private", {}))
    if stored is None or stored["issuer"] != document["issuer"]:
        private["issuer"] = tenants.issuer_comparison_form(document["issuer"])
    return private


def change_problems(call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """Return an error if a tenant-scoped caller changes the issuer, by which relying parties identify the tenant."""
    if stored is None or call.caller.tenant_id is None or document["issuer"] == stored["issuer"]:
        return []
    message = "The [tenant.issuer] can be changed with an API key that is not assigned to a tenant."
    return [FieldError.of("notAllowed", "tenant.issuer", message)]


async def reserve_existing(services: Services) -> None:
    """Reserve the issuers of tenants stored before issuers were unique, oldest tenant first. Safe to repeat."""
    lacking = await services.configuration.tenants.find_all(None, {"private.issuer": {"$exists": False}})
    for tenant in reversed(lacking):
        change = {"$set": {"private.issuer": tenants.issuer_comparison_form(tenant["issuer"])}}
        try:
            await services.configuration.tenants.update(None, {"_id": tenant["id"], "issuer": tenant["issuer"]}, change)
        except Duplicate:
            _log.warning("tenants share an issuer: give each its own", tenant_id=tenant["id"], issuer=tenant["issuer"])
