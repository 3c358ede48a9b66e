"""Registrations: what ties a user to an application, embedded in the user's document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from identity.call import Document
from identity.domain.users import users
from identity.errors import FieldError
from identity.ids import new_id
from identity.instants import Instant

_KEPT = ("applicationId", "cleanSpeakId", "id", "insertInstant", "lastLoginInstant", "verified", "verifiedInstant")


def creation_request(body: Document, application_id: str | None) -> Document:
    """The body of a creation, without an empty `user`, for the application in the path if there is one.

    Clients in statically typed languages send a `user` of nothing but defaults where none was set.
    """
    request = {name: value for name, value in body.items() if name != "user" or not _is_empty(value)}
    registration = request.get("registration")
    if application_id is not None and isinstance(registration, dict | None):
        request["registration"] = {**(registration or {}), "applicationId": application_id}
    return request


def _is_empty(value: Any) -> bool:
    """Whether a JSON value holds nothing but defaults: null, false, 0, empty strings, arrays and objects."""
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return not value


def build_registration(wanted: Document, application: Document, now: Instant, *, is_verified: bool) -> Document:
    """A new registration; without roles of its own it gets the application's default roles."""
    roles = wanted["roles"] or [role["name"] for role in application["roles"] if role["isDefault"]]
    registration = {
        **wanted,
        "applicationId": application["id"],
        "id": new_id(),
        "insertInstant": now,
        "lastUpdateInstant": now,
        "roles": sorted(roles),
        "verified": is_verified,
    }
    return {**registration, "verifiedInstant": now} if is_verified else registration


def apply_update(stored: Document, wanted: Document, now: Instant) -> Document:
    """The stored registration with everything that an update may change taken from `wanted`.

    An authentication token left out stays: an update is no reason for whoever holds it to be locked out.
    """
    kept = {name: stored[name] for name in _KEPT if name in stored}
    token = {"authenticationToken": stored["authenticationToken"]} if "authenticationToken" in stored else {}
    registration = {**token, **wanted, **kept, "roles": sorted(wanted["roles"])}
    registration["lastUpdateInstant"] = max(now, stored["lastUpdateInstant"] + 1)
    return registration


def mark_verified(stored: Document, now: Instant) -> Document:
    """The stored registration once it is verified; the instant is that of the first time."""
    moved = {**stored, "lastUpdateInstant": max(now, stored["lastUpdateInstant"] + 1), "verified": True}
    return {"verifiedInstant": now, **moved}


def request_form(stored: Document) -> Document:
    """A stored registration as a PUT would send it, which is what a patch is applied to."""
    dropped = {*_KEPT, "authenticationToken", "lastUpdateInstant"}
    return {name: value for name, value in stored.items() if name not in dropped}


def role_problems(roles: Iterable[str], application: Document) -> list[FieldError]:
    """The roles that the application does not have."""
    unknown = sorted(set(roles) - {role["name"] for role in application["roles"]})
    if not unknown:
        return []
    message = f"The application has no role named [{', '.join(unknown)}]."
    return [FieldError.of("invalid", "registration.roles", message)]


def with_registration(user: Document, registration: Document) -> Document:
    """The user with this registration in place of any other for the same application."""
    others = without_registration(user, registration["applicationId"])
    return {**others, "registrations": [*others["registrations"], registration]}


def without_registration(user: Document, application_id: str) -> Document:
    """The user without a registration for this application."""
    others = [entry for entry in user["registrations"] if entry["applicationId"] != application_id]
    return {**user, "registrations": others}


def without_secrets(registration: Document) -> Document:
    """The registration as events carry it: without its authentication token."""
    return {name: value for name, value in registration.items() if name != "authenticationToken"}


def user_without_registrations(user: Document) -> Document:
    """The user as events about one registration carry it: the registration travels beside it."""
    return {**users.without_secrets(user), "registrations": []}
