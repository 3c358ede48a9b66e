"""Signing and verification keys: generate, import, rename, delete. Responses never contain private key material."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from identity.call import Call, Document
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.errors import Invalid
from identity.ids import new_id
from identity.operations.objects import crud
from identity.services import Services
from identity.store.mongo import Write
from identity.tokens import keys as material
from identity.tokens.signing_keys import CLIENT_SECRET_KEYS

UNIQUE = (Unique("name", ("name",), "key.name"), Unique("kid", ("kid",), "key.kid", sparse=True))
SEALED = ("privateKey", "secret")


CLIENT_SECRET_NAMES = {key_id: f"Client secret ({algorithm})" for key_id, algorithm in CLIENT_SECRET_KEYS.items()}


async def prepare(_services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Keep everything but the name unchanged in an update. Raises Invalid for a key that represents client secrets."""
    if stored is None:
        return document
    _require_changeable(stored)
    return {**stored, "name": document.get("name"), "lastUpdateInstant": document["lastUpdateInstant"]}


async def _commit(
    services: Services, _call: Call, key: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit a key. Raises Invalid for a deletion of a key that represents client secrets."""
    if key is None and stored is not None:
        _require_changeable(stored)
    await services.runtime.database.execute(writes)


RESOURCE = Resource(
    "key",
    tenant_scoped=False,
    verbs=frozenset({"retrieve", "retrieve_all", "update", "delete", "search"}),
    unique=UNIQUE,
    sealed=SEALED,
    search_rules=SearchRules(
        {"name": "text", "type": "exact", "algorithm": "exact"},
        {
            "algorithm": "algorithm",
            "expiration": "expirationInstant",
            "id": "_id",
            "insertInstant": "insertInstant",
            "name": "name",
            "type": "type",
        },
    ),
    prepare=prepare,
    commit=_commit,
)


async def generate(services: Services, call: Call, body: Document, key_id: str | None) -> Document:
    """Generate an RSA, EC, Ed25519 or HMAC key. Raises Invalid."""
    requested = _read(services, body, material.require_generable)
    issuer = requested.get("issuer") or await _default_issuer(services)
    generated = await material.generate(requested, issuer, call.now)
    return await _add(services, call, requested, generated, key_id)


async def import_key(services: Services, call: Call, body: Document, key_id: str | None) -> Document:
    """Import a key from PEM texts, or an HMAC secret. Raises Invalid."""
    requested = _read(services, body)
    return await _add(services, call, requested, await material.import_material(requested), key_id)


async def generate_for_tenant(call: Call, tenant: Document) -> Document:
    """Generate the signing key of a new tenant, which no other tenant may use, without storing it."""
    requested = {"algorithm": "RS256", "length": 2048}
    generated = await material.generate(requested, tenant["issuer"], call.now)
    private = {"tenantId": tenant["id"]}
    key_id = new_id()
    name = f"Signing key of tenant {tenant['id']} ({key_id})"
    return {**generated, "name": name, "id": key_id, **crud.creation_instants(call.now), "private": private}


async def ensure_client_secret_keys(services: Services, call: Call) -> None:
    """Create the predefined keys that stand for the client secret of an application. Raises Invalid for duplicates."""
    for key_id, algorithm in CLIENT_SECRET_KEYS.items():
        key = {"id": key_id, "name": CLIENT_SECRET_NAMES[key_id], "type": "HMAC", "algorithm": algorithm}
        if await services.configuration.keys.find(None, key_id) is None:
            await _insert(services, {**key, **crud.creation_instants(call.now)})


def _require_changeable(stored: Document) -> None:
    if stored["id"] in CLIENT_SECRET_KEYS:
        message = "This key stands for the client secret of each application. It cannot be changed or deleted."
        raise Invalid.field("invalid", "keyId", message)


def _read(services: Services, body: Document, require: Callable[[Document], None] | None = None) -> Document:
    """Return the requested key. Raises Invalid; if only the name is missing, with the errors of `require` as well."""
    tidy, errors = services.schemas[RESOURCE.schema].examine(body)
    if require is not None and [error.path for error in errors] == ["key.name"]:
        try:
            require(tidy["key"])
        except Invalid as more:
            raise Invalid([*errors, *more.fields]) from more
    crud.require_no_errors(errors)
    requested: Document = tidy["key"]
    return requested


async def _add(
    services: Services, call: Call, requested: Document, generated: Document, key_id: str | None
) -> Document:
    key = {**generated, "name": requested["name"], "id": key_id or new_id(), **crud.creation_instants(call.now)}
    await _insert(services, key)
    return key


async def _insert(services: Services, key: Document) -> None:
    with crud.report_duplicates(RESOURCE, key):
        await services.configuration.keys.insert(None, key)


async def _default_issuer(services: Services) -> str:
    tenant = await services.configuration.tenants.find_cached(None, services.runtime.default_tenant_id)
    return str(tenant["issuer"]) if tenant is not None else "acme.com"
