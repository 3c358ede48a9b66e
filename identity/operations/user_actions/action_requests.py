"""Validation of requests to take, modify or cancel an action on a user."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.user_actions import action_logs as action_rules
from identity.errors import FieldError, NotFound
from identity.ids import TenantId
from identity.operations.objects import crud, user_lookup
from identity.services import Services

Problems = list[FieldError]


@dataclasses.dataclass(frozen=True, slots=True)
class NamedObjects:
    """The objects that a request names: the user, the user action, and the optional reason."""

    user: Document
    definition: Document
    reason: Document | None


async def validate(services: Services, call: Call, requested: Document) -> NamedObjects:
    """Return the objects that a request to take an action names. Raises Invalid with all its errors."""
    errors = [
        FieldError.missing(f"action.{name}")
        for name in ("actioneeUserId", "actionerUserId", "userActionId")
        if name not in requested
    ]
    user = await _find_actionee(services, call, requested, errors)
    definition = await _find_definition(services, requested, errors)
    reason = await _find_reason(services, requested, errors)
    if user is not None:
        tenant_id = TenantId(user["tenantId"])
        errors += await actioner_problems(services, call, tenant_id, requested)
        errors += await _application_problems(services, tenant_id, requested)
    if definition is not None:
        errors += _option_problems(definition, requested) + _expiry_problems(definition, call, requested)
    crud.require_no_errors(errors)
    assert user is not None, "a missing user is an error"
    assert definition is not None, "a missing user action is an error"
    return NamedObjects(user, definition, reason)


async def change_problems(
    services: Services, call: Call, requested: Document, log: Document, *, is_cancelled: bool
) -> Problems:
    """Return the errors of modifying or cancelling an action."""
    if not log["private"]["temporal"]:
        return [FieldError.of("invalid", "actionId", "An action that is not temporal cannot be changed.")]
    if not action_rules.is_live(log, call.now):
        return [FieldError.of("invalid", "actionId", "The action has ended.")]
    errors = [] if "actionerUserId" in requested else [FieldError.missing("action.actionerUserId")]
    errors += await actioner_problems(services, call, TenantId(log["tenantId"]), requested)
    if not is_cancelled and requested.get("expiry", action_rules.INDEFINITE) <= call.now:
        errors.append(_past())
    return errors


async def actioner_problems(
    services: Services, call: Call, tenant_id: TenantId, requested: Document, path: str = "action.actionerUserId"
) -> Problems:
    """The actioner must be a user: of the same tenant, unless the API key covers all tenants."""
    user_id = requested.get(path.rpartition(".")[2])
    if user_id is None:
        return []
    found = await services.directory.users.find_cached_across_tenants(user_id)
    if found is not None and (found["tenantId"] == tenant_id or call.caller.tenant_id is None):
        return []
    return [FieldError.invalid(path, "must name an existing user")]


async def _find_actionee(services: Services, call: Call, requested: Document, errors: Problems) -> Document | None:
    user_id = requested.get("actioneeUserId")
    if user_id is None:
        return None
    try:
        return await user_lookup.retrieve(services, call, user_id)
    except NotFound:
        errors.append(FieldError.invalid("action.actioneeUserId", "must name an existing user"))
        return None


async def _find_definition(services: Services, requested: Document, errors: Problems) -> Document | None:
    action_id = requested.get("userActionId")
    if action_id is None:
        return None
    found = await services.configuration.user_actions.find_cached(None, action_id)
    if found is None or not found["active"]:
        errors.append(FieldError.invalid("action.userActionId", "must name an existing user action that is active"))
        return None
    return found


async def _find_reason(services: Services, requested: Document, errors: Problems) -> Document | None:
    reason_id = requested.get("reasonId")
    if reason_id is None:
        return None
    found = await services.configuration.user_action_reasons.find_cached(None, reason_id)
    if found is None:
        errors.append(FieldError.invalid("action.reasonId", "must name an existing user action reason"))
    return found


async def _application_problems(services: Services, tenant_id: TenantId, requested: Document) -> Problems:
    return [
        FieldError.invalid(f"action.applicationIds[{at}]", "must name an application of the user's tenant")
        for at, one in enumerate(requested["applicationIds"])
        if await services.configuration.applications.find_cached(tenant_id, one) is None
    ]


def _option_problems(definition: Document, requested: Document) -> Problems:
    names = {one["name"] for one in definition["options"]}
    is_known = "option" not in requested or requested["option"] in names
    return [] if is_known else [FieldError.invalid("action.option", "must be one of the options of the user action")]


def _expiry_problems(definition: Document, call: Call, requested: Document) -> Problems:
    if not definition["temporal"]:
        return []
    if "expiry" not in requested:
        return [FieldError.missing("action.expiry")]
    return [_past()] if requested["expiry"] <= call.now else []


def _past() -> FieldError:
    return FieldError.invalid("action.expiry", "must be in the future")
