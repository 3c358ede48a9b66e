"""Users of connectors: created at their first login, updated at each further one, or migrated to this service."""

from __future__ import annotations

import functools

from identity.call import Call, Document
from identity.domain.configuration.applications import ADMINISTRATOR_APPLICATION_ID
from identity.domain.connectors import connector_users
from identity.domain.users import users as user_rules
from identity.domain.users.users import INTERNAL_CONNECTOR
from identity.errors import Conflict, Duplicate
from identity.events.changes import Change, Event
from identity.ids import TenantId
from identity.operations.connectors.connector_logins import AcceptedByConnector
from identity.operations.connectors.connector_requests import ConnectorError
from identity.operations.groups import administrators, group_members, groups
from identity.operations.messaging import user_events
from identity.operations.objects import crud
from identity.operations.passwords import user_passwords
from identity.services import Services
from identity.store.mongo import Session, Write

_SCHEMA = "api/imported-user.json"


@crud.retry_on_conflict
async def reconcile(
    services: Services, call: Call, tenant: Document, accepted: AcceptedByConnector, password: str
) -> Document:
    """Store the user that a connector returned, and return it.

    With `migrates` the user gets the password and belongs to this service from now on.

    Raises ConnectorError for a user that cannot be stored, WebhookTransactionFailed, and Unavailable.
    """
    tenant_id = TenantId(tenant["id"])
    requested = _read(services, accepted)
    stored = await _find_stored(services, tenant, accepted, requested)
    connector_id = INTERNAL_CONNECTOR if accepted.migrates else accepted.connector["id"]
    user = connector_users.build(requested, stored, tenant_id, call.now, connector_id=connector_id)
    user = connector_users.with_verification(user, stored, accepted.requested, call.now)
    await _require_valid(services, tenant_id, user)
    user |= await _contents(services, call, tenant_id, user, stored, requested)
    if accepted.migrates:
        new_password = user_passwords.under_tenant_scheme(tenant, password)
        user = await user_passwords.with_password(services, tenant, user, new_password, call.now)
    if stored is not None and not connector_users.has_changed(user_rules.with_derived_members(user), stored):
        return stored
    user = user_rules.with_derived_members(user) if stored is None else user_rules.next_version(user, call.now)
    await _commit(services, call.within(tenant_id), user, stored)
    return user


def _read(services: Services, accepted: AcceptedByConnector) -> Document:
    """Return the user of the connector in the form of an import. Raises ConnectorError."""
    tidy, errors = services.schemas[_SCHEMA].examine({"user": accepted.requested})
    if errors:
        raise ConnectorError("the user is not valid: " + ", ".join(error.code for error in errors))
    if "id" not in tidy["user"] and not accepted.migrates:
        raise ConnectorError("the user has no id")
    user: Document = tidy["user"]
    return user


async def _find_stored(
    services: Services, tenant: Document, accepted: AcceptedByConnector, requested: Document
) -> Document | None:
    """Return the stored user with the id, which must be one of this connector. Raises ConnectorError.

    The user of another connector that the tenant uses, and an administrator, cannot be taken over.
    """
    if "id" not in requested:
        return None
    stored = await services.directory.users.find(TenantId(tenant["id"]), requested["id"])
    if stored is not None and await administrators.is_administrator(services, stored):
        raise ConnectorError(f"the user [{stored['id']}] is an administrator, whom no connector authenticates")
    if stored is None or stored["connectorId"] == accepted.connector["id"]:
        return stored
    used = {policy["connectorId"] for policy in tenant["connectorPolicies"]}
    if stored["connectorId"] in used:
        raise ConnectorError(f"the user [{stored['id']}] belongs to the connector [{stored['connectorId']}]")
    return stored


async def _require_valid(services: Services, tenant_id: TenantId, user: Document) -> None:
    errors = user_rules.problems(user)
    others = [one for one in await services.directory.users.find_duplicates(tenant_id, user) if one["id"] != user["id"]]
    errors += user_rules.duplicate_problems(user, others)
    if errors:
        raise ConnectorError("the user cannot be stored: " + ", ".join(error.code for error in errors))


async def _contents(
    services: Services, call: Call, tenant_id: TenantId, user: Document, stored: Document | None, requested: Document
) -> Document:
    """Return registrations and memberships. A connector cannot create administrators. Raises ConnectorError."""
    before = stored or {"registrations": [], "memberships": []}
    wanted = {one["applicationId"] for one in requested["registrations"]}
    found = {one: await services.configuration.applications.find_cached(tenant_id, one) for one in wanted}
    applications = {one: application for one, application in found.items() if application is not None}
    if missing := wanted - applications.keys():
        raise ConnectorError(f"there is no application [{min(missing)}]")
    group_ids = {one["groupId"] for one in requested["memberships"]}
    live = await groups.find_all_live(services, tenant_id, group_ids) if group_ids else {}
    if missing := group_ids - live.keys():
        raise ConnectorError(f"there is no group [{min(missing)}]")
    if any(administrators.grants_administration(group) for group in live.values()):
        raise ConnectorError("a group grants roles of administrators")
    return {
        "registrations": connector_users.merge_registrations(
            requested["registrations"], before["registrations"], applications, ADMINISTRATOR_APPLICATION_ID, call.now
        ),
        "memberships": connector_users.merge_memberships(
            requested["memberships"], before["memberships"], user["id"], call.now
        ),
    }


async def _commit(services: Services, call: Call, user: Document, stored: Document | None) -> None:
    """Commit a created or changed user. Raises ConnectorError for a login id that another user has, and Conflict."""
    before, after = _events(user, stored)
    change = Change([functools.partial(_write, services, user, stored)], before, after)
    try:
        await services.bus.commit(call, change)
    except Duplicate as duplicate:
        if duplicate.index == "_id_" and await services.directory.users.find(user["tenantId"], user["id"]) is not None:
            raise Conflict from duplicate  # a concurrent login created the user
        raise ConnectorError(f"another user has the same {duplicate.index}") from duplicate
    await group_members.remove_orphans(services, TenantId(user["tenantId"]), user["memberships"])


async def _write(services: Services, user: Document, stored: Document | None, session: Session | None) -> None:
    tenant_id = TenantId(user["tenantId"])
    memberships = [] if stored is None else stored["memberships"]
    added = [one for one in user["memberships"] if one not in memberships]
    removed = [one["id"] for one in memberships if one not in user["memberships"]]
    users = services.directory.users
    writes: list[Write] = [
        functools.partial(users.insert, tenant_id, user)
        if stored is None
        else functools.partial(users.replace, tenant_id, user, stored["lastUpdateInstant"])
    ]
    if removed:
        where = {"_id": {"$in": removed}}
        writes.append(functools.partial(services.directory.group_members.delete_all, tenant_id, where))
    if added:
        writes.append(functools.partial(group_members.insert_memberships, services, tenant_id, added))
    await services.runtime.database.execute(writes, session)


def _events(user: Document, stored: Document | None) -> tuple[list[Event], list[Event]]:
    """Return the events before and after the commit, those of the user first."""
    if stored is None:
        before = [user_events.user_event("user.create", user)]
        after = [user_events.user_event("user.create.complete", user)]
    else:
        before = user_events.before_update(stored, user)
        is_new_password = user["private"].get("password") != stored["private"].get("password")
        after = user_events.after_update(stored, user, new_password=is_new_password)
    for kind, registration, original in _registration_changes(user, stored):
        before.append(user_events.registration_event(f"user.registration.{kind}", user, registration, original))
        after.append(user_events.registration_event(f"user.registration.{kind}.complete", user, registration, original))
    return before, after


def _registration_changes(user: Document, stored: Document | None) -> list[tuple[str, Document, Document | None]]:
    """Return (create, update or delete, registration, original) of each changed registration."""
    old = {} if stored is None else {one["applicationId"]: one for one in stored["registrations"]}
    new = {one["applicationId"]: one for one in user["registrations"]}
    changes: list[tuple[str, Document, Document | None]] = [
        ("update", one, old[key]) if key in old else ("create", one, None)
        for key, one in new.items()
        if old.get(key) != one
    ]
    return [*changes, *(("delete", one, None) for key, one in old.items() if key not in new)]
