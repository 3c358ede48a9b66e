"""API keys: create, copy, retrieve, update, patch, delete. No key manages a key of greater authority."""

from __future__ import annotations

import functools
from typing import Any

from identity.call import ApiKeyCaller, Call, Document
from identity.domain.objects import api_keys as api_key_rules
from identity.domain.objects import patch as patches
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource
from identity.errors import FieldError, Invalid, NotFound, Unauthorized
from identity.ids import new_id, new_secret
from identity.operations.objects import crud, event_logs, features, references
from identity.services import Services
from identity.store.api_keys import UNIQUE

_FIXED = ("key", "tenantId", "retrievable", "keyManager")


async def create(services: Services, call: Call, body: Document, key_id: str | None) -> Document:
    """A new key, from the body or as a copy of `sourceKeyId`; never a key manager. Raises Invalid and Unauthorized.

    The answer is the only one that holds the value of a key that is not retrievable.
    """
    if not isinstance(body.get("apiKey"), dict) and "sourceKeyId" not in body:
        raise Invalid.field("missing", "apiKey", "You must specify the [apiKey] property.")
    requested = services.schemas[RESOURCE.schema].read(body)
    api_key = requested["apiKey"]
    if "sourceKeyId" in requested:
        api_key = await _copy(services, call, api_key, requested["sourceKeyId"])
    return await add(services, call, api_key, key_id, caller=_caller(call))


async def add(
    services: Services,
    call: Call,
    requested: Document,
    key_id: str | None,
    *,
    caller: Document | None,
    manager: bool = False,
) -> Document:
    """Store a new key. A `caller` of None is the kickstart, which alone may create a key `manager`."""
    api_key = {
        "retrievable": True,
        **requested,
        "keyManager": manager,
        "id": key_id or new_id(),
        **crud.creation_instants(call.now),
    }
    chosen: str | None = api_key.setdefault("key", None)
    api_key["key"] = chosen or new_secret(48)
    if caller is not None and caller.get("tenantId") is not None:
        api_key.setdefault("tenantId", caller["tenantId"])
    api_key["permissions"] = api_key_rules.tidied_permissions(api_key["permissions"])
    await _require_valid(services, call, api_key, caller, None, chosen)
    api_key["private"] = {"fingerprint": services.configuration.api_keys.fingerprint(api_key["key"])}
    insert = functools.partial(services.configuration.api_keys.insert, None, api_key)
    with crud.report_duplicates(RESOURCE, api_key):
        await services.runtime.database.execute(
            [*references.checks(services, RESOURCE, api_key, None, call.now), insert]
        )
    await _report_guessable(services, call, api_key, chosen)
    return api_key


async def retrieve(services: Services, call: Call, key_id: str) -> Document:
    """Return a key of equal or lesser authority. Raises NotFound and Unauthorized."""
    return _without_value(await _get_managed(services, call, key_id))


async def retrieve_all(services: Services, call: Call) -> list[Document]:
    """Return the keys that the caller may manage, by name, without their values. Raises Unauthorized."""
    caller = _caller(call)
    found = [
        {name: value for name, value in api_key.items() if name != "key"}
        for api_key in await services.configuration.api_keys.find_all(None)
        if api_key_rules.is_visible(caller, api_key) and api_key_rules.may_manage(caller, api_key)
    ]
    return sorted(found, key=lambda api_key: (str(api_key.get("name") or ""), api_key["insertInstant"]))


async def update(services: Services, call: Call, body: Document, key_id: str) -> Document:
    """Replace a key; its tenant, retrievability and management stay. Raises NotFound, Unauthorized and Invalid."""
    return _without_value(await _replace(services, call, key_id, None, body))


async def patch(services: Services, call: Call, content_type: str, body: Any, key_id: str) -> Document:
    """Apply a patch, of one of the three media types. Raises NotFound, Unauthorized and Invalid."""
    return _without_value(await _replace(services, call, key_id, content_type, body))


async def delete(services: Services, call: Call, key_id: str) -> None:
    """Delete a key of equal or lesser authority, effective immediately. Raises NotFound and Unauthorized."""
    await _get_managed(services, call, key_id)
    await services.configuration.api_keys.delete(None, key_id)


RESOURCE = Resource(
    "apiKey",
    label="API key",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=UNIQUE,
    sealed=("key",),
    create=create,
    retrieve=retrieve,
    update=update,
    patch=patch,
    delete=delete,
)


def _without_value(api_key: Document) -> Document:
    """Return the key without its value, unless it is retrievable."""
    return api_key if api_key["retrievable"] else {name: value for name, value in api_key.items() if name != "key"}


@crud.retry_on_conflict
async def _replace(services: Services, call: Call, key_id: str, content_type: str | None, body: Any) -> Document:
    """Replace a key once, by the body of an update or by a patch of `content_type`. Raises Conflict."""
    stored = await _get_managed(services, call, key_id)
    if content_type is not None:
        body = patches.apply(content_type, {"apiKey": crud.to_request(stored)}, body)
    if not isinstance(body.get("apiKey"), dict):
        raise Invalid.field("missing", "apiKey", "You must specify the [apiKey] property.")
    requested = services.schemas[RESOURCE.schema].read(body)["apiKey"]
    kept = {name: stored[name] for name in _FIXED if name in stored}
    fresh = {name: value for name, value in requested.items() if name not in _FIXED}
    # The published API lets an update set a new value for a retrievable key.
    value = requested.get("key") if stored["retrievable"] else None
    api_key = {**fresh, **kept, **({"key": value} if value else {}), **crud.update_instants(stored, call.now)}
    api_key["permissions"] = api_key_rules.tidied_permissions(api_key["permissions"])
    await _require_valid(services, call, api_key, _caller(call), stored, value)
    api_key["private"] = (
        {"fingerprint": services.configuration.api_keys.fingerprint(value)} if value else stored["private"]
    )
    replace = functools.partial(services.configuration.api_keys.replace, None, api_key, stored["lastUpdateInstant"])
    with crud.report_duplicates(RESOURCE, api_key):
        await services.runtime.database.execute(
            [*references.checks(services, RESOURCE, api_key, stored, call.now), replace]
        )
    await _report_guessable(services, call, api_key, value)
    return api_key


async def _copy(services: Services, call: Call, requested: Document, source_id: str) -> Document:
    """Return a copy: value and description of the request; permissions, tenant and access list of the source."""
    caller = _caller(call)
    source = await services.configuration.api_keys.find(None, source_id)
    if source is None or not api_key_rules.is_visible(caller, source) or source["keyManager"]:
        raise Invalid.field("invalid", "sourceKeyId", "The [sourceKeyId] must name a key that may be copied.")
    if not api_key_rules.may_manage(caller, source):
        raise Unauthorized(log_detail="source key has more authority than the caller")
    inherited: Document = {
        name: source[name] for name in ("permissions", "tenantId", "ipAccessControlListId") if name in source
    }
    if not requested["metaData"]["attributes"]:
        inherited["metaData"] = source["metaData"]
    return {**requested, **inherited}


async def _get_managed(services: Services, call: Call, key_id: str) -> Document:
    """Return a key that the caller may manage. Raises NotFound and Unauthorized."""
    caller = _caller(call)
    api_key = await services.configuration.api_keys.find(None, key_id)
    if api_key is None or not api_key_rules.is_visible(caller, api_key):
        raise NotFound
    if not api_key_rules.may_manage(caller, api_key):
        raise Unauthorized(log_detail="the key has more authority than the caller")
    return api_key


async def _require_valid(
    services: Services,
    call: Call,
    api_key: Document,
    caller: Document | None,
    stored: Document | None,
    chosen: str | None,
) -> None:
    """Raise Invalid for an invalid key; `chosen` is the value that the request sets, if any."""
    errors = api_key_rules.content_problems(api_key, caller, call.now)
    if chosen is not None:
        errors += api_key_rules.value_problems(chosen, services.config.api_keys.minimum_length)
    errors += [
        error
        for error in [await _tenant_problem(services, api_key), await _access_list_problem(services, api_key)]
        if error
    ]
    crud.require_no_errors(errors, features.problems(services, RESOURCE.name, api_key, stored))


async def _report_guessable(services: Services, call: Call, api_key: Document, chosen: str | None) -> None:
    """Write an event log about a guessable chosen value; it contains the key's name, never its value."""
    if chosen is None or not api_key_rules.is_guessable(chosen):
        return
    name = api_key.get("name") or api_key["metaData"]["attributes"].get("description") or api_key["id"]
    message = (
        f"Warning: the API key [{name}] ({api_key['id']}) has a value that can be guessed. Use a generated value, or at"
        " least 32 random characters. The setting [api_keys.minimum_length] refuses short values."
    )
    await event_logs.record(services, call, "Information", message)


async def _tenant_problem(services: Services, api_key: Document) -> FieldError | None:
    tenant_id = api_key.get("tenantId")
    if tenant_id is None or await services.configuration.tenants.find_cached(None, tenant_id) is not None:
        return None
    return FieldError.invalid("apiKey.tenantId", "must name an existing tenant")


async def _access_list_problem(services: Services, api_key: Document) -> FieldError | None:
    acl_id = api_key.get("ipAccessControlListId")
    if acl_id is None or await services.limits.ip_access_control_lists.find_cached(None, acl_id) is not None:
        return None
    return FieldError.invalid("apiKey.ipAccessControlListId", "must name an existing list")


def _caller(call: Call) -> Document:
    if not isinstance(call.caller, ApiKeyCaller):
        raise Unauthorized(log_detail="no API key")
    return call.caller.api_key
