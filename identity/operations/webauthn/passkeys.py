"""The passkeys of users in the API: retrieve, delete, import."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from identity.call import Call, Document
from identity.domain.webauthn import public_keys, relying_party
from identity.errors import Duplicate, FieldError, Invalid, NotFound
from identity.events.changes import Change
from identity.ids import TenantId, new_id
from identity.operations.groups import administrators
from identity.operations.objects import crud, user_lookup
from identity.services import Services

_IMPORT = "api/webauthn-import.request.json"
_CREDENTIAL = "api/webauthn-credential.response.json"


def to_response(services: Services, credential: Document) -> Document:
    """Return a passkey as the API shows it."""
    shown: Document = services.schemas[_CREDENTIAL].show({"credential": credential})["credential"]
    return shown


async def retrieve(services: Services, call: Call, passkey_id: str) -> Document:
    """Return a passkey. Raises NotFound."""
    return await _get(services, call, passkey_id)


async def retrieve_of_user(services: Services, call: Call, user_id: str) -> list[Document]:
    """Return the passkeys of a user, oldest first. Raises NotFound."""
    user = await user_lookup.retrieve(services, call, user_id)
    return await services.directory.webauthn_credentials.find_of_user(TenantId(user["tenantId"]), user["id"])


async def delete(services: Services, call: Call, passkey_id: str) -> None:
    """Delete a passkey. Raises NotFound, and Unauthorized for that of a protected administrator."""
    credential = await _get(services, call, passkey_id)
    user = await services.directory.users.find(TenantId(credential["tenantId"]), credential["userId"])
    if user is not None:
        await administrators.require_authority(services, call, user)
    await remove(services, call, TenantId(credential["tenantId"]), passkey_id)


async def delete_of_user(services: Services, call: Call, user_id: str) -> None:
    """Delete the passkeys of a user. Raises NotFound, and Unauthorized for a protected administrator."""
    user = await user_lookup.retrieve(services, call, user_id)
    await administrators.require_authority(services, call, user)
    tenant_id = TenantId(user["tenantId"])
    delete_all = functools.partial(
        services.directory.webauthn_credentials.delete_all, tenant_id, {"userId": user["id"]}
    )
    await services.bus.commit(call.within(tenant_id), Change([delete_all]))


async def remove(services: Services, call: Call, tenant_id: TenantId, passkey_id: str) -> None:
    """Delete a passkey of the tenant. Raises NotFound."""
    write = functools.partial(services.directory.webauthn_credentials.delete, tenant_id, passkey_id)
    (is_deleted,) = await services.bus.commit(call.within(tenant_id), Change([write]))
    if not is_deleted:
        raise NotFound(log_detail="the passkey was deleted concurrently")


async def import_(services: Services, call: Call, body: Document) -> None:
    """Store passkeys of another system: all of them or none. Raises Invalid, and Unauthorized as `delete`."""
    request = services.schemas[_IMPORT].read(body)
    tenant_id = crud.require_tenant(call)
    imported = [_imported(one, tenant_id, call) for one in request["credentials"]]
    users = await services.directory.users.find_all(
        tenant_id, {"_id": {"$in": sorted({one["userId"] for one in imported})}}
    )
    await administrators.require_authority(services, call, *users)
    known = frozenset(user["id"] for user in users)
    crud.require_no_errors([error for at, one in enumerate(imported) for error in _problems(at, one, known)])
    crud.require_no_errors(_duplicates(imported))
    write = functools.partial(services.directory.webauthn_credentials.insert_all, tenant_id, imported)
    try:
        await services.bus.commit(call.within(tenant_id), Change([write]))
    except Duplicate as error:
        name = "credentialId" if error.index == "credentialId" else "id"
        message = f"One of the passkeys has a [{name}] that is registered already."
        raise Invalid.field("duplicate", f"credentials.{name}", message) from error


async def _get(services: Services, call: Call, passkey_id: str) -> Document:
    store = services.directory.webauthn_credentials
    if call.tenant_id is not None:
        return await store.get(call.tenant_id, passkey_id)
    found = await store.find_cached_across_tenants(passkey_id)
    if found is None:
        raise NotFound(log_detail=f"webauthn_credentials {passkey_id}")
    return await store.get(TenantId(found["tenantId"]), passkey_id)


def _imported(requested: Document, tenant_id: TenantId, call: Call) -> Document:
    """Return a passkey of the request as it is stored."""
    return {
        "insertInstant": call.now,
        "lastUseInstant": call.now,
        "transports": [],
        **requested,
        "id": requested.get("id", new_id()).lower(),
        "credentialId": requested["credentialId"].rstrip("="),
        "userId": requested["userId"].lower(),
        "lastUpdateInstant": call.now,
        "tenantId": tenant_id,
    }


def _problems(at: int, credential: Document, known_users: frozenset[str]) -> Iterator[FieldError]:
    """Yield the errors of one passkey of an import."""
    path = f"credentials[{at}]"
    if credential["algorithm"] not in public_keys.ALGORITHMS:
        names = ", ".join(map(str, public_keys.ALGORITHMS))
        yield FieldError.invalid(f"{path}.algorithm", f"must be one of {names}")
    else:
        try:
            public_keys.to_cose(credential["publicKey"], credential["algorithm"])
        except ValueError as error:
            yield FieldError.invalid(f"{path}.publicKey", f"must be a PEM public key that fits the algorithm: {error}")
    if not relying_party.is_domain(credential["relyingPartyId"]):
        yield FieldError.invalid(f"{path}.relyingPartyId", "must be a domain")
    if credential["userId"] not in known_users:
        yield FieldError.invalid(f"{path}.userId", "must name a user of the tenant")


def _duplicates(imported: Sequence[Document]) -> list[FieldError]:
    """Return an error for each passkey that repeats an id of an earlier one."""
    errors = []
    for name in ("id", "credentialId"):
        seen: set[str] = set()
        for at, credential in enumerate(imported):
            if credential[name] in seen:
                path = f"credentials[{at}].{name}"
                errors.append(FieldError.of("duplicate", path, f"The [{path}] occurs twice."))
            seen.add(credential[name])
    return errors
