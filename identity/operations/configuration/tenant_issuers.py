"""Issuers: each tenant has its own, so that no relying party accepts the tokens of another tenant."""

from __future__ import annotations

import structlog

from identity.call import Call, Document
from identity.domain.configuration import issuers
from identity.errors import Duplicate, FieldError
from identity.services import Services

_log = structlog.get_logger(__name__)


def default_issuer(call: Call, tenant_id: str) -> str:
    """The issuer of a new tenant whose creator names none: the URL under which its metadata is published."""
    return f"{call.origin.base_url}/{tenant_id}"


def reservation(tenant: Document) -> Document:
    """The member of `private` that the unique index of issuers covers; empty for a tenant without a reservation."""
    return {"issuer": tenant["private"]["issuer"]} if "issuer" in tenant["private"] else {}


def private_with_reservation(document: Document, stored: Document | None) -> Document:
    """The `private` of a tenant about to be stored, with its issuer reserved if that is new.

    A tenant that shares its issuer with another one since before issuers were unique can still be changed otherwise.
    """
    private = dict(document.get("private", {}))
    if stored is None or stored["issuer"] != document["issuer"]:
        private["issuer"] = issuers.comparison_form(document["issuer"])
    return private


def change_problems(call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """A field error where a tenant-scoped caller changes the issuer, which relying parties identify the tenant by."""
    if stored is None or call.caller.tenant_id is None or document["issuer"] == stored["issuer"]:
        return []
    message = "The [tenant.issuer] can be changed with an API key that is not assigned to a tenant."
    return [FieldError.of("notAllowed", "tenant.issuer", message)]


async def reserve_existing(services: Services) -> None:
    """Reserve the issuers of tenants stored before issuers were unique, the oldest tenant first. Safe to repeat."""
    lacking = await services.tenants.find_all(None, {"private.issuer": {"$exists": False}})
    for tenant in reversed(lacking):
        change = {"$set": {"private.issuer": issuers.comparison_form(tenant["issuer"])}}
        try:
            await services.tenants.update(None, {"_id": tenant["id"], "issuer": tenant["issuer"]}, change)
        except Duplicate:
            _log.warning("tenants share an issuer: give each its own", tenant_id=tenant["id"], issuer=tenant["issuer"])
