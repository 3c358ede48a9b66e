"""SCIM users: create, retrieve, search, replace, patch and delete (RFC 7644 section 3)."""

from __future__ import annotations

from typing import Any

from identity.background_tasks import CooperativeYield
from identity.call import Document
from identity.domain.groups import groups as group_rules
from identity.domain.scim import filters, messages, models, user_mapping
from identity.domain.scim.filters import Scope
from identity.operations.messaging import user_views
from identity.operations.objects import crud
from identity.operations.scim import converters, resources
from identity.operations.scim.clients import ScimCall
from identity.operations.scim.resources import Answer, Request
from identity.operations.users import users
from identity.services import Services


async def create(services: Services, scim: ScimCall, request: Request) -> Answer:
    """Create a user, with a random password unless the resource has one.

    Raises ScimError, Invalid, LambdaFailed and WebhookTransactionFailed.
    """
    selection = messages.read_selection(scim.tenant, [request.resource_type], request.parameters)
    resource = messages.read_resource(scim.tenant, request.resource_type, request.body)
    body = await converters.to_user(services, scim, request.resource_type, resource, user_mapping.unmanaged_form(None))
    is_active = body["user"].pop("active", True)
    private = user_mapping.with_external_id({}, resource.get("externalId"))
    user = await users.provision(services, scim.call, body, private)
    user = await _with_state(services, scim, user, is_active=is_active)
    return await _answer(services, scim, request, user, selection)


async def retrieve(services: Services, scim: ScimCall, request: Request) -> Answer:
    """Retrieve a user. Raises ScimError."""
    selection = messages.read_selection(scim.tenant, [request.resource_type], request.parameters)
    user = await _get(services, scim, request)
    version = _version(user)
    if request.preconditions.is_unmodified(version):
        return Answer(None, version, resources.location(scim, request.resource_type, user["id"]))
    return await _answer(services, scim, request, user, selection)


@crud.retry_on_conflict
async def change(services: Services, scim: ScimCall, request: Request) -> Answer:
    """Replace a user by a PUT, or apply a PATCH; a change of `active` deactivates or reactivates the user.

    Raises as `create`, and ScimError 404 and 412.
    """
    selection = messages.read_selection(scim.tenant, [request.resource_type], request.parameters)
    stored = await _get(services, scim, request)
    request.preconditions.require(_version(stored))
    if request.method == "PATCH":
        current = await _resource(services, scim, request.resource_type, stored)
        resource = messages.apply_patch(scim.tenant, request.resource_type, current, request.body)
    else:
        resource = messages.read_resource(scim.tenant, request.resource_type, request.body)
    body = await converters.to_user(
        services, scim, request.resource_type, resource, user_mapping.unmanaged_form(stored)
    )
    is_active = body["user"].pop("active", stored["active"])
    if "password" in body["user"]:
        body["user"].pop("passwordChangeRequired", None)  # the new password makes the required change
    private = user_mapping.with_external_id(stored["private"], resource.get("externalId"))
    user = await users.update_version(services, scim.call, stored, body, private)
    user = await _with_state(services, scim, user, is_active=is_active)
    return await _answer(services, scim, request, user, selection)


async def delete(services: Services, scim: ScimCall, request: Request) -> None:
    """Delete a user. Raises ScimError 404 and 412, and WebhookTransactionFailed."""
    user = await _get(services, scim, request)
    request.preconditions.require(_version(user))
    is_conditional = request.preconditions.if_match is not None
    await users.delete(services, scim.call, user["id"], expected=user if is_conditional else None)


async def search(
    services: Services, scim: ScimCall, resource_type: str, query: messages.Query, start_row: int, limit: int
) -> tuple[int, list[Document]]:
    """Return how many users match, and one page of them. Raises ScimError."""
    model, where = models.model_of(scim.tenant, resource_type), {}
    if query.request.filter is not None:
        where = filters.translate(query.request.filter, model, user_mapping.FIELDS, Scope(scim.tenant_id))
    order = filters.order_of(query, model, user_mapping.FIELDS)
    total, found = await services.directory.users.page(scim.tenant_id, where, order, start_row, limit)
    shown, cooperative = list[Document](), CooperativeYield()
    for user in found:
        resource = await _resource(services, scim, resource_type, user)
        shown.append(messages.render(scim.tenant, resource_type, resource, query.request))
        await cooperative.step()
    return total, shown


async def _get(services: Services, scim: ScimCall, request: Request) -> Document:
    user = await services.directory.users.find(scim.tenant_id, request.id)
    if user is None:
        raise resources.not_found(request.id)
    return user


async def _with_state(services: Services, scim: ScimCall, user: Document, *, is_active: bool) -> Document:
    """Return the user, deactivated or reactivated if its state differs."""
    if bool(is_active) == user["active"]:
        return user
    if is_active:
        return await users.reactivate(services, scim.call, user["id"])
    await users.deactivate(services, scim.call, user["id"])
    return await services.directory.users.get(scim.tenant_id, user["id"])


async def _answer(services: Services, scim: ScimCall, request: Request, user: Document, selection: Any) -> Answer:
    resource = await _resource(services, scim, request.resource_type, user)
    shown = messages.render(scim.tenant, request.resource_type, resource, selection)
    return Answer(shown, _version(user), resources.location(scim, request.resource_type, user["id"]))


async def _resource(services: Services, scim: ScimCall, resource_type: str, user: Document) -> Document:
    """Return the complete resource of a stored user. Raises LambdaFailed."""
    base = resources.base_of(scim, resource_type, user, _version(user))
    groups = [await _membership(services, scim, one["groupId"]) for one in user["memberships"]]
    if groups:
        base["groups"] = groups
    return await converters.from_user(services, scim, resource_type, await user_views.to_response(services, user), base)


async def _membership(services: Services, scim: ScimCall, group_id: str) -> Document:
    group = await services.directory.groups.find_cached(scim.tenant_id, group_id)
    shown = {"value": group_id, "$ref": resources.location(scim, models.GROUP, group_id), "type": "direct"}
    return shown if group is None else {**shown, "display": group_rules.display_name(group)}


def _version(user: Document) -> str:
    return resources.version_of(user["lastUpdateInstant"])
