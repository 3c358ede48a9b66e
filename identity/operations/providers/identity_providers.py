"""Identity providers: create, retrieve, change, delete, search, and lookup by domain.

A provider without a tenant is shared by all tenants. Tenant-scoped keys read the shared ones without secrets, and write
only those of their own tenant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from identity.call import Call, Caller, Document
from identity.domain.objects import search as searches
from identity.domain.objects.resource_definition import Resource, SearchRules, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.domain.providers import identity_providers as provider_rules
from identity.domain.providers import social_providers
from identity.errors import FieldError, Invalid, NotFound, Unauthorized
from identity.ids import TenantId
from identity.operations.groups import administrators
from identity.operations.lambdas import lambdas
from identity.operations.objects import crud, key_references
from identity.outbound.addresses import check_url
from identity.services import Services
from identity.store.documents import Documents
from identity.tokens import external_keys

_ORDER = ("enabled", "id", "insertInstant", "name", "source", "tenantId", "type")
_SECRETS = ("client_secret", "consumerSecret", "webAPIKey")


_PER_APPLICATION = "applicationConfiguration.*"
_ISSUER = ("oauth2.issuer", "oauth2.token_endpoint")


def _own_or_shared(name: str) -> str:
    """Return a member of the settings for an application, or else that of the provider."""
    return f"{_PER_APPLICATION}.{name}|{name}"


_ACCOUNTS = {"client_secret": ("appId", "client_id"), "consumerSecret": ("consumerKey",), "webAPIKey": ("client_id",)}
_CREDENTIALS = (
    *(Credential(name, accounts) for name, accounts in _ACCOUNTS.items()),
    *(
        Credential(f"{_PER_APPLICATION}.{name}", tuple(map(_own_or_shared, accounts)))
        for name, accounts in _ACCOUNTS.items()
    ),
    Credential("oauth2.client_secret", (*_ISSUER, "oauth2.client_id")),
    Credential(f"{_PER_APPLICATION}.oauth2.client_secret", (*_ISSUER, _own_or_shared("oauth2.client_id"))),
)


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """Return the provider to store. Raises Invalid with all problems."""
    provider = provider_rules.complete(document, stored)
    for application_id in provider["applicationConfiguration"]:
        administrators.require_all_permissions(call, application_id)
    if stored is not None and "tenantId" not in stored:
        provider.pop("tenantId", None)
    errors = provider_rules.problems(provider, stored)
    errors += await _owner_problems(services, call, provider, stored)
    errors += await _reference_problems(services, call, provider, stored)
    errors += _address_problems(services, provider)
    errors += _key_problems(provider)
    crud.require_no_errors(errors)
    return provider


async def create(services: Services, call: Call, body: Document, provider_id: str | None) -> Document:
    """Create a provider; that of a tenant-scoped key belongs to its tenant. Raises Invalid."""
    given = body.get("identityProvider")
    given = given if isinstance(given, dict) else {}
    # With null the provider would be shared with all tenants.
    if call.caller.tenant_id is not None and given and given.get("tenantId") is None:
        given = {**given, "tenantId": call.caller.tenant_id}
        body = {**body, "identityProvider": given}
    return await crud.create(services, call, RESOURCE, body, provider_id or social_providers.published_id(given))


async def retrieve(services: Services, call: Call, provider_id: str) -> Document:
    """Return the provider, if it is visible to the caller. Raises NotFound."""
    provider = await crud.retrieve(services, call, RESOURCE, provider_id)
    if call.tenant_id is not None and not provider_rules.is_available_to(provider, call.tenant_id):
        raise NotFound(log_detail="an identity provider of another tenant")
    return provider


async def retrieve_all(services: Services, call: Call, kind: str | None) -> list[Document]:
    """Return the providers that are visible to the caller, all or of one type. Raises Invalid for an unknown type."""
    if kind is not None and kind not in provider_rules.MEMBERS:
        raise Invalid.field("couldNotConvert", "type", "The [type] parameter must be a type of identity provider.")
    where = {} if kind is None else {"type": kind}
    return await _documents(services).find_all(None, {**where, **_visible(call)})


async def update(services: Services, call: Call, body: Document, provider_id: str) -> Document:
    """Replace a provider; type and tenant are immutable. Raises NotFound, Unauthorized and Invalid."""
    await _require_writable(services, call, provider_id)
    return await crud.update(services, call, RESOURCE, body, provider_id)


async def patch(services: Services, call: Call, kind: str, body: Any, provider_id: str) -> Document:
    """Change parts of a provider. Raises NotFound, Unauthorized and Invalid."""
    await _require_writable(services, call, provider_id)
    return await crud.patch(services, call, RESOURCE, kind, body, provider_id)


async def delete(services: Services, call: Call, provider_id: str) -> None:
    """Delete a provider and every link to it. Raises NotFound and Unauthorized."""
    await _require_writable(services, call, provider_id)
    # The provider is deleted last, so that an interrupted deletion can be repeated.
    await services.directory.identity_provider_links.delete_provider_across_tenants(provider_id)
    if not await _documents(services).delete(None, provider_id):
        raise NotFound
    # Deletes links of logins that ran at the same time.
    await services.directory.identity_provider_links.delete_provider_across_tenants(provider_id)


async def search(services: Services, call: Call, request: Mapping[str, Any], prefix: str) -> tuple[int, list[Document]]:
    """Return the number of matching providers that are visible to the caller, and one page of them. Raises Invalid."""
    query = searches.read(RESOURCE.search_rules, request, prefix)
    return await _documents(services).search(None, query, _visible(call))


async def lookup(services: Services, call: Call, text: str | None, tenant: str | None) -> Document:
    """Return the public members of the provider that manages a domain, or the domain of an email address.

    Providers of the tenant take precedence over shared ones. Raises NotFound, and Invalid without a domain.
    """
    if not text or not text.strip():
        raise Invalid.field("blank", "domain", "You must specify the [domain] parameter.")
    domain = provider_rules.domain_of(text)
    for tenant_id in dict.fromkeys((tenant or call.tenant_id, None)):
        where = {"enabled": True, "private.domains": domain, "tenantId": tenant_id}
        provider = await _documents(services).find_where(None, where)
        if provider is not None:
            return provider_rules.public_view(provider)
    raise NotFound(log_detail="no provider manages this domain")


async def to_response(services: Services, caller: Caller, provider: Document) -> Document:
    """Return the provider in API form; for tenant-scoped keys, shared ones have no secrets."""
    response = crud.to_caller_response(services, caller, RESOURCE, provider)
    if caller.tenant_id is not None and "tenantId" not in provider:
        _hide_secrets(response)
    return response


RESOURCE = Resource(
    "identityProvider",
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
    """Remove deleted applications from every provider."""
    where = {"private.applicationIds": {"$in": list(application_ids)}}
    for provider in await _documents(services).find_all(None, where):
        configured = [one for one in application_ids if one in provider["applicationConfiguration"]]
        change = {
            "$unset": {f"applicationConfiguration.{one}": "" for one in configured},
            "$pullAll": {"private.applicationIds": configured},
            # Changes the version, so that a concurrent update does not restore them.
            "$inc": {"lastUpdateInstant": 1},
        }
        await _documents(services).update(None, {"_id": provider["id"]}, change)


async def remove_tenant(services: Services, tenant_id: TenantId) -> None:
    """Delete the providers of a tenant, and remove the tenant and its applications from shared ones."""
    await _documents(services).delete_all(None, {"tenantId": tenant_id})
    member = f"tenantConfiguration.{tenant_id}"
    change = {"$unset": {member: ""}, "$inc": {"lastUpdateInstant": 1}}
    await _documents(services).update(None, {member: {"$exists": True}}, change)
    applications = await services.configuration.applications.find_all(tenant_id)
    await remove_applications(services, [application["id"] for application in applications])


def _documents(services: Services) -> Documents:
    return services.configuration.identity_providers


def _visible(call: Call) -> Document:
    """Return the filter for providers that are visible to the caller; null matches a missing tenant in MongoDB."""
    return {} if call.tenant_id is None else {"$or": [{"tenantId": None}, {"tenantId": call.tenant_id}]}


async def _require_writable(services: Services, call: Call, provider_id: str) -> None:
    provider = await retrieve(services, call, provider_id)
    for application_id in provider["applicationConfiguration"]:
        administrators.require_all_permissions(call, application_id)
    if call.caller.tenant_id is not None and "tenantId" not in provider:
        raise Unauthorized(log_detail="tenant-scoped keys cannot change shared identity providers")


async def _owner_problems(
    services: Services, call: Call, provider: Document, stored: Document | None
) -> list[FieldError]:
    """Return the problem of a new provider whose tenant does not exist, or is not that of the call."""
    tenant_id = provider.get("tenantId")
    if stored is not None or tenant_id is None:
        return []
    if (
        call.tenant_id not in {None, tenant_id}
        or await services.configuration.tenants.find_cached(None, tenant_id) is None
    ):
        return [_problem("tenantId", "It must be an existing tenant, and the tenant of the request if that has one.")]
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
            errors.append(_problem(f"applicationConfiguration.{application_id}", message))
    for one in provider["tenantConfiguration"]:
        if tenant_id not in {None, one} or await services.configuration.tenants.find_cached(None, one) is None:
            message = f"There is no tenant [{one}] for this provider."
            errors.append(_problem(f"tenantConfiguration.{one}", message))
    errors += await _key_reference_problems(services, call, provider, stored)
    return errors + await _lambda_problems(services, provider)


async def _key_reference_problems(
    services: Services, call: Call, provider: Document, stored: Document | None
) -> list[FieldError]:
    """Return the problems of key references; tenant-scoped callers may use keys of their tenant's providers only."""
    allowed_ids = None
    if call.caller.tenant_id is not None:
        own = await _documents(services).find_all(None, {"tenantId": call.caller.tenant_id})
        providers = [*own, stored] if stored is not None else own
        allowed_ids = {key_id for one in providers for _, key_id in provider_rules.key_ids(one)}
    is_apple = provider.get("type") == "Apple"
    is_usable = key_references.can_sign if is_apple else key_references.can_verify
    return [
        _problem(member, f"It must be the id of a key that {'makes' if is_apple else 'verifies'} signatures.")
        for member, key_id in provider_rules.key_ids(provider)
        if (allowed_ids is not None and key_id not in allowed_ids) or not await is_usable(services, key_id)
    ]


async def _lambda_problems(services: Services, provider: Document) -> list[FieldError]:
    lambda_id = provider["lambdaConfiguration"].get("reconcileId")
    kind = provider_rules.RECONCILE_LAMBDAS.get(str(provider.get("type")))
    if lambda_id is None or (kind is not None and await lambdas.is_of_type(services, lambda_id, kind)):
        return []
    return [_problem("lambdaConfiguration.reconcileId", f"It must be the id of a lambda of type {kind}.")]


def _address_problems(services: Services, provider: Document) -> list[FieldError]:
    """Return the problems of URLs that the service must not call."""
    if provider.get("type") != provider_rules.OPENID_CONNECT:
        return []
    networks = services.config.identity_providers.allowed_networks
    errors = []
    for name in provider_rules.CALLED_URLS:
        url = provider["oauth2"].get(name)
        if url is None:
            continue
        reason = check_url(url, networks) or provider_rules.transport_problem(url, networks)
        if reason is not None:
            errors.append(_problem(f"oauth2.{name}", f"The URL cannot be used: {reason}."))
    return errors


def _key_problems(provider: Document) -> list[FieldError]:
    return [
        _problem(f"keys.{name}", "It must be the PEM of a public key or of a certificate.")
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


def _problem(member: str, message: str) -> FieldError:
    path = f"identityProvider.{member}"
    return FieldError.of("invalid", path, f"The [{path}] cannot be used. {message}")
