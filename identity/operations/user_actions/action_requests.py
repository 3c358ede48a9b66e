"""What is asked for when an action is taken on a user, or changed: judged against everything that is stored."""

from __future__ import annotations

import dataclasses

from identity.call import Call, Document
from identity.domain.user_actions import action_logs as rules
from identity.errors import FieldError, NotFound
from identity.ids import TenantId
from identity.operations.objects import crud, user_lookup
from identity.services import Services

Problems = list[FieldError]


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """The user who is acted upon, the user action, and the reason, if one was given."""

    user: Document
    definition: Document
    reason: Document | None


async def validate(services: Services, call: Call, wanted: Document) -> Judged:
    """What a request to take an action names. Raises Invalid with everything that is wrong with it."""
    errors = [_missing(name) for name in ("actioneeUserId", "actionerUserId", "userActionId") if name not in wanted]
    user = await _actionee(services, call, wanted, errors)
    definition = await _definition(services, wanted, errors)
    reason = await _reason(services, wanted, errors)
    if user is not None:
        tenant_id = TenantId(user["tenantId"])
        errors += await actioner_problems(services, call, tenant_id, wanted)
        errors += await _application_problems(services, tenant_id, wanted)
    if definition is not None:
        errors += _option_problems(definition, wanted) + _expiry_problems(definition, call, wanted)
    crud.require_no_errors(errors)
    assert user is not None, "a user who is not there is an error"
    assert definition is not None, "a user action that is not there is an error"
    return Judged(user, definition, reason)


async def problems_of_change(
    services: Services, call: Call, wanted: Document, log: Document, *, is_cancelled: bool
) -> Problems:
    """What is wrong with modifying or cancelling an action."""
    if not log["private"]["temporal"]:
        return [FieldError.of("invalid", "actionId", "An action that is not temporal cannot be changed.")]
    if not rules.is_live(log, call.now):
        return [FieldError.of("invalid", "actionId", "The action is over.")]
    errors = [] if "actionerUserId" in wanted else [_missing("actionerUserId")]
    errors += await actioner_problems(services, call, TenantId(log["tenantId"]), wanted)
    if not is_cancelled and wanted.get("expiry", rules.INDEFINITE) <= call.now:
        errors.append(_past())
    return errors


async def actioner_problems(
    services: Services, call: Call, tenant_id: TenantId, wanted: Document, path: str = "action.actionerUserId"
) -> Problems:
    """Whoever acts is a user: of the same tenant, unless a key for all tenants is used."""
    user_id = wanted.get(path.rpartition(".")[2])
    if user_id is None:
        return []
    found = await services.users.find_cached_across_tenants(user_id)
    if found is not None and (found["tenantId"] == tenant_id or call.caller.tenant_id is None):
        return []
    return [FieldError.of("invalid", path, f"The [{path}] must name an existing user.")]


async def _actionee(services: Services, call: Call, wanted: Document, errors: Problems) -> Document | None:
    user_id = wanted.get("actioneeUserId")
    if user_id is None:
        return None
    try:
        return await user_lookup.retrieve(services, call, user_id)
    except NotFound:
        errors.append(_invalid("actioneeUserId", "must name an existing user"))
        return None


async def _definition(services: Services, wanted: Document, errors: Problems) -> Document | None:
    action_id = wanted.get("userActionId")
    if action_id is None:
        return None
    found = await services.documents["user_actions"].find_cached(None, action_id)
    if found is None or not found["active"]:
        errors.append(_invalid("userActionId", "must name an existing user action that is active"))
        return None
    return found


async def _reason(services: Services, wanted: Document, errors: Problems) -> Document | None:
    reason_id = wanted.get("reasonId")
    if reason_id is None:
        return None
    found = await services.documents["user_action_reasons"].find_cached(None, reason_id)
    if found is None:
        errors.append(_invalid("reasonId", "must name an existing user action reason"))
    return found


async def _application_problems(services: Services, tenant_id: TenantId, wanted: Document) -> Problems:
    return [
        _invalid(f"applicationIds[{at}]", "must name an application of the user's tenant")
        for at, one in enumerate(wanted["applicationIds"])
        if await services.applications.find_cached(tenant_id, one) is None
    ]


def _option_problems(definition: Document, wanted: Document) -> Problems:
    names = {one["name"] for one in definition["options"]}
    is_known = "option" not in wanted or wanted["option"] in names
    return [] if is_known else [_invalid("option", "must be one of the options of the user action")]


def _expiry_problems(definition: Document, call: Call, wanted: Document) -> Problems:
    if not definition["temporal"]:
        return []
    if "expiry" not in wanted:
        return [_missing("expiry")]
    return [_past()] if wanted["expiry"] <= call.now else []


def _missing(member: str) -> FieldError:
    return FieldError.of("missing", f"action.{member}", f"You must specify the [action.{member}] property.")


def _past() -> FieldError:
    return _invalid("expiry", "must be in the future")


def _invalid(member: str, what: str) -> FieldError:
    return FieldError.of("invalid", f"action.{member}", f"The [action.{member}] {what}.")
