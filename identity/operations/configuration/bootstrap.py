"""Bootstrap of an instance: default theme, signing key, tenant, and the administrators' application."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Mapping

import structlog

from identity.call import Call, Document
from identity.domain.configuration import administrator_roles, token_settings
from identity.domain.configuration import tenants as tenant_rules
from identity.domain.configuration import themes as theme_rules
from identity.domain.configuration.applications import (
    ADMINISTRATOR_APPLICATION_ID,
    ADMINISTRATOR_APPLICATION_NAME,
    FORMER_ADMINISTRATOR_APPLICATION_NAME,
)
from identity.domain.forms.forms import FORM_IDS
from identity.domain.lambdas.lambdas import DEFAULT_BODIES
from identity.domain.objects import name_suffixes
from identity.errors import Duplicate, Invalid
from identity.ids import TenantId
from identity.operations.configuration import (
    applications,
    integrations,
    keys,
    system_configuration,
    tenants,
    themes,
)
from identity.operations.connectors import connectors
from identity.operations.forms import default_forms
from identity.operations.groups import group_roles
from identity.operations.lambdas import lambdas
from identity.operations.objects import crud, key_references, subresources
from identity.services import Services
from identity.store.documents import Documents

_log = structlog.get_logger(__name__)

_THEME_NAMES = (theme_rules.FORMER_DEFAULT_NAME, theme_rules.DEFAULT_NAME)
_APPLICATION_NAMES = (FORMER_ADMINISTRATOR_APPLICATION_NAME, ADMINISTRATOR_APPLICATION_NAME)

# Published names of predefined objects: their ids are fixed, whether or not the objects exist.
_RESERVED_IDS = (
    applications.TENANT_MANAGER,
    *(f"FUSIONAUTH_LAMBDA[{kind}]_ID" for kind in DEFAULT_BODIES),
)


def _lambda_ids(instance_id: str) -> dict[str, str]:
    instance = uuid.UUID(instance_id)
    return {kind: str(uuid.uuid5(instance, f"FUSIONAUTH_LAMBDA[{kind}]_ID")) for kind in DEFAULT_BODIES}


async def ensure(services: Services, call: Call) -> None:
    """Create the missing default objects. Safe to run at every start, in several processes at once."""
    if await services.configuration.themes.find_cached(None, theme_rules.DEFAULT_ID) is None:
        theme = {"theme": theme_rules.default_theme()}
        await _ignoring_duplicates(crud.create(services, call, themes.RESOURCE, theme, theme_rules.DEFAULT_ID))
    await _ignoring_duplicates(keys.ensure_client_secret_keys(services, call))
    await system_configuration.ensure(services, call)
    await integrations.ensure(services, call)
    await default_forms.ensure(services, call)
    await connectors.add_internal(services, call)
    await _migrate(services)
    existing = await services.configuration.applications.find_cached(
        services.runtime.default_tenant_id, ADMINISTRATOR_APPLICATION_ID
    )
    if existing is not None:
        await _add_roles(services, call.within(services.runtime.default_tenant_id), existing)
        await _warn_of_tenant_administrators(services)
        return
    key_id = key_references.default_signing_key_id(services.runtime.instance_id)
    if await services.configuration.keys.find(None, key_id) is None:
        await _ignoring_duplicates(keys.generate(services, call, _KEY, key_id))
    if await services.configuration.tenants.find(None, services.runtime.default_tenant_id) is None:
        configuration = dict.fromkeys(token_settings.KEY_MEMBERS, key_id)
        tenant = {
            "tenant": {
                "name": tenant_rules.DEFAULT_NAME,
                "issuer": tenant_rules.DEFAULT_ISSUER,
                "jwtConfiguration": configuration,
            }
        }
        await _ignoring_duplicates(
            crud.create(services, call, tenants.RESOURCE, tenant, services.runtime.default_tenant_id)
        )
    await lambdas.add_defaults(services, call, _lambda_ids(services.runtime.instance_id))
    call = call.within(services.runtime.default_tenant_id)
    creation = crud.create(services, call, applications.RESOURCE, _ADMINISTRATION, ADMINISTRATOR_APPLICATION_ID)
    await _ignoring_duplicates(creation)


async def _add_roles(services: Services, call: Call, application: Document) -> None:
    """Add the roles of the console that an instance of an earlier version lacks."""
    for role in administrator_roles.missing_roles(application["roles"]):
        creation = subresources.create(services, call, applications.ROLE, application["id"], {"role": role}, None)
        await _ignoring_duplicates(creation)


async def _warn_of_tenant_administrators(services: Services) -> None:
    """Log the administrators of a tenant whose registration names none, and who therefore have no role any more."""
    without_tenant = {"applicationId": ADMINISTRATOR_APPLICATION_ID, "data.tenantId": None}
    where = {"registrations": {"$elemMatch": without_tenant}}
    for user in await services.directory.users.find_all_across_tenants(where):
        if administrator_roles.lacks_tenant(await group_roles.with_group_roles(services, user)):
            _log.warning("the role tenant-admin requires data.tenantId of the registration", user_id=user["id"])


async def _migrate(services: Services) -> None:
    """Migrate documents of earlier versions."""
    await _rename(services.configuration.themes, None, theme_rules.DEFAULT_ID, *_THEME_NAMES)
    await _rename(
        services.configuration.applications,
        services.runtime.default_tenant_id,
        ADMINISTRATOR_APPLICATION_ID,
        *_APPLICATION_NAMES,
    )


async def _rename(documents: Documents, tenant_id: TenantId | None, object_id: str, former: str, name: str) -> None:
    """Rename an object that has its former default name to the published one, by which tools find it."""
    try:
        await documents.update(tenant_id, {"_id": object_id, "name": former}, _renaming(name))
    except Duplicate:
        _log.warning("another object has the published name", id=object_id, name=name)


def _renaming(name: str) -> Document:
    return {
        "$set": {"name": name, name_suffixes.MEMBER: name_suffixes.of(name)},
        "$inc": {"lastUpdateInstant": 1},
    }


async def is_untouched(services: Services) -> bool:
    """Whether the instance has only its default objects: no API key, no user, one tenant, one application."""
    return (
        not await services.configuration.api_keys.any_exists()
        and not await services.directory.users.count_across_tenants({}, limit=1)
        and await services.configuration.tenants.count(None) == 1
        and await services.configuration.applications.count_across_tenants({}) == 1
    )


async def predefined_variables(services: Services, base_url: str) -> Mapping[str, str]:
    """Return the variables that are predefined in kickstarts."""
    instance = uuid.UUID(services.runtime.instance_id)
    return {
        "FUSIONAUTH_APPLICATION_ID": ADMINISTRATOR_APPLICATION_ID,
        "FUSIONAUTH_TENANT_ID": services.runtime.default_tenant_id,
        "FUSIONAUTH_DEFAULT_SIGNING_KEY_ID": key_references.default_signing_key_id(services.runtime.instance_id),
        "BASE_URL": base_url,
        **{f"FUSIONAUTH_FORM[{kind}]_ID": form_id for kind, form_id in FORM_IDS.items()},
        **{name: str(uuid.uuid5(instance, name)) for name in _RESERVED_IDS},
    }


async def _ignoring_duplicates(creation: Awaitable[object]) -> None:
    """Await a creation; ignore that another process created the object first."""
    try:
        await creation
    except Invalid as error:
        if not all(e.code.startswith("[duplicate]") for e in error.fields):
            raise


_KEY: Document = {"key": {"name": key_references.DEFAULT_KEY_NAME, "algorithm": "RS256", "length": 2048}}
_ADMINISTRATION: Document = {
    "application": {
        "name": ADMINISTRATOR_APPLICATION_NAME,
        "roles": list(administrator_roles.role_documents()),
    }
}
