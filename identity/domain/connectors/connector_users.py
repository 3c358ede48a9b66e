"""The user that a connector returned, and what a login with it changes of the stored user.

The connector is the system of record of the profile, registrations and memberships. Two-factor methods and the
deactivation of a user belong to this service: a login neither takes them from the connector nor resets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from identity.call import Document
from identity.domain.groups import groups
from identity.domain.users import registrations, users
from identity.ids import TenantId, UserId, new_id
from identity.instants import Instant

_PROFILE: Final = (
    *("birthDate", "data", "email", "expiry", "firstName", "fullName", "imageUrl", "lastName", "middleName"),
    *("mobilePhone", "parentEmail", "phoneNumber", "preferredLanguages", "timezone", "username", "usernameStatus"),
)
_REGISTRATION: Final = ("authenticationToken", "data", "preferredLanguages", "roles", "timezone", "username")


def fresh_user() -> Document:
    """Return the user that a reconcile lambda completes."""
    return {"data": {}, "memberships": [], "preferredLanguages": [], "registrations": []}


def build(
    requested: Document, stored: Document | None, tenant_id: TenantId, now: Instant, *, connector_id: str
) -> Document:
    """Return the stored or a new user with the profile that the connector returned, without derived members."""
    profile: Document = {name: requested[name] for name in _PROFILE if name in requested}
    if stored is None:
        defaults: Document = {"passwordChangeRequired": False, "twoFactor": {"methods": [], "recoveryCodes": []}}
        user = users.build_user({**defaults, **profile}, UserId(requested.get("id") or new_id()), tenant_id, now)
    else:
        user = {name: value for name, value in stored.items() if name not in _PROFILE} | profile
    return users.with_unique_username(users.normalize_phone_number({**user, "connectorId": connector_id}))


def with_verification(user: Document, stored: Document | None, requested: Document, now: Instant) -> Document:
    """Return the user with a new email address verified, unless the connector says otherwise."""
    if stored is not None and user.get("email") == stored.get("email"):
        return user
    is_verified = "email" in user and requested.get("verified") is not False
    return users.with_verified_reason(user, "Trusted" if is_verified else "Disabled", now)


def merge_registrations(
    requested: Iterable[Document],
    stored: Iterable[Document],
    applications: Mapping[str, Document],
    kept: str,
    now: Instant,
) -> list[Document]:
    """Return the registrations of the connector, and the stored one for the application `kept`."""
    before = {one["applicationId"]: one for one in stored}
    merged = [
        _merge_registration(one, before.get(one["applicationId"]), applications[one["applicationId"]], now)
        for one in requested
        if one["applicationId"] != kept
    ]
    return [*merged, before[kept]] if kept in before else merged


def merge_memberships(
    requested: Iterable[Document], stored: Iterable[Document], user_id: str, now: Instant
) -> list[Document]:
    """Return the memberships of the connector; those in groups that the user is in already keep their ids."""
    before = {one["groupId"]: one for one in stored}
    return [
        before.get(one["groupId"]) or groups.membership({"data": one["data"]}, one["groupId"], user_id, now)
        for one in requested
    ]


def has_changed(user: Document, stored: Document) -> bool:
    """Whether a user, with its derived members, differs from the stored one."""
    return {**user, "lastUpdateInstant": 0} != {**stored, "lastUpdateInstant": 0}


def _merge_registration(requested: Document, stored: Document | None, application: Document, now: Instant) -> Document:
    wanted = {name: requested[name] for name in _REGISTRATION if name in requested} | {"usernameStatus": "ACTIVE"}
    is_verified = requested["verified"] or not application["verifyRegistration"]
    fresh = registrations.build_registration(wanted, application, now, is_verified=is_verified)
    if stored is None:
        return fresh
    changed = registrations.apply_update(stored, {**wanted, "roles": fresh["roles"]}, now)
    return stored if {**changed, "lastUpdateInstant": stored["lastUpdateInstant"]} == stored else changed
