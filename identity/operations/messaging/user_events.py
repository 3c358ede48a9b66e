"""Events about users and registrations."""

from __future__ import annotations

from identity.call import Call, Document
from identity.domain.users import registrations, users
from identity.events.changes import Event
from identity.ids import TenantId
from identity.services import Services


def user_event(event_type: str, user: Document, **extra: object) -> Event:
    """An event about a user; `extra` are its members other than `user`."""
    return Event(event_type, {"user": users.without_secrets(user), **extra})


def before_update(original: Document, user: Document) -> list[Event]:
    """The events before an update: the update itself, and one for each changed login id."""
    return [
        user_event("user.update", user, original=users.without_secrets(original)),
        *(
            user_event("user.identity.update", user, loginIdType=kind, previousLoginId=before, newLoginId=after)
            for kind, before, after in users.changed_identities(original, user)
        ),
    ]


def after_update(original: Document, user: Document, *, new_password: bool) -> list[Event]:
    """The events after an update."""
    events = [user_event("user.update.complete", user, original=users.without_secrets(original))]
    if original.get("email") and original.get("email") != user.get("email"):
        events.append(user_event("user.email.update", user, previousEmail=original["email"]))
    if new_password:
        events.append(user_event("user.password.update", user))
    return events + two_factor_changes(original, user)


def email_verified(user: Document) -> list[Event]:
    """The events before an email is verified; `user` is the user after the change."""
    return [user_event("user.email.verified", user), identity_verified(user, "email", user["email"])]


def identity_verified(user: Document, login_id_type: str, login_id: str) -> Event:
    """The event before a login id is verified."""
    return user_event("user.identity.verified", user, loginId=login_id, loginIdType=login_id_type)


def two_factor_changes(original: Document | None, user: Document) -> list[Event]:
    """One event for every two-factor method that was added or removed."""
    before = {} if original is None else _methods(original)
    after = _methods(user)
    return [
        *(user_event("user.two-factor.method.add", user, method=after[key]) for key in after if key not in before),
        *(user_event("user.two-factor.method.remove", user, method=before[key]) for key in before if key not in after),
    ]


def registration_event(
    event_type: str, user: Document, registration: Document, original: Document | None = None
) -> Event:
    """An event about a registration and its user."""
    before = {} if original is None else {"original": registrations.without_secrets(original)}
    return Event(
        event_type,
        {
            "user": registrations.user_without_registrations(user),
            "applicationId": registration["applicationId"],
            "registration": registrations.without_secrets(registration),
            **before,
        },
    )


async def announce_duplicates(
    services: Services, call: Call, event_type: str, user: Document, others: list[Document]
) -> None:
    """Announce that a request failed because its login ids belong to other users: one event for each of them."""
    events = [_duplicate(event_type, user, other) for other in others]
    await services.bus.announce(call.within(TenantId(user["tenantId"])), events)


def _duplicate(event_type: str, user: Document, existing: Document) -> Event:
    shared = users.shared_login_ids(user, existing)
    names = {"email": "duplicateEmail", "phoneNumber": "duplicatePhoneNumber", "username": "duplicateUsername"}
    return user_event(
        event_type,
        user,
        existing=users.without_secrets(existing),
        duplicateIdentities=[{"type": kind, "value": value} for kind, value in sorted(shared.items())],
        **{names[kind]: value for kind, value in shared.items()},
    )


def _methods(user: Document) -> dict[str, Document]:
    return {method["id"]: method for method in users.without_secrets(user)["twoFactor"]["methods"]}
