"""Convert between SCIM resources and users and groups: by the lambdas of the tenant, else by the built-in mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from identity.call import Document
from identity.domain.scim import group_mapping, messages, models, user_mapping
from identity.operations.lambdas import lambdas
from identity.operations.scim.clients import ScimCall
from identity.services import Services

_REQUEST: Final[Mapping[str, str]] = {
    models.USER: "scimUserRequestConverterId",
    models.ENTERPRISE_USER: "scimEnterpriseUserRequestConverterId",
    models.GROUP: "scimGroupRequestConverterId",
}
_RESPONSE: Final[Mapping[str, str]] = {
    models.USER: "scimUserResponseConverterId",
    models.ENTERPRISE_USER: "scimEnterpriseUserResponseConverterId",
    models.GROUP: "scimGroupResponseConverterId",
}
_USER_OPTIONS: Final = ("applicationId", "disableDomainBlock", "sendSetPasswordEmail", "skipVerification")


async def to_user(
    services: Services, scim: ScimCall, resource_type: str, resource: Document, user: Document
) -> Document:
    """Return the request of `/api/user` that a resource makes of a user; its user may have `active`.

    Raises LambdaFailed.
    """
    lambda_id = _lambda(scim, _REQUEST, resource_type)
    if lambda_id is None:
        return {"user": user_mapping.to_user(user, resource)}
    kind = "SCIMServerUserRequestConverter"
    user, options, *_ = await lambdas.invoke(services, scim.call, lambda_id, kind, user, {}, resource)
    chosen = {name: options[name] for name in _USER_OPTIONS if options.get(name) is not None}
    return {"user": _without_null(user), **chosen}


async def to_group(
    services: Services, scim: ScimCall, resource: Document, group: Document
) -> tuple[Document, list[Any], list[Any] | None]:
    """Return the group and members that a resource makes of a group, and the ids of its roles if a lambda sets them.

    Raises LambdaFailed.
    """
    lambda_id = _lambda(scim, _REQUEST, models.GROUP)
    if lambda_id is None:
        return *group_mapping.to_group(group, [], resource), None
    kind = "SCIMServerGroupRequestConverter"
    group, members, options, *_ = await lambdas.invoke(services, scim.call, lambda_id, kind, group, [], {}, resource)
    role_ids = options.get("roleIds")
    return _without_null(group), members, role_ids if isinstance(role_ids, list) else None


async def from_user(services: Services, scim: ScimCall, resource_type: str, user: Document, base: Document) -> Document:
    """Return the resource of a user in API form; the members of `base` cannot be changed. Raises LambdaFailed."""
    lambda_id = _lambda(scim, _RESPONSE, resource_type)
    if lambda_id is None:
        return user_mapping.to_resource(user, base)
    kind = "SCIMServerUserResponseConverter"
    resource, *_ = await lambdas.invoke(services, scim.call, lambda_id, kind, base, user)
    return await _completed(services, scim, lambda_id, resource_type, resource, base)


async def from_group(
    services: Services, scim: ScimCall, group: Document, members: list[Document], base: Document
) -> Document:
    """Return the resource of a group; the members of `base` cannot be changed. Raises LambdaFailed."""
    lambda_id = _lambda(scim, _RESPONSE, models.GROUP)
    if lambda_id is None:
        return group_mapping.to_resource(group, base)
    kind = "SCIMServerGroupResponseConverter"
    resource, *_ = await lambdas.invoke(services, scim.call, lambda_id, kind, base, group, members)
    return await _completed(services, scim, lambda_id, models.GROUP, resource, base)


async def _completed(
    services: Services, scim: ScimCall, lambda_id: str, resource_type: str, resource: Document, base: Document
) -> Document:
    """Return what a response converter left, with the attributes of the service. Raises LambdaFailed."""
    required = "displayName" if resource_type == models.GROUP else "userName"
    if not isinstance(resource.get(required), str) or not resource[required]:
        raise await lambdas.log_failure(services, scim.call, lambda_id, f"it left the resource without {required}")
    fixed = {name: value for name, value in base.items() if name != "schemas"}
    own = {name: value for name, value in _without_null(resource).items() if name not in fixed}
    if not messages.is_resource(scim.tenant, resource_type, own):
        reason = "an attribute of the resource has a value of the wrong type"
        raise await lambdas.log_failure(services, scim.call, lambda_id, reason)
    return {**own, **fixed}


def _lambda(scim: ScimCall, members: Mapping[str, str], resource_type: str) -> str | None:
    lambda_id: str | None = scim.tenant["lambdaConfiguration"].get(members[resource_type])
    return lambda_id


def _without_null(document: Document) -> Document:
    return {name: value for name, value in document.items() if value is not None}
