"""Applications: create, copy, update, deactivate, reactivate, delete."""

from __future__ import annotations

import functools
import uuid
from collections.abc import AsyncIterator, Sequence

from identity.call import Call, Document
from identity.domain.clients.oauth_settings import client_id_of
from identity.domain.configuration import applications as application_rules
from identity.domain.configuration import feature_settings
from identity.domain.objects.resource_definition import Resource, SearchRules, Subresource, Unique
from identity.domain.objects.stored_credentials import Credential
from identity.errors import FieldError, GeneralError, Invalid, NotLicensed
from identity.ids import ApplicationId, TenantId
from identity.operations.clients import client_ids, client_key_policy
from identity.operations.configuration import ip_access_control_lists, object_copies, scope_consents
from identity.operations.forms import forms
from identity.operations.groups import administrators, groups
from identity.operations.lambdas import lambdas
from identity.operations.objects import crud, features, key_references, references
from identity.operations.providers import identity_providers
from identity.operations.sessions import back_channel_logout
from identity.services import Services
from identity.store.mongo import Write

UNIQUE = (
    Unique("name", ("tenantId", "name"), "application.name"),
    Unique("clientId", ("oauthConfiguration.clientId",), "application.oauthConfiguration.clientId", sparse=True),
)
SEALED = ("oauthConfiguration.clientSecret",)
TENANT_MANAGER = "TENANT_MANAGER_ID"
_TENANT_MANAGER_FEATURE = "tenantManagerApplication"
_FORMS = {
    "formConfiguration.adminRegistrationFormId": "adminRegistration",
    "formConfiguration.selfServiceFormId": "selfServiceUser",
    "registrationConfiguration.formId": "registration",
}
"""Member that names a form -> the type that the form has to have."""

_REFERENCED = ("email_templates", "message_templates", "themes")


async def prepare(services: Services, call: Call, document: Document, stored: Document | None) -> Document:
    """Complete and validate an application. Raises Invalid."""
    document = application_rules.complete(document, stored)
    if stored is None:
        for part in (ROLE, SCOPE):
            document[part.member] = [part.fresh(document, entry, call.now) for entry in document[part.member]]
    errors = application_rules.problems(document)
    errors += client_key_policy.problems(services, document)
    errors += back_channel_logout.url_problems(services, document)
    errors += await key_references.problems(services, call, document, stored, "application.jwtConfiguration")
    errors += await key_references.strict_problems(services, document)
    errors += await ip_access_control_lists.reference_problems(services, document, "application")
    errors += await lambdas.reference_problems(services, "application", document)
    errors += _registration_problems(document, stored)
    errors += await forms.reference_problems(services, "application", _FORMS, document, stored)
    errors += await references.problems(services, RESOURCE, document, stored, _REFERENCED)
    errors += _universal_problems(call, document, stored)
    errors += await client_ids.application_problems(services, document, stored)
    crud.require_no_errors(errors, _tenant_manager_problems(services, document))
    return document


def _universal_problems(call: Call, document: Document, stored: Document | None) -> list[FieldError]:
    """Return an error for a change of a universal application, which serves every tenant, by a caller of one."""
    is_universal = any(one is not None and _is_universal(one) for one in (document, stored))
    if call.caller.tenant_id is None or not is_universal:
        return []
    path = "application.universalConfiguration.universal"
    message = f"The [{path}] can be used with an API key that is not assigned to a tenant."
    return [FieldError.of("notAllowed", path, message)]


def _is_universal(application: Document) -> bool:
    return bool(application["universalConfiguration"].get("universal"))


def _registration_problems(document: Document, stored: Document | None) -> list[FieldError]:
    """Advanced registration requires a form."""
    registration, path = document["registrationConfiguration"], "application.registrationConfiguration.formId"
    is_changed = stored is None or stored["registrationConfiguration"] != registration
    if is_changed and registration["enabled"] and registration["type"] == "advanced" and "formId" not in registration:
        return [FieldError.of("missing", path, f"Advanced registration requires the [{path}].")]
    return []


async def _authorize(_services: Services, call: Call, application: Document) -> None:
    administrators.require_all_permissions(call, application["id"])


def tenant_manager_id(services: Services) -> str:
    """Return the id of the tenant manager application of this instance, a kickstart variable."""
    return str(uuid.uuid5(uuid.UUID(services.runtime.instance_id), TENANT_MANAGER))


def _tenant_manager_problems(services: Services, document: Document) -> list[GeneralError]:
    """Return an error for the tenant manager application if its feature is disabled."""
    if document["id"] != tenant_manager_id(services) or features.is_on(services, _TENANT_MANAGER_FEATURE):
        return []
    return list(NotLicensed(f"The feature {_TENANT_MANAGER_FEATURE} is switched off.").general)


async def _commit(
    services: Services, call: Call, application: Document | None, stored: Document | None, writes: Sequence[Write]
) -> None:
    """Commit an application that claims its new client ids; a changed one with the rotation of its keys."""
    assert application is not None, "applications are deleted by `delete`"
    if stored is None or client_id_of(stored) != client_id_of(application):
        # After the checks, which acquire locks before the first read of the transaction.
        *checks, store = writes
        writes = [*checks, functools.partial(client_ids.claim_for_application, services, application, stored), store]
    if stored is None:
        await services.runtime.database.execute(writes)
        return
    tenant_id = TenantId(application["tenantId"])
    tenant = await services.configuration.tenants.get(None, tenant_id)
    rotation = await key_references.of_application(services, tenant, application, stored)
    await key_references.commit(services, call.within(tenant_id), application, rotation, writes)


async def create(services: Services, call: Call, body: Document, application_id: str | None) -> Document:
    """Create an application, or a copy of `sourceApplicationId` with the requested name. Raises Invalid."""
    application = await crud.create(services, call, RESOURCE, await _with_source(services, call, body), application_id)
    await key_references.published(
        services, await services.configuration.tenants.get(None, application["tenantId"]), application
    )
    return application


RESOURCE = Resource(
    "application",
    unique=UNIQUE,
    sealed=SEALED,
    credentials=tuple(map(Credential, SEALED)),
    search_rules=SearchRules(
        {"name": "text", "state": "exact", "tenantId": "exact", "universal": "flag"},
        {"id": "_id", "insertInstant": "insertInstant", "name": "name", "tenant": "tenantId"},
        members={"universal": "universalConfiguration.universal"},
    ),
    authorize=_authorize,
    prepare=prepare,
    commit=_commit,
    create=create,
)

ROLE = Subresource("role", "roles", RESOURCE, "api/application-role.json", propagate=groups.forget_role)
SCOPE = Subresource(
    "scope",
    "scopes",
    RESOURCE,
    "api/application-scope.json",
    fixed=("name",),
    names_owner=True,
    problems=application_rules.scope_problems,
    propagate=scope_consents.forget_scope,
    feature=feature_settings.CUSTOM_SCOPES,
)


def retrieve_all(services: Services, call: Call, *, inactive: bool) -> AsyncIterator[Document]:
    """Return the active or the inactive applications that the caller may see, newest first."""
    return crud.retrieve_all(services, call, RESOURCE, {"active": not inactive})


async def deactivate(services: Services, call: Call, application_id: str) -> Document:
    """Deactivate an application, which is then no longer a client. Raises NotFound."""
    return await _set_state(services, call, application_id, active=False)


async def reactivate(services: Services, call: Call, application_id: str) -> Document:
    """Reactivate an application. Raises NotFound."""
    return await _set_state(services, call, application_id, active=True)


async def delete(services: Services, call: Call, application_id: str) -> None:
    """Delete an application with its tokens, registrations, roles and consents. Raises NotFound and Invalid.

    It is deactivated first and deleted last, so that an interrupted deletion can be repeated.
    """
    if application_id == application_rules.ADMINISTRATOR_APPLICATION_ID:
        raise Invalid.field("inUse", "applicationId", "The administrators' application cannot be deleted.")
    stored = await deactivate(services, call, application_id)
    tenant_id, client_id = TenantId(stored["tenantId"]), ApplicationId(application_id)
    await services.tokens.refresh_tokens.revoke_application(tenant_id, client_id)
    await services.directory.users.remove_registrations(tenant_id, client_id)
    await identity_providers.remove_applications(services, [application_id])
    await groups.forget_application(services, tenant_id, application_id)
    await scope_consents.forget_application(services, tenant_id, client_id)
    await services.sessions.two_factor_trusts.remove_application(tenant_id, client_id)
    await services.limits.client_registrations.delete(tenant_id, application_id)
    await services.logs.login_records.delete_of_application(tenant_id, client_id)
    await services.configuration.applications.delete(tenant_id, application_id)
    # Removes what requests in progress wrote in the meantime: registrations, consents and logins.
    await services.directory.users.remove_registrations(tenant_id, client_id)
    await scope_consents.forget_application(services, tenant_id, client_id)
    await services.logs.login_records.delete_of_application(tenant_id, client_id)


async def oauth_configuration(services: Services, call: Call, application_id: str, *, with_secret: bool) -> Document:
    """Return the OAuth settings for client libraries; API keys also get the client secret. Raises NotFound."""
    application = await crud.retrieve(services, call, RESOURCE, application_id)
    tenant = await services.configuration.tenants.get(None, application["tenantId"])
    oauth = crud.to_response(services, RESOURCE, application)["oauthConfiguration"]
    if not with_secret:
        oauth.pop("clientSecret", None)
    response = {
        "httpSessionMaxInactiveInterval": tenant["httpSessionMaxInactiveInterval"],
        "logoutURL": oauth.get("logoutURL") or tenant.get("logoutURL"),
        "oauthConfiguration": oauth,
    }
    return {name: value for name, value in response.items() if value is not None}


@crud.retry_on_conflict
async def _set_state(services: Services, call: Call, application_id: str, *, active: bool) -> Document:
    administrators.require_all_permissions(call, application_id)
    tenant_id = await crud.get_tenant_id(services, call, RESOURCE, application_id)
    application = await services.configuration.applications.get(tenant_id, application_id)
    version = application["lastUpdateInstant"]
    application |= {"active": active, "state": "Active" if active else "Inactive"}
    application |= crud.update_instants(application, call.now)
    await services.configuration.applications.replace(tenant_id, application, version)
    return application


async def _with_source(services: Services, call: Call, body: Document) -> Document:
    """Return the body of a creation; one that names a source application, with the copied members."""
    source_id = body.get("sourceApplicationId")
    if source_id is None:
        return body
    tenant_id = crud.require_tenant(call)
    source = await object_copies.get_source(
        services.configuration.applications, tenant_id, source_id, "sourceApplicationId"
    )
    # A copy is a separate client: it shares neither client_id nor secret, nor the ids of roles and scopes.
    for member in ("clientId", "clientSecret"):
        source["oauthConfiguration"].pop(member, None)
    for entry in (*source["roles"], *source["scopes"]):
        entry.pop("id")
    return object_copies.with_requested_name(source, body, "application")
