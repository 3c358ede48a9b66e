"""Identity providers: create, retrieve, change, delete, search, and who manages a domain.

A provider without a tenant is shared by all. A key of one tenant reads the shared ones, without their secrets, and
writes only its own tenant's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from identity.call import Call, Caller, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.domain.providers import identity_providers as rules
from identity.errors import FieldError, Invalid, NotFound, Unauthorized
from identity.ids import TenantId
from identity.operations.lambdas import lambdas
from identity.operations.objects import crud, key_references
from identity.outbound.addresses import check_url
from identity.services import Services
from identity.store.documents import Documents
from identity.tokens import external_keys

_ORDER = ("enabled", "id", "insertInstant", "name", "source", "tenantId", "type")
_SECRETS = ("client_secret", "consumerSecret", "webAPIKey")


_OF_ONE_APPLICATION = "applicationConfiguration.*"
_ISSUER = ("oauth2.issuer", "oauth2.token_endpoint")


def _own_or_shared(name: str) -> str:
    """The member of one application's settings, or else that of the provider."""
    return f"{_OF_ONE_APPLICATION}.{name}|{name}"


_ACCOUNTS = {"client_secret": ("appId", "client_id"), "consumerSecret": ("consumerKey",), "webAPIKey": ("client_id",)}
_CREDENTIALS = (
    *(Credential(name, accounts) for name, accounts in _ACCOUNTS.items()),
    *(
        Credential(f"{_OF_ONE_APPLICATION}.{name}", tuple(map(_own_or_shared, accounts)))
        for name, accounts in _ACCOUNTS.items()
    ),
    Credential("oauth2.client_secret", (*_ISSUER, "oauth2.client_id")),
    Credential(f"{_OF_ONE_APPLICATION}.oauth2.client_secret", (*_ISSUER, _own_or_shared("oauth2.client_id"))),
)


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """The provider as it is stored. Raises Invalid with everything that is wrong with it."""
    provider = rules.complete(document, stored)
    if stored is not None and "tenantId" not in stored:
        provider.pop("tenantId", None)
    errors = rules.problems(provider, stored)
    errors += await _owner_problems(services, call, provider, stored)
    errors += await _reference_problems(services, call, provider, stored)
    errors += _address_problems(services, provider)
    errors += _key_problems(provider)
    crud.require_no_errors(errors)
    return provider


async def create(services: Services, call: Call, body: Document, provider_id: str | None) -> Document:
    """A new provider; one that a tenant's key makes belongs to that tenant. Raises Invalid."""
    given = body.get("identityProvider")
    # A null is no tenant either: a provider without one would be shared with every tenant.
    if call.caller.tenant_id is not None and isinstance(given, dict) and given.get("tenantId") is None:
        body = {**body, "identityProvider": {**given, "tenantId": call.caller.tenant_id}}
    return await crud.create(services, call, RESOURCE, body, provider_id)


async def retrieve(services: Services, call: Call, provider_id: str) -> Document:
    """The provider, if the caller may see it. Raises NotFound."""
    provider = await crud.retrieve(services, call, RESOURCE, provider_id)
    if not _is_visible(call, provider):
        raise NotFound(log_detail="an identity provider of another tenant")
    return provider


async def retrieve_all(services: Services, call: Call, kind: str | None) -> list[Document]:
    """Every provider that the caller may see, or those of one type. Raises Invalid for a type that does not exist."""
    if kind is not None and kind not in rules.MEMBERS:
        raise Invalid.field("couldNotConvert", "type", "The [type] parameter must be a type of identity provider.")
    where = {} if kind is None else {"type": kind}
    return await _documents(services).find_all(None, {**where, **_visible(call)})


async def update(services: Services, call: Call, body: Document, provider_id: str) -> Document:
    """Replace a provider; type and tenant stay. Raises NotFound, Unauthorized and Invalid."""
    await _require_writable(services, call, provider_id)
    return await crud.update(services, call, RESOURCE, body, provider_id)


async def patch(services: Services, call: Call, kind: str, body: Any, provider_id: str) -> Document:
    """Change parts of a provider. Raises NotFound, Unauthorized and Invalid."""
    await _require_writable(services, call, provider_id)
    return await crud.patch(services, call, RESOURCE, kind, body, provider_id)


async def delete(services: Services, call: Call, provider_id: str) -> None:
    """Remove a provider and every link to it. Raises NotFound and Unauthorized."""
    await _require_writable(services, call, provider_id)
    # The provider goes last: what is interrupted can be repeated, and no link waits for another one under its id.
    await services.directory.identity_provider_links.delete_provider_across_tenants(provider_id)
    if not await _documents(services).delete(None, provider_id):
        raise NotFound
    # For a login that was under way all the time.
    await services.directory.identity_provider_links.delete_provider_across_tenants(provider_id)


async def search(services: Services, call: Call, request: Mapping[str, Any], prefix: str) -> tuple[int, list[Document]]:
    """How many of the providers that the caller may see match, and one page of them. Raises Invalid."""
    query = searches.read(RESOURCE.search_rules, request, prefix)
    return await _documents(services).search(None, query, _visible(call))


async def lookup(services: Services, call: Call, text: str | None, tenant: str | None) -> Document:
    """What anybody may learn of the provider that manages a domain, or the domain of an address.

    A tenant's own provider comes before a shared one. Raises NotFound, and Invalid where no domain is given.
    """
    if not text or not text.strip():
        raise Invalid.field("blank", "domain", "You must specify the [domain] parameter.")
    domain = rules.domain_of(text)
    for tenant_id in dict.fromkeys((tenant or call.tenant_id, None)):
        where = {"enabled": True, "private.domains": domain, "tenantId": tenant_id}
        found = await _documents(services).find_where(None, where)
        if found is not None:
            return rules.public_view(found)
    raise NotFound(log_detail="no provider manages this domain")


async def to_response(services: Services, caller: Caller, provider: Document) -> Document:
    """Return the provider as its caller may see it: a tenant's key sees no secret of a shared one."""
    response = crud.to_caller_response(services, caller, RESOURCE, provider)
    if caller.tenant_id is not None and "tenantId" not in provider:
        _hide_secrets(response)
    return response


RESOURCE = Resource(
    "identityProvider",
    "/api/identity-provider",
    "api/identity-provider.json",
    "identity_providers",
    "identityProviders",
    "Identity Provider",
    tenant_scoped=False,
    unique=(
        Unique("name", ("tenantId", "name"), "identityProvider.name"),
        Unique("domains", ("tenantId", "private.domains"), "identityProvider.domains", sparse=True),
    ),
    sealed=(
        *_SECRETS,
        *("oauth2.client_secret", "applicationConfiguration.*.oauth2.client_secret"),
        *(f"applicationConfiguration.*.{name}" for name in _SECRETS),
    ),
    credentials=_CREDENTIALS,
    search_rules=SearchRules(
        {"applicationId": "exact", "name": "text", "source": "exact", "tenantId": "exact", "type": "exact"},
        {name: "_id" if name == "id" else name for name in _ORDER},
        members={"applicationId": "private.applicationIds"},
    ),
    prepare=prepare,
    create=create,
    retrieve=retrieve,
    update=update,
    patch=patch,
    delete=delete,
    search=search,
    to_response=to_response,
)


async def remove_applications(services: Services, application_ids: Sequence[str]) -> None:
    """Take applications that are no more out of every provider."""
    where = {"private.applicationIds": {"$in": list(application_ids)}}
    for provider in await _documents(services).find_all(None, where):
        named = [each for each in application_ids if each in provider["applicationConfiguration"]]
        change = {
            "$unset": {f"applicationConfiguration.{each}": "" for each in named},
            "$pullAll": {"private.applicationIds": named},
            # The version moves too: an update that read the provider before must not bring them back.
            "$inc": {"lastUpdateInstant": 1},
        }
        await _documents(services).update(None, {"_id": provider["id"]}, change)


async def remove_tenant(services: Services, tenant_id: TenantId) -> None:
    """Remove a tenant's own providers, and it and its applications from the shared ones."""
    await _documents(services).delete_all(None, {"tenantId": tenant_id})
    place = f"tenantConfiguration.{tenant_id}"
    change = {"$unset": {place: ""}, "$inc": {"lastUpdateInstant": 1}}
    await _documents(services).update(None, {place: {"$exists": True}}, change)
    applications = await services.configuration.applications.find_all(tenant_id)
    await remove_applications(services, [application["id"] for application in applications])


def _documents(services: Services) -> Documents:
    return services.configuration.identity_providers


def _is_visible(call: Call, provider: Document) -> bool:
    return call.tenant_id is None or rules.is_available_to(provider, call.tenant_id)


def _visible(call: Call) -> Document:
    """The condition on providers that the caller may see: a missing tenant is a null in MongoDB."""
    return {} if call.tenant_id is None else {"$or": [{"tenantId": None}, {"tenantId": call.tenant_id}]}


async def _require_writable(services: Services, call: Call, provider_id: str) -> None:
    provider = await retrieve(services, call, provider_id)
    if call.caller.tenant_id is not None and "tenantId" not in provider:
        raise Unauthorized(log_detail="a tenant-scoped key changes no shared identity provider")


async def _owner_problems(
    services: Services, call: Call, provider: Document, stored: Document | None
) -> list[FieldError]:
    """The tenant of a new provider must be there, and be the call's where that names one."""
    tenant_id = provider.get("tenantId")
    if stored is not None or tenant_id is None:
        return []
    if (
        call.tenant_id not in {None, tenant_id}
        or await services.configuration.tenants.find_cached(None, tenant_id) is None
    ):
        return [_problem("invalid", "tenantId", "It must name an existing tenant, and no other than the request does.")]
    return []


async def _reference_problems(
    services: Services, call: Call, provider: Document, stored: Document | None
) -> list[FieldError]:
    errors = []
    tenant_id = provider.get("tenantId")
    for application_id in provider["applicationConfiguration"]:
        application = await services.configuration.applications.find_cached_across_tenants(application_id)
        if application is None or tenant_id not in {None, application["tenantId"]}:
            message = f"There is no application [{application_id}] for this provider."
            errors.append(_problem("invalid", f"applicationConfiguration.{application_id}", message))
    for each in provider["tenantConfiguration"]:
        if tenant_id not in {None, each} or await services.configuration.tenants.find_cached(None, each) is None:
            message = f"There is no tenant [{each}] for this provider."
            errors.append(_problem("invalid", f"tenantConfiguration.{each}", message))
    errors += await _key_reference_problems(services, call, provider, stored)
    return errors + await _lambda_problems(services, provider)


async def _key_reference_problems(
    services: Services, call: Call, provider: Document, stored: Document | None
) -> list[FieldError]:
    """A tenant-scoped caller may name the keys that its tenant's identity providers name already."""
    allowed = None
    if call.caller.tenant_id is not None:
        own = await _documents(services).find_all(None, {"tenantId": call.caller.tenant_id})
        allowed = {key_id for each in (*own, *filter(None, [stored])) for _, key_id in rules.key_ids(each)}
    return [
        _problem("invalid", member, "It must name a key that verifies signatures.")
        for member, key_id in rules.key_ids(provider)
        if (allowed is not None and key_id not in allowed) or not await key_references.can_verify(services, key_id)
    ]


async def _lambda_problems(services: Services, provider: Document) -> list[FieldError]:
    lambda_id = provider["lambdaConfiguration"].get("reconcileId")
    wanted = rules.RECONCILE_LAMBDAS.get(str(provider.get("type")))
    if lambda_id is None:
        return []
    if wanted is not None and await lambdas.is_of_type(services, lambda_id, wanted):
        return []
    return [_problem("invalid", "lambdaConfiguration.reconcileId", f"It must name a lambda of type {wanted}.")]


def _address_problems(services: Services, provider: Document) -> list[FieldError]:
    """The addresses that the service will call must be such as it may call."""
    if provider.get("type") != rules.OPENID_CONNECT:
        return []
    networks = services.config.identity_providers.allowed_networks
    errors = []
    for name in rules.CALLED_URLS:
        url = provider["oauth2"].get(name)
        if url is None:
            continue
        reason = check_url(url, networks) or rules.transport_problem(url, networks)
        if reason is not None:
            errors.append(_problem("invalid", f"oauth2.{name}", f"The URL cannot be used: {reason}."))
    return errors


def _key_problems(provider: Document) -> list[FieldError]:
    return [
        _problem("invalid", f"keys.{name}", "It must be the PEM of a public key or of a certificate.")
        for name, pem in provider.get("keys", {}).items()
        if not external_keys.is_public_pem(pem)
    ]


def _hide_secrets(provider: Document) -> None:
    configurations = [provider, *provider["applicationConfiguration"].values()]
    for configuration in [
        *configurations,
        *(configuration["oauth2"] for configuration in configurations if "oauth2" in configuration),
    ]:
        for name in _SECRETS:
            configuration.pop(name, None)


def _problem(kind: str, member: str, message: str) -> FieldError:
    path = f"identityProvider.{member}"
    return FieldError.of(kind, path, f"The [{path}] cannot be used. {message}")
