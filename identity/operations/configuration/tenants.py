"""Tenants: create, copy, update, delete with their contents, and assign webhooks."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from identity import permissions
from identity.call import AdministratorCaller, ApiKeyCaller, Call, Caller, Document
from identity.domain.configuration import tenants as tenant_rules
from identity.domain.configuration import token_settings
from identity.domain.configuration.token_settings import TokenSettings
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.errors import FieldError, Invalid, NotFound, Unauthorized
from identity.events.catalogue import INSTANCE_EVENTS, TRANSACTIONAL_EVENTS
from identity.ids import TenantId, WebhookId
from identity.operations.configuration import ip_access_control_lists, keys, object_copies
from identity.operations.connectors import connectors
from identity.operations.entities import user_access
from identity.operations.forms import forms
from identity.operations.lambdas import lambdas
from identity.operations.objects import crud, features, key_references, references
from identity.operations.passwords import password_cost, user_passwords
from identity.operations.providers import identity_providers
from identity.operations.user_actions import user_actions
from identity.services import Services
from identity.store.mongo import Write

UNIQUE = (Unique("name", ("name",), "tenant.name"),)
SEALED = ("emailConfiguration.password", "captchaConfiguration.secretKey")
CREDENTIALS = (
    Credential(
        "emailConfiguration.password",
        tuple(f"emailConfiguration.{name}" for name in ("host", "port", "security", "username")),
        write_only=True,
    ),
    Credential(
        "captchaConfiguration.secretKey",
        ("captchaConfiguration.captchaMethod", "captchaConfiguration.siteKey"),
        write_only=True,
    ),
)

_REFERENCED = ("email_templates", "message_templates", "messengers", "themes")
_SCIM_MEMBERS = ("enabled", "clientEntityTypeId", "serverEntityTypeId")
_FORMS = {"formConfiguration.adminUserFormId": "adminUser"}


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """Fill in defaults that differ per tenant, keep what the caller may not change, validate. Raises Invalid."""
    document["state"] = "Active" if stored is None else stored["state"]
    if stored is not None:
        _keep_keys(document, stored)
    document.setdefault("issuer", _default_issuer(call, document["id"]) if stored is None else stored["issuer"])
    document = tenant_rules.normalize(document, TRANSACTIONAL_EVENTS, INSTANCE_EVENTS)
    errors = tenant_rules.problems(document)
    errors += _issuer_problems(call, document, stored)
    errors += _scim_problems(call, document, stored)
    errors += await key_references.problems(services, call, document, stored, "tenant.jwtConfiguration")
    errors += await key_references.strict_tenant_problems(services, document, stored)
    hashing = document["passwordEncryptionConfiguration"]
    hashing.setdefault("encryptionSchemeFactor", user_passwords.default_factor(hashing["encryptionScheme"]))
    errors += password_cost.problems(services, call, document, stored)
    errors += await ip_access_control_lists.reference_problems(services, document, "tenant")
    errors += await user_actions.reference_problems(services, document)
    errors += await lambdas.reference_problems(services, "tenant", document)
    errors += await forms.reference_problems(services, "tenant", _FORMS, document, stored)
    errors += await _connector_problems(services, document)
    errors += await references.problems(services, RESOURCE, document, stored, _REFERENCED)
    crud.require_no_errors(errors, features.event_problems(services, _newly_enabled(document, stored)))
    return document


async def _connector_problems(services: Services, tenant: Document) -> list[FieldError]:
    errors = []
    for index, policy in enumerate(tenant["connectorPolicies"]):
        if await connectors.find(services, policy["connectorId"]) is None:
            path = f"tenant.connectorPolicies[{index}].connectorId"
            errors.append(FieldError.invalid(path, "must name an existing connector"))
    return errors


def _default_issuer(call: Call, tenant_id: str) -> str:
    """Return the default issuer of a new tenant: the URL of its published metadata."""
    return f"{call.origin.base_url}/{tenant_id}"


def _issuer_problems(call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """Return an error if a tenant-scoped caller changes the issuer, by which relying parties identify the tenant."""
    if stored is None or call.caller.tenant_id is None or document["issuer"] == stored["issuer"]:
        return []
    message = "The [tenant.issuer] can be changed with an API key that is not assigned to a tenant."
    return [FieldError.of("notAllowed", "tenant.issuer", message)]


def _scim_problems(call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """Return an error for a change of the SCIM server, which reaches users, without the permissions for them."""
    before = {} if stored is None else stored["scimServerConfiguration"]
    after = document["scimServerConfiguration"]
    is_changed = any(after.get(name) != before.get(name) for name in _SCIM_MEMBERS)
    if (stored is None and not after.get("enabled")) or not is_changed or user_access.may_manage_users(call.caller):
        return []
    message = "The [tenant.scimServerConfiguration] can be changed with an API key that has the permissions for users."
    return [FieldError.of("notAllowed", "tenant.scimServerConfiguration", message)]


def _newly_enabled(document: Document, stored: Document | None) -> list[str]:
    """Return the events that the tenant newly enables."""
    earlier = {} if stored is None else stored["eventConfiguration"]["events"]
    events = document["eventConfiguration"]["events"]
    return [name for name, entry in events.items() if entry["enabled"] and not earlier.get(name, {}).get("enabled")]


async def _commit(
    services: Services, call: Call, tenant: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit a new tenant with a signing key of its own, or a changed one with the rotation of its keys."""
    assert tenant is not None, "tenants are deleted by `delete`"
    if stored is None:
        await services.runtime.database.execute(await _with_signing_key(services, call, tenant, writes))
        return
    rotation = await key_references.of_tenant(services, tenant, stored)
    await key_references.commit(services, call.within(TenantId(tenant["id"])), tenant, rotation, writes)


async def _with_signing_key(
    services: Services, call: Call, tenant: Document, writes: Sequence[Write]
) -> Sequence[Write]:
    """Add the write of a generated signing key for a new tenant, unless the request names its keys."""
    settings = tenant["jwtConfiguration"]
    missing = [name for name in token_settings.KEY_MEMBERS if name not in settings]
    if not missing:
        return writes
    key = await keys.generate_for_tenant(call, tenant)
    settings.update(dict.fromkeys(missing, key["id"]))
    # The reference checks are repeated because the tenant now refers to the new key.
    checks = references.checks(services, RESOURCE, tenant, None, call.now)
    return [functools.partial(services.configuration.keys.insert, None, key), *checks, writes[-1]]


async def create(services: Services, call: Call, body: Document, tenant_id: str | None) -> Document:
    """Create a tenant, or a copy of `sourceTenantId` with the requested name. Raises Invalid and Unauthorized."""
    if call.caller.tenant_id is not None:
        raise Unauthorized(log_detail="a tenant-scoped key cannot create tenants")
    request = await _with_source(services, body)
    webhook_ids = await _get_webhook_ids(services, call, body)
    tenant = await crud.create(services, call, RESOURCE, request, tenant_id)
    await _attach(services, TenantId(tenant["id"]), webhook_ids or set())
    await key_references.published(services, tenant)
    return tenant


async def retrieve(services: Services, call: Call, tenant_id: str) -> Document:
    """Return a tenant that the caller's key may see. Raises NotFound."""
    _require_own(call, tenant_id)
    return await crud.retrieve(services, call, RESOURCE, tenant_id)


def retrieve_all(services: Services, call: Call) -> AsyncIterator[Document]:
    """Return every tenant that the caller's key may see, newest first."""
    own = call.caller.tenant_id
    return crud.retrieve_all(services, call, RESOURCE, {} if own is None else {"_id": own})


async def update(services: Services, call: Call, body: Document, tenant_id: str) -> Document:
    """Replace a tenant; without `webhookIds` its webhooks stay unchanged. Raises NotFound and Invalid."""
    await retrieve(services, call, tenant_id)
    webhook_ids = await _get_webhook_ids(services, call, body)
    tenant = await crud.update(services, call, RESOURCE, body, tenant_id)
    if webhook_ids is not None:
        await _attach(services, TenantId(tenant_id), webhook_ids)
    return tenant


async def patch(services: Services, call: Call, kind: str, body: Any, tenant_id: str) -> Document:
    """Apply a patch to a tenant; without `webhookIds` its webhooks stay unchanged. Raises NotFound and Invalid."""
    await retrieve(services, call, tenant_id)
    webhook_ids = await _get_webhook_ids(services, call, body if isinstance(body, dict) else {})
    tenant = await crud.patch(services, call, RESOURCE, kind, body, tenant_id)
    if webhook_ids is not None:
        await _attach(services, TenantId(tenant_id), webhook_ids)
    return tenant


async def _to_response(services: Services, caller: Caller, tenant: Document) -> Document:
    """Return the tenant; with `api_keys.show_tenant_secrets` with its secrets, for keys that may change all tenants."""
    response = crud.to_caller_response(services, caller, RESOURCE, tenant)
    if not isinstance(caller, ApiKeyCaller) or isinstance(caller, AdministratorCaller):
        return response
    if not services.config.api_keys.show_tenant_secrets or caller.tenant_id is not None:
        return response
    if permissions.may_change(caller.api_key["permissions"]["endpoints"], RESOURCE.path):
        for member in SEALED:
            section, name = member.split(".")
            if name in tenant[section]:
                response[section] = {**response[section], name: tenant[section][name]}
    return response


RESOURCE = Resource(
    "tenant",
    tenant_scoped=False,
    unique=UNIQUE,
    sealed=SEALED,
    credentials=CREDENTIALS,
    search_rules=SearchRules({"name": "text"}, {"id": "_id", "insertInstant": "insertInstant", "name": "name"}),
    prepare=prepare,
    commit=_commit,
    create=create,
    retrieve=retrieve,
    retrieve_all=retrieve_all,
    update=update,
    patch=patch,
    to_response=_to_response,
)


async def delete(services: Services, call: Call, tenant_id: str) -> None:
    """Mark a tenant for deletion, which ends its use immediately. Raises NotFound, and Invalid for the default tenant.

    `finish_deletion` removes its contents and can be repeated after an interruption.
    """
    _require_own(call, tenant_id)
    if tenant_id == services.runtime.default_tenant_id:
        raise Invalid.field("inUse", "tenantId", "The default tenant cannot be deleted.")
    # The version increases so that a concurrent update cannot restore the tenant.
    change = {"$set": {"state": "PendingDelete"}, "$inc": {"lastUpdateInstant": 1}}
    if not await services.configuration.tenants.update(None, {"_id": tenant_id}, change):
        raise NotFound


async def retrieve_password_rules(services: Services, call: Call, tenant_id: str | None) -> Document:
    """Return the password rules of a tenant, by default that of the call. Raises NotFound and Invalid."""
    tenant = await services.configuration.tenants.get(None, tenant_id or crud.require_tenant(call))
    password_rules: Document = tenant["passwordValidationRules"]
    return password_rules


async def finish_deletion(services: Services, tenant_id: TenantId) -> None:
    """Delete the contents of a tenant and, last, the tenant, so that an interrupted deletion can be repeated."""
    await _remove_contents(services, tenant_id)
    await services.logs.erasure.erasures.add_tenant(tenant_id, services.clock.now())
    await services.configuration.tenants.delete(None, tenant_id)
    # Removes what requests in progress wrote in the meantime.
    await _remove_contents(services, tenant_id)


async def _remove_contents(services: Services, tenant_id: TenantId) -> None:
    await services.tokens.refresh_tokens.revoke_tenant(tenant_id)
    await services.directory.users.delete_in_chunks(tenant_id, {})
    await services.outbound.mails.delete_all(tenant_id)
    await services.sessions.logout_notices.delete_all(tenant_id)
    await services.outbound.text_messages.delete_all(tenant_id)
    await services.logs.login_records.delete_of_tenant(tenant_id)
    await identity_providers.remove_tenant(services, tenant_id)
    for documents in services.runtime.collections.values():
        if documents.is_tenant_scoped:
            await documents.delete_in_chunks(tenant_id, {})
    await services.configuration.api_keys.delete_in_chunks(None, {"tenantId": tenant_id})
    await services.configuration.keys.delete_in_chunks(None, {"private.tenantId": tenant_id})
    await _detach(services, tenant_id, {"tenantIds": tenant_id})


async def finish_deletions(services: Services) -> None:
    """Finish accepted and interrupted deletions."""
    for tenant in await services.configuration.tenants.find_all(None, {"state": "PendingDelete"}):
        await finish_deletion(services, TenantId(tenant["id"]))


def _require_own(call: Call, tenant_id: str) -> None:
    if call.caller.tenant_id not in {None, tenant_id}:
        raise NotFound


def _keep_keys(document: Document, stored: Document) -> None:
    """Keep the stored signing keys that the document omits."""
    for name, key_id in TokenSettings.of(stored).signing_keys.items():
        document["jwtConfiguration"].setdefault(name, key_id)


async def _with_source(services: Services, body: Document) -> Document:
    """Return the body of a creation; one that names a source tenant, with the copied members."""
    source_id = body.get("sourceTenantId")
    if source_id is None:
        return body
    source = await object_copies.get_source(services.configuration.tenants, None, source_id, "sourceTenantId")
    # A copy is a separate issuer: it shares neither the issuer nor the keys of the source.
    source["issuer"] = None
    configuration = source["jwtConfiguration"]
    source["jwtConfiguration"] = {
        name: value for name, value in configuration.items() if name not in token_settings.REFERENCES
    }
    return object_copies.with_requested_name(source, body, "tenant")


async def _get_webhook_ids(services: Services, call: Call, body: Document) -> set[WebhookId] | None:
    """Return the `webhookIds` of the request, or None.

    Raises Invalid for a webhook that does not exist, and for any list of a tenant-scoped caller: webhooks belong to
    the instance, and a tenant must not learn which ids exist.
    """
    requested = body.get("webhookIds")
    if requested is None:
        return None
    if call.caller.tenant_id is not None:
        message = "The [webhookIds] can be changed with an API key that is not assigned to a tenant."
        raise Invalid.field("notAllowed", "webhookIds", message)
    if not isinstance(requested, list):
        raise Invalid.field("invalidJSON", "webhookIds", "The [webhookIds] property must be an array.")
    ids = {str(webhook_id).lower() for webhook_id in requested}
    # Not from the cache: another process may just have created a webhook.
    known = {
        webhook["id"] for webhook in await services.configuration.webhooks.find_all(None, {"_id": {"$in": sorted(ids)}})
    }
    if ids - known:
        raise Invalid.field("invalid", "webhookIds", f"There is no webhook [{'], ['.join(sorted(ids - known))[:200]}].")
    return {WebhookId(webhook_id) for webhook_id in ids}


async def _attach(services: Services, tenant_id: TenantId, webhook_ids: set[WebhookId]) -> None:
    """Assign exactly these non-global webhooks to the tenant."""
    local: Document = {"global": False}
    added = {**local, "_id": {"$in": sorted(webhook_ids)}, "tenantIds": {"$ne": tenant_id}}
    served = {"$concatArrays": ["$tenantIds", [tenant_id]]}
    await services.configuration.webhooks.update(None, added, _set_tenant_ids(services, served))
    await _detach(services, tenant_id, {**local, "_id": {"$nin": sorted(webhook_ids)}, "tenantIds": tenant_id})


async def _detach(services: Services, tenant_id: TenantId, where: Document) -> None:
    """Unassign these webhooks from the tenant."""
    others = {"$filter": {"input": "$tenantIds", "cond": {"$ne": ["$$this", tenant_id]}}}
    await services.configuration.webhooks.update(None, where, _set_tenant_ids(services, others))


def _set_tenant_ids(services: Services, tenant_ids: Document) -> list[Mapping[str, Any]]:
    """Return the update of a webhook's tenants; its version increases so that a concurrent update cannot undo it."""
    version = {"$max": [services.clock.now(), {"$add": ["$lastUpdateInstant", 1]}]}
    return [{"$set": {"tenantIds": tenant_ids, "lastUpdateInstant": version}}]
