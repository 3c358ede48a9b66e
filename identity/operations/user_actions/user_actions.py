"""User actions: validation, deactivation, reactivation. applied_actions.py takes them on users."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator

from identity.call import Call, Document
from identity.domain.objects.resource_definition import CREATE_TO_SEARCH, Resource, Unique
from identity.domain.user_actions import user_actions as user_action_rules
from identity.errors import FieldError
from identity.operations.objects import crud, references
from identity.services import Services

_REFERENCE = "failedAuthenticationConfiguration.userActionId"


async def prepare(services: Services, _call: Call, document: Document, stored: Document | None) -> Document:
    """Validate a user action; `active` stays unchanged. Raises Invalid."""
    action = {**document, "active": True if stored is None else stored["active"]}
    errors = user_action_rules.problems(action)
    errors += await references.problems(services, RESOURCE, action, stored, ("email_templates",))
    if stored is not None and user_action_rules.can_lock_out(stored) and not user_action_rules.can_lock_out(action):
        errors += await _lock_out_problems(services, action)
    crud.require_no_errors(errors)
    return action


RESOURCE = Resource(
    "userAction",
    tenant_scoped=False,
    verbs=CREATE_TO_SEARCH - {"search"},
    unique=(Unique("name", ("name",), "userAction.name"),),
    prepare=prepare,
)


def retrieve_all(services: Services, call: Call, *, inactive: bool) -> AsyncIterator[Document]:
    """Return the active or the inactive user actions."""
    return crud.retrieve_all(services, call, RESOURCE, {"active": not inactive})


async def deactivate(services: Services, call: Call, action_id: str) -> None:
    """Deactivate an action, which can no longer be taken. Raises NotFound, and Invalid with `[inUse]`."""
    await _set_active(services, call, action_id, active=False)


async def reactivate(services: Services, call: Call, action_id: str) -> Document:
    """Reactivate an action. Raises NotFound."""
    return await _set_active(services, call, action_id, active=True)


async def reference_problems(services: Services, tenant: Document) -> list[FieldError]:
    """Return an error if the action that locks accounts of a tenant does not exist or cannot do so."""
    action_id = tenant["failedAuthenticationConfiguration"].get("userActionId")
    if action_id is None:
        return []
    action = await services.configuration.user_actions.find_cached(None, action_id)
    if action is not None and user_action_rules.can_lock_out(action):
        return []
    path = f"tenant.{_REFERENCE}"
    return [FieldError.invalid(path, "must name an active, temporal action that prevents login")]


@crud.retry_on_conflict
async def _set_active(services: Services, call: Call, action_id: str, *, active: bool) -> Document:
    actions = services.configuration.user_actions
    action = await actions.get(None, action_id)
    version = action["lastUpdateInstant"]
    action |= {"active": active, **crud.update_instants(action, call.now)}
    replace = functools.partial(actions.replace, None, action, version)
    # Nothing may refer to an inactive action.
    checks = [] if active else references.checks(services, RESOURCE, None, action, call.now)
    await services.runtime.database.execute([*checks, replace])
    return action


async def _lock_out_problems(services: Services, action: Document) -> list[FieldError]:
    """Return an error if a tenant locks accounts with this action, which no longer could."""
    if not await services.configuration.tenants.count(None, {_REFERENCE: action["id"]}):
        return []
    member = "preventLogin" if action["temporal"] else "temporal"
    message = f"The [userAction.{member}] must stay as it is: a tenant locks users out by this action."
    return [FieldError.of("inUse", f"userAction.{member}", message)]
