"""Registrations of users for applications, embedded in the user's document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from identity.call import Document
from identity.domain.objects.owner_settings import EmailVerification
from identity.domain.users import users
from identity.errors import FieldError
from identity.ids import new_id
from identity.instants import Instant

_IMMUTABLE = ("applicationId", "cleanSpeakId", "id", "insertInstant", "lastLoginInstant", "verified", "verifiedInstant")


def creation_request(body: Document, application_id: str | None) -> Document:
    """Return the body of a creation without an empty `user`, for the application in the path if there is one.

    Clients in statically typed languages send a `user` of defaults when none is set.
    """
    request = {name: value for name, value in body.items() if name != "user" or not _is_empty(value)}
    registration = request.get("registration")
    if application_id is not None and isinstance(registration, dict | None):
        request["registration"] = {**(registration or {}), "applicationId": application_id}
    return request


def _is_empty(value: Any) -> bool:
    """Whether a JSON value consists of defaults: null, false, 0, empty strings, arrays and objects."""
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return not value


def build_registration(requested: Document, application: Document, now: Instant, *, is_verified: bool) -> Document:
    """Build a registration; without requested roles it gets the default roles of the application."""
    roles = requested["roles"] or [role["name"] for role in application["roles"] if role["isDefault"]]
    registration = {
        **requested,
        "applicationId": application["id"],
        "id": new_id(),
        "insertInstant": now,
        "lastUpdateInstant": now,
        "roles": sorted(roles),
        "verified": is_verified,
    }
    return {**registration, "verifiedInstant": now} if is_verified else registration


def apply_update(stored: Document, requested: Document, now: Instant) -> Document:
    """Return the stored registration with the mutable members of `requested`.

    An omitted authentication token stays, so that an update does not lock out its holder.
    """
    kept = {name: stored[name] for name in _IMMUTABLE if name in stored}
    token = {"authenticationToken": stored["authenticationToken"]} if "authenticationToken" in stored else {}
    registration = {**token, **requested, **kept, "roles": sorted(requested["roles"])}
    registration["lastUpdateInstant"] = max(now, stored["lastUpdateInstant"] + 1)
    return registration


def mark_verified(stored: Document, now: Instant) -> Document:
    """Return the stored registration as verified; the instant of the first verification stays."""
    changed = {**stored, "lastUpdateInstant": max(now, stored["lastUpdateInstant"] + 1), "verified": True}
    return {"verifiedInstant": now, **changed}


def request_form(stored: Document) -> Document:
    """Return a stored registration as a PUT sends it, to which patches are applied."""
    dropped = {*_IMMUTABLE, "authenticationToken", "lastUpdateInstant"}
    return {name: value for name, value in stored.items() if name not in dropped}


def role_problems(roles: Iterable[str], application: Document) -> list[FieldError]:
    """Return an error for roles that the application does not have."""
    unknown = sorted(set(roles) - {role["name"] for role in application["roles"]})
    if not unknown:
        return []
    message = f"The application has no role named [{', '.join(unknown)}]."
    return [FieldError.of("invalid", "registration.roles", message)]


def with_registration(user: Document, registration: Document) -> Document:
    """Return the user with this registration, replacing any other for the application."""
    others = without_registration(user, registration["applicationId"])
    return {**others, "registrations": [*others["registrations"], registration]}


def without_registration(user: Document, application_id: str) -> Document:
    """Return the user without a registration for this application."""
    others = [entry for entry in user["registrations"] if entry["applicationId"] != application_id]
    return {**user, "registrations": others}


def without_secrets(registration: Document) -> Document:
    """Return the registration as events contain it: without its authentication token."""
    return {name: value for name, value in registration.items() if name != "authenticationToken"}


def user_without_registrations(user: Document) -> Document:
    """Return the user as events about one registration contain it; the registration is a member of its own."""
    return {**users.without_secrets(user), "registrations": []}


def user_state(user: Document, tenant: Document, application: Document) -> str:
    """Return the `userState` of an authorization response: a hint, never a decision.

    The first state that applies; what needs no verification counts as verified.
    """
    registration = users.find_registration(user, application["id"])
    if registration is None:
        return "AuthenticatedNotRegistered"
    if EmailVerification.of(tenant).verify_email and not user["verified"]:
        return "AuthenticatedNotVerified"
    if application["verifyRegistration"] and not registration["verified"]:
        return "AuthenticatedRegistrationNotVerified"
    return "Authenticated"
